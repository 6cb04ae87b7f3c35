//! What a POST is, before the machine sees it: era, headers against body, and which status an answer has. Pure.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::dispatch::is_answered;
use super::params::Params;
use super::revision::Revision;
use crate::rpc::body::{Body, Nature, error_response, error_without_id};
use crate::rpc::error::{HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CAPABILITY, RpcError, UNSUPPORTED_VERSION, shortened};
use crate::rpc::id::RequestId;
use crate::rpc::message::{Incoming, Message, read};
use crate::tools::schema::mirrored_headers;
use crate::tools::toolset::Toolset;

/// The headers that the protocol gives a meaning, as they came.
pub struct Head<'a> {
    /// `MCP-Protocol-Version`
    pub version: Option<&'a str>,
    /// `Mcp-Method`
    pub method: Option<&'a str>,
    /// `Mcp-Name`
    pub name: Option<&'a str>,
    /// `Mcp-Session-Id`
    pub session: Option<&'a str>,
    /// All values of a header, by its name in lower case.
    pub param: &'a dyn Fn(&str) -> Vec<&'a [u8]>,
}

/// `answered`: it holds a request, so a response is due; otherwise it is accepted (202).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Served by itself.
    Modern { answered: bool },
    /// Begins a session.
    Initialize,
    /// Belongs to the session that the head names.
    Legacy { answered: bool },
}

/// Refused before the machine sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRefusal {
    pub status: u16,
    pub body: Body,
}

/// The status of what the machine answered.
pub fn status_of(posted: Posted, nature: Nature) -> u16 {
    match (posted, nature) {
        (Posted::Modern { .. }, Nature::Answer { error: Some(METHOD_NOT_FOUND) }) => 404,
        (Posted::Modern { .. }, Nature::Answer { error: Some(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) }) => 400,
        _ => 200,
    }
}

/// Whether an SSE stream begins with an event that has an id and no data, so that it can be resumed from its start.
pub fn has_priming_event(revision: Revision) -> bool {
    revision >= Revision::V2025_11_25
}

/// Steps 4 to 6 of the order: JSON, era, and what the era wants of the head.
///
/// # Errors
/// 400 with a JSON-RPC error.
pub fn inspect(toolset: &'static Toolset, head: &Head, body: &[u8]) -> Result<Posted, HttpRefusal> {
    if is_plainly_modern(toolset, head, body) {
        return Ok(Posted::Modern { answered: true });
    }
    let named = head.version.map(|name| Revision::parse(name).ok_or(name));
    let header_is_modern = matches!(named, Some(Ok(revision)) if revision.is_modern());
    match read(body) {
        Incoming::Batch(_) if header_is_modern => {
            Err(refused(None, &RpcError::invalid_request("Invalid Request: batches exist in revision 2025-03-26 only")))
        }
        Incoming::Batch(members) => in_session(head, named, is_answered(&members)),
        Incoming::Single(Message::Invalid { id, error }) => Err(refused(id.as_ref(), &error)),
        Incoming::Single(Message::InvalidAnswer { error }) => Err(refused(None, &error)),
        Incoming::Single(Message::Request { id, method, params }) => request(toolset, head, named, &id, &method, params).map_err(|(error, id)| refused(id, &error)),
        Incoming::Single(Message::Notification { params, .. }) => {
            let names_modern = Params::read(params).is_ok_and(|p| p.names_revision());
            if header_is_modern || (names_modern && head.session.is_none()) {
                return Ok(Posted::Modern { answered: false });
            }
            in_session(head, named, false)
        }
        Incoming::Single(Message::Response { .. }) if header_is_modern => {
            Err(refused(None, &RpcError::invalid_request("Invalid Request: in this revision a client answers by sending its request again")))
        }
        Incoming::Single(Message::Response { .. }) => in_session(head, named, false),
    }
}

