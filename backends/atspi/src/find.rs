//! From a window of the compositor to its frame on the accessibility bus.

use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_core::desktop::elements::AccessWindow;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::calls::{CallError, Calls, Object};
use crate::node::{Node, children};
use crate::place::Toolkit;

const REGISTRY: &str = "org.a11y.atspi.Registry";
const ROOT: &str = "/org/a11y/atspi/accessible/root";
const APPLICATION: &str = "org.a11y.atspi.Application";

/// Of an application's top level: not windows of their own for the compositor.
const NOT_WINDOWS: &[&str] = &["menu", "popup menu", "tool tip", "panel", "filler", "invalid"];

pub struct Found {
    pub frame: Node,
    pub toolkit: Toolkit,
}

/// The frame of this window. `enabled` is whether applications are told to offer their trees at all.
pub async fn window(calls: &Calls, window: &AccessWindow, enabled: bool, end: Instant) -> Result<Found, Failure> {
    let buses = processes(calls, window.pid, end).await.map_err(|e| match e {
        CallError::Said(why) => Failure::new(FailureKind::NotAccessible, format!("the accessibility registry can't be asked: \"{why}\"")),
        other => other.failure(),
    })?;
    if buses.is_empty() {
        return Err(Failure::new(FailureKind::NotAccessible, absent(enabled)));
    }
    let mut frames = Vec::new();
    for bus in buses {
        let root = Object::new(bus, ROOT);
        frames.extend(tops(calls, &root, end).await.map_err(|e| e.failure())?);
    }
    let frame = choose(frames, window)?;
    let root = Object::new(frame.object.bus.clone(), ROOT);
    let toolkit = toolkit(calls, &root, end).await;
    Ok(Found { frame, toolkit })
}

fn absent(enabled: bool) -> String {
    let how = if enabled {
        "it may have none, or must be started again: Chromium and Electron look at their start only, and want --force-renderer-accessibility"
    } else {
        "Qt and Chromium offer it only while accessibility is on; the policy's accessibility = \"enable\" switches it on"
    };
    format!("the window's process has no tree on the accessibility bus; {how}")
}

/// The bus names of the applications that this process registered.
async fn processes(calls: &Calls, pid: i32, end: Instant) -> Result<Vec<String>, CallError> {
    let apps = children(calls, &Object::new(REGISTRY, ROOT), end).await?;
    let mut asked = JoinSet::new();
    for app in apps {
        let calls = calls.clone();
        asked.spawn(async move {
            let its: u32 = calls.daemon("GetConnectionUnixProcessID", &app.bus.as_str(), end).await.ok()?;
            (i32::try_from(its) == Ok(pid)).then_some(app.bus)
        });
    }
    let mut found = Vec::new();
    while let Some(one) = asked.join_next().await {
        found.extend(one.ok().flatten());
    }
    found.sort();
    found.dedup();
    Ok(found)
}

async fn tops(calls: &Calls, root: &Object, end: Instant) -> Result<Vec<Node>, CallError> {
    let mut reads = JoinSet::new();
    for (at, object) in children(calls, root, end).await?.into_iter().enumerate() {
        let calls = calls.clone();
        reads.spawn(async move { (at, Node::read(&calls, object, end).await) });
    }
    let mut all = Vec::new();
    while let Some(Ok((at, read))) = reads.join_next().await {
        match read {
            Ok(node) => all.push((at, node)),
            Err(CallError::Said(_)) => {}
            Err(slow) => return Err(slow),
        }
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, node)| node).filter(|n| !NOT_WINDOWS.contains(&n.role_name())).collect())
}

fn choose(mut frames: Vec<Node>, window: &AccessWindow) -> Result<Node, Failure> {
    if window.alone && frames.len() == 1 {
        return frames.pop().ok_or_else(none);
    }
    if frames.is_empty() {
        return Err(none());
    }
    let fits = |frame: &&Node| window.title.as_deref().is_some_and(|title| crate::node::cut(title) == frame.name);
    let fitting: Vec<Node> = frames.iter().filter(fits).cloned().collect();
    match fitting.len() {
        1 => fitting.into_iter().next().ok_or_else(none),
        n => Err(Failure::new(
            FailureKind::Ambiguous,
            format!("the window's process has {} accessible windows, and {n} of them have this window's title", frames.len()),
        )),
    }
}

fn none() -> Failure {
    Failure::new(FailureKind::NotAccessible, "the application is on the accessibility bus, but shows no window there")
}

async fn toolkit(calls: &Calls, root: &Object, end: Instant) -> Toolkit {
    let (name, version) = tokio::join!(calls.text_property(root, APPLICATION, "ToolkitName", end), calls.text_property(root, APPLICATION, "Version", end));
    Toolkit::of(&name.unwrap_or_default(), &version.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{FRAME, Interfaces};

    fn frame(name: &str) -> Node {
        Node { object: Object::new(":1.1", format!("/{name}")), name: name.into(), role: FRAME, states: 0, interfaces: Interfaces::default(), child_count: 0 }
    }

    fn window(title: Option<&str>, alone: bool) -> AccessWindow {
        AccessWindow { pid: 1, title: title.map(Into::into), size: (10, 10), alone }
    }

    #[test]
    fn windows_of_one_process_are_told_apart_by_title() {
        let both = || vec![frame("a"), frame("b")];
        assert_eq!(choose(both(), &window(Some("b"), false)).unwrap().name, "b");
        assert_eq!(choose(both(), &window(None, false)).unwrap_err().kind, FailureKind::Ambiguous);
        assert_eq!(choose(both(), &window(Some("c"), true)).unwrap_err().kind, FailureKind::Ambiguous);
        assert_eq!(choose(vec![frame("a"), frame("a")], &window(Some("a"), false)).unwrap_err().kind, FailureKind::Ambiguous);
        // Alone on both sides, whatever the title; not alone, the one frame may be the other window's.
        assert_eq!(choose(vec![frame("a")], &window(Some("c"), true)).unwrap().name, "a");
        assert_eq!(choose(vec![frame("a")], &window(Some("c"), false)).unwrap_err().kind, FailureKind::Ambiguous);
        assert_eq!(choose(Vec::new(), &window(Some("c"), true)).unwrap_err().kind, FailureKind::NotAccessible);
    }
}
