//! Which types are text, and which one says that it is a password.

/// Its content is `secret` when the rest is a password; KDE's, and understood by most clipboard managers.
pub(crate) const PASSWORD_HINT: &str = "x-kde-passwordManagerHint";
pub(crate) const SECRET: &[u8] = b"secret";

/// What a text is offered as.
pub(crate) const OFFERED: [&str; 5] = ["text/plain;charset=utf-8", "text/plain", "UTF8_STRING", "TEXT", "STRING"];

/// The best of the offered types to read text from.
pub(crate) fn text_type(types: &[String]) -> Option<&str> {
    const BY_NAME: [&str; 4] = ["text/plain;charset=utf-8", "UTF8_STRING", "text/plain", "STRING"];
    let named = BY_NAME.iter().find_map(|wanted| types.iter().find(|mime| mime.eq_ignore_ascii_case(wanted)));
    let other = || types.iter().find(|mime| mime.to_ascii_lowercase().starts_with("text/plain;") || *mime == "TEXT");
    named.or_else(other).map(String::as_str)
}

/// Its text; `None` when it is none after all.
pub(crate) fn decode(mime: &str, mut content: Vec<u8>) -> Option<String> {
    // X11 programs tend to count the final NUL in.
    while content.last() == Some(&0) {
        content.pop();
    }
    match String::from_utf8(content) {
        Ok(text) => Some(text),
        // X11's STRING is Latin 1.
        Err(bad) if mime == "STRING" => Some(bad.as_bytes().iter().map(|byte| char::from(*byte)).collect()),
        Err(_) => None,
    }
}

pub(crate) fn is_secret(hint: &[u8]) -> bool {
    hint.trim_ascii() == SECRET
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(types: &[&str]) -> Option<String> {
        let types: Vec<String> = types.iter().map(|t| (*t).to_owned()).collect();
        text_type(&types).map(str::to_owned)
    }

    #[test]
    fn utf8_is_preferred_and_pictures_are_no_text() {
        assert_eq!(best(&["STRING", "text/plain", "UTF8_STRING", "text/html"]).unwrap(), "UTF8_STRING");
        assert_eq!(best(&["image/png", "TEXT/PLAIN;charset=UTF-8"]).unwrap(), "TEXT/PLAIN;charset=UTF-8");
        assert_eq!(best(&["text/plain;charset=iso-8859-1"]).unwrap(), "text/plain;charset=iso-8859-1");
        assert_eq!(best(&["image/png", "text/html", "text/uri-list"]), None);
    }

    #[test]
    fn decoding() {
        assert_eq!(decode("text/plain", "häß\0".into()).unwrap(), "häß");
        assert_eq!(decode("STRING", vec![b'a', 0xe4]).unwrap(), "aä");
        assert_eq!(decode("text/plain", vec![b'a', 0xe4]), None);
        assert!(is_secret(b"secret\n") && !is_secret(b"public"));
    }
}
