//! The session backend: one value behind the `Session` port, and what it sees to `Observe`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deskhand_core::desktop::effect::{Failure, FailureKind, Holder, Outcome, Reply, SessionRequest};
use deskhand_core::desktop::event::CompositorKind;
use deskhand_ports::{Observe, Ticket};
use tokio::task::JoinHandle;

use crate::guard::Guard;
use crate::launch::{self, Variables};
use crate::lease::{self, Attempt, Held};
use crate::logind::{Bus, LockFollower};
use crate::paths::Paths;
use crate::{inherited, journal, watch};

/// Somebody who only looks has the lock for microseconds, so it is tried a few times.
const TRIES: u32 = 6;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The machine-wide side of one run of a compositor. Dropping it ends its tasks and gives the lock back.
pub struct Session {
    shared: Arc<Shared>,
    environment: Variables,
    /// One request changes the lease at a time.
    changing: tokio::sync::Mutex<()>,
    watch: JoinHandle<()>,
    lock_state: Mutex<Option<LockFollower>>,
}

/// What the requests and the watching task have in common.
pub(crate) struct Shared {
    pub(crate) paths: Paths,
    pub(crate) observe: Observe,
    guard: Option<Arc<Guard>>,
    held: Mutex<Option<Held>>,
}

impl Session {
    /// Must be called in a tokio runtime; returns at once. The first observations (`Stop`, `OtherHolder`, `Unfinished`)
    /// follow as soon as the runtime runs. `environment` is all that launched programs get. Without a guard the lock is
    /// given anyway (looking and tests); with one it isn't while the guard is down.
    pub fn start(paths: Paths, observe: Observe, guard: Option<Arc<Guard>>, environment: Variables) -> Self {
        inherited::close_on_exec();
        let shared = Arc::new(Shared { paths, observe, guard, held: Mutex::new(None) });
        let watch = tokio::spawn(watch::follow(Arc::clone(&shared)));
        Self { shared, environment, changing: tokio::sync::Mutex::new(()), watch, lock_state: Mutex::new(None) }
    }

    /// Follows whether the compositor's session is locked; replaces what was followed before. Returns at once.
    pub fn follow_lock(&self, bus: Bus, compositor_pid: u32, kind: CompositorKind) {
        let follower = LockFollower::start(bus, compositor_pid, kind, Arc::clone(&self.shared.observe));
        *self.lock_state.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
    }

    async fn lock(&self, label: String, since_wall_ms: u64, ticket: &Ticket) -> Outcome {
        let _one_at_a_time = self.changing.lock().await;
        ticket.check()?;
        if let Some(guard) = &self.shared.guard {
            guard.check()?;
        }
        let paths = &self.shared.paths;
        paths.prepare().map_err(|why| Failure::new(FailureKind::Unavailable, why))?;
        let holder = Holder { label, since_wall_ms, pid: std::process::id() };
        if self.shared.holds_lease() && self.shared.check_lease().is_none() {
            lease::write_holder(paths, &holder)?;
            return Ok(Reply::Done);
        }
        let held = self.take(ticket).await?;
        // The files of those who died before us, whose lock we have now.
        journal::adopt_orphans(paths);
        let prepared = lease::write_holder(paths, &holder)
            .and_then(|()| self.shared.guard.as_ref().map_or(Ok(()), |guard| guard.share_lease(&held.lock)))
            .and_then(|()| ticket.check());
        match prepared {
            Ok(()) => {
                *self.shared.lease() = Some(held);
                Ok(Reply::Done)
            }
            Err(failure) => {
                held.give_back(paths);
                self.shared.tell_guard_gone();
                Err(failure)
            }
        }
    }

    async fn take(&self, ticket: &Ticket) -> Result<Held, Failure> {
        let paths = &self.shared.paths;
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(BETWEEN_TRIES).await;
                ticket.check()?;
            }
            match lease::try_take(paths)? {
                Attempt::Taken(held) => return Ok(held),
                Attempt::Busy | Attempt::Replaced => {}
            }
        }
        match lease::current_holder(paths) {
            Some(holder) => {
                let who = match holder.pid {
                    0 => holder.label.clone(),
                    pid => format!("{} (process {pid})", holder.label),
                };
                let mut failure = Failure::new(
                    FailureKind::Refused,
                    format!("{who} holds this desktop's lease; wait until it gives it up, or end that process"),
                );
                failure.holder = Some(holder);
                Err(failure)
            }
            None => Err(Failure::new(
                FailureKind::Refused,
                "the lease's lock changed hands while it was asked for; try again",
            )),
        }
    }

    async fn unlock(&self) -> Outcome {
        let _one_at_a_time = self.changing.lock().await;
        self.shared.give_back();
        Ok(Reply::Done)
    }
}

#[async_trait]
impl deskhand_ports::Session for Session {
    async fn request(&self, request: SessionRequest, ticket: Ticket) -> Outcome {
        match request {
            SessionRequest::Lock { label, since_wall_ms } => self.lock(label, since_wall_ms, &ticket).await,
            SessionRequest::Unlock => self.unlock().await,
            SessionRequest::Launch { argv, env } => {
                ticket.check()?;
                let pid = launch::launch(argv, env, self.environment.clone()).await?;
                Ok(Reply::Launched { pid })
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.watch.abort();
        self.shared.give_back();
    }
}

impl Shared {
    pub(crate) fn holds_lease(&self) -> bool {
        self.lease().is_some()
    }

    /// Drops a lock whose file is not in its place any more, and says what happened.
    pub(crate) fn check_lease(&self) -> Option<String> {
        let mut lease = self.lease();
        let detail = lease.as_ref()?.is_in_place(&self.paths).err()?;
        *lease = None;
        drop(lease);
        self.tell_guard_gone();
        Some(detail)
    }

    fn give_back(&self) {
        let held = self.lease().take();
        if let Some(held) = held {
            held.give_back(&self.paths);
            self.tell_guard_gone();
        }
    }

    fn tell_guard_gone(&self) {
        if let Some(guard) = &self.guard {
            guard.lease_gone();
        }
    }

    fn lease(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
