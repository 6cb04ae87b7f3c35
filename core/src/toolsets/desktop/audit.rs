//! What the audit log may hold of a desktop call.

use serde_json::{Map, Value, json};

use crate::desktop::changes::counts;
use crate::desktop::elements::{ACTIONS, ROLES};
use crate::engine::world::World;
use crate::tools::declare::Known;
use crate::tools::redact::Knows;

pub struct WorldKnows<'a>(pub &'a World);

impl Knows for WorldKnows<'_> {
    fn knows(&self, what: Known, text: &str) -> bool {
        let w = self.0;
        match what {
            Known::Output => w.desktop.output(text).is_some(),
            Known::Preset => w.policy.presets.iter().any(|p| p.name == text),
            Known::Reference => w.shots.is_known(text),
            Known::Element => w.elements.is_known(text),
            Known::Role => ROLES.contains(&text),
            Known::Action => ACTIONS.iter().any(|known| known.eq_ignore_ascii_case(text)),
            Known::AppId => w.desktop.windows.values().any(|window| window.app_id.as_deref() == Some(text)),
            // A lone character is what is typed; only named keys and combinations with them are names.
            Known::KeyNames => super::chords::is_named(text) || super::niri_actions::is_known(text),
        }
    }
}

pub fn outcome(data: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    for key in ["accepted", "observed", "typed", "submitted", "settled", "user_input", "read", "clipboard", "reason", "nodes", "listed", "truncated"] {
        if let Some(value) = data.get(key).filter(|v| !v.is_object() && !v.is_array()) {
            kept.insert(key.to_string(), value.clone());
        }
    }
    if let Some(Value::String(text)) = data.get("text") {
        kept.insert("text".into(), json!({"string": text.chars().count()}));
    }
    if let Some(Value::Object(changes)) = data.get("changes") {
        kept.insert("changes".into(), counts(changes));
    }
    kept
}
