//! Until the outside was looked at once, or a bound is over, lists and calls wait: a client's first call must not be
//! told that there is no desktop only because it came a few milliseconds early.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::core::Core;
use super::io::{Conn, Route, TimerKind};
use crate::protocol::dispatch::Return;
use crate::rpc::error::RpcError;
use crate::rpc::id::RequestId;
use crate::time::Time;

/// How long looking may take.
const BOUND_MS: u64 = 1500;
/// How many requests may wait for it, and how many bytes of theirs.
const HELD_MAX: usize = 256;
const HELD_BYTES: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct Startup {
    over: bool,
    held: VecDeque<Held>,
    bytes: usize,
}

struct Held {
    to: Return,
    id: RequestId,
    method: String,
    params: Option<Box<RawValue>>,
}

impl Held {
    fn len(&self) -> usize {
        self.params.as_ref().map_or(0, |p| p.get().len())
    }
}

/// What was told at least once, be it that it isn't there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub compositor: bool,
    pub stop: bool,
    pub lock: bool,
    pub screen: bool,
    pub seat: bool,
}

impl Startup {
    pub fn is_under_way(&self) -> bool {
        !self.over
    }

    pub fn of(&self, conn: Conn) -> usize {
        self.held.iter().filter(|h| h.to.conn == conn).count()
    }

    pub fn routes_of(&self, conn: Conn) -> impl Iterator<Item = Route> {
        self.held.iter().filter(move |h| h.to.conn == conn).map(|h| h.to.route)
    }

    pub fn forget(&mut self, conn: Conn) {
        self.held.retain(|h| h.to.conn != conn);
        self.recount();
    }

    fn recount(&mut self) {
        self.bytes = self.held.iter().map(Held::len).sum();
    }

    /// Forgets a waiting request; where its answer would have gone.
    pub fn cancel(&mut self, conn: Conn, id: &RequestId) -> Option<Return> {
        let at = self.held.iter().position(|h| h.to.conn == conn && h.id == *id)?;
        let to = self.held.remove(at).map(|h| h.to);
        self.recount();
        to
    }

    /// After a bug: those who wait are answered otherwise.
    pub fn take(&mut self) -> Vec<(Return, RequestId)> {
        self.bytes = 0;
        self.held.drain(..).map(|h| (h.to, h.id)).collect()
    }
}

impl Core {
    pub(super) fn begin_startup(&mut self, now: Time) {
        if !self.startup.over {
            self.timers.set(TimerKind::Startup, now + BOUND_MS);
            self.end_startup_if_ready();
        }
    }

    /// Whether the request waits; then it is answered later.
    pub(crate) fn hold(&mut self, to: Return, id: &RequestId, method: &str, params: Option<&RawValue>) -> Result<bool, RpcError> {
        if self.startup.over || !matches!(method, "tools/list" | "tools/call") {
            return Ok(false);
        }
        let bytes = params.map_or(0, |p| p.get().len());
        if self.startup.held.len() >= HELD_MAX || self.startup.bytes + bytes > HELD_BYTES {
            return Err(RpcError::invalid_request("Invalid Request: the server is starting and too many requests wait; send it again"));
        }
        self.startup.bytes += bytes;
        self.startup.held.push_back(Held { to, id: id.clone(), method: method.to_string(), params: params.map(ToOwned::to_owned) });
        Ok(true)
    }

    pub(super) fn end_startup_if_ready(&mut self) {
        if !self.startup.over && self.look(|w| (self.toolset.ready)(w)) {
            self.end_startup();
        }
    }

    pub(super) fn end_startup(&mut self) {
        self.startup.over = true;
        self.startup.bytes = 0;
        self.timers.clear(TimerKind::Startup);
        // What is listed from here on is what clients are told first.
        self.listings.dirty = true;
        self.listings.announced = None;
        while let Some(held) = self.startup.held.pop_front() {
            self.request_and_answer(held.to, &held.id, &held.method, held.params.as_deref());
        }
    }
}
