//! Responses, and the words of refusals: what is wrong and what to do.

use deskhand_core::rpc::body::Body;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ALLOW,
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, VARY,
};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::json;

use crate::doors::Shut;
use crate::payload::Payload;

pub(crate) type Reply = Response<Payload>;

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A refusal of the transport's own.
const REFUSED: i64 = -32000;
const SESSION_UNKNOWN: i64 = -32001;
pub(crate) const HEADER_MISMATCH: i64 = -32020;

pub(crate) fn bare(status: StatusCode, payload: Payload) -> Reply {
    let mut reply = Response::new(payload);
    *reply.status_mut() = status;
    reply
}

pub(crate) fn json(status: u16, payload: Payload) -> Reply {
    let mut reply = bare(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), payload);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

pub(crate) fn message(status: u16, body: &Body) -> Reply {
    json(status, Payload::message(body))
}

pub(crate) fn events(payload: Payload) -> Reply {
    let mut reply = Response::new(payload);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

pub(crate) fn accepted() -> Reply {
    bare(StatusCode::ACCEPTED, Payload::empty())
}

/// An error without an id: it isn't about a request that was read.
pub(crate) fn refused(status: StatusCode, why: &str) -> Reply {
    error(status, REFUSED, why)
}

pub(crate) fn error(status: StatusCode, code: i64, why: &str) -> Reply {
    json(status.as_u16(), Payload::bytes(json!({"jsonrpc": "2.0", "error": {"code": code, "message": why}}).to_string()))
}

pub(crate) fn not_found() -> Reply {
    refused(StatusCode::NOT_FOUND, "Not found: no MCP endpoint has this path")
}

pub(crate) fn shut(why: Shut) -> Reply {
    match why {
        Shut::HostMissing => refused(StatusCode::BAD_REQUEST, "Bad request: exactly one Host header is needed"),
        Shut::Host => refused(StatusCode::FORBIDDEN, "Forbidden: this Host isn't served; if it is this server's name, add it to the allowed hosts"),
        Shut::Origin => refused(StatusCode::FORBIDDEN, "Forbidden: pages of this Origin may not call this server; if they may, add it to the allowed origins"),
    }
}

pub(crate) fn method_not_allowed(allowed: &'static str) -> Reply {
    let why = "Method not allowed: messages are sent with POST; GET and DELETE need the Mcp-Session-Id of an open session";
    let mut reply = refused(StatusCode::METHOD_NOT_ALLOWED, why);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

pub(crate) fn too_many(status: StatusCode, after_s: u64, why: &str) -> Reply {
    let mut reply = refused(status, why);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after_s));
    reply
}

/// What comes after on the connection can't be told from the rest of this request.
pub(crate) fn and_close(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

pub(crate) fn session_missing() -> Reply {
    refused(StatusCode::BAD_REQUEST, "Bad request: the Mcp-Session-Id header is missing; send initialize first, or name a revision in _meta")
}

pub(crate) fn session_unknown() -> Reply {
    error(StatusCode::NOT_FOUND, SESSION_UNKNOWN, "Session not found: it is unknown or has ended; send initialize without Mcp-Session-Id")
}

pub(crate) fn unavailable() -> Reply {
    too_many(StatusCode::SERVICE_UNAVAILABLE, 1, "Unavailable: the server is at its bound or about to end; try again")
}

/// To a page that may call us.
pub(crate) fn preflight(asked: &HeaderMap) -> Reply {
    let mut allowed = String::from("Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name");
    let asked = asked.get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(|v| v.to_str().ok()).unwrap_or_default();
    // Which there are, the tools' schemas decide.
    for name in asked.split(',').filter_map(|n| HeaderName::from_bytes(n.trim().as_bytes()).ok()).filter(|n| n.as_str().starts_with("mcp-param-")) {
        allowed.push_str(", ");
        allowed.push_str(name.as_str());
    }
    let mut reply = bare(StatusCode::NO_CONTENT, Payload::empty());
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.extend(HeaderValue::from_str(&allowed).ok().map(|allowed| (ACCESS_CONTROL_ALLOW_HEADERS, allowed)));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    reply
}

/// `origin` was allowed.
pub(crate) fn share_with(reply: &mut Reply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate"));
    headers.insert(VARY, HeaderValue::from_static("Origin"));
}
