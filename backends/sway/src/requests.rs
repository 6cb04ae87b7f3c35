//! The core's requests in sway's words.

use std::time::Duration;

use deskhand_core::desktop::effect::{CompositorRequest, Failure, FailureKind, Outcome, Reply};
use deskhand_ports::Ticket;
use deskhand_ports::ipc::Outgoing;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::tree::Snapshot;
use crate::wire::{self, GET_CONFIG, GET_OUTPUTS, GET_TREE, RUN_COMMAND};
use crate::{Shared, binds, commands, outputs, tree};

/// How long an answer waits for the windows to be told first.
const REFRESH_PATIENCE: Duration = Duration::from_millis(500);

/// Carries out one request of the core.
pub async fn request(shared: &Shared, request: CompositorRequest, ticket: &Ticket) -> Outcome {
    match request {
        CompositorRequest::FocusWindow(id) => run(shared, &commands::focus_window(id), ticket).await,
        CompositorRequest::CloseWindow(id) => run(shared, &commands::close_window(id), ticket).await,
        CompositorRequest::FocusWorkspace(id) => {
            let command = commands::focus_workspace(&snapshot(shared, ticket).await?, id)?;
            run(shared, &command, ticket).await
        }
        CompositorRequest::Action(_) => Err(Failure::new(
            FailureKind::Refused,
            "niri's actions don't exist on sway; use focus, close_window, key or the pointer",
        )),
        CompositorRequest::Outputs => {
            refresh(shared, ticket).await;
            let answer = ask(shared, GET_OUTPUTS, ticket).await?;
            outputs::outputs(&answer).map(Reply::Outputs).ok_or_else(misunderstood)
        }
        CompositorRequest::FocusedOutput => {
            let answer = ask(shared, GET_OUTPUTS, ticket).await?;
            Ok(Reply::Name(outputs::focused(&answer)))
        }
        CompositorRequest::Layers => {
            let answer = ask(shared, GET_OUTPUTS, ticket).await?;
            Ok(Reply::Layers(outputs::layers(&answer)))
        }
        CompositorRequest::Binds => {
            let answer = ask(shared, GET_CONFIG, ticket).await?;
            binds::binds(&answer).map(Reply::Binds).ok_or_else(misunderstood)
        }
    }
}

/// Lets the windows' places be told as they are now: sway has no event for some of their changes.
async fn refresh(shared: &Shared, ticket: &Ticket) {
    let (done, told) = oneshot::channel();
    if shared.link().is_ok() && shared.refresh.send(done).is_ok() {
        let until = Instant::from_std(ticket.deadline).min(Instant::now() + REFRESH_PATIENCE);
        // An ended or late refresh is no reason to give no answer.
        let _ = timeout_at(until, told).await;
    }
}

async fn snapshot(shared: &Shared, ticket: &Ticket) -> Result<Snapshot, Failure> {
    let answer = ask(shared, GET_TREE, ticket).await?;
    tree::snapshot(&answer).ok_or_else(misunderstood)
}

async fn run(shared: &Shared, command: &str, ticket: &Ticket) -> Outcome {
    let answer = send(shared, RUN_COMMAND, command, true, ticket).await?;
    commands::check(&answer).map(|()| Reply::Done)
}

async fn ask(shared: &Shared, kind: u32, ticket: &Ticket) -> Result<Value, Failure> {
    send(shared, kind, "", false, ticket).await
}

async fn send(shared: &Shared, kind: u32, payload: &str, acts: bool, ticket: &Ticket) -> Result<Value, Failure> {
    let socket = shared.link().map_err(|why| Failure::new(FailureKind::Unavailable, why))?;
    let bytes = wire::encode(kind, payload);
    let outgoing = Outgoing { bytes: &bytes, acts };
    shared
        .requests
        .exchange(&socket, outgoing, ticket, |frame| if frame.kind == kind { frame.json() } else { None })
        .await
}

fn misunderstood() -> Failure {
    Failure::new(FailureKind::Refused, "sway's answer is not understood; update deskhand")
}
