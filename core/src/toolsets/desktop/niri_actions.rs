//! Which of niri's actions are allowed without `unrestricted`, and which ids in them must exist.

use serde_json::{Map, Value};

use crate::desktop::state::Desktop;

/// niri 26.04's actions that only arrange windows, workspaces and focus.
const ALLOWED: &[&str] = &[
    "CenterColumn", "CenterVisibleColumns", "CenterWindow", "CloseOverview", "CloseWindow", "ConsumeOrExpelWindowLeft", "ConsumeOrExpelWindowRight",
    "ConsumeWindowIntoColumn", "ExpandColumnToAvailableWidth", "ExpelWindowFromColumn", "FocusColumn", "FocusColumnFirst", "FocusColumnLast", "FocusColumnLeft",
    "FocusColumnLeftOrLast", "FocusColumnOrMonitorLeft", "FocusColumnOrMonitorRight", "FocusColumnRight", "FocusColumnRightOrFirst", "FocusFloating", "FocusMonitor",
    "FocusMonitorDown", "FocusMonitorLeft", "FocusMonitorNext", "FocusMonitorPrevious", "FocusMonitorRight", "FocusMonitorUp", "FocusTiling", "FocusWindow",
    "FocusWindowBottom", "FocusWindowDown", "FocusWindowDownOrColumnLeft", "FocusWindowDownOrColumnRight", "FocusWindowDownOrTop", "FocusWindowInColumn",
    "FocusWindowOrMonitorDown", "FocusWindowOrMonitorUp", "FocusWindowOrWorkspaceDown", "FocusWindowOrWorkspaceUp", "FocusWindowPrevious", "FocusWindowTop",
    "FocusWindowUp", "FocusWindowUpOrBottom", "FocusWindowUpOrColumnLeft", "FocusWindowUpOrColumnRight", "FocusWorkspace", "FocusWorkspaceDown",
    "FocusWorkspacePrevious", "FocusWorkspaceUp", "FullscreenWindow", "MaximizeColumn", "MaximizeWindowToEdges", "MoveColumnLeft", "MoveColumnLeftOrToMonitorLeft",
    "MoveColumnRight", "MoveColumnRightOrToMonitorRight", "MoveColumnToFirst", "MoveColumnToIndex", "MoveColumnToLast", "MoveColumnToMonitor",
    "MoveColumnToMonitorDown", "MoveColumnToMonitorLeft", "MoveColumnToMonitorNext", "MoveColumnToMonitorPrevious", "MoveColumnToMonitorRight",
    "MoveColumnToMonitorUp", "MoveColumnToWorkspace", "MoveColumnToWorkspaceDown", "MoveColumnToWorkspaceUp", "MoveFloatingWindow", "MoveWindowDown",
    "MoveWindowDownOrToWorkspaceDown", "MoveWindowToFloating", "MoveWindowToMonitor", "MoveWindowToMonitorDown", "MoveWindowToMonitorLeft",
    "MoveWindowToMonitorNext", "MoveWindowToMonitorPrevious", "MoveWindowToMonitorRight", "MoveWindowToMonitorUp", "MoveWindowToTiling", "MoveWindowToWorkspace",
    "MoveWindowToWorkspaceDown", "MoveWindowToWorkspaceUp", "MoveWindowUp", "MoveWindowUpOrToWorkspaceUp", "MoveWorkspaceDown", "MoveWorkspaceToIndex",
    "MoveWorkspaceToMonitor", "MoveWorkspaceToMonitorDown", "MoveWorkspaceToMonitorLeft", "MoveWorkspaceToMonitorNext", "MoveWorkspaceToMonitorPrevious",
    "MoveWorkspaceToMonitorRight", "MoveWorkspaceToMonitorUp", "MoveWorkspaceUp", "OpenOverview", "ResetWindowHeight", "SetColumnDisplay", "SetColumnWidth",
    "SetWindowHeight", "SetWindowUrgent", "SetWindowWidth", "SetWorkspaceName", "SwapWindowLeft", "SwapWindowRight", "SwitchFocusBetweenFloatingAndTiling",
    "SwitchPresetColumnWidth", "SwitchPresetColumnWidthBack", "SwitchPresetWindowHeight", "SwitchPresetWindowHeightBack", "SwitchPresetWindowWidth",
    "SwitchPresetWindowWidthBack", "ToggleColumnTabbedDisplay", "ToggleOverview", "ToggleWindowFloating", "ToggleWindowRuleOpacity", "ToggleWindowUrgent",
    "ToggleWindowedFullscreen", "UnsetWindowUrgent", "UnsetWorkspaceName",
];

