//! Where a client may get a token: RFC 9728, and the header that points to it.

use hyper::header::{HOST, HeaderValue, WWW_AUTHENTICATE};
use hyper::{HeaderMap, StatusCode};
use serde_json::json;

use crate::doors::{Doors, NotAdmitted, is_loopback, name_and_port};
use crate::payload::Payload;
use crate::replies::{self, Reply};

pub(crate) const PREFIX: &str = "/.well-known/oauth-protected-resource";

/// The document about the endpoint at `path`.
pub(crate) fn document(doors: &Doors, headers: &HeaderMap, path: &str) -> Reply {
    let issuer = &doors.authorization_server;
    let document = json!({
        "resource": format!("{}{path}", base(headers)),
        "authorization_servers": issuer.as_slice(),
        "bearer_methods_supported": ["header"],
    });
    replies::json(200, Payload::bytes(document.to_string()))
}

pub(crate) fn unauthorized(doors: &Doors, headers: &HeaderMap, path: &str, why: NotAdmitted) -> Reply {
    let mut challenge = String::from("Bearer");
    let mut sign = ' ';
    if why == NotAdmitted::WrongToken {
        challenge.push_str(" error=\"invalid_token\"");
        sign = ',';
    }
    if doors.authorization_server.is_some() {
        challenge.push_str(&format!("{sign}resource_metadata=\"{}{PREFIX}{path}\"", base(headers)));
    }
    let text = match why {
        NotAdmitted::NoToken => "Unauthorized: send one header Authorization: Bearer TOKEN, with a token from this server's token file",
        NotAdmitted::WrongToken => "Unauthorized: this token isn't one of the server's; it may have been removed or replaced",
    };
    let mut reply = replies::refused(StatusCode::UNAUTHORIZED, text);
    if let Ok(value) = HeaderValue::from_str(&challenge) {
        reply.headers_mut().insert(WWW_AUTHENTICATE, value);
    }
    reply
}

/// Names elsewhere are reached through a proxy that speaks TLS.
fn base(headers: &HeaderMap) -> String {
    // On a unix socket the header wasn't checked, so only its form is.
    let host = headers.get(HOST).and_then(|h| h.to_str().ok()).filter(|h| name_and_port(h).is_some()).unwrap_or("localhost");
    let scheme = if name_and_port(host).is_some_and(|(name, _)| is_loopback(name)) { "http" } else { "https" };
    format!("{scheme}://{host}")
}
