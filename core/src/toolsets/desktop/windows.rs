//! `focus`, `launch`, `close_window`, `niri_action`.

use serde_json::{Map, Value, json};

use super::act::{About, Before, Report, Sent, compositor, finish, send, until};
use super::errors::{Error, abandoned};
use super::{gates, niri_actions};
use crate::desktop::effect::{CompositorRequest, Effect, Reply, SessionRequest};
use crate::desktop::model::{Window, WindowId, WorkspaceId};
use crate::desktop::state::Desktop;
use crate::engine::cx::{Cx, Either, select};
use crate::handler;
use crate::policy::Preset;
use crate::tools::args::Args;
use crate::tools::declare::{Arg, Audit, Hints, Kind, Known, LeaseNeed, Profile, Tool};
use crate::tools::facts::{Facts, Refused};

const FOCUS_MS: u64 = 5000;
const CLOSE_MS: u64 = 5000;
const LAUNCH_MS: u64 = 10_000;
/// After the first window, others of the same start may follow.
const MORE_WINDOWS_MS: u64 = 400;
const SPAWN_MS: u64 = 3000;

pub static FOCUS: Tool = Tool {
    name: "focus",
    title: "Focus a window or workspace",
    summary: "focuses a window or a workspace by id",
    description: "Focuses a window or a workspace by its id from desktop_state. Already focused: nothing is sent (`accepted: false`). `observed`: focused or timeout.",
    args: &[super::LEASE, Arg::id("window_id", ""), Arg::id("workspace_id", ""), super::SCREENSHOT_AFTER],
    hints: Hints::Acts,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(focus),
};

