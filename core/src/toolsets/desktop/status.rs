//! `status`: whether the desktop can be seen and driven, and what stands in the way.

use serde_json::{Value, json};

use super::aim;
use super::gates::unwatched;
use crate::desktop::event::{AccessState, Availability, CompositorKind, LockState};
use crate::engine::cx::Cx;
use crate::engine::world::{StopFlag, Stream, World, rfc3339};
use crate::handler;
use crate::policy::PolicyState;
use crate::tools::args::Args;
use crate::tools::declare::{Hints, LeaseNeed, Profile, Tool};
use crate::tools::facts::{Facts, Refused};

pub static STATUS: Tool = Tool {
    name: "status",
    title: "Desktop status",
    summary: "the readiness report",
    description: "Reports whether the desktop can be seen and driven: compositor, event stream, lease, stop flag, lock state, outputs, policy and presets, \
        and `blockers`: what stands in the way, each with its remedy. Always answers.",
    args: &[],
    hints: Hints::ReadOnly,
    lease: LeaseNeed::No,
    profile: Profile::Observe,
    always_load: true,
    schema: None,
    run: handler!(status),
};

async fn status(cx: Cx, _: Args) -> Result<Facts, Refused> {
    Ok(Facts::new(cx.world(|w| report(w))))
}

/// The whole report.
pub fn report(w: &World) -> Value {
    let compositor = match &w.compositor {
        Ok(info) => json!({
            "name": info.kind.name(), "version": info.version, "reachable": true,
            "compatible": info.incompatible.is_none(), "why_not": info.incompatible,
        }),
        Err(why) => json!({"name": w.last_kind.map(CompositorKind::name), "reachable": false, "why_not": why}),
    };
    let stream = match &w.stream {
        Stream::Opening => json!({"state": "opening"}),
        Stream::Live => json!({"state": "live", "seq": w.desktop.seq}),
        Stream::Lost(why) => json!({"state": "lost", "why": why}),
    };
    let lock = match w.lock {
        LockState::Locked => "locked",
        LockState::Unlocked => "unlocked",
        LockState::Unknown => "unknown",
    };
    let outputs: Vec<Value> = w.desktop.outputs.iter().map(|o| {
        let aimed = o.logical.is_some() && aim::raw_size(o).is_some();
        json!({
            "name": o.name, "pointer": aimed,
            "why_not": (!aimed).then_some("the output is off, or the compositor doesn't give its geometry"),
        })
    }).collect();
    let noctalia = json!({"available": false, "why_not": "this version of the server has no Noctalia backend"});
    json!({
        "ready": blockers(w).is_empty(),
        "blockers": blockers(w),
        "compositor": compositor,
        "event_stream": stream,
        "lease": lease(w),
        "stopped": match w.stop { StopFlag::Set => json!(true), StopFlag::Clear => json!(false), StopFlag::Unknown => Value::Null },
        "unfinished_input": w.unfinished,
        "lock": {"state": lock, "source": w.lock_source, "assumed_unlocked": w.lock == LockState::Unknown && w.unlocked_by_policy()},
        "session_match": w.session_match.is_ok(),
        "capture": availability(&w.screen),
        "input": availability(&w.seat),
        "outputs": outputs,
        "noctalia": noctalia,
        "accessibility": accessibility(w),
        "policy": {
            "state": w.policy_state.word(),
            "why": match &w.policy_state { PolicyState::Invalid(why) => Some(why), _ => None },
            "profile": w.policy.profile.name(),
            "unrestricted": w.policy.unrestricted,
            "presets": w.policy.presets.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
            "saving": w.policy.capture_dir.is_some(),
            "assume_unlocked": w.policy.assume_unlocked,
        },
        "audit": {"path": w.audit_path.as_ref().map(|p| p.to_string_lossy()), "last_error": w.audit_error},
    })
}