/// In one pass, what nearly every request of the modern era is: whole, of one shape, and its head like its body. Anything
/// else is looked at again, to tell what is wrong.
fn is_plainly_modern(toolset: &'static Toolset, head: &Head, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Plain<'a> {
        jsonrpc: &'a str,
        #[serde(borrow)]
        id: &'a RawValue,
        method: &'a str,
        #[serde(borrow)]
        params: Object<PlainParams<'a>>,
        #[serde(default)]
        result: Option<IgnoredAny>,
        #[serde(default)]
        error: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct PlainParams<'a> {
        #[serde(rename = "_meta", borrow)]
        meta: Object<PlainMeta<'a>>,
        name: Option<&'a str>,
        uri: Option<&'a str>,
    }
    #[derive(Deserialize)]
    struct PlainMeta<'a> {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: &'a str,
        #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow)]
        capabilities: &'a RawValue,
    }

    let Ok(text) = std::str::from_utf8(body) else { return false };
    let Ok(Object(plain)) = serde_json::from_str::<Object<Plain>>(text) else { return false };
    let (params, method) = (&plain.params.0, plain.method);
    let same_name = match method {
        "tools/call" | "prompts/get" => params.name.is_some() && head.name == params.name,
        "resources/read" => params.uri.is_some() && head.name == params.uri,
        _ => true,
    };
    // Only a hand-written schema mirrors headers.
    let mirrors = method == "tools/call" && params.name.and_then(|name| toolset.find(name)).is_some_and(|(tool, _)| tool.schema.is_some());
    plain.jsonrpc == "2.0"
        && plain.result.is_none()
        && plain.error.is_none()
        && RequestId::parse(plain.id.get()).is_some()
        && head.version == Some(params.meta.0.version)
        && Revision::parse(params.meta.0.version).is_some_and(Revision::is_modern)
        && params.meta.0.capabilities.get().starts_with('{')
        && head.method == Some(method)
        && same_name
        && !mirrors
        // An encoded name is compared decoded, and what should have been encoded is refused.
        && head.name.is_none_or(|name| !name.starts_with("=?") && name.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
}

/// An object and nothing else: a typed reader alone would take an array for its members in their order.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Only<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Only<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        d.deserialize_map(Only(PhantomData))
    }
}

type Named<'a> = Option<Result<Revision, &'a str>>;

fn request<'i>(
    toolset: &'static Toolset,
    head: &Head,
    named: Named,
    id: &'i RequestId,
    method: &str,
    raw: Option<&RawValue>,
) -> Result<Posted, (RpcError, Option<&'i RequestId>)> {
    let of_request = |error| (error, Some(id));
    let params = Params::read(raw).map_err(of_request)?;
    let header_is_modern = matches!(named, Some(Ok(revision)) if revision.is_modern());
    if !params.names_revision() && !header_is_modern {
        if method == "initialize" {
            return Ok(Posted::Initialize);
        }
        if method == "server/discover" {
            return Err(of_request(needs_meta()));
        }
        return legacy_refusal(head, named).map_or(Ok(Posted::Legacy { answered: true }), |error| Err(of_request(error)));
    }
    // What the body must have comes before any comparison with the head.
    let body_names = params.named_revision().map_err(of_request)?.ok_or_else(|| of_request(needs_meta()))?;
    match head.version {
        None => return Err(of_request(mismatch("MCP-Protocol-Version is missing"))),
        Some(version) if version != body_names => {
            return Err(of_request(mismatch(&format!("MCP-Protocol-Version is {:?} and _meta says {:?}", shortened(version), shortened(body_names)))));
        }
        Some(_) => {}
    }
    params.modern().map_err(of_request)?;
    match head.method {
        None => return Err(of_request(mismatch("Mcp-Method is missing"))),
        Some(said) if said != method => return Err(of_request(mismatch(&format!("Mcp-Method is {:?} and the method {:?}", shortened(said), shortened(method))))),
        Some(_) => {}
    }
    check_name(head, method, &params).and_then(|()| check_mirrored(toolset, head, method, &params)).map_err(of_request)?;
    Ok(Posted::Modern { answered: true })
}

