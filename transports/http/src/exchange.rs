//! One POST of the stateless revision: what the core sends for it, until its answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use deskhand_core::rpc::body::{Body, Nature};
use deskhand_core::{Conn, Route};
use deskhand_driver::{Driver, Sink};

use crate::link::{Ending, Link};

pub(crate) struct Exchange {
    state: Mutex<State>,
    link: Arc<Link>,
    /// Bytes that may wait beyond the first message.
    bound: usize,
}

#[derive(Default)]
struct State {
    /// Nearly always the only one, so it needs no queue.
    first: Option<Body>,
    more: VecDeque<Body>,
    waiting: usize,
    waker: Option<Waker>,
    over: bool,
}

impl Exchange {
    pub fn new(link: Arc<Link>, bound: usize) -> Self {
        Self { state: Mutex::default(), link, bound }
    }

    /// The next message; `None` once there will be no more.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Body>> {
        let mut state = self.lock();
        let next = state.first.take().or_else(|| state.more.pop_front());
        if let Some(body) = next {
            state.waiting = state.waiting.saturating_sub(body.len());
            return Poll::Ready(Some(body));
        }
        if state.over {
            return Poll::Ready(None);
        }
        if state.waker.as_ref().is_none_or(|w| !w.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Exchange {
    fn send(&self, _: Route, body: Body) {
        let mut state = self.lock();
        if state.over {
            return;
        }
        let len = body.len();
        if state.waiting > 0 && state.waiting + len > self.bound {
            // The client doesn't read: with its connection goes its call.
            *state = State { over: true, ..State::default() };
            self.link.end(Ending::Now);
            return;
        }
        state.over = matches!(body.nature(), Nature::Answer { .. });
        state.waiting += len;
        if state.waiting == len {
            state.first = Some(body);
        } else {
            state.more.push_back(body);
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.over = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// Closes the core's connection when it goes: after the answer, or with the client, which is a cancellation.
pub(crate) struct Open {
    pub driver: Arc<Driver>,
    pub conn: Conn,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.close(self.conn);
    }
}
