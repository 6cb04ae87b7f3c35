//! Reading one JSON text as a JSON-RPC message.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::error::RpcError;
use super::id::{ID_LIMIT, RequestId};

/// What a text turned out to be.
#[derive(Debug)]
pub enum Message<'a> {
    Request { id: RequestId, method: Cow<'a, str>, params: Option<&'a RawValue> },
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// An answer to a request of ours.
    Response { id: RequestId, outcome: Result<&'a RawValue, &'a RawValue> },
    /// Meant as an answer and not readable as one. An answer is never answered: over HTTP its status tells, elsewhere nothing.
    InvalidAnswer { error: RpcError },
    Invalid { id: Option<RequestId>, error: RpcError },
}

impl Message<'_> {
    /// Whether its sender waits for an answer.
    pub fn is_answered(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Invalid { .. })
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there, even when it is null.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// One message, or the members of a batch.
#[derive(Debug)]
pub enum Incoming<'a> {
    Single(Message<'a>),
    Batch(Vec<&'a RawValue>),
}

/// Reads a text that may be a batch.
pub fn read(bytes: &[u8]) -> Incoming<'_> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim(),
        Err(e) => {
            let error = RpcError::parse(format!("Parse error: not UTF-8 after {} bytes", e.valid_up_to()));
            return Incoming::Single(Message::Invalid { id: None, error });
        }
    };
    if text.starts_with('[') {
        return match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(members) => Incoming::Batch(members),
            Err(e) => Incoming::Single(Message::Invalid { id: None, error: RpcError::parse(format!("Parse error: {e}")) }),
        };
    }
    Incoming::Single(read_one(text))
}

/// Reads a text that may not be a batch.
pub fn read_one(text: &str) -> Message<'_> {
    // A typed reader would take an array for the members in their order.
    if text.starts_with('[') {
        return Message::Invalid { id: None, error: not_an_object() };
    }
    let envelope: Envelope = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(e) => return unreadable(text, &e),
    };
    if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
        return answer(&envelope);
    }
    let invalid = |id: Option<RequestId>, why: &str| Message::Invalid { id, error: RpcError::invalid_request(format!("Invalid Request: {why}")) };
    let id = match envelope.id {
        None => None,
        Some(raw) => match RequestId::parse(raw.get()) {
            Some(id) => Some(id),
            None => return invalid(None, &format!("id must be a string or an integer of at most {ID_LIMIT} bytes")),
        },
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return invalid(id, "jsonrpc must be \"2.0\"");
    }
    if let Some(params) = envelope.params
        && !params.get().starts_with('{')
    {
        return invalid(id, "params must be an object");
    }
    match (envelope.method, id) {
        (Some(method), Some(id)) => Message::Request { id, method, params: envelope.params },
        (Some(method), None) => Message::Notification { method, params: envelope.params },
        (None, id) => invalid(id, "method is missing"),
    }
}

/// An answer with a result and an error too is an error: nobody knows which of them holds.
fn answer<'a>(envelope: &Envelope<'a>) -> Message<'a> {
    let outcome = match (envelope.result, envelope.error) {
        (_, Some(error)) => Err(error),
        (Some(result), None) => Ok(result),
        (None, None) => return invalid_answer("it has neither result nor error"),
    };
    match envelope.id.and_then(|raw| RequestId::parse(raw.get())) {
        _ if envelope.jsonrpc.as_deref() != Some("2.0") => invalid_answer("jsonrpc must be \"2.0\""),
        Some(id) => Message::Response { id, outcome },
        None => invalid_answer("its id is none of a request of this server"),
    }
}

fn invalid_answer(why: &str) -> Message<'static> {
    Message::InvalidAnswer { error: RpcError::invalid_request(format!("Invalid Request: an answer that can't be read: {why}")) }
}

fn unreadable<'a>(text: &str, first: &serde_json::Error) -> Message<'a> {
    let members: BTreeMap<Cow<str>, IgnoredAny> = serde_json::from_str(text).unwrap_or_default();
    if !members.contains_key("method") && (members.contains_key("result") || members.contains_key("error")) {
        return invalid_answer("a member is there twice, or is of a wrong type");
    }
    Message::Invalid { id: salvage_id(text), error: what_is_wrong(text, first) }
}

fn what_is_wrong(text: &str, first: &serde_json::Error) -> RpcError {
    // A typed reader stops at the first wrong type; only a full pass tells bad JSON from a bad request.
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(e) => RpcError::parse(format!("Parse error: {e}")),
        Ok(_) if !text.starts_with('{') => not_an_object(),
        Ok(_) => RpcError::invalid_request(format!("Invalid Request: {first}")),
    }
}

fn not_an_object() -> RpcError {
    RpcError::invalid_request("Invalid Request: a message is a JSON object")
}

fn salvage_id(text: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct OnlyId<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    serde_json::from_str::<OnlyId>(text).ok().and_then(|only| RequestId::parse(only.id.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &[u8]) -> i64 {
        match read(text) {
            Incoming::Single(Message::Invalid { error, .. }) => error.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bad_json_and_bad_requests_are_told_apart() {
        assert_eq!(code(b"{"), -32700);
        assert_eq!(code(b"{\"jsonrpc\":2,"), -32700);
        assert_eq!(code(b"\xff\xfe"), -32700);
        assert_eq!(code(b"[1,"), -32700);
        assert_eq!(code(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}"), -32600);
        assert_eq!(code(b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}"), -32600);
        assert_eq!(code(b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"), -32600);
        assert_eq!(code(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}"), -32600);
        assert_eq!(code(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":[]}"), -32600);
        assert_eq!(code(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"x\"}"), -32600);
        assert_eq!(code(b"17"), -32600);
        assert!(matches!(read_one("[\"2.0\", 1, \"ping\", {}, null, null]"), Message::Invalid { id: None, error } if error.code == -32600));
        assert_eq!(code(b"{}"), -32600);
    }

    #[test]
    fn deep_json_is_an_answer_not_a_crash() {
        let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{{\"a\":{}{}}}}}", "[".repeat(200_000), "]".repeat(200_000));
        match read(deep.as_bytes()) {
            Incoming::Single(Message::Request { .. } | Message::Invalid { .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_meant_as_an_answer_is_never_an_invalid_request() {
        for text in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no id"}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":{},"result":null}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"id":1,"error":null}"#,
            r#"{"jsonrpc":2,"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{},"error":{},"params":[]}"#,
        ] {
            assert!(matches!(read_one(text), Message::InvalidAnswer { .. }), "{text}: {:?}", read_one(text));
        }
        let both = read_one(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#);
        assert!(matches!(both, Message::Response { outcome: Err(_), .. }), "{both:?}");
        let request = read_one(r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#);
        assert!(matches!(request, Message::Request { .. }), "{request:?}");
    }

    #[test]
    fn an_invalid_request_keeps_its_id() {
        let Incoming::Single(Message::Invalid { id, .. }) = read(b"{\"jsonrpc\":\"2.0\",\"id\":\"k\",\"method\":[]}") else { panic!() };
        assert_eq!(id, Some(RequestId::Text("k".into())));
    }
}
