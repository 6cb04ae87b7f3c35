//! The traits that Deskhand's backends implement, and what the program hands to each of them.

pub mod ipc;
pub mod peer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use deskhand_core::desktop::effect::{
    ClipboardRequest, CompositorRequest, Failure, FailureKind, Outcome, ScreenRequest, SeatRequest, SessionRequest,
};
use deskhand_core::desktop::elements::AccessRequest;
use deskhand_core::desktop::event::Observation;

/// Where a backend puts what it sees. Never blocks for long; may be called from any thread.
pub type Observe = Arc<dyn Fn(Observation) + Send + Sync>;

/// The newest generation that the core has put out: what carries an older one must not reach the desktop.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<AtomicU64>);

impl Fence {
    pub fn raise(&self, generation: u64) {
        self.0.fetch_max(generation, Ordering::SeqCst);
    }

    pub fn current(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// An operation's permission: asked again just before each write and between chunks.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub fence: Fence,
    pub generation: u64,
    pub cancelled: Arc<AtomicBool>,
    pub deadline: Instant,
}

impl Ticket {
    /// Whether the operation may still touch the desktop.
    pub fn check(&self) -> Result<(), Failure> {
        if self.fence.current() > self.generation {
            return Err(Failure::new(FailureKind::Fenced, "the lease ended or the desktop was stopped"));
        }
        if self.cancelled.load(Ordering::SeqCst) {
            return Err(Failure::new(FailureKind::Fenced, "the call was cancelled"));
        }
        Ok(())
    }

    pub fn expired(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// A compositor's IPC: requests one at a time, events to [`Observe`].
#[async_trait]
pub trait Compositor: Send + Sync {
    async fn request(&self, request: CompositorRequest, ticket: Ticket) -> Outcome;
}

/// Captures, compares and watches the screen.
#[async_trait]
pub trait Screen: Send + Sync {
    async fn request(&self, request: ScreenRequest, ticket: Ticket) -> Outcome;
}

/// The virtual pointer and keyboard.
#[async_trait]
pub trait Seat: Send + Sync {
    async fn request(&self, request: SeatRequest, ticket: Ticket) -> Outcome;
}

/// Reads the clipboard, and lends it to a text that is pasted.
#[async_trait]
pub trait Clipboard: Send + Sync {
    async fn request(&self, request: ClipboardRequest, ticket: Ticket) -> Outcome;
}

/// Accessible elements of windows. Each request has its own deadline, and none waits for another.
#[async_trait]
pub trait Access: Send + Sync {
    async fn request(&self, request: AccessRequest, ticket: Ticket) -> Outcome;
}

/// The lock file, the launcher, and the person's switches.
#[async_trait]
pub trait Session: Send + Sync {
    async fn request(&self, request: SessionRequest, ticket: Ticket) -> Outcome;
}

/// Told before a key or button goes down and after it came up, so that a guard can release what a dead server held.
pub trait PressJournal: Send + Sync {
    /// Must be on its way to the guard when this returns; an error means that the press must not be sent.
    fn pressing(&self, what: Pressed) -> Result<(), Failure>;
    fn released(&self, what: Pressed);
}

/// A key by its evdev code, a mask of XKB modifiers, or a button by its Linux code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressed {
    Key(u32),
    Modifiers(u32),
    Button(u32),
}
