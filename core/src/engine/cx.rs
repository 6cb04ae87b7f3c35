//! A handler's only door to the outside, and the futures it can await.
//!
//! A handler is polled by the core itself, with a waker that does nothing: it can wait for an effect, a timer or a
//! change of the desktop, and for nothing else. What it wants is queued in its slot; the core drains the queue after
//! each poll and puts what arrived into the slot before the next one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use serde_json::{Map, Value};

use super::caller::Caller;
use super::io::CallId;
use super::world::World;
use crate::desktop::effect::{Effect, Failure, FailureKind, Outcome};
use crate::desktop::event::DesktopEvent;
use crate::lease::rules::{Request, Verdict, decide};
use crate::protocol::asking::AskFailed;
use crate::protocol::offering::{Level, ListKind};
use crate::time::Time;
use crate::tools::facts::Refused;

/// Why a call must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The client said so, or is gone: nobody reads the answer.
    Cancelled,
    LeaseLost,
    Stopped,
    Locked,
    CompositorGone,
    ShuttingDown,
}

pub(crate) enum Want {
    Start { key: u32, effect: Box<Effect>, timeout_ms: u64 },
    Timer { key: u32, at: Time },
    Changed { key: u32, after: u64 },
    Forget { key: u32 },
    Progress { progress: f64, total: Option<f64>, message: String },
    DesktopChanged,
    RaiseFence,
    Ask { key: u32, method: &'static str, params: Value },
    /// A question that the handler no longer waits for.
    Withdraw { key: u32 },
    Log { level: Level, logger: String, data: Value },
    EndStream { retry_ms: u64 },
    ListChanged(ListKind),
    ResourceUpdated(String),
}

#[derive(Default)]
pub(crate) struct Slot {
    next_key: u32,
    pub wanted: VecDeque<Want>,
    pub got: BTreeMap<u32, Outcome>,
    /// Effects that were started and have no outcome yet.
    pub open: BTreeSet<u32>,
    pub fired: BTreeSet<u32>,
    pub changes: BTreeMap<u32, u64>,
    pub timers: BTreeSet<u32>,
    /// Waits for the end of the client's input.
    pub ends: BTreeSet<u32>,
    pub abandoned: Option<Reason>,
    /// What it does now must be done whatever happens.
    pub shielded: bool,
    pub ending: bool,
    /// Housekeeping: whether its turn on the lane has come.
    pub polled: bool,
    pub cleanup: Vec<(u32, Effect)>,
    /// Requests to the client without an answer yet.
    pub asking: BTreeSet<u32>,
    pub answered: BTreeMap<u32, Result<Value, AskFailed>>,
    /// The client's answers that the handler has read: carried on if it asks for more.
    pub answers_used: Map<String, Value>,
}

impl Slot {
    pub fn key(&mut self) -> u32 {
        self.next_key += 1;
        self.next_key
    }
}

#[derive(Clone)]
pub struct Cx {
    pub(crate) slot: Arc<Mutex<Slot>>,
    world: Arc<Mutex<World>>,
    pub caller: Arc<Caller>,
    pub call: CallId,
}

/// Everything here runs on one thread under the core's own lock, so a poisoned mutex is only a panic told twice.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cx {
    pub(super) fn new(world: Arc<Mutex<World>>, caller: Arc<Caller>, call: CallId) -> Self {
        Self { slot: Arc::default(), world, caller, call }
    }

    /// A look at, or a change to, what the core knows. Never held across an await.
    pub fn world<R>(&self, look: impl FnOnce(&mut World) -> R) -> R {
        look(&mut lock(&self.world))
    }

    pub fn now(&self) -> Time {
        self.world(|w| w.now)
    }

    pub fn abandoned(&self) -> Option<Reason> {
        lock(&self.slot).abandoned
    }

    /// From here on the call isn't abandoned any more, and if it was it goes on: it gives back what must be given back.
    pub(crate) fn shield(&self) {
        let mut slot = lock(&self.slot);
        slot.shielded = true;
        slot.abandoned = None;
    }

    /// Whether the client has ended its input: what it waits for is answered at once.
    pub fn input_ended(&self) -> bool {
        lock(&self.slot).ending
    }

    /// Runs an effect. After an abandonment nothing is started.
    pub fn run(&self, effect: Effect, timeout_ms: u64) -> Running {
        let mut slot = lock(&self.slot);
        let key = slot.key();
        if slot.abandoned.is_some() {
            slot.got.insert(key, Err(Failure::new(FailureKind::Abandoned, "not started: the call had to stop")));
        } else {
            slot.open.insert(key);
            slot.wanted.push_back(Want::Start { key, effect: Box::new(effect), timeout_ms });
        }
        Running { slot: self.slot.clone(), key }
    }

    /// Waits; cut short by an abandonment.
    pub fn sleep(&self, ms: u64) -> Waiting {
        let at = self.now() + ms;
        self.wait(|slot, key| {
            slot.timers.insert(key);
            slot.wanted.push_back(Want::Timer { key, at });
        })
    }

    /// Waits until the client's input ends (at once when it has).
    pub fn input_end(&self) -> Waiting {
        let ended = self.input_ended();
        self.wait(|slot, key| {
            if ended {
                slot.fired.insert(key);
            } else {
                slot.ends.insert(key);
            }
        })
    }

