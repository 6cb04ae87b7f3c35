//! niri's recorded events, read and applied, lead to what niri itself answered at those moments.

use std::collections::VecDeque;

use deskhand_conformance::traces;
use deskhand_core::desktop::event::DesktopEvent;
use deskhand_core::desktop::state::Desktop;
use deskhand_niri::reader;
use serde_json::{Value, json};

struct Follower {
    desktop: Desktop,
    /// The stream's first list of windows has come.
    primed: bool,
    /// niri's answers that the model doesn't show yet: events may come after them.
    waiting: VecDeque<(String, Value)>,
    compared: usize,
}

impl Follower {
    fn take_event(&mut self, line: &str) {
        for event in reader::events(line.as_bytes()) {
            assert!(!matches!(event, DesktopEvent::Unknown(_)), "{event:?}");
            self.primed |= matches!(event, DesktopEvent::ConfigLoaded { .. });
            self.desktop.apply(&event);
        }
        self.look_again();
    }

    fn take_reply(&mut self, line: &str) {
        let Some(Ok(Value::Object(answer))) = reader::reply(line.as_bytes()) else {
            return;
        };
        if let Some((name, value)) = answer.into_iter().next()
            && self.shown(&name).is_some()
            && self.primed
        {
            self.waiting.push_back((name, value));
            self.look_again();
        }
    }

    fn look_again(&mut self) {
        let before = self.waiting.len();
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting = waiting
            .into_iter()
            .filter(|(name, value)| self.shown(name) != Some(told(name, value)))
            .collect();
        self.compared += before - self.waiting.len();
    }

    /// The model, in the form of [`told`]; `None` for what it doesn't hold.
    fn shown(&self, name: &str) -> Option<Value> {
        let d = &self.desktop;
        let window = |id: u64| {
            let w = d
                .window(id)
                .unwrap_or_else(|| panic!("the focused window {id} isn't known"));
            json!({
                "id": w.id, "title": w.title, "app_id": w.app_id, "pid": w.pid, "workspace_id": w.workspace_id, "floating": w.floating,
                "urgent": w.urgent, "focused": d.focused_window == Some(id), "size": [w.layout.window_size.0, w.layout.window_size.1],
                "tile": [w.layout.tile_size.0, w.layout.tile_size.1],
            })
        };
        Some(match name {
            "Windows" => d.windows.keys().map(|id| window(*id)).collect(),
            "FocusedWindow" => d.focused_window.map_or(Value::Null, window),
            "Workspaces" => d
                .workspaces
                .values()
                .map(|w| {
                    json!({
                        "id": w.id, "index": w.index, "name": w.name, "output": w.output, "active": w.active, "focused": w.focused, "urgent": w.urgent,
                        "active_window": w.active_window,
                    })
                })
                .collect(),
            "KeyboardLayouts" => json!({"names": d.layouts.names, "current": d.layouts.current}),
            "OverviewState" => json!(d.overview_open),
            _ => return None,
        })
    }
}

/// niri's answer, read here and not by the reader that is tested.
fn told(name: &str, value: &Value) -> Value {
    let sorted = |list: &Value, one: fn(&Value) -> Value| {
        let mut all: Vec<Value> = list.as_array().into_iter().flatten().map(one).collect();
        all.sort_by_key(|v| v["id"].as_u64());
        Value::Array(all)
    };
    match name {
        "Windows" => sorted(value, window),
        "FocusedWindow" if value.is_null() => Value::Null,
        "FocusedWindow" => window(value),
        "Workspaces" => sorted(value, |w| {
            json!({
                "id": w["id"], "index": w["idx"], "name": w["name"], "output": w["output"], "active": w["is_active"], "focused": w["is_focused"],
                "urgent": w["is_urgent"], "active_window": w["active_window_id"],
            })
        }),
        "KeyboardLayouts" => json!({"names": value["names"], "current": value["current_idx"]}),
        _ => value["is_open"].clone(),
    }
}

fn window(w: &Value) -> Value {
    let layout = &w["layout"];
    json!({
        "id": w["id"], "title": w["title"], "app_id": w["app_id"], "pid": w["pid"], "workspace_id": w["workspace_id"], "floating": w["is_floating"],
        "urgent": w["is_urgent"], "focused": w["is_focused"], "size": layout["window_size"], "tile": layout["tile_size"],
    })
}

#[test]
fn the_model_says_what_niri_says() {
    let files = traces("niri");
    assert!(
        files.len() >= 15,
        "only {} recordings were found",
        files.len()
    );
    let mut compared = 0;
    for path in &files {
        let mut follower = Follower {
            desktop: Desktop::default(),
            primed: false,
            waiting: VecDeque::new(),
            compared: 0,
        };
        for record in std::fs::read_to_string(path).unwrap().lines() {
            let record: Value = serde_json::from_str(record).unwrap();
            let line = record["line"].as_str().unwrap();
            match (record["dir"].as_str(), record["conn"].as_str()) {
                (Some("send"), _) => {
                    // What niri said before this was asked must be shown by now.
                    if let Some((name, value)) = follower.waiting.pop_front() {
                        let (niri, shown) = (told(&name, &value), follower.shown(&name).unwrap());
                        panic!(
                            "{}: {name} before {line} at {} ms:\n  niri {niri}\n  shown {shown}",
                            path.display(),
                            record["t_ms"]
                        );
                    }
                }
                (Some("recv"), Some("events"))
                    if line.starts_with('{') && !line.starts_with("{\"Ok\"") =>
                {
                    follower.take_event(line)
                }
                (Some("recv"), Some(conn)) if conn.starts_with("request") => {
                    follower.take_reply(line)
                }
                _ => {}
            }
        }
        assert!(
            follower.waiting.is_empty(),
            "{}: {:?}",
            path.display(),
            follower.waiting
        );
        compared += follower.compared;
    }
    assert!(compared >= 30, "only {compared} answers were compared");
}
