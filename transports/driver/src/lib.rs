//! Owns the core, carries its inputs and outputs, and is the only place with a clock.
//!
//! Inputs may come from any thread: each is handled under one lock, and its outputs are carried out in order before
//! the next one is taken. Nothing that is carried out may block or call back on the same thread.

mod clock;
mod restart;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deskhand_core::desktop::effect::Effect;
use deskhand_core::rpc::body::Body;
use deskhand_core::{Carriage, Config, Conn, Core, Input, Op, Output, Route, Time};
use serde_json::Value;
use tokio::sync::Notify;

pub use clock::{boot_ms, wall_offset_ms};

/// Carries out effects. Every `start` leads to exactly one `Input::Completed`, cancelled or not.
pub trait Effects: Send + Sync {
    fn start(&self, op: Op, effect: Effect, deadline: Instant, generation: u64);
    fn cancel(&self, op: Op);
    /// Effects of an older generation must not reach the desktop from now on.
    fn fence(&self, generation: u64);
}

/// One connection's way out. `send` queues and never blocks.
pub trait Sink: Send + Sync {
    fn send(&self, route: Route, body: Body);
    fn close(&self);
    /// The client may poll for what follows on this route, after this time. Where streams can't be resumed: nothing.
    fn end_stream(&self, _: Route, _retry_ms: u64) {}
}

/// Where audit lines go.
pub trait Audit: Send + Sync {
    fn write(&self, line: &Value) -> Result<(), String>;
}

/// Sees every input before the core does.
pub trait Tap: Send {
    fn input(&mut self, now: Time, input: &Input, core: &Core);
}

/// Shared by all transports and backends of a process.
pub struct Driver {
    inner: Mutex<Inner>,
    /// The timer must be set anew.
    rearm: Notify,
    /// Something finished; those who wait for quiet look again.
    progress: Notify,
    effects: Arc<dyn Effects>,
    audit: Option<Arc<dyn Audit>>,
}

struct Inner {
    core: Core,
    sinks: BTreeMap<Conn, Arc<dyn Sink>>,
    next_conn: u64,
    /// What the timer task is set to.
    armed: Option<Time>,
    tap: Option<Box<dyn Tap>>,
}

impl Driver {
    /// Inside a tokio runtime: starts the task that wakes the core in time.
    pub fn start(config: Config, effects: Arc<dyn Effects>, audit: Option<Arc<dyn Audit>>, tap: Option<Box<dyn Tap>>) -> Arc<Self> {
        let core = Core::new(config, clock::seed(), boot_ms());
        let inner = Inner { core, sinks: BTreeMap::new(), next_conn: 1, armed: None, tap };
        let driver = Arc::new(Self { inner: Mutex::new(inner), rearm: Notify::new(), progress: Notify::new(), effects, audit });
        tokio::spawn(wake_in_time(Arc::downgrade(&driver)));
        driver
    }

    /// A new connection of a principal that the transport admitted.
    pub fn open(&self, principal: &str, carriage: Carriage, sink: Arc<dyn Sink>) -> Conn {
        self.open_locked(&mut self.lock(), principal, carriage, sink)
    }

    /// A connection of one message, its request, under one lock. Close it once it has its answer, or earlier to cancel.
    pub fn exchange(&self, principal: &str, sink: Arc<dyn Sink>, bytes: Bytes) -> Conn {
        let mut inner = self.lock();
        let conn = self.open_locked(&mut inner, principal, Carriage::Exchange, sink);
        self.handle_locked(&mut inner, Input::Message { conn, route: Route(0), bytes });
        conn
    }

    fn open_locked(&self, inner: &mut Inner, principal: &str, carriage: Carriage, sink: Arc<dyn Sink>) -> Conn {
        let conn = Conn(inner.next_conn);
        inner.next_conn += 1;
        inner.sinks.insert(conn, sink);
        self.handle_locked(inner, Input::Opened { conn, principal: principal.to_string(), carriage });
        conn
    }

