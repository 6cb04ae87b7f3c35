//! Which versions of sway are understood.

use serde_json::Value;

const OLDEST: (u64, u64) = (1, 7);

/// The version's text, and why it can't be acted on; `None` when it is understood.
pub fn read(answer: &Value) -> (String, Option<String>) {
    let number = |key: &str| answer.get(key).and_then(Value::as_u64);
    let text = match answer.get("human_readable").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => "unknown".into(),
    };
    let incompatible = match (answer.get("variant").and_then(Value::as_str), number("major"), number("minor")) {
        (Some("sway"), Some(major), Some(minor)) if (major, minor) >= OLDEST => None,
        (Some("sway"), Some(_), Some(_)) => {
            Some(format!("sway {text} is older than {}.{}; update sway", OLDEST.0, OLDEST.1))
        }
        (Some("sway"), ..) => {
            Some(format!("sway's version {text:?} is not understood; {}.{} or newer is needed", OLDEST.0, OLDEST.1))
        }
        (other, ..) => Some(format!(
            "the socket belongs to {} {text}, which speaks sway's protocol but is not sway; use sway or niri",
            other.unwrap_or("i3")
        )),
    };
    (text, incompatible)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions() {
        let of = |text: &str, major: u64, minor: u64| {
            read(&json!({"human_readable": text, "variant": "sway", "major": major, "minor": minor})).1
        };
        assert_eq!(of("1.7", 1, 7), None);
        assert_eq!(of("1.12-dev-1234", 1, 12), None);
        assert!(of("1.4", 1, 4).unwrap().contains("update sway"));
        assert!(read(&json!({"human_readable": "4.23", "major": 4, "minor": 23})).1.unwrap().contains("not sway"));
        assert!(read(&json!({"variant": "sway"})).1.unwrap().contains("not understood"));
        assert_eq!(read(&json!(null)).0, "unknown");
    }
}