pub static LAUNCH: Tool = Tool {
    name: "launch",
    title: "Launch a preset",
    summary: "starts a preset from the policy file",
    description: "Starts a program that the policy lists as a preset (see status), never a command line. With reuse, a window it has already is focused instead. \
        `observed`: one, ambiguous (several windows came), none (no window in 10 s) or focused; `windows` has their ids.",
    args: &[
        super::LEASE,
        Arg::text("preset", "", 1, 64, Audit::IfKnown(Known::Preset)).required(),
        Arg::flag("reuse", "Focus a window of the preset's app if there is one."),
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Acts,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(launch),
};

pub static CLOSE_WINDOW: Tool = Tool {
    name: "close_window",
    title: "Close a window",
    summary: "asks a window to close",
    description: "Asks a window to close, as its close button does. `observed`: closed, or pending after 5 s (the app may be asking whether to save).",
    args: &[super::LEASE, Arg::id("window_id", "").required(), super::SCREENSHOT_AFTER],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(close_window),
};

pub static NIRI_ACTION: Tool = Tool {
    name: "niri_action",
    title: "Send a niri action",
    summary: "sends any niri action, such as fullscreen, floating or a window width",
    description: "Sends one of niri's actions in its IPC form, e.g. {\"FullscreenWindow\": {\"id\": 3}}, {\"ToggleWindowFloating\": {\"id\": 3}}, \
        {\"SetWindowWidth\": {\"id\": 3, \"change\": {\"SetFixed\": 800}}}, {\"MoveWindowToWorkspace\": {\"window_id\": 3, \"reference\": {\"Id\": 2}, \"focus\": false}}, {\"OpenOverview\": {}}. \
        Actions that run programs, quit, switch layouts and the like need `unrestricted`. `observed`: sent; see `changes`.",
    args: &[
        super::LEASE,
        Arg::new("action", "An object with one action's name as its key.", Kind::AnyObject, Audit::KeyOnly).required(),
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Full,
    always_load: false,
    schema: None,
    run: handler!(niri_action),
};

fn known_window(cx: &Cx, id: WindowId) -> Result<Window, Refused> {
    cx.world(|w| {
        let Some(window) = w.desktop.window(id) else {
            return Err(Refused::arguments(format!("no window has the id {id}; desktop_state lists them")));
        };
        gates::window_allowed(w, Some(window))?;
        Ok(window.clone())
    })
}

async fn focus(cx: Cx, args: Args) -> Result<Facts, Refused> {
    match (args.id("window_id"), args.id("workspace_id")) {
        (Some(window), None) => focus_window(&cx, &args, window).await,
        (None, Some(workspace)) => focus_workspace(&cx, &args, workspace).await,
        _ => Err(Refused::arguments("give either window_id or workspace_id")),
    }
}

async fn focus_window(cx: &Cx, args: &Args, id: WindowId) -> Result<Facts, Refused> {
    known_window(cx, id)?;
    let before = Before::take(cx);
    if before.desktop.focused_window == Some(id) {
        return finish(cx, args, before, Report::nothing_sent("focused")).await;
    }
    let sent = compositor(cx, CompositorRequest::FocusWindow(id)).await?;
    let focused = until(cx, FOCUS_MS, |d| d.focused_window == Some(id)).await?;
    let report = Report::new(&sent, if focused { "focused" } else { "timeout" }, About::Windows(vec![id]));
    finish(cx, args, before, report).await
}

async fn focus_workspace(cx: &Cx, args: &Args, id: WorkspaceId) -> Result<Facts, Refused> {
    let before = Before::take(cx);
    let is_focused = |d: &Desktop| d.workspaces.get(&id).is_some_and(|w| w.focused);
    if !before.desktop.workspaces.contains_key(&id) {
        return Err(Refused::arguments(format!("no workspace has the id {id}; desktop_state lists them")));
    }
    if is_focused(&before.desktop) {
        return finish(cx, args, before, Report::nothing_sent("focused")).await;
    }
    let sent = compositor(cx, CompositorRequest::FocusWorkspace(id)).await?;
    let focused = until(cx, FOCUS_MS, is_focused).await?;
    let there: Vec<WindowId> = cx.world(|w| w.desktop.windows.values().filter(|win| win.workspace_id == Some(id)).map(|win| win.id).collect());
    let report = Report::new(&sent, if focused { "focused" } else { "timeout" }, About::Windows(there));
    finish(cx, args, before, report).await
}

async fn launch(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let name = args.text("preset").unwrap_or_default();
    let found = cx.world(|w| w.policy.presets.iter().find(|p| p.name == name).cloned());
    let Some(preset) = found else {
        let known = cx.world(|w| w.policy.presets.iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(", "));
        let known = if known.is_empty() { "the policy has none".to_string() } else { format!("there are: {known}") };
        return Err(Error::UnknownPreset.plain(&format!("No preset has this name; {known}.")));
    };
    if let Some(app) = &preset.app_id
        && cx.world(|w| w.policy.deny_input_app_ids.contains(app))
    {
        return Err(Error::AppDenied.plain("The preset's app may not be acted on."));
    }
    if args.flag("reuse")
        && let Some(facts) = reuse(&cx, &args, &preset).await?
    {
        return Ok(facts);
    }
    start(&cx, &args, preset).await
}

async fn reuse(cx: &Cx, args: &Args, preset: &Preset) -> Result<Option<Facts>, Refused> {
    let Some(app) = &preset.app_id else { return Ok(None) };
    let (focused, first) = cx.world(|w| {
        let of_app = |win: &&Window| win.app_id.as_ref() == Some(app);
        let focused = w.desktop.focused_window.and_then(|id| w.desktop.window(id)).filter(of_app).map(|win| win.id);
        (focused, w.desktop.windows.values().map(|win| &**win).find(of_app).map(|win| win.id))
    });
    let before = Before::take(cx);
    let Some(id) = focused.or(first) else { return Ok(None) };
    let report = if focused.is_some() {
        Report::nothing_sent("focused")
    } else {
        let sent = compositor(cx, CompositorRequest::FocusWindow(id)).await?;
        let reached = until(cx, FOCUS_MS, |d| d.focused_window == Some(id)).await?;
        Report::new(&sent, if reached { "focused" } else { "timeout" }, About::Windows(vec![id]))
    };
    finish(cx, args, before, report.with("windows", json!([id]))).await.map(Some)
}

async fn start(cx: &Cx, args: &Args, preset: Preset) -> Result<Facts, Refused> {
    let before = Before::take(cx);
    let env = preset.env.clone().into_iter().collect();
    let sent = send(cx, Effect::Session(SessionRequest::Launch { argv: preset.argv.clone(), env }), SPAWN_MS).await?;
    let pid = match &sent {
        Sent::Taken(Reply::Launched { pid }) => i32::try_from(*pid).ok(),
        _ => None,
    };
    let new_windows = |d: &Desktop| -> Vec<WindowId> {
        let new = || d.windows.values().filter(|w| !before.desktop.windows.contains_key(&w.id));
        let its_own = |w: &Window| match &preset.app_id {
            Some(app) => w.app_id.as_ref() == Some(app) || (pid.is_some() && w.pid == pid),
            None => true,
        };
        new().filter(|w| its_own(w)).map(|w| w.id).collect()
    };
    until(cx, LAUNCH_MS, |d| !new_windows(d).is_empty()).await?;
    let mut windows = cx.world(|w| new_windows(&w.desktop));
    if !windows.is_empty() {
        let end = cx.now() + MORE_WINDOWS_MS;
        while cx.now() < end {
            let seq = cx.world(|w| w.desktop.seq);
            let waited = match select(cx.changed(seq), cx.sleep(end - cx.now())).await {
                Either::First(waited) | Either::Second(waited) => waited,
            };
            waited.map_err(|reason| cx.world(|w| abandoned(w, reason)))?;
        }
        windows = cx.world(|w| new_windows(&w.desktop));
    }
    let observed = match windows.len() {
        0 => "none",
        1 => "one",
        _ => "ambiguous",
    };
    let report = Report::new(&sent, observed, About::Windows(windows.clone())).with("windows", json!(windows));
    finish(cx, args, before, report).await
}

async fn close_window(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let id = args.id("window_id").unwrap_or_default();
    let window = known_window(&cx, id)?;
    let before = Before::take(&cx);
    let sent = compositor(&cx, CompositorRequest::CloseWindow(id)).await?;
    let closed = until(&cx, CLOSE_MS, |d| d.window(id).is_none()).await?;
    // A question about saving is a window of the same process, and takes the focus.
    let mut about = vec![id];
    about.extend(cx.world(|w| {
        let same = |win: &&std::sync::Arc<Window>| window.pid.is_some() && win.pid == window.pid;
        w.desktop.windows.values().filter(same).map(|win| win.id).collect::<Vec<_>>()
    }));
    let report = Report::new(&sent, if closed { "closed" } else { "pending" }, About::Windows(about));
    finish(&cx, &args, before, report).await
}

async fn niri_action(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let action = args.object("action").cloned().unwrap_or_default();
    let Some((name, fields)) = action.iter().next().map(|(name, fields)| (name.clone(), fields.as_object().cloned())) else {
        return Err(Refused::arguments("action must have one key, the action's name"));
    };
    let fields: Map<String, Value> = fields.ok_or_else(|| Refused::arguments(format!("action: {name}'s value must be an object, {{}} when it has no fields")))?;
    if !niri_actions::is_allowed(&name) && !cx.world(|w| w.policy.unrestricted) {
        return Err(Error::UnrestrictedRequired.plain("This action isn't among those allowed."));
    }
    cx.world(|w| {
        niri_actions::check_ids(&w.desktop, &name, &fields).map_err(Refused::Arguments)?;
        let target = niri_actions::target_window(&w.desktop, &name, &fields);
        gates::window_allowed(w, target.and_then(|id| w.desktop.window(id)))
    })?;
    let before = Before::take(&cx);
    let sent = compositor(&cx, CompositorRequest::Action(Value::Object(action))).await?;
    finish(&cx, &args, before, Report::new(&sent, "sent", About::Anything)).await
}
