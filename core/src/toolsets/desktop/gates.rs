//! What must hold before a tool does anything, in the order of the checks.

use super::errors::Error;
use crate::desktop::event::CompositorKind;
use crate::desktop::geometry::Rect;
use crate::desktop::model::Window;
use crate::engine::caller::Caller;
use crate::engine::world::{StopFlag, Stream, World, rfc3339};
use crate::lease::rules::{Claim, Verdict};
use crate::policy::PolicyState;
use crate::tools::args::Args;
use crate::tools::declare::{LeaseNeed, Tool};
use crate::tools::facts::Refused;

pub fn gate(w: &World, caller: &Caller, tool: &Tool, args: &Args) -> Result<(), Refused> {
    if tool.name == "status" {
        return Ok(());
    }
    // Giving up is always possible; that the lease is gone already is what it then says.
    if tool.lease == LeaseNeed::GivesUp {
        return lease_gate(w, caller, args);
    }
    reachable(w)?;
    not_stopped(w)?;
    match tool.lease {
        LeaseNeed::No => {
            if args.has("lease") {
                lease_gate(w, caller, args)?;
            }
            if tool.name == "screenshot" || args.flag_if_declared("screenshot") {
                images(w)?;
            }
            return Ok(());
        }
        LeaseNeed::Takes => {
            recovered(w)?;
            not_held_elsewhere(w)?;
        }
        _ => {
            recovered(w)?;
            lease_gate(w, caller, args)?;
        }
    }
    writable(w)?;
    unlocked(w)?;
    matching(w)
}

pub fn reachable(w: &World) -> Result<(), Refused> {
    match &w.compositor {
        Ok(_) => Ok(()),
        Err(why) => Err(Error::NiriUnavailable.plain(&format!("{} can't be reached: {why}.", w.last_kind.map_or("The compositor", CompositorKind::name)))),
    }
}

pub fn not_stopped(w: &World) -> Result<(), Refused> {
    if let Some(why) = &w.stop_unwatched {
        return Err(Error::Stopped.because(unwatched(why)));
    }
    match w.stop {
        StopFlag::Clear => Ok(()),
        StopFlag::Set => Err(Error::Stopped.plain("The person stopped the desktop.")),
        StopFlag::Unknown => Err(Error::Stopped.plain("Whether the desktop is stopped isn't known yet; try again in a moment.")),
    }
}

pub fn unwatched(why: &str) -> String {
    format!("The stop flag can't be watched, so the desktop counts as stopped: {why}.")
}

fn recovered(w: &World) -> Result<(), Refused> {
    match &w.unfinished {
        None => Ok(()),
        Some(what) => Err(Error::RecoveryRequired.plain(&format!("A server that died left this: {what}."))),
    }
}

fn not_held_elsewhere(w: &World) -> Result<(), Refused> {
    match &w.other_holder {
        Some(holder) if w.lease.held().is_none() => Err(held(&holder.label, holder.since_wall_ms)),
        _ => Ok(()),
    }
}

pub fn claim<'a>(caller: &'a Caller, args: &'a Args) -> Claim<'a> {
    Claim {
        principal: &caller.principal,
        session: caller.session(),
        token: args.map().get("lease").and_then(|v| v.as_str()),
    }
}

fn lease_gate(w: &World, caller: &Caller, args: &Args) -> Result<(), Refused> {
    let claim = claim(caller, args);
    match w.lease.check(&claim) {
        Verdict::Yours(_) => Ok(()),
        Verdict::HeldBy { .. } if claim.token.is_none() && w.lease.held().is_some_and(|l| l.principal == caller.principal && l.session.is_none()) => {
            Err(Error::LeaseRequired.plain("The lease is held and the call doesn't name it."))
        }
        Verdict::HeldBy { label, since_wall_ms } => Err(held(&label, since_wall_ms)),
        _ => match &w.other_holder {
            Some(holder) => Err(held(&holder.label, holder.since_wall_ms)),
            None => Err(Error::LeaseRequired.plain("No lease is held; it ended by idling, a stop, or the end of what took it.")),
        },
    }
}

