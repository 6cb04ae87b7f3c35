//! The life of a call up to its handler's end: the lane, polls, effects. How it ends is in `ending`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::{Map, Value, json};

use super::call_table::{Call, Claimed, Origin};
use super::caller::Caller;
use super::core::Core;
use super::cx::{Cx, Want, lock};
use super::io::{CallId, Conn, Op, Output, Route, TimerKind};
use crate::desktop::effect::{Effect, Failure, FailureKind, Outcome};
use crate::lease::rules::{Request, Verdict};
use crate::protocol::asking::Capabilities;
use crate::protocol::offering::Level;
use crate::rpc::id::RequestId;
use crate::tools::args::Args;
use crate::tools::declare::{LeaseNeed, Tool};
use crate::tools::facts::Refused;
use crate::tools::offers::{HandlerFuture, Product};

/// A backend's own deadline is the effect's; this is how long its completion may then be late.
const GRACE_MS: u64 = 500;

impl Core {
    /// Whether a call whose arguments fit the schema may start. A refusal is answered at once.
    pub(crate) fn passes_gate(&mut self, caller: &Caller, args: &Args, origin: &mut Origin) -> bool {
        if self.toolset.audited {
            origin.redacted = self.look(|w| {
                let knows = (self.toolset.knows)(w);
                crate::tools::redact::redacted(args, knows.as_ref())
            });
        }
        if let Err(refused) = self.gate(caller, args.tool(), args) {
            self.audit(caller, origin, self.now, &Err(refused.clone()));
            self.answer(caller, origin, Map::new(), Err(refused));
            return false;
        }
        true
    }

    pub(crate) fn start_call(&mut self, caller: Caller, args: Args, origin: Origin) {
        let tool = args.tool();
        let conn = caller.conn;
        self.calls.issued += 1;
        let id = CallId(self.calls.issued);
        self.calls.by_request.insert((conn, origin.id.clone()), id);
        let cx = self.door(caller, id);
        let on_lane = tool.lease.on_lane();
        let mut call = Call {
            origin: Some(origin),
            cx,
            future: None,
            waiting: None,
            started: self.now,
            on_lane,
            using: None,
            result: None,
            cleaning: BTreeSet::new(),
        };
        if on_lane {
            call.waiting = Some(args);
            self.calls.table.insert(id, call);
            self.calls.lane.push_back(id);
        } else {
            call.future = Some((tool.run)(call.cx.clone(), args));
            self.calls.table.insert(id, call);
            self.calls.wake(id);
        }
    }

    /// Starts a handler beside the lane.
    pub(crate) fn start_beside(&mut self, caller: Caller, origin: Origin, run: impl FnOnce(Cx) -> HandlerFuture) {
        self.calls.issued += 1;
        let id = CallId(self.calls.issued);
        self.calls.by_request.insert((caller.conn, origin.id.clone()), id);
        let cx = self.door(caller, id);
        let future = Some(run(cx.clone()));
        let call = Call {
            origin: Some(origin),
            cx,
            future,
            waiting: None,
            started: self.now,
            on_lane: false,
            using: None,
            result: None,
            cleaning: BTreeSet::new(),
        };
        self.calls.table.insert(id, call);
        self.calls.wake(id);
    }

    fn door(&self, caller: Caller, id: CallId) -> Cx {
        // A request that waited for the start may begin after its client's last word.
        let ended = self.connections.get(&caller.conn).is_some_and(|c| c.ended);
        let cx = Cx::new(self.world.clone(), Arc::new(caller), id);
        lock(&cx.slot).ending = ended;
        cx
    }

    fn gate(&self, caller: &Caller, tool: &Tool, args: &Args) -> Result<(), Refused> {
        self.look(|w| (self.toolset.gate)(w, caller, tool, args))
    }

    /// Housekeeping on the lane.
    fn start_own(&mut self, run: impl FnOnce(Cx) -> HandlerFuture) {
        self.calls.issued += 1;
        let id = CallId(self.calls.issued);
        let caller = Caller {
            conn: Conn(0),
            principal: String::new(),
            label: String::new(),
            revision: crate::protocol::revision::Revision::NEWEST_LEGACY,
            progress_token: None,
            capabilities: Capabilities::default(),
            log_level: None,
            given: None,
        };
        let cx = Cx::new(self.world.clone(), Arc::new(caller), id);
        let future = Some(run(cx.clone()));
        let call = Call {
            origin: None,
            cx,
            future,
            waiting: None,
            started: self.now,
            on_lane: true,
            using: None,
            result: None,
            cleaning: BTreeSet::new(),
        };
        self.calls.table.insert(id, call);
        // Before those who wait: nobody may act between a lease's end and its devices' end.
        let at = usize::from(self.calls.lane.front().is_some_and(|first| self.calls.table.get(first).is_some_and(|c| c.waiting.is_none())));
        self.calls.lane.insert(at, id);
    }

