//! `acquire_desktop` and `release_desktop`.

use serde_json::json;

use super::act::{compositor, until};
use super::errors::{Error, abandoned, failed};
use super::gates::{claim, held};
use crate::desktop::effect::{CompositorRequest, Effect, FailureKind, SeatRequest, SessionRequest};
use crate::engine::cx::Cx;
use crate::engine::observe::give_lease_back;
use crate::engine::world::rfc3339;
use crate::handler;
use crate::lease::rules::{Lease, Request, Verdict};
use crate::tools::args::Args;
use crate::tools::declare::{Arg, Audit, Hints, LeaseNeed, Profile, Tool};
use crate::tools::facts::{Facts, Refused};

const LOCK_MS: u64 = 2000;
const OPEN_MS: u64 = 3000;
const RESTORE_MS: u64 = 2000;

pub static ACQUIRE_DESKTOP: Tool = Tool {
    name: "acquire_desktop",
    title: "Take the desktop's lease",
    summary: "takes the lease and notes the user's window",
    description: "Takes the desktop's lease, of which there is one, and notes the person's window. Every acting tool needs it. \
        It ends by release_desktop, by idling (policy, 10 minutes by default; each use renews it) or when the person stops the desktop. \
        A repeat with the same request_key returns the same lease.",
    args: &[Arg::text("request_key", "Your own text; makes a repeat after a lost reply safe.", 1, 128, Audit::Length)],
    hints: Hints::Acts,
    lease: LeaseNeed::Takes,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(acquire),
};

pub static RELEASE_DESKTOP: Tool = Tool {
    name: "release_desktop",
    title: "Give the lease up",
    summary: "gives the lease up, optionally restoring focus",
    description: "Gives the lease up, after its running action. Always releases, and says whether the focus came back.",
    args: &[super::LEASE, Arg::flag("restore_focus", "Focus the person's window again first.")],
    hints: Hints::Acts,
    lease: LeaseNeed::GivesUp,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(release),
};

async fn acquire(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let fresh_token = cx.token();
    let wall_ms = cx.world(|w| w.wall_ms());
    let request = Request::Acquire {
        claim: claim(&cx.caller, &args),
        label: &cx.caller.label,
        request_key: args.text("request_key"),
        fresh_token,
        wall_ms,
    };
    match cx.lease(&request) {
        Verdict::TakeLock => {}
        Verdict::Yours(lease) => return Ok(told(&cx, &lease)),
        Verdict::HeldBy { label, since_wall_ms } => return Err(held(&label, since_wall_ms)),
        _ => return Err(Error::LeaseHeld.because("the last lease is still being given back; try again in a moment")),
    }
    // Undone whatever happens: a cancelled request may have been carried out all the same.
    let unlock = cx.defer(Effect::Session(SessionRequest::Unlock));
    let lock = SessionRequest::Lock { label: cx.caller.label.clone(), since_wall_ms: wall_ms };
    if let Err(failure) = cx.run(Effect::Session(lock), LOCK_MS).await {
        if matches!(failure.kind, FailureKind::Unavailable | FailureKind::NotFound | FailureKind::Refused | FailureKind::Fenced) {
            cx.disarm(unlock);
        }
        cx.lease(&Request::Locked(false));
        return Err(match failure.holder {
            Some(other) => held(&other.label, other.since_wall_ms),
            None if failure.kind == FailureKind::Refused => Error::LeaseHeld.because(failure.detail),
            None => failed(&cx, &failure),
        });
    }
    let close = cx.defer(Effect::Seat(SeatRequest::Close));
    let outputs = cx.world(|w| w.desktop.outputs.iter().filter(|o| o.logical.is_some()).map(|o| o.name.clone()).collect());
    if let Err(failure) = cx.run(Effect::Seat(SeatRequest::Open { outputs }), OPEN_MS).await {
        cx.lease(&Request::Locked(false));
        return Err(failed(&cx, &failure));
    }
    if let Some(reason) = cx.abandoned() {
        cx.lease(&Request::Locked(false));
        return Err(cx.world(|w| abandoned(w, reason)));
    }
    match cx.lease(&Request::Locked(true)) {
        Verdict::Yours(lease) => {
            cx.disarm(close);
            cx.disarm(unlock);
            cx.world(|w| {
                w.users_window = w.desktop.focused_window;
                w.users_workspace = w.desktop.focused_workspace().map(|ws| ws.id);
            });
            Ok(told(&cx, &lease))
        }
        _ => Err(Error::LeaseRequired.because("the lease ended while it was being taken")),
    }
}

fn told(cx: &Cx, lease: &Lease) -> Facts {
    let (expires, users_window) = cx.world(|w| (rfc3339(w.wall_offset_ms + lease.expires_at), w.users_window));
    Facts::new(json!({"lease": lease.token, "holder": lease.label, "users_window": users_window, "expires_at": expires}))
}

async fn release(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let users_window = cx.world(|w| w.users_window);
    let mut restored = None;
    if args.flag("restore_focus") {
        restored = Some(restore(&cx, users_window).await);
    }
    let verdict = cx.lease(&Request::Release(claim(&cx.caller, &args)));
    if verdict == Verdict::GiveBack {
        cx.shield();
        cx.raise_fence();
        give_lease_back(cx.clone()).await?;
    }
    let mut facts = Facts::new(json!({"released": true, "users_window": users_window}));
    if let Some(restored) = restored {
        facts.data.insert("focus_restored".into(), json!(restored));
    }
    Ok(facts)
}

async fn restore(cx: &Cx, window: Option<u64>) -> bool {
    let (now, exists) = cx.world(|w| (w.desktop.focused_window, window.is_some_and(|id| w.desktop.window(id).is_some())));
    let Some(id) = window else { return now.is_none() };
    if now == Some(id) {
        return true;
    }
    exists
        && compositor(cx, CompositorRequest::FocusWindow(id)).await.is_ok()
        && until(cx, RESTORE_MS, |d| d.focused_window == Some(id)).await.unwrap_or(false)
}