pub fn held(label: &str, since_wall_ms: u64) -> Refused {
    Error::LeaseHeld
        .plain(&format!("{label} holds the lease since {}.", rfc3339(since_wall_ms)))
        .with("holder", serde_json::json!(label))
        .with("since", serde_json::json!(rfc3339(since_wall_ms)))
}

fn policy_read(w: &World) -> Result<(), Refused> {
    match &w.policy_state {
        PolicyState::Invalid(why) => Err(Error::ReadOnly.plain(&format!("The policy file is invalid: {why}. The server reads it when it starts."))),
        _ => Ok(()),
    }
}

fn writable(w: &World) -> Result<(), Refused> {
    if let Ok(info) = &w.compositor
        && let Some(why) = &info.incompatible
    {
        return Err(Error::ReadOnly.plain(&format!("{} {} isn't understood: {why}.", info.kind.name(), info.version)));
    }
    match &w.stream {
        Stream::Live => {}
        Stream::Opening => return Err(Error::ReadOnly.plain("The event stream isn't read yet; try again in a moment.")),
        Stream::Lost(why) => return Err(Error::ReadOnly.plain(&format!("The event stream was lost: {why}."))),
    }
    policy_read(w)?;
    match &w.audit_error {
        Some(why) => Err(Error::ReadOnly.plain(&format!("The audit log can't be written: {why}."))),
        None => Ok(()),
    }
}

pub fn unlocked(w: &World) -> Result<(), Refused> {
    if w.locked() {
        return Err(Error::ScreenLocked.plain(&format!("Lock state: {:?}, by {}.", w.lock, w.lock_source).to_lowercase()));
    }
    Ok(())
}

pub fn matching(w: &World) -> Result<(), Refused> {
    match &w.session_match {
        Ok(()) => Ok(()),
        Err(why) => Err(Error::SessionMismatch.plain(&format!("{why}."))),
    }
}

/// What an image needs.
pub fn images(w: &World) -> Result<(), Refused> {
    // Which apps may not be captured isn't known either.
    policy_read(w)?;
    unlocked(w)?;
    matching(w)
}

/// An image of this output would show a denied window.
pub fn capture_allowed(w: &World, output: &str) -> Result<(), Refused> {
    let denied = &w.policy.deny_capture_app_ids;
    match w.desktop.visible_windows(output).find(|window| is_denied(window, denied)) {
        None => Ok(()),
        Some(window) => Err(Error::AppDenied.plain(&format!(
            "Window {} of an app that may not be captured is on {output}'s active workspace.",
            window.id
        ))),
    }
}

pub fn is_denied(window: &Window, denied: &[String]) -> bool {
    !denied.is_empty() && window.app_id.as_ref().is_some_and(|app| denied.contains(app))
}

pub fn window_allowed(w: &World, window: Option<&Window>) -> Result<(), Refused> {
    match window.filter(|window| is_denied(window, &w.policy.deny_input_app_ids)) {
        None => Ok(()),
        Some(window) => Err(Error::AppDenied.plain(&format!("Window {} is of an app that may not be acted on.", window.id))),
    }
}

/// A point of the layout, on this output: denied if a denied window is or may be there.
pub fn point_allowed(w: &World, output: &str, (x, y): (f64, f64)) -> Result<(), Refused> {
    if w.policy.deny_input_app_ids.is_empty() {
        return Ok(());
    }
    for window in w.desktop.visible_windows(output).filter(|window| is_denied(window, &w.policy.deny_input_app_ids)) {
        let there = w.desktop.position(window).is_none_or(|(left, top)| {
            let (width, height) = window.layout.window_size;
            Rect::new(left.floor() as i32, top.floor() as i32, width.saturating_add(1), height.saturating_add(1)).contains(x as i32, y as i32)
        });
        if there {
            return window_allowed(w, Some(window));
        }
    }
    Ok(())
}
