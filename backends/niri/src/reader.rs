//! Reads niri's events and replies without trusting their shape: what is missing, null or new is never a fault.

use deskhand_core::desktop::event::DesktopEvent;
use deskhand_core::desktop::geometry::Transform;
use deskhand_core::desktop::model::{
    KeyboardLayouts, LogicalOutput, Mode, Output, Place, Window, WindowLayout, Workspace,
};
use serde_json::{Map, Value};

/// Events that tell nothing that Deskhand shows.
const IRRELEVANT: [&str; 5] =
    ["WindowFocusTimestampChanged", "ScreenshotCaptured", "CastsChanged", "CastStartedOrChanged", "CastStopped"];

/// What one line of the event stream says; what can't be read comes out as [`DesktopEvent::Unknown`].
pub fn events(line: &[u8]) -> Vec<DesktopEvent> {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return vec![DesktopEvent::Unknown("a line that is not JSON".into())];
    };
    let (name, fields) = match &value {
        Value::Object(object) => match object.iter().next() {
            Some((name, fields)) => (name.as_str(), fields),
            None => return vec![unknown("{}")],
        },
        Value::String(name) => (name.as_str(), &Value::Null),
        _ => return vec![DesktopEvent::Unknown("a line that is no event".into())],
    };
    if IRRELEVANT.contains(&name) {
        return Vec::new();
    }
    event(name, fields).unwrap_or_else(|| vec![unknown(name)])
}

/// `None`: an unknown event, or one without what identifies its subject.
fn event(name: &str, fields: &Value) -> Option<Vec<DesktopEvent>> {
    let event = match name {
        "WorkspacesChanged" => {
            let (workspaces, skipped) = list(fields.get("workspaces")?, workspace)?;
            return Some(with_skipped(DesktopEvent::Workspaces(workspaces), skipped, name));
        }
        "WindowsChanged" => {
            let (windows, skipped) = list(fields.get("windows")?, window)?;
            let focused = windows.iter().find(|(_, focused)| *focused).map(|(window, _)| window.id);
            let windows = windows.into_iter().map(|(window, _)| window).collect();
            return Some(with_skipped(DesktopEvent::Windows { windows, focused }, skipped, name));
        }
        "WindowLayoutsChanged" => {
            let (changes, skipped) =
                list(fields.get("changes")?, |change| Some((change.get(0)?.as_u64()?, layout(change.get(1)?))))?;
            return Some(with_skipped(DesktopEvent::LayoutsChanged(changes), skipped, name));
        }
        "WindowOpenedOrChanged" => {
            let (window, focused) = window(fields.get("window")?)?;
            DesktopEvent::WindowOpenedOrChanged { window, focused }
        }
        "WindowClosed" => DesktopEvent::WindowClosed(id(fields)?),
        "WindowFocusChanged" => DesktopEvent::FocusChanged(optional_id(fields.get("id"))?),
        "WindowUrgencyChanged" => DesktopEvent::WindowUrgency { id: id(fields)?, urgent: flag(fields, "urgent") },
        "WorkspaceUrgencyChanged" => DesktopEvent::WorkspaceUrgency { id: id(fields)?, urgent: flag(fields, "urgent") },
        "WorkspaceActivated" => DesktopEvent::WorkspaceActivated { id: id(fields)?, focused: flag(fields, "focused") },
        "WorkspaceActiveWindowChanged" => DesktopEvent::WorkspaceActiveWindow {
            id: fields.get("workspace_id")?.as_u64()?,
            window: optional_id(fields.get("active_window_id"))?,
        },
        "KeyboardLayoutsChanged" => DesktopEvent::KeyboardLayouts(keyboard_layouts(fields.get("keyboard_layouts")?)?),
        "KeyboardLayoutSwitched" => DesktopEvent::KeyboardLayoutSwitched(index(fields.get("idx")?)?),
        "OverviewOpenedOrClosed" => DesktopEvent::Overview { open: fields.get("is_open")?.as_bool()? },
        "ConfigLoaded" => DesktopEvent::ConfigLoaded { failed: flag(fields, "failed") },
        _ => return None,
    };
    Some(vec![event])
}

/// A whole list, with word of the entries that could not be read.
fn with_skipped(event: DesktopEvent, skipped: usize, name: &str) -> Vec<DesktopEvent> {
    let mut events = vec![event];
    if skipped > 0 {
        events.push(unknown(&format!("{name} with {skipped} unreadable entries")));
    }
    events
}

fn unknown(name: &str) -> DesktopEvent {
    DesktopEvent::Unknown(name.chars().take(80).collect())
}

/// niri's answer: the value under `Ok`, or the text under `Err`. `None` when it is neither.
pub fn reply(line: &[u8]) -> Option<Result<Value, String>> {
    let Value::Object(mut object) = serde_json::from_slice(line).ok()? else {
        return None;
    };
    if let Some(value) = object.remove("Ok") {
        return Some(Ok(value));
    }
    Some(Err(match object.remove("Err")? {
        Value::String(message) => message,
        other => other.to_string(),
    }))
}

