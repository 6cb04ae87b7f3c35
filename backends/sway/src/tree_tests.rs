use serde_json::json;

use super::*;

fn view(id: u64, title: &str) -> Value {
    json!({
        "id": id, "type": "con", "name": title, "app_id": "foot", "pid": 100 + id, "urgent": false, "focused": false,
        "rect": {"x": 10, "y": 40, "width": 500, "height": 400},
        "window_rect": {"x": 3, "y": 0, "width": 494, "height": 397},
        "nodes": [], "floating_nodes": [], "focus": []
    })
}

fn root() -> Value {
    let mut tab = view(13, "tab");
    tab["focused"] = json!(true);
    let mut floating = view(14, "floating");
    floating["app_id"] = Value::Null;
    floating["window_properties"] = json!({"class": "XTerm", "instance": "xterm"});
    floating["type"] = json!("floating_con");
    json!({
        "id": 1, "type": "root", "focus": [5, 3],
        "nodes": [
            {"id": 2147483647, "type": "output", "name": "__i3", "nodes": [
                {"id": 2147483646, "type": "workspace", "name": "__i3_scratch", "nodes": [],
                 "floating_nodes": [view(20, "aside"), view(14, "shown as well")]}]},
            {"id": 3, "type": "output", "name": "DP-1", "current_workspace": "web", "focus": [6, 4], "nodes": [
                {"id": 4, "name": "3: mail", "num": 3, "output": "DP-1", "nodes": [], "floating_nodes": [], "focus": []},
                {"id": 6, "name": "web", "num": -1, "output": "DP-1", "urgent": true, "nodes": [view(11, "one")],
                 "floating_nodes": [], "focus": [11]}]},
            {"id": 5, "type": "output", "name": "DP-2", "focus": [8], "nodes": [
                {"id": 8, "name": "8", "num": 8, "output": "DP-2", "focus": [9, 14],
                 "nodes": [{"id": 9, "type": "con", "name": null, "focus": [13, 12],
                            "nodes": [view(12, "behind"), tab], "floating_nodes": []}],
                 "floating_nodes": [floating]}]}
        ]
    })
}

#[test]
fn workspaces_with_what_is_seen_of_them() {
    let snapshot = snapshot(&root()).unwrap();
    let told: Vec<_> =
        snapshot.workspaces.iter().map(|w| (w.id, w.index, w.active, w.focused, w.urgent, w.active_window)).collect();
    assert_eq!(
        told,
        [(4, 3, false, false, false, None), (6, 2, true, false, true, Some(11)), (8, 8, true, true, false, Some(13))]
    );
}

#[test]
fn windows_with_their_places() {
    let snapshot = snapshot(&root()).unwrap();
    assert_eq!(snapshot.focused, Some(13));
    let told: Vec<_> = snapshot.windows.iter().map(|w| (w.id, w.workspace_id, w.floating)).collect();
    let expected =
        [(11, Some(6), false), (12, Some(8), false), (13, Some(8), false), (14, Some(8), true), (20, None, true)];
    assert_eq!(told, expected);
    let layout = snapshot.windows[0].layout;
    assert_eq!((layout.window_size, layout.tile_size), ((494, 397), (500.0, 400.0)));
    assert_eq!(layout.place, Place::InLayout(13.0, 40.0));
    assert_eq!(snapshot.windows[3].app_id.as_deref(), Some("XTerm"));
    assert_eq!(snapshot.windows[4].layout.place, Place::Unknown);
}

#[test]
fn odd_trees_are_no_fault() {
    for odd in [json!(null), json!([]), json!({"nodes": 7})] {
        assert_eq!(snapshot(&odd), None);
    }
    let odd =
        json!({"nodes": [{"nodes": [{"id": -4}, {"id": 1, "nodes": [{"id": 2, "pid": null}], "focus": [2, "x"]}]}]});
    let snapshot = snapshot(&odd).unwrap();
    assert_eq!((snapshot.workspaces.len(), snapshot.windows.len()), (1, 1));
    assert_eq!(snapshot.windows[0].layout, WindowLayout::default());
}

#[test]
fn a_focus_that_leads_in_a_circle_ends() {
    let odd = json!({"nodes": [{"nodes": [{"id": 1, "focus": [1], "nodes": [{"id": 1, "focus": [1]}]}]}]});
    assert_eq!(snapshot(&odd).unwrap().workspaces[0].active_window, None);
}

#[test]
fn a_thin_border_counts_only_where_it_is_drawn() {
    let place = |tile_y: i32, tile_height: i32, title_height: i32| {
        let mut node = view(11, "one");
        node["border"] = json!("pixel");
        node["current_border_width"] = json!(5);
        node["deco_rect"] = json!({"x": 0, "y": 0, "width": 100, "height": title_height});
        node["rect"] = json!({"x": 0, "y": tile_y, "width": 110, "height": tile_height});
        node["window_rect"] = json!({"x": 5, "y": 5, "width": 100, "height": 100});
        layout(&node, Some(&json!({"rect": {"x": 0, "y": 30, "width": 1280, "height": 690}}))).place
    };
    assert_eq!(place(30, 110, 0), Place::InLayout(5.0, 35.0), "all borders");
    assert_eq!(place(30, 105, 0), Place::InLayout(5.0, 30.0), "at the hidden top edge");
    assert_eq!(place(500, 105, 0), Place::InLayout(5.0, 505.0), "at the hidden bottom edge");
    assert_eq!(place(55, 105, 25), Place::InLayout(5.0, 55.0), "below a tab's title");
    assert_eq!(place(30, 100, 0), Place::InLayout(5.0, 30.0), "both edges hidden");
}
