use std::path::Path;

use super::*;

fn window_event(layout: &str) -> WindowLayout {
    let line = format!(r#"{{"WindowLayoutsChanged":{{"changes":[[7,{layout}]]}}}}"#);
    match events(line.as_bytes()).pop() {
        Some(DesktopEvent::LayoutsChanged(changes)) => changes[0].1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_recorded_line_is_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/traces/niri");
    let (mut files, mut seen, mut replies) = (0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "jsonl") {
            continue;
        }
        files += 1;
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let said = record["line"].as_str().unwrap();
            if record["dir"] != "recv" || said == "<EOF>" || said == "<timeout>" {
                continue;
            }
            if let Some(reply) = reply(said.as_bytes()) {
                replies += 1;
                if let Ok(answer) = reply
                    && answer.get("Outputs").is_some()
                {
                    let outputs = outputs(&answer).unwrap();
                    assert_eq!(outputs[0].logical.unwrap().transform, Transform::Flipped180);
                    assert_eq!(outputs[0].mode, Some(Mode { width: 1920, height: 1080, refresh_mhz: 60000 }));
                }
                continue;
            }
            assert_eq!(record["conn"], "events", "{}: {said}", path.display());
            seen += 1;
            for event in events(said.as_bytes()) {
                assert!(!matches!(event, DesktopEvent::Unknown(_)), "{}: {said}", path.display());
            }
        }
    }
    assert!(files >= 15 && seen > 200 && replies > 100, "{files} files, {seen} events, {replies} replies");
}

#[test]
fn a_floating_windows_content_is_placed_and_a_tiled_one_is_not() {
    let floating = r#"{"tile_size":[504.0,304.5],"window_size":[500,300],"tile_pos_in_workspace_view":[10.5,20.0],"window_offset_in_tile":[2.0,2.25],"news":1}"#;
    let expected =
        WindowLayout { window_size: (500, 300), tile_size: (504.0, 304.5), place: Place::OnOutput(12.5, 22.25) };
    assert_eq!(window_event(floating), expected);
    let tiled = floating.replace("[10.5,20.0]", "null");
    assert_eq!(window_event(&tiled).place, Place::Unknown);
    assert_eq!(window_event("{}"), WindowLayout::default());
    assert_eq!(window_event("null"), WindowLayout::default());
    assert_eq!(
        window_event(r#"{"tile_pos_in_workspace_view":[1,2],"window_offset_in_tile":null}"#).place,
        Place::Unknown
    );
}

#[test]
fn a_window_without_anything_but_an_id() {
    let line = br#"{"WindowOpenedOrChanged":{"window":{"id":18446744073709551615,"title":null,"workspace_id":null}}}"#;
    match events(line).as_slice() {
        [DesktopEvent::WindowOpenedOrChanged { window, focused: false }] => {
            assert_eq!((window.id, &window.title, window.workspace_id), (u64::MAX, &None, None));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_new_or_broken_is_unknown_by_name() {
    let name = |line: &str| match events(line.as_bytes()).as_slice() {
        [DesktopEvent::Unknown(name)] => name.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name(r#"{"PigsFlew":{"altitude":3}}"#), "PigsFlew");
    assert_eq!(name(r#""PigsFlew""#), "PigsFlew");
    assert_eq!(name(r#"{"WindowClosed":{}}"#), "WindowClosed");
    assert_eq!(name(r#"{"WindowClosed":{"id":-1}}"#), "WindowClosed");
    assert_eq!(name(r#"{"WindowFocusChanged":{"id":"seven"}}"#), "WindowFocusChanged");
    assert_eq!(name(r#"{"WindowsChanged":{"windows":{}}}"#), "WindowsChanged");
    assert_eq!(name("{\"WindowsCh"), "a line that is not JSON");
    for odd in ["", "null", "[]", "{}", "1e999", "\u{0}", "{\"\":null}"] {
        name(odd);
    }
    assert_eq!(name(&format!("{{\"{}\":1}}", "é".repeat(5000))).chars().count(), 80);
}

#[test]
fn one_unreadable_entry_does_not_hide_the_others() {
    let line = br#"{"WindowsChanged":{"windows":[{"id":1,"is_focused":true},{"title":"no id"},7]}}"#;
    match events(line).as_slice() {
        [DesktopEvent::Windows { windows, focused: Some(1) }, DesktopEvent::Unknown(why)] => {
            assert_eq!(windows.len(), 1);
            assert_eq!(why, "WindowsChanged with 2 unreadable entries");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_that_are_off_or_turned() {
    let answer: Value = serde_json::from_str(
        r#"{"Outputs":{
            "DP-2":{"name":"DP-2","modes":[],"current_mode":null,"logical":null},
            "DP-1":{"name":"DP-1","modes":[{"width":2560,"height":1440,"refresh_rate":143912}],"current_mode":0,
                    "logical":{"x":-1440,"y":0,"width":1152,"height":2048,"scale":1.25,"transform":"90"}},
            "DP-3":{"modes":[{"width":1,"height":1}],"current_mode":5,
                    "logical":{"x":0,"y":0,"width":1,"height":1,"scale":1.0,"transform":"Sideways"}}}}"#,
    )
    .unwrap();
    let outputs = outputs(&answer).unwrap();
    let names: Vec<&str> = outputs.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["DP-1", "DP-2", "DP-3"]);
    assert_eq!(outputs[0].logical.unwrap().transform, Transform::Rotate90);
    assert_eq!(outputs[0].mode.unwrap().refresh_mhz, 143912);
    assert_eq!((outputs[1].logical, outputs[1].mode), (None, None));
    assert_eq!((outputs[2].logical, outputs[2].mode), (None, None));
}

#[test]
fn replies() {
    assert_eq!(reply(br#"{"Ok":"Handled"}"#), Some(Ok(Value::from("Handled"))));
    assert_eq!(reply(br#"{"Err":"no"}"#), Some(Err("no".into())));
    assert_eq!(reply(br#"{"Err":{"code":1}}"#), Some(Err("{\"code\":1}".into())));
    for odd in ["", "7", "{}", "{\"WindowClosed\":{\"id\":1}}", "{\"Ok\":"] {
        assert_eq!(reply(odd.as_bytes()), None);
    }
}
