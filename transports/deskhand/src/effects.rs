//! From the core's effects to the backends, and their outcomes back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{Effect, Failure, FailureKind, Outcome};
use deskhand_core::{Input, Op};
use deskhand_driver::{Driver, Effects};
use deskhand_ports::{Access, Clipboard, Compositor, Fence, Screen, Seat, Session, Ticket};
use tokio::runtime::Handle;

/// A backend that lets its own deadline pass is waited for this much longer.
const GRACE: Duration = Duration::from_millis(250);

/// Whatever was found to act on.
#[derive(Clone, Default)]
pub struct Backends {
    pub compositor: Option<Arc<dyn Compositor>>,
    pub screen: Option<Arc<dyn Screen>>,
    pub seat: Option<Arc<dyn Seat>>,
    pub clipboard: Option<Arc<dyn Clipboard>>,
    /// Of the compositor's present run; another one brings another.
    pub session: Option<Arc<dyn Session>>,
    pub access: Option<Arc<dyn Access>>,
}

pub struct Executor {
    backends: RwLock<Backends>,
    fence: Fence,
    running: Mutex<BTreeMap<Op, Arc<AtomicBool>>>,
    driver: OnceLock<Weak<Driver>>,
    runtime: Handle,
}

impl Executor {
    pub fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { backends: RwLock::default(), fence: Fence::default(), running: Mutex::default(), driver: OnceLock::new(), runtime })
    }

    /// Where outcomes go; set once, before the first input.
    pub fn attach(&self, driver: &Arc<Driver>) {
        let _ = self.driver.set(Arc::downgrade(driver));
    }

    pub fn change(&self, change: impl FnOnce(&mut Backends)) {
        change(&mut self.backends.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn running(&self) -> std::sync::MutexGuard<'_, BTreeMap<Op, Arc<AtomicBool>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Effects for Executor {
    fn start(&self, op: Op, effect: Effect, deadline: Instant, generation: u64) {
        let cancelled = Arc::new(AtomicBool::new(false));
        self.running().insert(op, cancelled.clone());
        let ticket = Ticket { fence: self.fence.clone(), generation, cancelled, deadline };
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(driver) = self.driver.get().cloned() else { return };
        self.runtime.spawn(async move {
            let end = tokio::time::Instant::from_std(deadline) + GRACE;
            let outcome = match tokio::time::timeout_at(end, perform(&backends, effect, ticket)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Failure::new(FailureKind::TimedOut, "the backend gave no answer in time")),
            };
            if let Some(driver) = driver.upgrade() {
                driver.handle(Input::Completed { op, outcome });
            }
        });
    }

    fn cancel(&self, op: Op) {
        if let Some(cancelled) = self.running().get(&op) {
            cancelled.store(true, Ordering::SeqCst);
        }
    }

    fn fence(&self, generation: u64) {
        self.fence.raise(generation);
        // Finished operations are forgotten at the moments when cancelling matters anyway.
        self.running().retain(|_, cancelled| Arc::strong_count(cancelled) > 1);
    }
}

async fn perform(backends: &Backends, effect: Effect, ticket: Ticket) -> Outcome {
    let missing = |what: &str| Err(Failure::new(FailureKind::Unavailable, format!("{what} isn't there; `deskhand doctor` says why")));
    match effect {
        Effect::Compositor(request) => match &backends.compositor {
            Some(compositor) => compositor.request(request, ticket).await,
            None => missing("the compositor"),
        },
        Effect::Screen(request) => match &backends.screen {
            Some(screen) => screen.request(request, ticket).await,
            None => missing("the Wayland display"),
        },
        Effect::Seat(request) => match &backends.seat {
            Some(seat) => seat.request(request, ticket).await,
            None => missing("the Wayland display"),
        },
        Effect::Clipboard(request) => match &backends.clipboard {
            Some(clipboard) => clipboard.request(request, ticket).await,
            None => missing("the Wayland display"),
        },
        Effect::Session(request) => match &backends.session {
            Some(session) => session.request(request, ticket).await,
            None => missing("the session's runtime directory"),
        },
        Effect::Access(request) => match &backends.access {
            Some(access) => access.request(request, ticket).await,
            None => missing("the accessibility bus"),
        },
    }
}
