//! sway's outputs and keyboards.

use deskhand_core::desktop::geometry::Transform;
use deskhand_core::desktop::model::{KeyboardLayouts, LogicalOutput, Mode, Output};
use serde_json::{Value, json};

use crate::tree::{rect, text};

/// The answer to `GET_OUTPUTS`, by name.
pub fn outputs(answer: &Value) -> Option<Vec<Output>> {
    let mut outputs: Vec<Output> = answer.as_array()?.iter().filter_map(output).collect();
    outputs.sort_by(|a, b| a.name.cmp(&b.name));
    Some(outputs)
}

fn output(value: &Value) -> Option<Output> {
    let active = value.get("active").and_then(Value::as_bool).unwrap_or(false);
    let mode = value.get("current_mode").and_then(|mode| {
        let number = |key: &str| u32::try_from(mode.get(key)?.as_u64()?).ok();
        let mode =
            Mode { width: number("width")?, height: number("height")?, refresh_mhz: number("refresh").unwrap_or(0) };
        (mode.width > 0 && mode.height > 0).then_some(mode)
    });
    Some(Output {
        name: text(value, "name")?,
        logical: if active { logical(value) } else { None },
        mode: if active { mode } else { None },
    })
}

/// `None` as well when the transform is a new one: a guessed geometry would aim the pointer wrongly.
fn logical(value: &Value) -> Option<LogicalOutput> {
    let rect = rect(value.get("rect")?)?;
    Some(LogicalOutput {
        x: rect.x,
        y: rect.y,
        width: rect.width,
        height: rect.height,
        scale: value.get("scale")?.as_f64().filter(|scale| scale.is_finite() && *scale > 0.0)?,
        transform: transform(value.get("transform")?.as_str()?)?,
    })
}

/// sway's IPC names clockwise turns, wl_output's names are counter-clockwise.
fn transform(name: &str) -> Option<Transform> {
    Some(match name {
        "normal" => Transform::Normal,
        "90" => Transform::Rotate270,
        "180" => Transform::Rotate180,
        "270" => Transform::Rotate90,
        "flipped" => Transform::Flipped,
        "flipped-90" => Transform::Flipped270,
        "flipped-180" => Transform::Flipped180,
        "flipped-270" => Transform::Flipped90,
        _ => return None,
    })
}

/// The name of the output that has the focus.
pub fn focused(answer: &Value) -> Option<String> {
    let outputs = answer.as_array()?;
    let focused = outputs.iter().find(|output| output.get("focused").and_then(Value::as_bool) == Some(true))?;
    text(focused, "name")
}

/// The layer surfaces in the form in which niri lists them; null when this sway doesn't tell them.
pub fn layers(answer: &Value) -> Value {
    let outputs = answer.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut told = false;
    let mut layers = Vec::new();
    for output in outputs {
        let Some(surfaces) = output.get("layer_shell_surfaces").and_then(Value::as_array) else {
            continue;
        };
        told = true;
        layers.extend(surfaces.iter().map(|surface| {
            json!({
                "namespace": surface.get("namespace"),
                "output": output.get("name"),
                "layer": surface.get("layer"),
                "extent": surface.get("extent"),
            })
        }));
    }
    if told { Value::Array(layers) } else { Value::Null }
}

/// The layouts of the keyboard that the person most likely uses, from the answer to `GET_INPUTS`.
///
/// Every keyboard-like device (a power button, a headset) has layouts of its own. The one with the most layouts is
/// taken, of several the one that was switched away from its first. Virtual keyboards show what a program types with.
pub fn keyboard_layouts(answer: &Value) -> KeyboardLayouts {
    let devices = answer.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut best = KeyboardLayouts::default();
    for device in devices {
        let is_keyboard = device.get("type").and_then(Value::as_str) == Some("keyboard");
        let is_virtual = text(device, "identifier").is_some_and(|id| id.contains("virtual"));
        if !is_keyboard || is_virtual {
            continue;
        }
        let names = device.get("xkb_layout_names").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let found = KeyboardLayouts {
            names: names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect(),
            current: device
                .get("xkb_active_layout_index")
                .and_then(Value::as_u64)
                .and_then(|index| usize::try_from(index).ok())
                .filter(|index| *index < names.len())
                .unwrap_or(0),
        };
        if (found.names.len(), found.current > 0) > (best.names.len(), best.current > 0) {
            best = found;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turned_and_disabled_outputs() {
        let answer = json!([
            {"name": "HEADLESS-2", "active": true, "scale": 1.5, "transform": "90",
             "rect": {"x": -480, "y": 0, "width": 480, "height": 853},
             "current_mode": {"width": 1280, "height": 720, "refresh": 60000}},
            {"name": "DP-1", "active": false, "scale": null, "transform": null, "rect": {}, "current_mode": null},
            {"nameless": true}
        ]);
        let outputs = outputs(&answer).unwrap();
        assert_eq!(outputs.len(), 2);
        assert_eq!((outputs[0].name.as_str(), outputs[0].logical, outputs[0].mode), ("DP-1", None, None));
        let logical = outputs[1].logical.unwrap();
        assert_eq!((logical.x, logical.scale, logical.transform), (-480, 1.5, Transform::Rotate270));
        assert_eq!(outputs[1].mode.unwrap(), Mode { width: 1280, height: 720, refresh_mhz: 60000 });
        assert_eq!(super::outputs(&Value::Null), None);
    }

    #[test]
    fn both_pairs_of_quarter_turns_are_exchanged() {
        for (sway, ours) in [("90", "270"), ("270", "90"), ("flipped-90", "flipped-270"), ("180", "180")] {
            assert_eq!(transform(sway).unwrap().name(), ours);
        }
        assert_eq!(transform("sideways"), None);
    }

    #[test]
    fn the_keyboard_with_the_layouts_counts() {
        let answer = json!([
            {"type": "pointer", "identifier": "mouse"},
            {"type": "keyboard", "identifier": "0:1:Power_Button", "xkb_layout_names": ["English (US)"], "xkb_active_layout_index": 0},
            {"type": "keyboard", "identifier": "1:1:Keyboard", "xkb_layout_names": ["English (US)", "German"], "xkb_active_layout_index": 1},
            {"type": "keyboard", "identifier": "0:0:virtual_keyboard", "xkb_layout_names": ["a", "b", "c"], "xkb_active_layout_index": 2},
            {"type": "keyboard", "identifier": "2:2:broken", "xkb_layout_names": null, "xkb_active_layout_index": -1}
        ]);
        let layouts = keyboard_layouts(&answer);
        assert_eq!((layouts.names, layouts.current), (vec!["English (US)".into(), "German".into()], 1));
        assert_eq!(keyboard_layouts(&Value::Null), KeyboardLayouts::default());
    }

    #[test]
    fn layers_are_null_when_they_are_not_told() {
        assert_eq!(layers(&json!([{"name": "DP-1"}])), Value::Null);
        let told = layers(&json!([{"name": "DP-1", "layer_shell_surfaces": [{"namespace": "bar", "layer": "top"}]}]));
        assert_eq!(told[0]["output"], "DP-1");
    }
}
