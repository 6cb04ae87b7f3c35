//! The parameters of every method this side serves, read in one pass.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::revision::Revision;
use crate::rpc::error::{RpcError, UNSUPPORTED_VERSION, shortened};
use crate::rpc::id::ID_LIMIT;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Params<'a> {
    #[serde(rename = "_meta", borrow, default, deserialize_with = "object")]
    pub meta: Option<Meta<'a>>,
    /// tools/call
    #[serde(borrow, default)]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    /// resources/read, subscribe, unsubscribe
    #[serde(default)]
    pub uri: Option<Value>,
    /// completion/complete
    #[serde(rename = "ref", default)]
    pub reference: Option<Value>,
    #[serde(default)]
    pub argument: Option<Value>,
    #[serde(default)]
    pub context: Option<Value>,
    /// logging/setLevel
    #[serde(default)]
    pub level: Option<Value>,
    /// A retry after `input_required`
    #[serde(default)]
    pub input_responses: Option<Value>,
    #[serde(default)]
    pub request_state: Option<Value>,
    /// Lists
    #[serde(default)]
    pub cursor: Option<Value>,
    /// initialize
    #[serde(default)]
    pub protocol_version: Option<Value>,
    #[serde(default)]
    pub client_info: Option<Value>,
    #[serde(default)]
    pub capabilities: Option<Value>,
    /// notifications/cancelled
    #[serde(borrow, default)]
    pub request_id: Option<&'a RawValue>,
    /// subscriptions/listen
    #[serde(default)]
    pub notifications: Option<Value>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(rename = "progressToken", default)]
    pub progress_token: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", default)]
    pub version: Option<Value>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", borrow, default)]
    pub client_info: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow, default)]
    pub client_capabilities: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/logLevel", default)]
    pub log_level: Option<Value>,
}

/// `_meta` is an object or absent; a typed reader alone would take an array too.
fn object<'de: 'a, 'a, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Meta<'a>>, D::Error> {
    struct Object;

    impl<'de> Visitor<'de> for Object {
        type Value = Option<Meta<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("_meta to be an object")
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: serde::Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
            d.deserialize_map(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Meta::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    d.deserialize_option(Object)
}

impl<'a> Params<'a> {
    pub fn read(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        match raw {
            None => Ok(Self::default()),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|e| RpcError::invalid_params(format!("Invalid params: {e}"))),
        }
    }

    /// Whether the request names a revision, known or not: then it isn't of the legacy era.
    pub fn names_revision(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| meta.version.is_some())
    }

    /// The name of the revision, once the required `_meta` is there; `None` for a request of the legacy era.
    pub fn named_revision(&self) -> Result<Option<&str>, RpcError> {
        let Some(meta) = self.meta.as_ref() else { return Ok(None) };
        let Some(version) = &meta.version else { return Ok(None) };
        let Some(name) = version.as_str() else {
            return Err(RpcError::invalid_params("Invalid params: io.modelcontextprotocol/protocolVersion must be a string"));
        };
        if !meta.client_capabilities.is_some_and(|raw| raw.get().starts_with('{')) {
            return Err(RpcError::invalid_params("Invalid params: _meta needs io.modelcontextprotocol/clientCapabilities, an object"));
        }
        Ok(Some(name))
    }

    /// The modern revision that the request names; `None` for a request of the legacy era.
    pub fn modern(&self) -> Result<Option<Revision>, RpcError> {
        let Some(name) = self.named_revision()? else { return Ok(None) };
        Revision::parse(name).filter(|r| r.is_modern()).map(Some).ok_or_else(|| unsupported(name))
    }

    /// A token is a string or an integer, as short as an id; anything else asks for nothing.
    pub fn progress_token(&self) -> Option<Value> {
        self.meta.as_ref()?.progress_token.clone().filter(|t| t.as_str().is_some_and(|text| text.len() <= ID_LIMIT) || t.is_i64() || t.is_u64())
    }
}

pub(crate) fn unsupported(name: &str) -> RpcError {
    RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(serde_json::json!({
        "supported": Revision::MODERN.map(Revision::name),
        "requested": shortened(name),
    }))
}

/// What was left unread, of whatever shape; nesting too deep to be read counts as nothing.
pub(crate) fn unread(raw: Option<&RawValue>) -> Option<Value> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// What a client calls itself, cut to a label's length, without control characters.
pub(crate) fn client_label(info: Option<&Value>) -> String {
    let field = |key: &str| {
        let text = info.and_then(|i| i.get(key)).and_then(Value::as_str).unwrap_or_default();
        text.chars().filter(|c| !c.is_control()).take(60).collect::<String>()
    };
    let (name, version) = (field("name"), field("version"));
    match (name.is_empty(), version.is_empty()) {
        (true, _) => "unnamed client".into(),
        (false, true) => name,
        (false, false) => format!("{name} {version}"),
    }
}
