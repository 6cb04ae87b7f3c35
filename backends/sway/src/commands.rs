//! sway's commands, written so that no name can be taken for another command.

use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_core::desktop::model::{WindowId, WorkspaceId};
use serde_json::Value;

use crate::tree::Snapshot;

/// Words that `workspace` takes for something else than a name, quoted or not.
const KEYWORDS: [&str; 9] =
    ["number", "next", "prev", "next_on_output", "prev_on_output", "current", "back_and_forth", "gaps", "output"];

pub fn focus_window(id: WindowId) -> String {
    format!("[con_id={id}] focus")
}

pub fn close_window(id: WindowId) -> String {
    format!("[con_id={id}] kill")
}

/// By its name; where sway's language has no way to say the name, by the window it would focus, or by its output: a
/// workspace without windows exists only while it is shown.
pub fn focus_workspace(snapshot: &Snapshot, id: WorkspaceId) -> Result<String, Failure> {
    let workspace = snapshot.workspaces.iter().find(|workspace| workspace.id == id).ok_or_else(|| {
        Failure::new(FailureKind::NotFound, format!("sway has no workspace with id {id}; read desktop_state again"))
    })?;
    let name = workspace.name.as_deref().unwrap_or_default();
    if let Some(quoted) = quoted(name).filter(|_| !KEYWORDS.iter().any(|word| name.eq_ignore_ascii_case(word))) {
        return Ok(format!("workspace --no-auto-back-and-forth {quoted}"));
    }
    if let Some(window) = workspace.active_window {
        return Ok(focus_window(window));
    }
    match workspace.output.as_deref().and_then(quoted) {
        Some(output) if workspace.active => Ok(format!("focus output {output}")),
        _ => Err(Failure::new(
            FailureKind::Refused,
            format!("sway has no way to name the workspace {name:?}; rename it or focus a window on it"),
        )),
    }
}

/// The name as one word of sway's language. sway drops the outer quotes, leaves backslashes as they are, but lets them
/// hide a quote or a dollar, reads `$$` as a dollar, and turns newlines into command separators.
fn quoted(name: &str) -> Option<String> {
    let quote = match (name.contains('"'), name.contains('\'')) {
        (false, _) => '"',
        (true, false) => '\'',
        (true, true) => return None,
    };
    let sayable =
        !name.is_empty() && !name.contains(['\n', '\r', '\0']) && !name.ends_with('\\') && !name.contains("\\$");
    sayable.then(|| format!("{quote}{}{quote}", name.replace('$', "$$")))
}

/// Whether sway did every part of a command, from the answer to `RUN_COMMAND`.
pub fn check(answer: &Value) -> Result<(), Failure> {
    let refused = |detail: String| Err(Failure::new(FailureKind::Refused, detail));
    let Some(results) = answer.as_array().filter(|results| !results.is_empty()) else {
        return refused("sway's answer to a command is not understood; look at what it did".into());
    };
    for result in results {
        if result.get("success").and_then(Value::as_bool) == Some(true) {
            continue;
        }
        let error = result.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        if error.starts_with("No matching node") {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("sway said: {error} The window is gone; read desktop_state again"),
            ));
        }
        return refused(format!("sway said: {error}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use deskhand_core::desktop::model::Workspace;
    use serde_json::json;

    use super::*;

    fn command(name: &str, active: bool, window: Option<u64>) -> Result<String, Failure> {
        let workspace = Workspace {
            id: 4,
            index: 1,
            name: Some(name.into()),
            output: Some("DP-1".into()),
            active,
            focused: false,
            urgent: false,
            active_window: window,
        };
        focus_workspace(&Snapshot { workspaces: vec![workspace], ..Snapshot::default() }, 4)
    }

    #[test]
    fn names_cannot_become_commands() {
        let by_name = |name: &str| command(name, true, Some(9)).unwrap();
        assert_eq!(by_name("3: web"), "workspace --no-auto-back-and-forth \"3: web\"");
        assert_eq!(by_name("a\"; exec x; \""), "workspace --no-auto-back-and-forth 'a\"; exec x; \"'");
        assert_eq!(by_name("$mod"), "workspace --no-auto-back-and-forth \"$$mod\"");
        for unsayable in ["next", "Number", "a\nexec x", "both \" and '", "ends\\", "\\$mod", ""] {
            assert_eq!(by_name(unsayable), "[con_id=9] focus", "{unsayable}");
        }
    }

    #[test]
    fn an_empty_workspace_with_an_odd_name_is_reached_by_its_output() {
        assert_eq!(command("next", true, None).unwrap(), "focus output \"DP-1\"");
        assert_eq!(command("next", false, None).unwrap_err().kind, FailureKind::Refused);
        assert_eq!(focus_workspace(&Snapshot::default(), 4).unwrap_err().kind, FailureKind::NotFound);
    }

    #[test]
    fn answers() {
        assert!(check(&json!([{"success": true}])).is_ok());
        let gone = check(&json!([{"success": false, "error": "No matching node."}])).unwrap_err();
        assert_eq!(gone.kind, FailureKind::NotFound);
        let second = check(&json!([{"success": true}, {"success": false, "error": "Bad"}])).unwrap_err();
        assert_eq!((second.kind, second.detail.as_str()), (FailureKind::Refused, "sway said: Bad"));
        for odd in [json!(null), json!([]), json!([7]), json!({"success": true})] {
            assert_eq!(check(&odd).unwrap_err().kind, FailureKind::Refused);
        }
    }
}
