//! A legacy client's session: one connection of the core's, many streams.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use deskhand_core::rpc::body::Body;
use deskhand_core::{Conn, Route};
use deskhand_driver::{Driver, Sink};

use crate::limits::Limits;
use crate::link::Link;
use crate::sse::{self, EventId};
use crate::stream_log::{First, Next, NoStream, Place, Streams};

pub(crate) struct Session {
    pub id: String,
    /// Which mount's, by place in the list.
    pub mount: usize,
    pub principal: Arc<str>,
    pub driver: Arc<Driver>,
    conn: OnceLock<Conn>,
    /// Streams begin with a priming event, and may be paused.
    primes: AtomicBool,
    state: Mutex<State>,
}

struct State {
    streams: Streams,
    ended: bool,
    used_ms: u64,
}

/// What a POST of a request comes to.
pub(crate) enum Outcome {
    Answer(Body),
    Stream(Reader, VecDeque<Bytes>),
    /// Cancelled.
    Nothing,
    SessionEnded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotHeard {
    SessionEnded,
    Stream(NoStream),
}

impl Session {
    pub fn new(id: String, mount: usize, principal: Arc<str>, driver: Arc<Driver>, limits: &Limits, now_ms: u64) -> Self {
        let state = State { streams: Streams::new(limits.replay, limits.stream_queue), ended: false, used_ms: now_ms };
        Self { id, mount, principal, driver, conn: OnceLock::new(), primes: AtomicBool::new(false), state: Mutex::new(state) }
    }

    pub fn opened(&self, conn: Conn) {
        let _ = self.conn.set(conn);
    }

    /// `None` until the core has it.
    pub fn conn(&self) -> Option<Conn> {
        self.conn.get().copied()
    }

    pub fn set_primes(&self, primes: bool) {
        self.primes.store(primes, Ordering::Release);
    }

    pub fn is_ended(&self) -> bool {
        self.lock().ended
    }

    pub fn touch(&self, now_ms: u64) {
        self.lock().used_ms = now_ms;
    }

    /// Since when nobody has used it; `None` while somebody does.
    pub fn idle_since(&self) -> Option<u64> {
        {
            let state = self.lock();
            if state.streams.is_used() {
                return None;
            }
        }
        let busy = self.conn().is_some_and(|conn| self.driver.look(|core| core.in_flight(conn) > 0));
        if busy { None } else { Some(self.lock().used_ms) }
    }

    /// Wakes all who wait, and gives up the core's connection. Must not be called by the core's own doing.
    pub fn end(&self) {
        {
            let mut state = self.lock();
            if !std::mem::replace(&mut state.ended, true) {
                state.streams.wake_all();
            }
        }
        if let Some(conn) = self.conn() {
            self.driver.close(conn);
        }
    }

    /// Hands in a request and waits for what comes first.
    pub async fn request(self: &Arc<Self>, bytes: Bytes, link: &Arc<Link>) -> Outcome {
        let Some(conn) = self.conn() else { return Outcome::SessionEnded };
        let route = {
            let mut state = self.lock();
            if state.ended {
                return Outcome::SessionEnded;
            }
            state.streams.begin()
        };
        let waiting = Waiting { session: self, route };
        self.driver.handle(deskhand_core::Input::Message { conn, route: Route(route), bytes });
        self.lock().streams.handed_over(route);
        let first = std::future::poll_fn(|cx| self.poll_first(route, cx)).await;
        match first {
            None => Outcome::SessionEnded,
            Some(First::Answer(body)) => Outcome::Answer(body),
            Some(First::Nothing) => Outcome::Nothing,
            Some(First::Stream) => {
                let place = self.lock().streams.attach(route, link.clone());
                let Some(place) = place else { return Outcome::Nothing };
                drop(waiting);
                let reader = Reader { session: self.clone(), place, done: false };
                let first = reader.beginning();
                Outcome::Stream(reader, first)
            }
        }
    }

    fn poll_first(&self, route: u64, cx: &mut Context<'_>) -> Poll<Option<First>> {
        let mut state = self.lock();
        if state.ended {
            return Poll::Ready(None);
        }
        match state.streams.first(route, cx.waker()) {
            Some(first) => Poll::Ready(Some(first)),
            None => Poll::Pending,
        }
    }

    /// A GET's stream, and what it begins with.
    pub fn listen(self: &Arc<Self>, last: Option<EventId>, link: &Arc<Link>) -> Result<(Reader, VecDeque<Bytes>), NotHeard> {
        let mut state = self.lock();
        if state.ended {
            return Err(NotHeard::SessionEnded);
        }
        let place = state.streams.listen(last, link.clone()).map_err(NotHeard::Stream)?;
        drop(state);
        let reader = Reader { session: self.clone(), place, done: false };
        let first = if last.is_none() { reader.beginning() } else { VecDeque::new() };
        Ok((reader, first))
    }

    /// Requests to which no answer is due any more were cancelled: those who wait for one are let go.
    pub fn let_go_of_cancelled(&self) {
        let Some(conn) = self.conn() else { return };
        // Taken before the look: what is handed in after it isn't meant.
        let mut unanswered = self.lock().streams.unanswered();
        if unanswered.is_empty() {
            return;
        }
        let due = self.driver.look(|core| core.answers_due(conn));
        unanswered.retain(|route| !due.contains(&Route(*route)));
        // What was answered meanwhile isn't touched.
        self.lock().streams.give_up(&unanswered);
    }

    pub fn end_unsolicited(&self) {
        self.lock().streams.end_unsolicited();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Session {
    fn send(&self, route: Route, body: Body) {
        let mut state = self.lock();
        if !state.ended {
            state.streams.push(route.0, body);
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.streams.wake_all();
    }

    fn end_stream(&self, route: Route, retry_ms: u64) {
        // An older client would take the end for the answer's loss.
        if self.primes.load(Ordering::Acquire) {
            self.lock().streams.pause(route.0, retry_ms);
        }
    }
}

/// A POST whose form isn't decided. A client that leaves now knows no place to come back to.
struct Waiting<'a> {
    session: &'a Session,
    route: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.session.lock().streams.leave(self.route);
    }
}

/// One client reading one stream.
pub(crate) struct Reader {
    session: Arc<Session>,
    place: Place,
    done: bool,
}

impl Reader {
    fn beginning(&self) -> VecDeque<Bytes> {
        if !self.session.primes.load(Ordering::Acquire) {
            return VecDeque::new();
        }
        VecDeque::from([sse::priming(self.place.after)])
    }

    /// Appends the next event; false when there will be none.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut VecDeque<Bytes>) -> Poll<bool> {
        if self.done {
            return Poll::Ready(false);
        }
        let mut state = self.session.lock();
        if state.ended {
            return Poll::Ready(false);
        }
        if self.session.primes.load(Ordering::Relaxed) {
            // By now the priming event is on its way.
            state.streams.told(self.place.after.route);
        }
        match state.streams.next(self.place.after.route, self.place.reader, cx.waker()) {
            None => Poll::Pending,
            Some(Next::End) => Poll::Ready(false),
            Some(Next::Event(id, body)) => {
                drop(state);
                sse::event(out, Some(id), &body);
                Poll::Ready(true)
            }
            Some(Next::Pause(ms)) => {
                out.push_back(sse::retry(ms));
                self.done = true;
                Poll::Ready(true)
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.session.lock().streams.detach(self.place.after.route, self.place.reader);
    }
}