    /// The lane's first call starts once the one before it is gone.
    pub(super) fn advance_lane(&mut self) -> bool {
        let Some(&id) = self.calls.lane.front() else { return false };
        let Some(call) = self.calls.table.get_mut(&id) else {
            self.calls.lane.pop_front();
            return true;
        };
        let Some(args) = call.waiting.take() else {
            // Housekeeping has its future from the start and is polled first when its turn comes.
            if call.origin.is_none() && call.future.is_some() && !lock(&call.cx.slot).polled {
                lock(&call.cx.slot).polled = true;
                self.calls.wake(id);
                return true;
            }
            return false;
        };
        let cx = call.cx.clone();
        let tool = args.tool();
        let abandoned = cx.abandoned();
        let gate = match abandoned {
            Some(reason) => Err(self.look(|w| (self.toolset.abandoned)(w, reason))),
            // The desktop may have changed while the call stood in the lane.
            None => self.gate(&cx.caller, tool, &args),
        };
        if let Err(refused) = gate {
            self.finish(id, Err(refused));
            return true;
        }
        if tool.lease == LeaseNeed::Needed {
            let claimed = Claimed {
                principal: cx.caller.principal.clone(),
                session: cx.caller.session(),
                token: args.map().get("lease").and_then(Value::as_str).map(str::to_string),
            };
            self.lease(&Request::Begin(claimed.claim()));
            if let Some(call) = self.calls.table.get_mut(&id) {
                call.using = Some(claimed);
            }
        }
        let future = (tool.run)(cx, args);
        if let Some(call) = self.calls.table.get_mut(&id) {
            call.future = Some(future);
        }
        self.calls.wake(id);
        true
    }

    /// Polls what is ready, in arrival order.
    pub(super) fn poll_ready(&mut self) -> bool {
        let Some(id) = self.calls.ready.pop_front() else { return false };
        self.calls.queued.remove(&id);
        let Some(call) = self.calls.table.get_mut(&id) else { return true };
        let Some(mut future) = call.future.take() else { return true };
        let cx = call.cx.clone();
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_pending()
            && let Some(call) = self.calls.table.get_mut(&id)
        {
            call.future = Some(future);
        }
        self.drain_wanted(id, &cx);
        if let Poll::Ready(result) = polled {
            self.handler_done(id, result);
        }
        true
    }

    fn drain_wanted(&mut self, id: CallId, cx: &Cx) {
        while let Some(want) = { lock(&cx.slot).wanted.pop_front() } {
            match want {
                Want::Start { key, effect, timeout_ms } => self.start_effect(id, key, *effect, timeout_ms),
                Want::Timer { key, at } => {
                    if lock(&cx.slot).timers.contains(&key) {
                        self.timers.set(TimerKind::Wait { call: id, key }, at);
                    }
                }
                Want::Changed { key, after } => {
                    if self.look(|w| w.desktop.seq) > after {
                        self.wait_over(id, key);
                    }
                }
                Want::Forget { key } => self.timers.clear(TimerKind::Wait { call: id, key }),
                Want::Progress { progress, total, message } => self.progress(id, progress, total, &message),
                Want::DesktopChanged => self.desktop_changed(),
                Want::RaiseFence => self.raise_fence(),
                Want::Ask { key, method, params } => self.send_ask(id, key, method, &params),
                Want::Withdraw { key } => self.withdraw_ask(id, key),
                Want::Log { level, logger, data } => self.log(id, level, &logger, &data),
                Want::EndStream { retry_ms } => {
                    if let Some((conn, route)) = self.calls.place(id).filter(|(conn, _)| self.connections.contains_key(conn)) {
                        self.put(Output::EndStream { conn, route, retry_ms });
                    }
                }
                Want::ListChanged(kind) => self.announce(kind),
                Want::ResourceUpdated(uri) => self.announce_resource(&uri),
            }
        }
    }

    pub(super) fn start_effect(&mut self, call: CallId, key: u32, effect: Effect, timeout_ms: u64) {
        let op = Op { call, number: key };
        let deadline = self.now + timeout_ms;
        self.timers.set(TimerKind::Overdue { op }, deadline + GRACE_MS);
        let generation = self.look(|w| w.generation);
        self.put(Output::Start { op, effect, deadline, generation });
    }

