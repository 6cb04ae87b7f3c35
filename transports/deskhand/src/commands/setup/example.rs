//! The example policy file: every key, commented out, with its default.

use std::fmt::Write as _;

use deskhand_core::policy::Policy;
use serde_json::Value;

/// A key, and what it does.
const KEYS: &[(&str, &str)] = &[
    ("profile", "Which tools are listed: \"full\", \"act\" (without niri_action) or \"observe\" (only those that look)."),
    ("unrestricted", "true lifts the limits on niri_action, key and presets. DESKHAND_UNRESTRICTED=1 does the same."),
    ("deny_input_app_ids", "Apps that no agent may act on, by app id, e.g. [\"org.keepassxc.KeePassXC\"]."),
    ("deny_capture_app_ids", "Apps whose windows no screenshot may show, by app id."),
    ("capture_dir", "Where `screenshot` may save PNG files: an absolute path. Without it nothing is saved."),
    ("lease_idle_minutes", "After so many idle minutes an agent's lease ends."),
    ("accessibility", "\"auto\" uses the accessibility bus where it runs; \"enable\" starts it and has every app offer its elements."),
    ("assume_unlocked", "Where the lock state can't be known: take it for unlocked. Only on headless and nested compositors."),
];

/// Read and checked, and used by nothing yet.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("pause_idle_seconds", "How long agents wait after the person used keyboard or pointer."),
    ("consent", "\"ask\" has the person agree to each lease; \"none\" doesn't."),
    ("badge", "Whether a badge shows that an agent holds the desktop."),
];

const PRESETS: &str = "\
# What `launch` may start: no shells, interpreters or wrappers. app_id tells the windows of a preset.
#[[preset]]
#name = \"terminal\"
#argv = [\"foot\"]
#app_id = \"foot\"

#[[preset]]
#name = \"browser\"
#argv = [\"firefox\"]
#app_id = \"firefox\"
";

/// TOML. Taking the first character off the lines that start with `#` and no space gives every key its default.
pub fn text() -> String {
    let defaults = serde_json::to_value(Policy::default()).unwrap_or_default();
    let mut out = String::from("# Deskhand's policy: what agents may do on this desktop. A server reads it when it starts.\n# Each key is shown with its default; take the # off to change it.\n");
    for (key, about) in KEYS {
        let _ = write!(out, "\n# {about}\n#{key} = {}\n", value(key, &defaults));
    }
    out.push_str("\n# Without effect in this version:\n");
    for (key, about) in WITHOUT_EFFECT {
        let _ = write!(out, "# {about}\n#{key} = {}\n", value(key, &defaults));
    }
    out.push_str("#[captures]\n\n");
    out.push_str(PRESETS);
    out
}

/// JSON's texts, numbers, booleans and lists of them are TOML's; what has no default gets an example.
fn value(key: &str, defaults: &Value) -> String {
    match defaults.get(key) {
        Some(Value::Null) | None => "\"/home/you/Pictures/deskhand\"".into(),
        Some(default) => default.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use deskhand_core::policy::{PolicyState, read};

    use super::*;

    fn uncommented() -> String {
        text().lines().map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn as_it_stands_it_is_the_defaults() {
        assert_eq!(read(Some(&text()), false), (Policy::default(), PolicyState::Loaded));
    }

    #[test]
    fn every_key_is_there_with_its_default() {
        let (policy, state) = read(Some(&uncommented()), false);
        assert_eq!(state, PolicyState::Loaded, "{}", uncommented());
        assert_eq!(policy.presets.len(), 2);
        assert!(policy.capture_dir.is_some() && policy.captures.is_some());
        let bare = Policy { presets: Vec::new(), capture_dir: None, captures: None, ..policy };
        assert_eq!(bare, Policy::default());
        for key in serde_json::to_value(Policy::default()).unwrap().as_object().unwrap().keys() {
            let there = [format!("\n#{key} = "), format!("\n#[[{key}]]\n"), format!("\n#[{key}]\n")];
            assert!(there.iter().any(|line| text().contains(line.as_str())), "{key}");
        }
    }
}
