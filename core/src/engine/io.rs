//! The core's inputs and outputs. Plain data; the driver carries it.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::desktop::effect::{Effect, Outcome};
use crate::desktop::event::Observation;
use crate::protocol::carriage::Carriage;
use crate::rpc::body::Body;
use crate::time::Time;

/// A connection, numbered by the driver, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Conn(pub u64);

/// Where on a connection an answer goes (one stream on stdio, one per POST on HTTP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Route(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// One effect of one call. Also used by the core's own housekeeping, as calls that nobody made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Op {
    pub call: CallId,
    pub number: u32,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} / op {}", self.call.0, self.number)
    }
}

impl From<Op> for String {
    fn from(op: Op) -> Self {
        op.to_string()
    }
}

impl TryFrom<String> for Op {
    type Error = String;

    /// From `call 7 / op 2`.
    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.strip_prefix("call ").and_then(|rest| rest.split_once(" / op "));
        parts
            .and_then(|(call, number)| Some(Op { call: CallId(call.parse().ok()?), number: number.parse().ok()? }))
            .ok_or_else(|| format!("{text:?} isn't like \"call 7 / op 2\""))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Opened { conn: Conn, principal: String, carriage: Carriage },
    /// One whole JSON text.
    Message { conn: Conn, route: Route, bytes: Bytes },
    /// A text that was longer than the transport's bound; it was dropped.
    TooLong { conn: Conn, route: Route },
    /// Nothing more will come; answers are still read.
    Ended { conn: Conn },
    /// Nobody reads any more.
    Closed { conn: Conn },
    Completed { op: Op, outcome: Outcome },
    Observed(Observation),
    AuditWritten(Result<(), String>),
    /// The wall clock moved against the driver's: wall = now + offset, in milliseconds since 1970.
    WallClock { offset_ms: u64 },
    /// The program is about to end: leases are given back.
    Shutdown,
    /// Time passed.
    Tick,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Effects of an older generation must not reach the desktop any more.
    Fence(u64),
    Send { conn: Conn, route: Route, body: Body },
    /// `deadline` is on the driver's clock.
    Start { op: Op, effect: Effect, deadline: Time, generation: u64 },
    Cancel { op: Op },
    /// A handler lets the client poll: the stream of this route is closed, what comes for it waits for a resume.
    EndStream { conn: Conn, route: Route, retry_ms: u64 },
    /// One line for the audit log; answered by `AuditWritten`.
    Audit(Value),
    Close { conn: Conn },
}

/// Why the core wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// A handler's own wait.
    Wait { call: CallId, key: u32 },
    /// A backend's answer is overdue.
    Overdue { op: Op },
    /// An abandoned call's effects are waited for no longer.
    GiveUp { call: CallId },
    /// Looking for the desktop has taken long enough.
    Startup,
    /// The lease has been idle.
    LeaseIdle,
}
