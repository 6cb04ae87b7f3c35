//! What an action changed, from the snapshots before and after it. Both orders of reply and event give the same.

use serde_json::{Map, Value, json};

use super::diff::diff;
use super::model::WindowId;
use super::report;
use super::state::Desktop;

/// `changes` of a result; `None` when the compositor saw nothing.
pub fn changes(before: &Desktop, after: &Desktop) -> Option<Map<String, Value>> {
    let delta = diff(before, after);
    let mut map = Map::new();
    let opened: Vec<Value> = delta
        .windows
        .set
        .values()
        .filter(|w| !before.windows.contains_key(&w.id))
        .map(|w| report::window(after, w))
        .collect();
    if !opened.is_empty() {
        map.insert("opened".into(), Value::Array(opened));
    }
    if !delta.windows.gone.is_empty() {
        map.insert("closed".into(), json!(delta.windows.gone));
    }
    if let Some(to) = delta.focused_window {
        map.insert("focus".into(), json!({"from": before.focused_window, "to": to}));
    }
    let (from, to) = (before.focused_workspace().map(|w| w.id), after.focused_workspace().map(|w| w.id));
    if from != to {
        map.insert("workspace".into(), json!({"from": from, "to": to}));
    }
    let windows: Vec<Value> = delta.windows.set.values().filter_map(|w| window_change(before, after, w.id)).collect();
    if !windows.is_empty() {
        map.insert("windows".into(), Value::Array(windows));
    }
    (!map.is_empty()).then_some(map)
}

fn window_change(before: &Desktop, after: &Desktop, id: WindowId) -> Option<Value> {
    let (a, b) = (before.window(id)?, after.window(id)?);
    let mut map = Map::new();
    if a.title != b.title {
        map.insert("title".into(), json!(b.title));
    }
    if a.layout.window_size != b.layout.window_size {
        map.insert("size".into(), json!([b.layout.window_size.0, b.layout.window_size.1]));
    }
    if a.workspace_id != b.workspace_id {
        map.insert("workspace_id".into(), json!(b.workspace_id));
    }
    if a.floating != b.floating {
        map.insert("floating".into(), json!(b.floating));
    }
    if a.urgent != b.urgent {
        map.insert("urgent".into(), json!(b.urgent));
    }
    if map.is_empty() {
        return None;
    }
    map.insert("id".into(), json!(id));
    Some(Value::Object(map))
}

/// For the audit log: counts only.
pub fn counts(changes: &Map<String, Value>) -> Value {
    let len = |key: &str| changes.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let mut map = Map::new();
    for (key, of) in [("opened", "opened"), ("closed", "closed"), ("changed", "windows")] {
        map.insert(key.into(), json!(len(of)));
    }
    map.insert("focus_moved".into(), json!(changes.contains_key("focus")));
    map.insert("workspace_moved".into(), json!(changes.contains_key("workspace")));
    if let Some(elements) = changes.get("elements") {
        let count = |key: &str| elements.get(key).and_then(Value::as_array).map_or(0, Vec::len);
        map.insert("elements".into(), json!({"added": count("added"), "removed": count("removed"), "changed": count("changed")}));
    }
    Value::Object(map)
}