/// The outputs of an `Outputs` answer, by name.
pub fn outputs(answer: &Value) -> Option<Vec<Output>> {
    let outputs: &Map<String, Value> = answer.get("Outputs")?.as_object()?;
    let mut outputs: Vec<Output> = outputs.iter().map(|(name, value)| output(name, value)).collect();
    outputs.sort_by(|a, b| a.name.cmp(&b.name));
    Some(outputs)
}

fn output(key: &str, value: &Value) -> Output {
    let current = value.get("current_mode").and_then(index);
    let mode = current.and_then(|i| value.get("modes")?.get(i)).and_then(|mode| {
        Some(Mode {
            width: unsigned(mode.get("width")?)?,
            height: unsigned(mode.get("height")?)?,
            refresh_mhz: mode.get("refresh_rate").and_then(unsigned).unwrap_or(0),
        })
    });
    Output {
        name: text(value, "name").unwrap_or_else(|| key.to_owned()),
        logical: value.get("logical").and_then(logical),
        mode,
    }
}

/// `None` as well when the transform is a new one: a guessed geometry would aim the pointer wrongly.
fn logical(value: &Value) -> Option<LogicalOutput> {
    Some(LogicalOutput {
        x: signed(value.get("x")?)?,
        y: signed(value.get("y")?)?,
        width: signed(value.get("width")?)?,
        height: signed(value.get("height")?)?,
        scale: value.get("scale")?.as_f64().filter(|scale| scale.is_finite() && *scale > 0.0)?,
        transform: transform(value.get("transform")?.as_str()?)?,
    })
}

/// niri's names mean what wl_output's mean.
fn transform(name: &str) -> Option<Transform> {
    Some(match name {
        "Normal" => Transform::Normal,
        "90" | "_90" => Transform::Rotate90,
        "180" | "_180" => Transform::Rotate180,
        "270" | "_270" => Transform::Rotate270,
        "Flipped" => Transform::Flipped,
        "Flipped90" => Transform::Flipped90,
        "Flipped180" => Transform::Flipped180,
        "Flipped270" => Transform::Flipped270,
        _ => return None,
    })
}

fn window(value: &Value) -> Option<(Window, bool)> {
    let window = Window {
        id: id(value)?,
        title: text(value, "title"),
        app_id: text(value, "app_id"),
        pid: value.get("pid").and_then(signed),
        workspace_id: value.get("workspace_id").and_then(Value::as_u64),
        floating: flag(value, "is_floating"),
        urgent: flag(value, "is_urgent"),
        layout: value.get("layout").map(layout).unwrap_or_default(),
    };
    Some((window, flag(value, "is_focused")))
}

fn layout(value: &Value) -> WindowLayout {
    let size = value.get("window_size").and_then(pair);
    let place = || {
        let (x, y) = pair(value.get("tile_pos_in_workspace_view")?)?;
        let (dx, dy) = pair(value.get("window_offset_in_tile")?)?;
        Some(Place::OnOutput(x + dx, y + dy))
    };
    WindowLayout {
        window_size: size.map(|(w, h)| (w as i32, h as i32)).unwrap_or_default(),
        tile_size: value.get("tile_size").and_then(pair).unwrap_or_default(),
        place: place().unwrap_or_default(),
    }
}

fn workspace(value: &Value) -> Option<Workspace> {
    Some(Workspace {
        id: id(value)?,
        index: value.get("idx").and_then(unsigned).unwrap_or(0),
        name: text(value, "name"),
        output: text(value, "output"),
        active: flag(value, "is_active"),
        focused: flag(value, "is_focused"),
        urgent: flag(value, "is_urgent"),
        active_window: value.get("active_window_id").and_then(Value::as_u64),
    })
}

fn keyboard_layouts(value: &Value) -> Option<KeyboardLayouts> {
    let names = value.get("names")?.as_array()?;
    let names = names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect();
    Some(KeyboardLayouts { names, current: value.get("current_idx").and_then(index).unwrap_or(0) })
}

/// The entries that could be read, and how many could not. `None` when it is no list.
fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<(Vec<T>, usize)> {
    let entries = value.as_array()?;
    let read: Vec<T> = entries.iter().filter_map(read).collect();
    let skipped = entries.len() - read.len();
    Some((read, skipped))
}

fn id(value: &Value) -> Option<u64> {
    value.get("id")?.as_u64()
}

/// Null or missing is `Some(None)`; anything else that is no id is `None`.
fn optional_id(value: Option<&Value>) -> Option<Option<u64>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_u64().map(Some),
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn pair(value: &Value) -> Option<(f64, f64)> {
    let (a, b) = (value.get(0)?.as_f64()?, value.get(1)?.as_f64()?);
    (a.is_finite() && b.is_finite()).then_some((a, b))
}

fn index(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}

fn unsigned(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn signed(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
