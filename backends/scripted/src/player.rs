//! Plays a script's parts one after the other, and holds each request until its outcome's turn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use deskhand_core::Op;
use deskhand_core::desktop::effect::{ClipboardRequest, CompositorRequest, Effect, Failure, FailureKind, Outcome, ScreenRequest, SeatRequest, SessionRequest};
use deskhand_core::desktop::elements::AccessRequest;
use deskhand_ports::{Access, Clipboard, Compositor, Observe, Screen, Seat, Session, Ticket};
use tokio::sync::{Notify, oneshot};

use crate::script::{Part, Script, What, alike};

/// A trace being played; all five backends at once.
pub struct Player {
    state: Mutex<State>,
    /// A request came.
    asked: Notify,
    /// A part was played.
    played: Notify,
}

struct State {
    /// Recorded effects that nobody asked for yet, in order.
    open: Vec<(Op, Effect)>,
    /// Who waits for an outcome.
    waiting: BTreeMap<Op, oneshot::Sender<Outcome>>,
    /// Asked for, and not in the trace.
    unexpected: Vec<Effect>,
    done: bool,
}

impl Player {
    pub(crate) fn start(script: Script, observe: Observe, longest_gap: Duration) -> Arc<Self> {
        let state = State { open: script.effects, waiting: BTreeMap::new(), unexpected: Vec::new(), done: false };
        let player = Arc::new(Self { state: Mutex::new(state), asked: Notify::new(), played: Notify::new() });
        tokio::spawn(play(Arc::downgrade(&player), script.parts, observe, longest_gap));
        player
    }

    /// Whether every part was played, at most `limit` from now.
    pub async fn finished(&self, limit: Duration) -> bool {
        let all = async {
            loop {
                let played = self.played.notified();
                if self.state().done {
                    return;
                }
                played.await;
            }
        };
        tokio::time::timeout(limit, all).await.is_ok()
    }

    /// What was asked for and isn't in the trace, and what is in the trace and wasn't asked for.
    pub fn differences(&self) -> (Vec<Effect>, Vec<Effect>) {
        let state = self.state();
        (state.unexpected.clone(), state.open.iter().map(|(_, effect)| effect.clone()).collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, effect: Effect, ticket: Ticket) -> Outcome {
        let outcome = {
            let mut state = self.state();
            let Some(at) = state.open.iter().position(|(_, recorded)| alike(recorded, &effect)) else {
                state.unexpected.push(effect);
                return Err(Failure::new(FailureKind::Refused, "the trace that is played has no such request at this point"));
            };
            let (op, _) = state.open.remove(at);
            let (give, outcome) = oneshot::channel();
            state.waiting.insert(op, give);
            outcome
        };
        self.asked.notify_one();
        match tokio::time::timeout_at(ticket.deadline.into(), outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Failure::new(FailureKind::Lost, "the trace ended before this was answered")),
            Err(_) => Err(Failure::new(FailureKind::TimedOut, "the trace's answer to this didn't come up in time")),
        }
    }
}

async fn play(player: Weak<Player>, parts: Vec<Part>, observe: Observe, longest_gap: Duration) {
    for part in parts {
        match part.what {
            What::Observe(observation) => {
                tokio::time::sleep(part.gap.min(longest_gap)).await;
                observe(observation);
            }
            What::Complete(op, outcome) => {
                let Some(give) = asked_for(&player, op).await else { return };
                tokio::time::sleep(part.gap.min(longest_gap)).await;
                // Whoever gave up waiting has been answered already.
                let _ = give.send(outcome);
            }
        }
        match player.upgrade() {
            Some(player) => player.played.notify_waiters(),
            None => return,
        }
    }
    if let Some(player) = player.upgrade() {
        let mut state = player.state();
        state.done = true;
        // What the trace never answers ends now, as its recording did.
        state.waiting.clear();
        drop(state);
        player.played.notify_waiters();
    }
}

/// Waits for the request; `None` when the player is gone.
async fn asked_for(player: &Weak<Player>, op: Op) -> Option<oneshot::Sender<Outcome>> {
    loop {
        let player = player.upgrade()?;
        if let Some(give) = player.state().waiting.remove(&op) {
            return Some(give);
        }
        // Looks again after a while, so that the player's end is seen.
        let _ = tokio::time::timeout(Duration::from_millis(200), player.asked.notified()).await;
    }
}

#[async_trait]
impl Compositor for Player {
    async fn request(&self, request: CompositorRequest, ticket: Ticket) -> Outcome {
        self.answer(Effect::Compositor(request), ticket).await
    }
}

#[async_trait]
impl Screen for Player {
    async fn request(&self, request: ScreenRequest, ticket: Ticket) -> Outcome {
        self.answer(Effect::Screen(request), ticket).await
    }
}

#[async_trait]
impl Seat for Player {
    async fn request(&self, request: SeatRequest, ticket: Ticket) -> Outcome {
        self.answer(Effect::Seat(request), ticket).await
    }
}

#[async_trait]
impl Clipboard for Player {
    async fn request(&self, request: ClipboardRequest, ticket: Ticket) -> Outcome {
        self.answer(Effect::Clipboard(request), ticket).await
    }
}

#[async_trait]
impl Access for Player {
    async fn request(&self, request: AccessRequest, ticket: Ticket) -> Outcome {
        self.answer(Effect::Access(request), ticket).await
    }
}

#[async_trait]
impl Session for Player {
    async fn request(&self, request: SessionRequest, ticket: Ticket) -> Outcome {
        self.answer(Effect::Session(request), ticket).await
    }
}
