//! What goes out: segments of bytes, so that an image made elsewhere is sent without a copy.

use bytes::Bytes;
use serde_json::Value;

use super::error::RpcError;
use super::id::RequestId;

/// What a text is to the transport that carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nature {
    /// A notification, or a request of ours: more may follow.
    #[default]
    Message,
    /// What a request, or a batch, waited for; an error's code if it is one.
    Answer { error: Option<i64> },
}

/// One JSON text in pieces, in order, without a line end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    segments: Vec<Bytes>,
    nature: Nature,
}

impl Body {
    pub fn nature(&self) -> Nature {
        self.nature
    }

    pub(crate) fn with_nature(mut self, nature: Nature) -> Self {
        self.nature = nature;
        self
    }

    pub fn into_segments(self) -> Vec<Bytes> {
        self.segments
    }

    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    pub fn len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All pieces in one. Copies; for tests and traces.
    pub fn to_vec(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|s| s.iter().copied()).collect()
    }

    pub fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if !bytes.is_empty() {
            self.segments.push(bytes);
        }
    }

    pub fn append(&mut self, mut other: Body) {
        self.segments.append(&mut other.segments);
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self { segments: vec![Bytes::from(bytes)], nature: Nature::Message }
    }
}

/// A result around `result`, whose pieces are JSON already.
pub fn response(id: &RequestId, result: Body) -> Body {
    let mut head = Vec::with_capacity(64 + result.segments.first().map_or(0, Bytes::len));
    head.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write_json(&mut head);
    head.extend_from_slice(b",\"result\":");
    if let [only] = result.segments.as_slice() {
        head.extend_from_slice(only);
        head.push(b'}');
        return Body::from(head).with_nature(Nature::Answer { error: None });
    }
    let mut body = Body::from(head);
    body.append(result);
    body.push(&b"}"[..]);
    body.with_nature(Nature::Answer { error: None })
}

/// An error; `id` is `None` where the request's own couldn't be read.
pub fn error_response(id: Option<&RequestId>, error: &RpcError) -> Body {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        Some(id) => id.write_json(&mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"error\":{\"code\":");
    out.extend_from_slice(error.code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    push_json_string(&mut out, &error.message);
    if let Some(data) = &error.data {
        out.extend_from_slice(b",\"data\":");
        push_json(&mut out, data);
    }
    out.extend_from_slice(b"}}");
    Body::from(out).with_nature(Nature::Answer { error: Some(error.code) })
}

/// An error that belongs to no request, for transports where an answer's place says what it belongs to: without `id`.
pub fn error_without_id(error: &RpcError) -> Body {
    let mut answer = serde_json::json!({"jsonrpc": "2.0", "error": {"code": error.code, "message": error.message}});
    if let Some(data) = &error.data {
        answer["error"]["data"] = data.clone();
    }
    value_body(&answer).with_nature(Nature::Answer { error: Some(error.code) })
}

/// A request of ours. Ids are numbers that count up.
pub fn request(id: u64, method: &str, params: &Value) -> Body {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.to_string().as_bytes());
    out.extend_from_slice(b",\"method\":");
    push_json_string(&mut out, method);
    out.extend_from_slice(b",\"params\":");
    push_json(&mut out, params);
    out.push(b'}');
    out.into()
}

pub fn notification(method: &str, params: &Value) -> Body {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    push_json_string(&mut out, method);
    if !params.is_null() {
        out.extend_from_slice(b",\"params\":");
        push_json(&mut out, params);
    }
    out.push(b'}');
    out.into()
}

pub fn push_json(out: &mut Vec<u8>, value: &Value) {
    // Writing a Value to a Vec has no way to fail: its keys are strings and the sink grows.
    let _ = serde_json::to_writer(out, value);
}

pub fn push_json_string(out: &mut Vec<u8>, text: &str) {
    let _ = serde_json::to_writer(out, text);
}

pub fn value_body(value: &Value) -> Body {
    let mut out = Vec::with_capacity(256);
    push_json(&mut out, value);
    out.into()
}
