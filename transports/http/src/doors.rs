//! Who may come in: `Host` against DNS rebinding, `Origin` against web pages, a token against everybody else.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Uri};

use crate::link::Link;
use crate::tokens::Tokens;

/// The principal of a server without tokens.
pub(crate) const ANYONE: &str = "anyone";

#[derive(Debug, Default)]
pub struct Doors {
    /// `None` admits everybody: for a unix socket, or the conformance server on loopback.
    pub tokens: Option<Tokens>,
    /// Beside loopback's names and the address itself: `name`, for any port, or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Beside http(s) pages of loopback's names: whole origins, such as `https://app.example`.
    pub allowed_origins: Vec<String>,
    /// The issuer that a client may get its token from, told to it (RFC 9728).
    pub authorization_server: Option<String>,
    /// For each principal.
    pub requests_per_minute: Option<NonZeroU32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    HostMissing,
    Host,
    Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    NoToken,
    WrongToken,
}

impl Doors {
    /// An allowed `Origin`, when one came.
    pub(crate) fn check<'a>(&self, headers: &'a HeaderMap, uri: &Uri, link: &Link) -> Result<Option<&'a HeaderValue>, Shut> {
        if let Some(local) = link.local {
            let mut hosts = headers.get_all(HOST).iter();
            let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Shut::HostMissing) };
            let host = host.to_str().map_err(|_| Shut::Host)?;
            // A request line with a whole URL names the host, too.
            if !self.is_host(host, local) || uri.authority().is_some_and(|a| !self.is_host(a.as_str(), local)) {
                return Err(Shut::Host);
            }
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(None) };
        if origins.next().is_some() || !origin.to_str().is_ok_and(|o| self.is_origin(o)) {
            return Err(Shut::Origin);
        }
        Ok(Some(origin))
    }

    /// `local` is the address that the connection came in on.
    fn is_host(&self, host: &str, local: IpAddr) -> bool {
        let Some((name, port)) = name_and_port(host) else { return false };
        if is_loopback(name) || name.trim_matches(['[', ']']).parse() == Ok(local) {
            return true;
        }
        self.allowed_hosts.iter().any(|allowed| match name_and_port(allowed) {
            Some((allowed, None)) => allowed.eq_ignore_ascii_case(name),
            Some((allowed, wanted)) => allowed.eq_ignore_ascii_case(name) && wanted == port,
            None => false,
        })
    }

    fn is_origin(&self, origin: &str) -> bool {
        if self.allowed_origins.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)) {
            return true;
        }
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.and_then(name_and_port).is_some_and(|(name, _)| is_loopback(name))
    }

    pub(crate) fn admit(&self, headers: &HeaderMap, anyone: &Arc<str>) -> Result<Arc<str>, NotAdmitted> {
        let Some(tokens) = &self.tokens else { return Ok(anyone.clone()) };
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(only), None) = (given.next(), given.next()) else { return Err(NotAdmitted::NoToken) };
        let token = bearer(only.as_bytes()).ok_or(NotAdmitted::NoToken)?;
        tokens.admit(token).ok_or(NotAdmitted::WrongToken)
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii()).filter(|t| !t.is_empty())
}

pub(crate) fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1" || name == "[::1]"
}

/// `name`, `name:port`, `[v6]`, `[v6]:port`; nothing else passes.
pub(crate) fn name_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let end = if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
    let (name, rest) = text.split_at(end);
    let named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let good = match name.strip_prefix('[') {
        Some(inner) => inner.trim_end_matches(']').parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(named),
    };
    if !good {
        return None;
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((name, None)),
        Some(port) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => Some((name, Some(port.parse().ok()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let doors = Doors { allowed_hosts: vec!["desk.example".into(), "other.example:8443".into()], ..Doors::default() };
        let local = "192.0.2.7".parse().unwrap();
        for good in [
            "localhost", "LOCALHOST:80", "127.0.0.1:9999", "[::1]", "[::1]:1", "192.0.2.7:80", "desk.example", "Desk.Example:1", "other.example:8443",
        ] {
            assert!(doors.is_host(good, local), "{good}");
        }
        for bad in [
            "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "other.example", "other.example:1", "localhost:x",
            "localhost:",
            "localhost:99999", "user@localhost", "localhost/", "[::1", "[::1]x", "[]", "192.0.2.8", "localhost:1:2", "::1",
        ] {
            assert!(!doors.is_host(bad, local), "{bad}");
        }
    }

    #[test]
    fn origins() {
        let doors = Doors { allowed_origins: vec!["https://app.example".into()], ..Doors::default() };
        for good in ["http://localhost", "http://localhost:3000", "https://127.0.0.1:1", "http://[::1]:5", "https://app.example"] {
            assert!(doors.is_origin(good), "{good}");
        }
        for bad in [
            "null", "", "https://evil.example", "http://localhost.evil.example", "http://localhost@evil.example", "file://", "http://app.example",
            "https://app.example:1", "http://127.0.0.1.evil.example", "localhost", "ftp://localhost", "http://localhost:3000/x", "http://",
        ] {
            assert!(!doors.is_origin(bad), "{bad}");
        }
    }

    #[test]
    fn the_token_in_its_header() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER  abc "), Some(&b"abc"[..]));
        for bad in [&b"Basic abc"[..], b"Bearer", b"Bearer ", b"abc", b"", b"Bearerabc"] {
            assert_eq!(bearer(bad), None);
        }
    }
}
