//! sway's tree as workspaces and windows.

use std::collections::BTreeSet;

use deskhand_core::desktop::geometry::Rect;
use deskhand_core::desktop::model::{Place, Window, WindowId, WindowLayout, Workspace, WorkspaceId};
use serde_json::Value;

/// The workspace that holds what was put aside.
const SCRATCHPAD: &str = "__i3_scratch";

/// What the tree shows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub workspaces: Vec<Workspace>,
    pub windows: Vec<Window>,
    pub focused: Option<WindowId>,
}

/// Reads the answer to `GET_TREE`; `None` when it is no tree.
pub fn snapshot(root: &Value) -> Option<Snapshot> {
    let focused_output = children_in_focus_order(root).first().copied();
    let mut reading = Reading::default();
    for output in root.get("nodes")?.as_array()? {
        let visible = text(output, "current_workspace");
        let first_in_focus = children_in_focus_order(output).first().copied();
        for (position, node) in nodes(output, "nodes").iter().enumerate() {
            if text(node, "name").as_deref() == Some(SCRATCHPAD) {
                reading.hidden.extend(nodes(node, "nodes").iter().chain(nodes(node, "floating_nodes")));
                continue;
            }
            let Some(id) = id(node) else { continue };
            let active = match &visible {
                Some(visible) => text(node, "name").as_ref() == Some(visible),
                None => first_in_focus == Some(id),
            };
            reading.workspace(
                node,
                id,
                position,
                text(output, "name"),
                active,
                focused_output.is_some() && focused_output == self::id(output),
            );
        }
    }
    // A shown scratchpad window stands on its workspace as well: what was seen there counts.
    for node in std::mem::take(&mut reading.hidden) {
        reading.window_tree(node, None, true);
    }
    Some(reading.snapshot)
}

/// What the tree shows of the outputs: when this changes, they have to be asked for.
pub fn outputs_part(root: &Value) -> Vec<Value> {
    const SHOWN: [&str; 6] = ["name", "active", "rect", "scale", "transform", "current_mode"];
    let part = |output: &Value| SHOWN.iter().map(|key| output.get(key).cloned().unwrap_or_default()).collect();
    nodes(root, "nodes").iter().map(part).collect()
}

#[derive(Default)]
struct Reading<'a> {
    snapshot: Snapshot,
    seen: BTreeSet<WindowId>,
    hidden: Vec<&'a Value>,
}

impl<'a> Reading<'a> {
    fn workspace(
        &mut self,
        node: &'a Value,
        id: WorkspaceId,
        position: usize,
        output: Option<String>,
        active: bool,
        on_focused_output: bool,
    ) {
        let number = node.get("num").and_then(Value::as_i64).and_then(|num| u32::try_from(num).ok());
        self.snapshot.workspaces.push(Workspace {
            id,
            index: number.unwrap_or_else(|| u32::try_from(position + 1).unwrap_or(u32::MAX)),
            name: text(node, "name"),
            output: text(node, "output").or(output),
            active,
            focused: active && on_focused_output,
            urgent: flag(node, "urgent"),
            active_window: active_window(node),
        });
        for tiled in nodes(node, "nodes") {
            self.window_tree(tiled, Some((id, node)), false);
        }
        for floating in nodes(node, "floating_nodes") {
            self.window_tree(floating, Some((id, node)), true);
        }
    }

    fn window_tree(&mut self, node: &Value, workspace: Option<(WorkspaceId, &Value)>, floating: bool) {
        if let Some(id) = id(node).filter(|_| is_window(node))
            && self.seen.insert(id)
        {
            if flag(node, "focused") {
                self.snapshot.focused = Some(id);
            }
            self.snapshot.windows.push(window(node, id, workspace, floating));
        }
        for child in nodes(node, "nodes").iter().chain(nodes(node, "floating_nodes")) {
            self.window_tree(child, workspace, floating);
        }
    }
}

fn window(node: &Value, id: WindowId, workspace: Option<(WorkspaceId, &Value)>, floating: bool) -> Window {
    let class = || text(node.get("window_properties")?, "class");
    Window {
        id,
        title: text(node, "name"),
        app_id: text(node, "app_id").or_else(class),
        pid: node.get("pid").and_then(Value::as_i64).and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0),
        workspace_id: workspace.map(|(id, _)| id),
        floating,
        urgent: flag(node, "urgent"),
        layout: layout(node, workspace.map(|(_, node)| node)),
    }
}

/// `rect` is the container without its title bar; `window_rect` is the content inside it, without borders.
fn layout(node: &Value, workspace: Option<&Value>) -> WindowLayout {
    let tile = node.get("rect").and_then(rect);
    let content = node.get("window_rect").and_then(rect);
    let place = match (tile, content, workspace) {
        (Some(tile), Some(content), Some(workspace)) => Place::InLayout(
            f64::from(tile.x) + f64::from(content.x),
            f64::from(tile.y) + f64::from(content_y(node, tile, content, workspace)),
        ),
        _ => Place::Unknown,
    };
    WindowLayout {
        window_size: content.map(|content| (content.width, content.height)).unwrap_or_default(),
        tile_size: tile.map(|tile| (f64::from(tile.width), f64::from(tile.height))).unwrap_or_default(),
        place,
    }
}

/// Where the content begins below the top of `tile`.
///
/// With a thin border sway tells the border's width even where it draws no top border: below the titles of tabs and
/// stacks, and at the workspace's edge when edge borders are hidden. What is left of the height tells how many are drawn.
fn content_y(node: &Value, tile: Rect, content: Rect, workspace: &Value) -> i32 {
    let border = node.get("current_border_width").and_then(Value::as_i64).and_then(|width| i32::try_from(width).ok());
    let (Some("pixel"), Some(border)) = (node.get("border").and_then(Value::as_str), border) else {
        return content.y;
    };
    let drawn = tile.height.saturating_sub(content.height);
    if drawn >= border.saturating_mul(2) {
        return border;
    }
    let title = node.get("deco_rect").and_then(rect).is_some_and(|title| title.height > 0);
    let at_top = workspace.get("rect").and_then(rect).is_some_and(|workspace| workspace.y == tile.y);
    if drawn < border || title || at_top { 0 } else { border }
}

/// Only nodes with a client's surface have a process.
fn is_window(node: &Value) -> bool {
    node.get("pid").is_some()
}

/// The window that would have the focus if the workspace had it.
fn active_window(workspace: &Value) -> Option<WindowId> {
    let mut node = workspace;
    loop {
        let next = *children_in_focus_order(node).first()?;
        node =
            nodes(node, "nodes").iter().chain(nodes(node, "floating_nodes")).find(|child| id(child) == Some(next))?;
        if is_window(node) {
            return Some(next);
        }
    }
}

fn children_in_focus_order(node: &Value) -> Vec<u64> {
    let focus = node.get("focus").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    focus.iter().filter_map(Value::as_u64).collect()
}

fn nodes<'a>(node: &'a Value, key: &str) -> &'a [Value] {
    node.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn id(node: &Value) -> Option<u64> {
    node.get("id")?.as_u64()
}

fn flag(node: &Value, key: &str) -> bool {
    node.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub fn text(node: &Value, key: &str) -> Option<String> {
    node.get(key)?.as_str().map(str::to_owned)
}

pub fn rect(value: &Value) -> Option<Rect> {
    let number = |key: &str| i32::try_from(value.get(key)?.as_i64()?).ok();
    Some(Rect::new(number("x")?, number("y")?, number("width")?, number("height")?))
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
