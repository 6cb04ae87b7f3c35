//! Patterns: JSON that an output must contain.
//!
//! An object fits when each of its members does; an array when it has the same length and its items fit; anything else
//! when it is equal. `{"$has": "part"}` fits a string that contains the part, `{"$json": pattern}` a string that is
//! JSON and fits, `{"$any": true}` whatever is there, `{"$absent": true}` a member that isn't.

use serde_json::Value;

/// Whether the value fits; the reason, with the place, when it doesn't.
pub fn fits(pattern: &Value, value: &Value) -> Result<(), String> {
    at(pattern, value, "")
}

fn at(pattern: &Value, value: &Value, place: &str) -> Result<(), String> {
    match (special(pattern), value) {
        (Some(("$any", _)), _) => return Ok(()),
        (Some(("$has", part)), Value::String(text)) => {
            let part = part.as_str().unwrap_or_default();
            return if text.contains(part) { Ok(()) } else { Err(format!("{place}: {text:?} doesn't contain {part:?}")) };
        }
        (Some(("$json", inner)), Value::String(text)) => {
            let parsed = serde_json::from_str(text).map_err(|e| format!("{place}: {e}"))?;
            return at(inner, &parsed, place);
        }
        _ => {}
    }
    match (pattern, value) {
        (Value::Object(wanted), Value::Object(map)) => wanted.iter().try_for_each(|(key, inner)| {
            let place = format!("{place}/{key}");
            match (map.get(key), matches!(special(inner), Some(("$absent", _)))) {
                (Some(_), true) => Err(format!("{place} is there")),
                (None, true) => Ok(()),
                (Some(found), false) => at(inner, found, &place),
                (None, false) => Err(format!("{place} is missing")),
            }
        }),
        (Value::Array(wanted), Value::Array(list)) if wanted.len() == list.len() => {
            wanted.iter().zip(list).enumerate().try_for_each(|(i, (inner, found))| at(inner, found, &format!("{place}/{i}")))
        }
        _ if pattern == value => Ok(()),
        _ => Err(format!("{place}: {value} where {pattern} was wanted")),
    }
}

fn special(pattern: &Value) -> Option<(&str, &Value)> {
    let map = pattern.as_object().filter(|m| m.len() == 1)?;
    map.iter().next().map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| key.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns_say_what_must_be_there() {
        let value = json!({"send": {"conn": 1, "json": {"text": "{\"a\": [1, 2], \"b\": \"long words\"}"}}});
        for fine in [
            json!({}),
            json!({"send": {"conn": 1}}),
            json!({"send": {"json": {"text": {"$json": {"a": [1, {"$any": true}], "b": {"$has": "word"}, "c": {"$absent": true}}}}}}),
        ] {
            assert_eq!(fits(&fine, &value), Ok(()), "{fine}");
        }
        for bad in [
            json!({"start": {}}),
            json!({"send": {"conn": 2}}),
            json!({"send": {"conn": {"$absent": true}}}),
            json!({"send": {"json": {"text": {"$json": {"a": [1]}}}}}),
            json!({"send": {"json": {"text": {"$has": "nothing"}}}}),
            json!({"send": {"json": {"$has": "nothing"}}}),
        ] {
            assert!(fits(&bad, &value).is_err(), "{bad}");
        }
    }
}
