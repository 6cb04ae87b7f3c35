//! JSON-RPC errors and MCP's additions to them.

use serde_json::Value;

/// An error of the protocol, as opposed to a tool's refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;
/// Legacy revisions: no resource has this URI. The modern one says [`INVALID_PARAMS`].
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// 2026-07-28: HTTP headers and body disagree.
pub const HEADER_MISMATCH: i64 = -32020;
/// 2026-07-28: the client didn't declare what answering needs; `data` has `requiredCapabilities`.
pub const MISSING_CAPABILITY: i64 = -32021;
/// 2026-07-28: the version named isn't served; `data` has `supported` and `requested`.
pub const UNSUPPORTED_VERSION: i64 = -32022;

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub fn parse(detail: impl Into<String>) -> Self {
        Self::new(PARSE_ERROR, detail)
    }

    pub fn invalid_request(detail: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, detail)
    }

    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {}", shortened(method)))
    }

    pub fn invalid_params(detail: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, detail)
    }
}

/// A peer's own text, cut so that an error never grows with its cause.
pub fn shortened(text: &str) -> String {
    const KEPT: usize = 80;
    match text.char_indices().nth(KEPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
