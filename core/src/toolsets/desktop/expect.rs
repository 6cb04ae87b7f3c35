//! `expect`: what must have the focus for an action to go ahead.

use serde_json::{Map, Value};

use super::errors::Error;
use super::gates;
use crate::desktop::model::WindowId;
use crate::engine::cx::Cx;
use crate::tools::args::{Args, field_integer};
use crate::tools::declare::{Arg, Audit, Kind, Known};
use crate::tools::facts::Refused;

const FIELDS: &[Arg] = &[Arg::id("window_id", ""), Arg::text("app_id", "", 1, 256, Audit::IfKnown(Known::AppId))];

pub const EXPECT_FOCUS: Arg = Arg::new(
    "expect",
    "What must have the keyboard: {\"window_id\"} or {\"app_id\"}, or \"none\" (a panel or launcher has it).",
    Kind::ObjectOr { fields: FIELDS, words: &["none"] },
    Audit::Fields,
);

pub const EXPECT_WINDOW: Arg = Arg::new(
    "expect",
    "The window that must be at the target.",
    Kind::Object { fields: &[Arg::id("window_id", "").required()] },
    Audit::Fields,
);

pub fn window_id(map: &Map<String, Value>) -> Option<WindowId> {
    field_integer(map, "window_id").and_then(|n| u64::try_from(n).ok())
}

/// Checks what has the keyboard, and that it isn't denied. Gives the focused window.
pub fn focus(cx: &Cx, args: &Args) -> Result<Option<WindowId>, Refused> {
    cx.world(|w| {
        let focused = w.desktop.focused_window.and_then(|id| w.desktop.window(id));
        let mismatch = |wanted: String| {
            let has = match focused {
                Some(window) => format!("window {}", window.id),
                None => "no window".to_string(),
            };
            Err(Error::FocusMismatch.plain(&format!("{wanted} was expected to have the keyboard, and {has} has it; nothing was sent.")))
        };
        match args.value("expect") {
            None => {}
            Some(Value::String(_)) if focused.is_some() => return mismatch("No window".into()),
            Some(Value::String(_)) => {}
            Some(value) => {
                let map = value.as_object().cloned().unwrap_or_default();
                if let Some(id) = window_id(&map) {
                    if w.desktop.window(id).is_none() {
                        return Err(Refused::arguments(format!("no window has the id {id}; desktop_state lists them")));
                    }
                    if focused.map(|f| f.id) != Some(id) {
                        return mismatch(format!("Window {id}"));
                    }
                }
                if let Some(app) = map.get("app_id").and_then(Value::as_str)
                    && focused.and_then(|f| f.app_id.as_deref()) != Some(app)
                {
                    return mismatch("A window of the expected app".into());
                }
            }
        }
        gates::window_allowed(w, focused)?;
        Ok(focused.map(|f| f.id))
    })
}
