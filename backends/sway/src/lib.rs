//! sway, seen and driven through its IPC socket (i3's protocol).
//!
//! sway's events tell that something changed, not what: each one makes the tree be read again, and what differs from
//! what was told before is told. Some changes have no event at all (a tiled window resized, a floating one moved, a
//! layer surface that took the keyboard), so the tree is also read a few times a second.

mod binds;
mod commands;
mod follow;
mod outputs;
mod requests;
mod tree;
mod version;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use deskhand_core::desktop::effect::{CompositorRequest, Outcome};
use deskhand_core::desktop::event::Observation;
use deskhand_ports::ipc::Requests;
use deskhand_ports::peer::{self, Environment, IpcKind, IpcSocket};
use deskhand_ports::{Compositor, Observe, Ticket};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

const KIND: IpcKind = IpcKind { compositor: "sway", variable: "SWAYSOCK", prefix: "sway-ipc." };

/// Finds sway's socket: `SWAYSOCK` if its process serves the Wayland display, else one in the runtime directory whose
/// process does. The error is a sentence for a person.
pub fn find(environment: &Environment) -> Result<IpcSocket, String> {
    peer::find_ipc(environment, environment.sway_socket.as_deref(), KIND)
}

/// A sway that is followed for as long as this value lives.
pub struct Sway {
    shared: Arc<Shared>,
    task: AbortHandle,
}

impl Sway {
    /// Starts to look for sway and to follow it; returns at once. Must be called inside a tokio runtime.
    pub fn start(environment: Environment, observe: Observe) -> Self {
        let (refresh, refresh_wanted) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            environment,
            observe,
            link: Mutex::new(Err("sway was not looked for yet".into())),
            requests: Requests::new(KIND.compositor),
            resync: Notify::new(),
            refresh,
        });
        let task = tokio::spawn(follow::events(shared.clone(), refresh_wanted)).abort_handle();
        Self { shared, task }
    }

    /// Opens the event stream again, so that everything is told from the start.
    pub fn resync(&self) {
        self.shared.resync.notify_one();
    }
}

impl Drop for Sway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait]
impl Compositor for Sway {
    async fn request(&self, request: CompositorRequest, ticket: Ticket) -> Outcome {
        requests::request(&self.shared, request, &ticket).await
    }
}

/// What the following task and the requests have in common.
struct Shared {
    environment: Environment,
    observe: Observe,
    /// The sway that was last announced as up, or why there is none. Requests go nowhere else.
    link: Mutex<Result<IpcSocket, String>>,
    requests: Requests<wire::Frames>,
    resync: Notify,
    /// Asks for the tree to be read and told; answered once that is done.
    refresh: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl Shared {
    fn observe(&self, observation: Observation) {
        (self.observe)(observation);
    }

    fn link(&self) -> Result<IpcSocket, String> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_link(&self, link: Result<IpcSocket, String>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }
}