fn check_name(head: &Head, method: &str, params: &Params) -> Result<(), RpcError> {
    let subject = match method {
        "tools/call" | "prompts/get" => params.name.as_deref(),
        "resources/read" => params.uri.as_ref().and_then(Value::as_str),
        _ => return Ok(()),
    };
    // Without one the method's own check tells what is missing.
    let Some(subject) = subject else { return Ok(()) };
    let said = head.name.ok_or_else(|| mismatch("Mcp-Name is missing"))?;
    let said = decoded(said.trim_matches([' ', '\t'])).ok_or_else(|| mismatch("Mcp-Name has invalid Base64"))?;
    if said != subject {
        return Err(mismatch(&format!("Mcp-Name is {:?} and the body says {:?}", shortened(&said), shortened(subject))));
    }
    Ok(())
}

/// Headers that mirror arguments (`x-mcp-header` in the tool's schema).
fn check_mirrored(toolset: &'static Toolset, head: &Head, method: &str, params: &Params) -> Result<(), RpcError> {
    let (Some(name), true) = (params.name.as_deref(), method == "tools/call") else { return Ok(()) };
    let Some((tool, _)) = toolset.find(name) else { return Ok(()) };
    let Some(schema) = tool.schema else { return Ok(()) };
    let arguments: Map<String, Value> = params.arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    for mirror in mirrored_headers(schema) {
        let header = format!("mcp-param-{}", mirror.header.to_ascii_lowercase());
        let values = (head.param)(&header);
        let value = mirror.path.iter().try_fold(None, |at: Option<&Value>, key| match at {
            None => arguments.get(key.as_str()).map(Some),
            Some(at) => at.get(key.as_str()).map(Some),
        });
        let value = value.flatten().filter(|v| !v.is_null());
        match (value, values.as_slice()) {
            (None, []) => {}
            (None, _) => return Err(mismatch(&format!("{header} is there and the argument isn't"))),
            (Some(_), []) => return Err(mismatch(&format!("{header} is missing"))),
            (Some(value), [said]) => {
                let fits = std::str::from_utf8(said).ok().and_then(|text| decoded(text.trim_matches([' ', '\t']))).is_some_and(|said| says(&said, value));
                if !fits {
                    return Err(mismatch(&format!("{header} differs from the argument, or isn't encoded as it must be")));
                }
            }
            (Some(_), _) => return Err(mismatch(&format!("{header} is there more than once"))),
        }
    }
    Ok(())
}

fn says(said: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => said == text,
        Value::Bool(flag) => said == if *flag { "true" } else { "false" },
        Value::Number(number) => match (said.parse::<i128>(), number.to_string().parse::<i128>()) {
            // Beyond 2^53 different integers are the same float.
            (Ok(said), Ok(number)) => said == number,
            _ => said.parse::<f64>().is_ok_and(|said| number.as_f64() == Some(said)),
        },
        _ => false,
    }
}

/// `=?base64?...?=` decoded, anything else as it is. `None` when it isn't what it says.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    if value.bytes().any(|byte| byte != b'\t' && !(b' '..=b'~').contains(&byte)) {
        return None;
    }
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else { return Some(Cow::Borrowed(value)) };
    let bytes = base64_simd::STANDARD.decode_to_vec(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn in_session(head: &Head, named: Named, answered: bool) -> Result<Posted, HttpRefusal> {
    match legacy_refusal(head, named) {
        Some(error) => Err(refused(None, &error)),
        None => Ok(Posted::Legacy { answered }),
    }
}

fn legacy_refusal(head: &Head, named: Named) -> Option<RpcError> {
    if let Some(Err(unknown)) = named {
        return Some(super::params::unsupported(unknown));
    }
    head.session.is_none().then(|| {
        RpcError::invalid_request("Invalid Request: Mcp-Session-Id is missing; send initialize first, or name a revision in _meta and in MCP-Protocol-Version")
    })
}

fn needs_meta() -> RpcError {
    RpcError::invalid_params("Invalid params: _meta needs io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities")
}

fn mismatch(what: &str) -> RpcError {
    RpcError::new(HEADER_MISMATCH, format!("Header mismatch: {what}"))
}

fn refused(id: Option<&RequestId>, error: &RpcError) -> HttpRefusal {
    let body = match id {
        Some(id) => error_response(Some(id), error),
        None => error_without_id(error),
    };
    HttpRefusal { status: 400, body }
}
