//! The one answer that every operation gets, whoever comes first: the work or its deadline.

use std::sync::{Arc, Mutex, PoisonError};

use deskhand_core::desktop::effect::{Failure, FailureKind, Outcome};
use tokio::sync::oneshot;

/// Where an operation's outcome goes; only the first one counts.
#[derive(Clone)]
pub(crate) struct ReplySlot(Arc<Mutex<Option<oneshot::Sender<Outcome>>>>);

impl ReplySlot {
    pub fn new() -> (Self, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), receiver)
    }

    pub fn send(&self, outcome: Outcome) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            let _ = sender.send(outcome);
        }
    }

    /// Answered already, or nobody waits any more.
    pub fn is_done(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_none_or(oneshot::Sender::is_closed)
    }
}

pub(crate) fn fail(kind: FailureKind, detail: impl Into<String>) -> Outcome {
    Err(Failure::new(kind, detail))
}

/// Waits for the outcome; a thread that ended without one is a failure too.
pub(crate) async fn outcome_of(receiver: oneshot::Receiver<Outcome>, thread: &str) -> Outcome {
    match receiver.await {
        Ok(outcome) => outcome,
        Err(_) => fail(
            FailureKind::Lost,
            format!("the {thread} thread ended; restart deskhand"),
        ),
    }
}