    fn progress(&mut self, id: CallId, progress: f64, total: Option<f64>, message: &str) {
        let Some(call) = self.calls.table.get_mut(&id) else { return };
        let (Some(origin), Some(token)) = (call.origin.as_mut(), call.cx.caller.progress_token.clone()) else { return };
        if !origin.reply_wanted || progress <= origin.last_progress {
            return;
        }
        origin.last_progress = progress;
        let mut params = Map::from_iter([("progressToken".to_string(), token), ("progress".to_string(), json!(progress))]);
        if let Some(total) = total {
            params.insert("total".into(), json!(total));
        }
        if call.cx.caller.revision.has_progress_message() {
            params.insert("message".into(), json!(message));
        }
        let (conn, route) = (call.cx.caller.conn, origin.route);
        let body = crate::rpc::body::notification("notifications/progress", &Value::Object(params));
        self.put(Output::Send { conn, route, body });
    }

    fn log(&mut self, id: CallId, level: Level, logger: &str, data: &Value) {
        let Some(call) = self.calls.table.get(&id) else { return };
        let Some(origin) = call.origin.as_ref().filter(|o| o.reply_wanted) else { return };
        let (conn, route) = (call.cx.caller.conn, origin.route);
        let body = crate::rpc::body::notification("notifications/message", &json!({"level": level, "logger": logger, "data": data}));
        self.put(Output::Send { conn, route, body });
    }

    pub(super) fn completed(&mut self, op: Op, outcome: Outcome) {
        self.timers.clear(TimerKind::Overdue { op });
        let Some(call) = self.calls.table.get_mut(&op.call) else { return };
        if call.cleaning.remove(&op.number) {
            self.next_cleanup(op.call);
            return;
        }
        {
            let mut slot = lock(&call.cx.slot);
            if !slot.open.remove(&op.number) {
                return;
            }
            slot.got.insert(op.number, outcome);
        }
        if call.result.is_some() {
            // The handler left before its effect's end; undoing waited for it.
            self.next_cleanup(op.call);
        } else {
            self.calls.wake(op.call);
        }
    }

    pub(super) fn overdue(&mut self, op: Op) {
        self.put(Output::Cancel { op });
        self.completed(op, Err(Failure::new(FailureKind::TimedOut, "the backend gave no answer in time")));
    }

    pub(super) fn wait_over(&mut self, call: CallId, key: u32) {
        let Some(entry) = self.calls.table.get(&call) else { return };
        let woke = {
            let mut slot = lock(&entry.cx.slot);
            let waited = slot.timers.remove(&key) | slot.changes.remove(&key).is_some() | slot.ends.remove(&key);
            waited && slot.fired.insert(key)
        };
        if woke {
            self.calls.wake(call);
        }
    }

    /// Wakes those who wait for a change of the desktop.
    pub(super) fn desktop_changed(&mut self) {
        let seq = self.look(|w| w.desktop.seq);
        let waits: Vec<(CallId, u32)> = self
            .calls
            .table
            .iter()
            .flat_map(|(id, call)| {
                let slot = lock(&call.cx.slot);
                slot.changes.iter().filter(|(_, after)| **after < seq).map(|(key, _)| (*id, *key)).collect::<Vec<_>>()
            })
            .collect();
        for (call, key) in waits {
            self.wait_over(call, key);
        }
    }

    /// A lease is over: devices closed, frames forgotten, lock given back, all on the lane.
    pub(super) fn start_giving_back(&mut self) -> bool {
        if !std::mem::take(&mut self.give_back) {
            return false;
        }
        self.start_own(|cx| Box::pin(async move { super::observe::give_lease_back(cx).await.map(Product::from) }));
        true
    }

    pub(crate) fn lease(&mut self, request: &Request) -> Verdict {
        let now = self.now;
        self.world_mut(|w| {
            let (table, verdict) = crate::lease::rules::decide(&w.lease, request, now);
            w.lease = table;
            verdict
        })
    }

    /// The routes of a connection on which an answer is still to come. A cancelled request's isn't, unless its batch's is.
    pub fn answers_due(&self, conn: Conn) -> BTreeSet<Route> {
        let origins = self.calls_of(conn).into_iter().filter_map(|id| self.calls.table.get(&id)?.origin.as_ref());
        let running = origins.filter(|o| o.reply_wanted || o.batch.is_some()).map(|o| o.route);
        running.chain(self.startup.routes_of(conn)).collect()
    }

    /// The calls of a connection.
    pub(crate) fn calls_of(&self, conn: Conn) -> Vec<CallId> {
        self.calls.by_request.range((conn, RequestId::Number("".into()))..).take_while(|((c, _), _)| *c == conn).map(|(_, id)| *id).collect()
    }
}
