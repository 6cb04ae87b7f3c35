//! niri, seen and driven through its IPC socket.
//!
//! Two connections: one carries requests, one at a time; the other carries the event stream, read by a task of its
//! own. Both are opened again after a loss, and a niri that was restarted is found under its new socket name.

mod follow;
pub mod reader;
mod requests;
mod version;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use deskhand_core::desktop::effect::{CompositorRequest, Outcome};
use deskhand_core::desktop::event::Observation;
use deskhand_core::desktop::model::Output;
use deskhand_ports::ipc::Requests;
use deskhand_ports::peer::{self, Environment, IpcKind, IpcSocket};
use deskhand_ports::{Compositor, Observe, Ticket};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

const KIND: IpcKind = IpcKind { compositor: "niri", variable: "NIRI_SOCKET", prefix: "niri." };

/// Finds niri's socket: `NIRI_SOCKET` if its process serves the Wayland display, else one in the runtime directory
/// whose process does. The error is a sentence for a person.
pub fn find(environment: &Environment) -> Result<IpcSocket, String> {
    peer::find_ipc(environment, environment.niri_socket.as_deref(), KIND)
}

/// A niri that is followed for as long as this value lives.
pub struct Niri {
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

impl Niri {
    /// Starts to look for niri and to follow it; returns at once. Must be called inside a tokio runtime.
    pub fn start(environment: Environment, observe: Observe) -> Self {
        let shared = Arc::new(Shared {
            environment,
            observe,
            link: Mutex::new(Err("niri was not looked for yet".into())),
            outputs: Mutex::new(None),
            outputs_hint: Notify::new(),
            resync: Notify::new(),
            requests: Requests::new(KIND.compositor),
        });
        let tasks = vec![
            tokio::spawn(follow::events(shared.clone())).abort_handle(),
            tokio::spawn(follow::outputs(shared.clone())).abort_handle(),
        ];
        Self { shared, tasks }
    }

    /// Opens the event stream again, so that everything is told from the start.
    pub fn resync(&self) {
        self.shared.resync.notify_one();
    }
}

impl Drop for Niri {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

#[async_trait]
impl Compositor for Niri {
    async fn request(&self, request: CompositorRequest, ticket: Ticket) -> Outcome {
        requests::request(&self.shared, request, &ticket).await
    }
}

/// What the tasks and the requests have in common.
struct Shared {
    environment: Environment,
    observe: Observe,
    /// The niri that was last announced as up, or why there is none. Requests go nowhere else.
    link: Mutex<Result<Link, String>>,
    /// The outputs as they were last observed.
    outputs: Mutex<Option<Vec<Output>>>,
    /// Something happened that may have changed the outputs.
    outputs_hint: Notify,
    resync: Notify,
    requests: Requests<wire::Lines>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    socket: IpcSocket,
    version: String,
}

impl Shared {
    fn observe(&self, observation: Observation) {
        (self.observe)(observation);
    }

    fn link(&self) -> Result<Link, String> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_link(&self, link: Result<Link, String>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// Keeps the outputs; whether they differ from those kept before.
    fn replace_outputs(&self, outputs: Option<Vec<Output>>) -> bool {
        let mut kept = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = *kept != outputs;
        *kept = outputs;
        differs
    }
}
