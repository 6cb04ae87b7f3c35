//! Request ids: strings or integers, echoed exactly. Bounded, since they are kept for as long as their request is.

use std::fmt;

/// An id as it came. Numbers keep their digits, so that no size of integer is altered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestId {
    Number(Box<str>),
    Text(Box<str>),
}

/// Of an id as it came, in bytes.
pub const ID_LIMIT: usize = 1024;

impl RequestId {
    /// From raw JSON; `None` when it is neither a string nor an integer, or too long.
    pub fn parse(raw: &str) -> Option<Self> {
        let raw = raw.trim();
        if raw.len() > ID_LIMIT {
            return None;
        }
        if raw.starts_with('"') {
            return serde_json::from_str::<String>(raw).ok().map(|s| Self::Text(s.into()));
        }
        let digits = raw.strip_prefix('-').unwrap_or(raw);
        (!digits.is_empty() && digits.len() <= 40 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| Self::Number(raw.into()))
    }

    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(digits) => out.extend_from_slice(digits.as_bytes()),
            Self::Text(text) => super::body::push_json_string(out, text),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_strings_or_integers_and_come_back_as_they_were() {
        for raw in ["0", "-7", "12345678901234567890123", "\"\"", "\"a\\u0062\\n\""] {
            let id = RequestId::parse(raw).expect(raw);
            let mut out = Vec::new();
            id.write_json(&mut out);
            let (a, b): (serde_json::Value, serde_json::Value) =
                (serde_json::from_str(raw).unwrap(), serde_json::from_slice(&out).unwrap());
            assert_eq!(a, b, "{raw}");
        }
        assert_eq!(RequestId::parse("\"a\""), RequestId::parse("\"\\u0061\""));
        for raw in ["null", "1.5", "1e3", "[]", "{}", "true", "-", ""] {
            assert_eq!(RequestId::parse(raw), None, "{raw}");
        }
        assert!(RequestId::parse(&format!("\"{}\"", "a".repeat(ID_LIMIT - 2))).is_some());
        assert_eq!(RequestId::parse(&format!("\"{}\"", "a".repeat(ID_LIMIT))), None);
    }
}