fn availability(state: &Availability) -> Value {
    match state {
        Availability::Up => json!({"available": true}),
        Availability::Down { detail } => json!({"available": false, "why_not": detail}),
    }
}

fn accessibility(w: &World) -> Value {
    match &w.access {
        Some(AccessState::Up { enabled: true }) => json!({"available": true, "switched_on": true}),
        Some(AccessState::Up { enabled: false }) => json!({
            "available": true, "switched_on": false,
            "note": "GTK apps show their elements; Qt and Chromium do once the policy says accessibility = \"enable\" and they are started again",
        }),
        Some(AccessState::Down { detail }) => json!({"available": false, "why_not": detail}),
        None => json!({"available": false, "why_not": "the accessibility bus wasn't looked for"}),
    }
}

/// Who holds it; never the token.
fn lease(w: &World) -> Value {
    match (w.lease.held(), &w.other_holder) {
        (Some(lease), _) => {
            let ends = w.wall_offset_ms + lease.expires_at;
            json!({"held": true, "holder": lease.label, "since": rfc3339(lease.since_wall_ms), "expires_at": rfc3339(ends), "here": true})
        }
        (None, Some(other)) => json!({"held": true, "holder": other.label, "since": rfc3339(other.since_wall_ms), "pid": other.pid, "here": false}),
        (None, None) => json!({"held": false}),
    }
}

/// Plain sentences, each with its remedy.
pub fn blockers(w: &World) -> Vec<String> {
    let mut all = Vec::new();
    if let Err(why) = &w.compositor {
        all.push(format!("The compositor can't be reached: {why}. Start the server inside a niri or sway session; `deskhand doctor` looks for what is missing."));
    }
    match w.stop {
        StopFlag::Set => all.push("The desktop is stopped. The person lifts it with `deskhand resume`.".into()),
        StopFlag::Unknown if w.stop_unwatched.is_some() => all.extend(w.stop_unwatched.as_deref().map(unwatched)),
        StopFlag::Unknown => all.push("Whether the desktop is stopped isn't known yet. Ask again in a moment.".into()),
        StopFlag::Clear => {}
    }
    if let Some(what) = &w.unfinished {
        all.push(format!("A server that died left input unfinished: {what}. The person runs `deskhand recover`."));
    }
    if let Ok(info) = &w.compositor {
        if let Some(why) = &info.incompatible {
            all.push(format!("{} {} isn't understood: {why}. Update the compositor or Deskhand; until then it only looks.", info.kind.name(), info.version));
        }
        match &w.stream {
            Stream::Lost(why) => all.push(format!("The event stream was lost: {why}. It is being opened again.")),
            Stream::Opening => all.push("The event stream isn't read yet. Ask again in a moment.".into()),
            Stream::Live => {}
        }
        if let Err(why) = &w.session_match {
            all.push(format!("{why}. Start the server in the session that it is to drive."));
        }
        if w.locked() {
            let how = match (w.lock, info.kind) {
                (LockState::Locked, _) => "The person unlocks it.",
                (_, CompositorKind::Sway) => "sway tells nothing of the lock; on a headless sway the policy may say `assume_unlocked = true`.",
                _ => "logind must know the session; on a nested niri the policy may say `assume_unlocked = true`.",
            };
            all.push(format!("The screen counts as locked ({}). {how}", w.lock_source));
        }
        for (what, state) in [("Capturing", &w.screen), ("Input", &w.seat)] {
            if let Availability::Down { detail } = state {
                all.push(format!("{what} isn't possible: {detail}. `deskhand doctor` says what the compositor lacks."));
            }
        }
    }
    if let PolicyState::Invalid(why) = &w.policy_state {
        all.push(format!("The policy file is invalid: {why}. Mend it and start the server again; until then it only looks."));
    }
    if let Some(why) = &w.audit_error {
        all.push(format!("The audit log can't be written: {why}. Until it can, the server only looks."));
    }
    all
}