    pub fn close(&self, conn: Conn) {
        let mut inner = self.lock();
        inner.sinks.remove(&conn);
        self.handle_locked(&mut inner, Input::Closed { conn });
    }

    pub fn handle(&self, input: Input) {
        self.handle_locked(&mut self.lock(), input);
    }

    /// Several at once, under one lock.
    pub fn handle_all(&self, inputs: impl IntoIterator<Item = Input>) {
        let mut inner = self.lock();
        for input in inputs {
            self.handle_locked(&mut inner, input);
        }
    }

    /// A look at the core.
    pub fn look<R>(&self, look: impl FnOnce(&Core) -> R) -> R {
        look(&self.lock().core)
    }

    /// Waits until `quiet` holds, at most for `limit`; whether it does.
    pub async fn wait_until(&self, limit: Duration, quiet: impl Fn(&Core) -> bool) -> bool {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let progressed = self.progress.notified();
            if self.look(&quiet) {
                return true;
            }
            if tokio::time::timeout_at(end, progressed).await.is_err() {
                return self.look(&quiet);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle_locked(&self, inner: &mut Inner, input: Input) {
        self.feed(inner, input);
        while let Some(output) = inner.core.poll_output() {
            self.carry_out(inner, output);
        }
        let next = inner.core.poll_timeout().map(|(at, _)| at);
        if next.is_some() && inner.armed.is_none_or(|armed| next.is_some_and(|next| next < armed)) {
            inner.armed = next;
            self.rearm.notify_one();
        }
    }

    fn feed(&self, inner: &mut Inner, input: Input) {
        let now = boot_ms();
        if let Some(tap) = &mut inner.tap {
            tap.input(now, &input, &inner.core);
        }
        restart::guarded(&mut inner.core, now, input);
    }

    fn carry_out(&self, inner: &mut Inner, output: Output) {
        match output {
            Output::Fence(generation) => self.effects.fence(generation),
            Output::Send { conn, route, body } => {
                if let Some(sink) = inner.sinks.get(&conn) {
                    sink.send(route, body);
                }
                self.progress.notify_waiters();
            }
            Output::Start { op, effect, deadline, generation } => {
                let left = deadline.saturating_sub(boot_ms());
                self.effects.start(op, effect, Instant::now() + Duration::from_millis(left), generation);
            }
            Output::Cancel { op } => self.effects.cancel(op),
            Output::Audit(line) => {
                if let Some(audit) = &self.audit {
                    let written = audit.write(&line);
                    self.feed(inner, Input::AuditWritten(written));
                }
            }
            Output::EndStream { conn, route, retry_ms } => {
                if let Some(sink) = inner.sinks.get(&conn) {
                    sink.end_stream(route, retry_ms);
                }
            }
            Output::Close { conn } => {
                if let Some(sink) = inner.sinks.remove(&conn) {
                    sink.close();
                }
            }
        }
        if inner.core.is_idle() {
            self.progress.notify_waiters();
        }
    }
}

/// Wakes the core at its next time. Ends with the driver.
async fn wake_in_time(driver: std::sync::Weak<Driver>) {
    loop {
        let Some(strong) = driver.upgrade() else { return };
        let next = {
            let mut inner = strong.lock();
            inner.armed = inner.core.poll_timeout().map(|(at, _)| at);
            inner.armed
        };
        let wait = next.map(|at| Duration::from_millis(at.saturating_sub(boot_ms())));
        if wait == Some(Duration::ZERO) {
            strong.handle(Input::Tick);
            tokio::task::yield_now().await;
            continue;
        }
        // Without a time there is nothing to do until one comes; a bound lets the task end with the driver.
        let wait = wait.unwrap_or(Duration::from_secs(3600));
        let rearm = strong.rearm.notified();
        let _ = tokio::time::timeout(wait, rearm).await;
    }
}
