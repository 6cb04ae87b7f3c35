//! The core's requests in niri's words.

use std::time::Duration;

use deskhand_core::desktop::effect::{CompositorRequest, Failure, FailureKind, Outcome, Reply};
use deskhand_core::desktop::model::Output;
use deskhand_ports::Ticket;
use deskhand_ports::ipc::{Outgoing, Wire};
use deskhand_ports::peer::IpcSocket;
use niri_ipc::{Action, Request, WorkspaceReferenceArg};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::wire::Lines;
use crate::{Shared, reader};

/// Carries out one request of the core.
pub async fn request(shared: &Shared, request: CompositorRequest, ticket: &Ticket) -> Outcome {
    match request {
        CompositorRequest::FocusWindow(id) => act(shared, Action::FocusWindow { id }, ticket).await,
        CompositorRequest::FocusWorkspace(id) => {
            act(shared, Action::FocusWorkspace { reference: WorkspaceReferenceArg::Id(id) }, ticket).await
        }
        CompositorRequest::CloseWindow(id) => act(shared, Action::CloseWindow { id: Some(id) }, ticket).await,
        CompositorRequest::Action(value) => {
            send(shared, json!({ "Action": value }).to_string(), true, ticket).await.map(|_| Reply::Done)
        }
        CompositorRequest::Outputs => outputs(shared, ticket).await.map(Reply::Outputs),
        CompositorRequest::FocusedOutput => {
            let answer = ask(shared, &Request::FocusedOutput, ticket).await?;
            let output = answer.get("FocusedOutput").ok_or_else(|| misunderstood(&answer))?;
            Ok(Reply::Name(output.get("name").and_then(Value::as_str).map(str::to_owned)))
        }
        CompositorRequest::Layers => {
            let mut answer = ask(shared, &Request::Layers, ticket).await?;
            let layers = answer.get_mut("Layers").map(Value::take);
            Ok(Reply::Layers(layers.ok_or_else(|| misunderstood(&answer))?))
        }
        // Virtual keys don't trigger niri's binds.
        CompositorRequest::Binds => Ok(Reply::Binds(Vec::new())),
    }
}

/// The outputs as niri has them now.
pub async fn outputs(shared: &Shared, ticket: &Ticket) -> Result<Vec<Output>, Failure> {
    let answer = ask(shared, &Request::Outputs, ticket).await?;
    reader::outputs(&answer).ok_or_else(|| misunderstood(&answer))
}

async fn act(shared: &Shared, action: Action, ticket: &Ticket) -> Outcome {
    let line = encode(&Request::Action(action))?;
    send(shared, line, true, ticket).await.map(|_| Reply::Done)
}

async fn ask(shared: &Shared, request: &Request, ticket: &Ticket) -> Result<Value, Failure> {
    send(shared, encode(request)?, false, ticket).await
}

async fn send(shared: &Shared, mut line: String, acts: bool, ticket: &Ticket) -> Result<Value, Failure> {
    let link = shared.link().map_err(|why| Failure::new(FailureKind::Unavailable, why))?;
    line.push('\n');
    let outgoing = Outgoing { bytes: line.as_bytes(), acts };
    let reply = shared.requests.exchange(&link.socket, outgoing, ticket, |line| reader::reply(&line)).await?;
    reply.map_err(|error| {
        let remedy = if error.contains("parsing request") {
            format!("; niri {} doesn't know this action or its fields", link.version)
        } else {
            String::new()
        };
        Failure::new(FailureKind::Refused, format!("niri said: {error}{remedy}"))
    })
}

fn encode(request: &Request) -> Result<String, Failure> {
    serde_json::to_string(request)
        .map_err(|e| Failure::new(FailureKind::Refused, format!("the request could not be written as JSON: {e}")))
}

fn misunderstood(answer: &Value) -> Failure {
    Failure::new(
        FailureKind::Refused,
        format!("niri's answer is not understood ({}); update deskhand", excerpt(answer.to_string().as_bytes())),
    )
}

fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned()
}

/// A connection whose event stream has begun, and what niri said before.
pub struct Greeting {
    pub events: Wire<Lines>,
    pub version: String,
    pub outputs: Option<Vec<Output>>,
}

/// Asks version and outputs on the connection that then carries the events.
pub async fn greet(socket: &IpcSocket, patience: Duration) -> Result<Greeting, String> {
    let path = socket.path.display();
    let greeting = async {
        let mut wire = Wire::connect(socket)
            .await
            .map_err(|e| format!("niri's socket {path} can't be reached ({e}); is niri running?"))?;
        let version = question(&mut wire, &Request::Version).await?;
        let version = version.get("Version").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let outputs = question(&mut wire, &Request::Outputs).await?;
        question(&mut wire, &Request::EventStream).await?;
        Ok(Greeting { events: wire, version, outputs: reader::outputs(&outputs) })
    };
    timeout(patience, greeting)
        .await
        .unwrap_or_else(|_| Err(format!("niri doesn't answer on {path}; if it hangs, restart it")))
}

async fn question(wire: &mut Wire<Lines>, request: &Request) -> Result<Value, String> {
    let line = encode(request).map_err(|failure| failure.detail)?;
    let bytes = format!("{line}\n");
    wire.write(bytes.as_bytes()).await.map_err(|e| format!("niri closed its socket ({})", e.error))?;
    let answer = wire.read().await.map_err(|e| format!("niri gave no answer to {line} ({e})"))?;
    match reader::reply(&answer) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(format!("niri refused {line}: {error}; update niri")),
        None => Err(format!("niri's answer to {line} is not understood ({})", excerpt(&answer))),
    }
}
