//! `Accept` and `Content-Type`.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};

const JSON: (&str, &str) = ("application", "json");
const EVENTS: (&str, &str) = ("text", "event-stream");

/// Whether the client takes both forms that an answer to a POST may have.
pub(crate) fn takes_an_answer(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).iter();
    // What clients send, nearly all of them.
    if let (Some(only), None) = (values.next(), values.next())
        && matches!(only.as_bytes(), b"application/json, text/event-stream" | b"application/json,text/event-stream" | b"*/*")
    {
        return true;
    }
    accepts(headers, JSON) && accepts(headers, EVENTS)
}

pub(crate) fn takes_events(headers: &HeaderMap) -> bool {
    accepts(headers, EVENTS)
}

/// The most specific range decides. Without the header nothing is taken: MCP wants it.
fn accepts(headers: &HeaderMap, wanted: (&str, &str)) -> bool {
    let mut best: Option<(u8, bool)> = None;
    let values = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
    for range in values.flat_map(|v| v.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let Some((kind, subkind)) = parts.next().and_then(|r| r.split_once('/')) else { continue };
        let specific = match (kind, subkind) {
            ("*", "*") => 1,
            (k, "*") if k.eq_ignore_ascii_case(wanted.0) => 2,
            (k, s) if k.eq_ignore_ascii_case(wanted.0) && s.eq_ignore_ascii_case(wanted.1) => 3,
            _ => continue,
        };
        let refused = parts.filter_map(|p| p.split_once('=')).any(|(key, value)| {
            key.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|q| q <= 0.0)
        });
        if best.is_none_or(|(so_far, _)| specific > so_far) {
            best = Some((specific, !refused));
        }
    }
    best.is_some_and(|(_, taken)| taken)
}

/// Whether the body is said to be JSON, as it is.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    if headers.get(CONTENT_ENCODING).is_some_and(|e| !e.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return false;
    }
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (values.next(), values.next()) else { return false };
    let kind = only.as_bytes().split(|b| *b == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn headers(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|v| (name.clone(), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn accept() {
        let post = |values: &[&'static str]| takes_an_answer(&headers(ACCEPT, values));
        assert!(post(&["application/json, text/event-stream"]));
        assert!(post(&["application/json", "text/event-stream"]));
        assert!(post(&["text/event-stream;q=0.5 , Application/JSON; q=1"]));
        assert!(post(&["*/*"]));
        assert!(post(&["application/*, text/*;q=0.1"]));
        assert!(post(&["text/html, */*;q=0.1"]));
        assert!(!post(&["application/json"]));
        assert!(!post(&["text/event-stream"]));
        assert!(!post(&[]));
        assert!(!post(&["application/json;q=0, */*"]));
        assert!(!post(&["*/*, text/event-stream; q=0.000"]));
        assert!(!post(&["nonsense"]));
        assert!(takes_events(&headers(ACCEPT, &["text/event-stream"])));
        assert!(!takes_events(&headers(ACCEPT, &["application/json"])));
    }

    #[test]
    fn content_type() {
        let json = |values: &[&'static str]| is_json(&headers(CONTENT_TYPE, values));
        assert!(json(&["application/json"]) && json(&["Application/JSON; charset=utf-8"]));
        assert!(!json(&[]) && !json(&["text/plain"]) && !json(&["application/json-seq"]) && !json(&["application/json", "text/plain"]));
    }
}