    /// Waits until the desktop's `seq` is beyond `after` (at once when it is).
    pub fn changed(&self, after: u64) -> Waiting {
        if self.world(|w| w.desktop.seq) > after {
            return self.wait(|slot, key| {
                slot.fired.insert(key);
            });
        }
        self.wait(|slot, key| {
            slot.changes.insert(key, after);
            slot.wanted.push_back(Want::Changed { key, after });
        })
    }

    fn wait(&self, enter: impl FnOnce(&mut Slot, u32)) -> Waiting {
        let mut slot = lock(&self.slot);
        let key = slot.key();
        if slot.abandoned.is_some() {
            slot.fired.insert(key);
        } else {
            enter(&mut slot, key);
        }
        Waiting { slot: self.slot.clone(), key, done: false }
    }

    /// Told to the client if it asked for progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        if self.caller.progress_token.is_some() {
            lock(&self.slot).wanted.push_back(Want::Progress { progress, total, message: message.to_string() });
        }
    }

    /// A log message to the client, if it wants messages of this level.
    pub fn log(&self, level: Level, logger: &str, data: Value) {
        if self.caller.log_level.is_some_and(|least| level >= least) {
            lock(&self.slot).wanted.push_back(Want::Log { level, logger: logger.to_string(), data });
        }
    }

    /// Closes the call's stream where it can be resumed: the client asks again after this time for what follows.
    pub fn end_stream(&self, retry_ms: u64) {
        lock(&self.slot).wanted.push_back(Want::EndStream { retry_ms });
    }

    /// Tells all clients that want to know.
    pub fn list_changed(&self, kind: ListKind) {
        lock(&self.slot).wanted.push_back(Want::ListChanged(kind));
    }

    /// Tells the clients that subscribed to this resource.
    pub fn resource_updated(&self, uri: &str) {
        lock(&self.slot).wanted.push_back(Want::ResourceUpdated(uri.to_string()));
    }

    pub(crate) fn stopped(&self, reason: Reason) -> Refused {
        self.world(|w| (w.abandoned)(w, reason))
    }

    /// What must be undone, whatever happens, before the lane frees. Declared before the doing.
    pub fn defer(&self, effect: Effect) -> Deferred {
        let mut slot = lock(&self.slot);
        let key = slot.key();
        slot.cleanup.push((key, effect));
        Deferred(key)
    }

    /// It was undone in the ordinary way.
    pub fn disarm(&self, deferred: Deferred) {
        lock(&self.slot).cleanup.retain(|(key, _)| *key != deferred.0);
    }

    /// What a reply told of the desktop, as if a backend had observed it.
    pub(crate) fn learned(&self, event: &DesktopEvent) {
        if self.world(|w| w.learn(event)) {
            lock(&self.slot).wanted.push_back(Want::DesktopChanged);
        }
    }

    /// What was started under the lease so far must not reach the desktop any more.
    pub(crate) fn raise_fence(&self) {
        lock(&self.slot).wanted.push_back(Want::RaiseFence);
    }

    pub(crate) fn lease(&self, request: &Request) -> Verdict {
        self.world(|w| {
            let (table, verdict) = decide(&w.lease, request, w.now);
            w.lease = table;
            verdict
        })
    }

    /// A fresh unguessable name.
    pub(crate) fn token(&self) -> String {
        self.world(|w| w.random.token())
    }
}

#[must_use]
#[derive(Clone, Copy, Debug)]
pub struct Deferred(u32);

/// An effect under way.
pub struct Running {
    slot: Arc<Mutex<Slot>>,
    key: u32,
}

impl Future for Running {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        match lock(&self.slot).got.remove(&self.key) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

/// A timer or a change that is waited for. Gives why it was cut short.
pub struct Waiting {
    slot: Arc<Mutex<Slot>>,
    key: u32,
    done: bool,
}

impl Future for Waiting {
    type Output = Result<(), Reason>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let result = {
            let mut slot = lock(&self.slot);
            if !slot.fired.remove(&self.key) {
                return Poll::Pending;
            }
            slot.abandoned.map_or(Ok(()), Err)
        };
        self.done = true;
        Poll::Ready(result)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.done {
            let mut slot = lock(&self.slot);
            slot.fired.remove(&self.key);
            slot.changes.remove(&self.key);
            slot.timers.remove(&self.key);
            slot.ends.remove(&self.key);
            slot.wanted.push_back(Want::Forget { key: self.key });
        }
    }
}

/// Which of two came; the first is asked first.
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// Waits for the first of two, in fixed order.
pub fn select<A: Future + Unpin, B: Future + Unpin>(a: A, b: B) -> Select<A, B> {
    Select { a, b }
}

pub struct Select<A, B> {
    a: A,
    b: B,
}

impl<A: Future + Unpin, B: Future + Unpin> Future for Select<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(out) = Pin::new(&mut self.a).poll(cx) {
            return Poll::Ready(Either::First(out));
        }
        if let Poll::Ready(out) = Pin::new(&mut self.b).poll(cx) {
            return Poll::Ready(Either::Second(out));
        }
        Poll::Pending
    }
}