pub fn is_allowed(name: &str) -> bool {
    ALLOWED.binary_search(&name).is_ok()
}

/// Names that the audit log may hold: the allowed ones and those that only `unrestricted` sends.
pub fn is_known(name: &str) -> bool {
    const RESTRICTED: &[&str] = &[
        "ChangeVt", "ClearDynamicCastTarget", "DebugToggleDamage", "DebugToggleOpaqueRegions", "DoScreenTransition", "LoadConfigFile", "PowerOffMonitors",
        "PowerOnMonitors", "Quit", "Screenshot", "ScreenshotScreen", "ScreenshotWindow", "SetDynamicCastMonitor", "SetDynamicCastWindow",
        "ShowHotkeyOverlay", "Spawn", "SpawnSh", "StopCast", "Suspend", "SwitchLayout", "ToggleDebugTint", "ToggleKeyboardShortcutsInhibit",
    ];
    is_allowed(name) || RESTRICTED.contains(&name)
}

/// Ids, indexes, names and outputs that niri would silently ignore.
pub fn check_ids(d: &Desktop, action: &str, fields: &Map<String, Value>) -> Result<(), String> {
    for key in ["id", "window_id"] {
        if let Some(value) = fields.get(key).filter(|v| !v.is_null())
            && action != "StopCast"
            && let Some(id) = value.as_u64()
            && d.window(id).is_none()
        {
            return Err(format!("no window has the id {id}; desktop_state lists them"));
        }
    }
    for key in ["reference", "workspace"] {
        if let Some(Value::Object(reference)) = fields.get(key) {
            check_workspace(d, reference)?;
        }
    }
    if let Some(name) = fields.get("output").and_then(Value::as_str)
        && d.output(name).is_none()
    {
        return Err(format!("no output is named {name:?}; desktop_state lists them"));
    }
    Ok(())
}

fn check_workspace(d: &Desktop, reference: &Map<String, Value>) -> Result<(), String> {
    let output = d.focused_workspace().and_then(|w| w.output.clone());
    let known = if let Some(id) = reference.get("Id").and_then(Value::as_u64) {
        d.workspaces.contains_key(&id)
    } else if let Some(index) = reference.get("Index").and_then(Value::as_u64) {
        d.workspaces.values().any(|w| u64::from(w.index) == index && w.output == output)
    } else if let Some(name) = reference.get("Name").and_then(Value::as_str) {
        d.workspaces.values().any(|w| w.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(name)))
    } else {
        // Another form: niri's own parser tells.
        true
    };
    if known { Ok(()) } else { Err(format!("no workspace fits {}; desktop_state lists them", Value::Object(reference.clone()))) }
}

/// The window that an action names, or acts on because it is focused.
pub fn target_window(d: &Desktop, action: &str, fields: &Map<String, Value>) -> Option<u64> {
    let named = ["id", "window_id"].iter().find_map(|key| fields.get(*key).and_then(Value::as_u64));
    let on_focused = !action.starts_with("Focus") && !action.contains("Workspace") && !action.contains("Overview");
    named.or_else(|| d.focused_window.filter(|_| on_focused))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_list_is_sorted() {
        assert!(super::ALLOWED.is_sorted());
        assert!(super::is_allowed("FocusWindow") && !super::is_allowed("Spawn") && !super::is_allowed("NoSuch"));
    }
}
