//! The desktop as JSON: `desktop_state`'s shapes, used wherever a window or an output is told.

use serde_json::{Map, Value, json};

use super::diff::Delta;
use super::model::{KeyboardLayouts, Output, Window, Workspace};
use super::state::Desktop;

pub fn desktop(d: &Desktop) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("seq".into(), json!(d.seq));
    map.insert("focused_window".into(), json!(d.focused_window));
    map.insert("overview_open".into(), json!(d.overview_open));
    map.insert("windows".into(), d.windows.values().map(|w| window(d, w)).collect());
    map.insert("workspaces".into(), workspaces(d.workspaces.values()));
    map.insert("outputs".into(), d.outputs.iter().map(output).collect());
    map.insert("keyboard_layouts".into(), layouts(&d.layouts));
    map
}

/// Only what changed; `windows` and `workspaces` whole where they differ, those gone by id.
pub fn delta(d: &Desktop, delta: &Delta) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("seq".into(), json!(d.seq));
    if let Some(focused) = delta.focused_window {
        map.insert("focused_window".into(), json!(focused));
    }
    if let Some(open) = delta.overview_open {
        map.insert("overview_open".into(), json!(open));
    }
    if !delta.windows.set.is_empty() {
        map.insert("windows".into(), delta.windows.set.values().map(|w| window(d, w)).collect());
    }
    if !delta.windows.gone.is_empty() {
        map.insert("closed".into(), json!(delta.windows.gone));
    }
    if !delta.workspaces.set.is_empty() {
        map.insert("workspaces".into(), workspaces(delta.workspaces.set.values()));
    }
    if !delta.workspaces.gone.is_empty() {
        map.insert("workspaces_gone".into(), json!(delta.workspaces.gone));
    }
    if let Some(outputs) = &delta.outputs {
        map.insert("outputs".into(), outputs.iter().map(output).collect());
    }
    if let Some(l) = &delta.layouts {
        map.insert("keyboard_layouts".into(), layouts(l));
    }
    map
}

pub fn window(d: &Desktop, w: &Window) -> Value {
    json!({
        "id": w.id,
        "title": w.title,
        "app_id": w.app_id,
        "pid": w.pid,
        "workspace_id": w.workspace_id,
        "focused": d.focused_window == Some(w.id),
        "floating": w.floating,
        "urgent": w.urgent,
        "size": [w.layout.window_size.0, w.layout.window_size.1],
        "position": d.position(w).map(|(x, y)| [x, y]),
    })
}

fn workspaces<'a>(all: impl Iterator<Item = &'a Workspace>) -> Value {
    let mut all: Vec<&Workspace> = all.collect();
    all.sort_by(|a, b| (&a.output, a.index, a.id).cmp(&(&b.output, b.index, b.id)));
    all.into_iter()
        .map(|w| {
            json!({"id": w.id, "index": w.index, "name": w.name, "output": w.output, "active": w.active, "focused": w.focused, "urgent": w.urgent})
        })
        .collect()
}

pub fn output(o: &Output) -> Value {
    let l = o.logical;
    json!({
        "name": o.name,
        "position": l.map(|l| [l.x, l.y]),
        "size": l.map(|l| [l.width, l.height]),
        "scale": l.map(|l| l.scale),
        "transform": l.map(|l| l.transform.name()),
        "mode": o.mode.map(|m| json!({"width": m.width, "height": m.height, "refresh_mhz": m.refresh_mhz})),
    })
}

fn layouts(l: &KeyboardLayouts) -> Value {
    json!({"names": l.names, "current": l.names.get(l.current)})
}
