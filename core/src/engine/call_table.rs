//! The calls that are under way: by number, by request, ready to be polled, in the lane.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::cx::{Cx, lock};
use super::io::{CallId, Conn, Op, Route};
use crate::lease::rules::Claim;
use crate::protocol::asking::AskFailed;
use crate::protocol::dispatch::Return;
use crate::protocol::state::Binding;
use crate::rpc::id::RequestId;
use crate::time::Time;
use crate::tools::args::Args;
use crate::tools::declare::Tool;
use crate::tools::facts::Refused;
use crate::tools::offers::{HandlerFuture, Product};


#[derive(Default)]
pub(crate) struct Calls {
    pub(super) table: BTreeMap<CallId, Call>,
    pub(super) by_request: BTreeMap<(Conn, RequestId), CallId>,
    pub(super) ready: VecDeque<CallId>,
    pub(super) queued: BTreeSet<CallId>,
    /// The first one runs.
    pub(super) lane: VecDeque<CallId>,
    pub(super) issued: u64,
}

pub(super) struct Call {
    /// `None` for the core's own housekeeping.
    pub(super) origin: Option<Origin>,
    pub(super) cx: Cx,
    pub(super) future: Option<HandlerFuture>,
    /// What a call waiting for the lane will run.
    pub(super) waiting: Option<Args>,
    pub(super) started: Time,
    pub(super) on_lane: bool,
    /// The lease's use that must be finished with the call.
    pub(super) using: Option<Claimed>,
    /// The handler is done; its undoing is under way.
    pub(super) result: Option<Result<Product, Refused>>,
    pub(super) cleaning: BTreeSet<u32>,
}

pub(crate) struct Origin {
    pub id: RequestId,
    pub route: Route,
    /// `None` for what isn't a tool's call.
    pub tool: Option<&'static Tool>,
    pub redacted: Value,
    /// A member of this batch.
    pub batch: Option<u64>,
    pub reply_wanted: bool,
    pub last_progress: f64,
    /// What a retry with the client's answers must match.
    pub binding: Option<Binding>,
}

impl Origin {
    pub fn new(id: RequestId, to: Return, tool: Option<&'static Tool>) -> Self {
        Self { id, route: to.route, tool, redacted: Value::Null, batch: to.batch, reply_wanted: true, last_progress: f64::NEG_INFINITY, binding: None }
    }
}

pub(crate) struct OpenCalls {
    pub last_call: u64,
    pub requests: Vec<(Return, RequestId)>,
}

pub(super) struct Claimed {
    pub(super) principal: String,
    pub(super) session: Option<Conn>,
    pub(super) token: Option<String>,
}

impl Claimed {
    pub(super) fn claim(&self) -> Claim<'_> {
        Claim { principal: &self.principal, session: self.session, token: self.token.as_deref() }
    }
}

impl Calls {
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Without the core's own housekeeping.
    pub fn requests(&self) -> usize {
        self.by_request.len()
    }

    pub fn of(&self, conn: Conn) -> usize {
        self.by_request.range((conn, RequestId::Number("".into()))..).take_while(|((c, _), _)| *c == conn).count()
    }

    /// By the principal, over all its connections.
    pub fn of_principal(&self, principal: &str) -> usize {
        self.table.values().filter(|call| call.origin.is_some() && call.cx.caller.principal == principal).count()
    }

    /// Where a call's messages go.
    pub fn place(&self, call: CallId) -> Option<(Conn, Route)> {
        let call = self.table.get(&call)?;
        call.origin.as_ref().map(|origin| (call.cx.caller.conn, origin.route))
    }

    /// The client's answer to what a call asked.
    pub fn answer(&mut self, call: CallId, key: u32, answer: Result<Value, AskFailed>) {
        let Some(entry) = self.table.get(&call) else { return };
        let waited = {
            let mut slot = lock(&entry.cx.slot);
            let waited = slot.asking.remove(&key);
            if waited {
                slot.answered.insert(key, answer);
            }
            waited
        };
        if waited {
            self.wake(call);
        }
    }

    pub fn find(&self, conn: Conn, id: &RequestId) -> Option<CallId> {
        self.by_request.get(&(conn, id.clone())).copied()
    }

    /// For a restart: who waits for an answer, and which effects are open.
    pub fn into_open(self) -> (OpenCalls, Vec<Op>) {
        let mut open = OpenCalls { last_call: self.issued, requests: Vec::new() };
        let mut ops = Vec::new();
        for (id, call) in self.table {
            ops.extend(lock(&call.cx.slot).open.iter().map(|number| Op { call: id, number: *number }));
            if let Some(origin) = call.origin.filter(|o| o.reply_wanted) {
                open.requests.push((Return { conn: call.cx.caller.conn, route: origin.route, batch: origin.batch }, origin.id));
            }
        }
        (open, ops)
    }

    /// Call numbers go on, so that late completions find nobody.
    pub fn starting_after(last: u64) -> Self {
        Self { issued: last, ..Self::default() }
    }

    pub(super) fn wake(&mut self, call: CallId) {
        if self.table.contains_key(&call) && self.queued.insert(call) {
            self.ready.push_back(call);
        }
    }
}
