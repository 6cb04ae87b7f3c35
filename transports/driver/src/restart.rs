//! A bug in the core must not end the server: its calls are answered with an internal error, leases are revoked, and a
//! new core goes on from what was observed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use deskhand_core::{Core, Input, Time};

pub(crate) fn guarded(core: &mut Core, now: Time, input: Input) {
    let kind = name(&input);
    if catch_unwind(AssertUnwindSafe(|| core.handle_input(now, input))).is_ok() {
        return;
    }
    tracing::error!(input = kind, "the core panicked on this input; it is started anew, leases are revoked");
    core.restart(super::clock::seed());
}

fn name(input: &Input) -> &'static str {
    match input {
        Input::Opened { .. } => "opened",
        Input::Message { .. } => "message",
        Input::TooLong { .. } => "too long",
        Input::Ended { .. } => "ended",
        Input::Closed { .. } => "closed",
        Input::Completed { .. } => "completed",
        Input::Observed(_) => "observed",
        Input::AuditWritten(_) => "audit written",
        Input::WallClock { .. } => "wall clock",
        Input::Shutdown => "shutdown",
        Input::Tick => "tick",
    }
}
