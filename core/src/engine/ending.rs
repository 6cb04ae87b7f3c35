//! How a call ends: abandoned or done, then its undoing, its audit line and its answer.

use serde_json::json;

use super::caller::Caller;
use super::call_table::Origin;
use super::core::Core;
use super::cx::{Reason, lock};
use super::io::{CallId, Conn, Op, Output, TimerKind};
use crate::desktop::effect::{Failure, FailureKind};
use crate::lease::rules::Request;
use crate::protocol::asking::AskFailed;
use crate::time::Time;
use crate::tools::declare::Tool;
use crate::tools::facts::{Facts, Refused};
use crate::tools::offers::Product;

/// How long an abandoned call's effects are waited for.
const ABANDON_BOUND_MS: u64 = 1000;
/// How long undoing may take.
const CLEANUP_MS: u64 = 1000;

impl Core {
    /// Stops a call: its effects are cancelled, its waits end, nothing new starts.
    pub(crate) fn abandon(&mut self, id: CallId, reason: Reason) {
        let Some(call) = self.calls.table.get_mut(&id) else { return };
        if reason == Reason::Cancelled
            && let Some(origin) = &mut call.origin
        {
            origin.reply_wanted = false;
        }
        let open: Vec<u32> = {
            let mut slot = lock(&call.cx.slot);
            if slot.abandoned.is_some() || slot.shielded {
                return;
            }
            slot.abandoned = Some(reason);
            let waits: Vec<u32> = slot.timers.iter().chain(slot.changes.keys()).chain(&slot.ends).copied().collect();
            slot.timers.clear();
            slot.changes.clear();
            slot.ends.clear();
            slot.fired.extend(waits);
            for key in std::mem::take(&mut slot.asking) {
                slot.answered.insert(key, Err(AskFailed::Abandoned(reason)));
            }
            slot.open.iter().copied().collect()
        };
        let never_ran = call.waiting.is_some();
        self.withdraw_asks(id);
        for number in &open {
            self.put(Output::Cancel { op: Op { call: id, number: *number } });
        }
        if !open.is_empty() {
            self.timers.set(TimerKind::GiveUp { call: id }, self.now + ABANDON_BOUND_MS);
        }
        if never_ran {
            let refused = self.look(|w| (self.toolset.abandoned)(w, reason));
            self.finish(id, Err(refused));
        } else {
            self.calls.wake(id);
        }
    }

    /// An abandoned call's effects didn't end in time.
    pub(super) fn give_up(&mut self, id: CallId) {
        let Some(call) = self.calls.table.get_mut(&id) else { return };
        let open: Vec<u32> = {
            let mut slot = lock(&call.cx.slot);
            let open: Vec<u32> = std::mem::take(&mut slot.open).into_iter().collect();
            for key in &open {
                slot.got.insert(*key, Err(Failure::new(FailureKind::Abandoned, "it didn't end after it was cancelled")));
            }
            open
        };
        for number in open {
            self.timers.clear(TimerKind::Overdue { op: Op { call: id, number } });
        }
        if call.result.is_some() {
            self.next_cleanup(id);
        } else {
            self.calls.wake(id);
        }
    }

    pub(crate) fn abandon_all(&mut self, reason: Reason, which: impl Fn(&Tool) -> bool) {
        let ids: Vec<CallId> = self
            .calls
            .table
            .iter()
            .filter(|(_, call)| call.origin.as_ref().is_some_and(|o| o.tool.is_none_or(&which)))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.abandon(id, reason);
        }
    }

    pub(super) fn handler_done(&mut self, id: CallId, result: Result<Product, Refused>) {
        let Some(call) = self.calls.table.get_mut(&id) else { return };
        call.future = None;
        call.result = Some(result);
        self.next_cleanup(id);
    }

    /// Once no effect of the call is open: the deferred ones, last declared first, one at a time; then the answer.
    pub(super) fn next_cleanup(&mut self, id: CallId) {
        let Some(call) = self.calls.table.get_mut(&id) else { return };
        let step = {
            let mut slot = lock(&call.cx.slot);
            if !slot.open.is_empty() || !call.cleaning.is_empty() {
                return;
            }
            slot.cleanup.pop()
        };
        match step {
            Some((key, effect)) => {
                call.cleaning.insert(key);
                self.start_effect(id, key, effect, CLEANUP_MS);
            }
            None => {
                let result = call.result.take().unwrap_or_else(|| Ok(Product::Tool(Facts::default())));
                self.finish(id, result);
            }
        }
    }

    pub(super) fn finish(&mut self, id: CallId, result: Result<Product, Refused>) {
        self.withdraw_asks(id);
        let Some(call) = self.calls.table.remove(&id) else { return };
        self.timers.clear(TimerKind::GiveUp { call: id });
        let waits: Vec<u32> = lock(&call.cx.slot).timers.iter().copied().collect();
        for key in waits {
            self.timers.clear(TimerKind::Wait { call: id, key });
        }
        if call.on_lane {
            self.calls.lane.retain(|other| *other != id);
        }
        if let Some(using) = &call.using {
            self.lease(&Request::Finish(using.claim()));
        }
        let Some(origin) = call.origin else { return };
        self.calls.by_request.remove(&(call.cx.caller.conn, origin.id.clone()));
        self.audit(&call.cx.caller, &origin, call.started, &result);
        let used = std::mem::take(&mut lock(&call.cx.slot).answers_used);
        self.answer(&call.cx.caller, &origin, used, result);
    }

    pub(super) fn audit(&mut self, caller: &Caller, origin: &Origin, started: Time, result: &Result<Product, Refused>) {
        let Some(tool) = origin.tool.filter(|_| self.toolset.audited) else { return };
        let wall = self.look(|w| w.wall_ms());
        let mut line = json!({
            "time": super::world::rfc3339(wall),
            "client": if crate::protocol::connection::is_known_client(&caller.label) { json!(caller.label) } else { json!({"string": caller.label.chars().count()}) },
            "principal": caller.principal,
            "tool": tool.name,
            "arguments": origin.redacted,
        });
        match result {
            Ok(Product::Tool(facts)) => {
                for (key, value) in (self.toolset.audit_outcome)(&facts.data) {
                    line[key] = value;
                }
            }
            Ok(_) => {}
            Err(refused) => {
                line["error"] = json!(refused.audit_name());
                if let Refused::Named(named) = refused {
                    for (key, value) in (self.toolset.audit_outcome)(&named.more) {
                        line[key] = value;
                    }
                }
            }
        }
        line["duration_ms"] = json!(self.now - started);
        self.put(Output::Audit(line));
    }

    /// No more input from this client: what its calls wait for is answered at once.
    pub(crate) fn tell_ending(&mut self, conn: Conn) {
        for id in self.calls_of(conn) {
            let Some(call) = self.calls.table.get(&id) else { continue };
            let (keys, asking): (Vec<u32>, Vec<u32>) = {
                let mut slot = lock(&call.cx.slot);
                slot.ending = true;
                (slot.ends.iter().copied().collect(), slot.asking.iter().copied().collect())
            };
            self.asks_ended(id, &asking);
            for key in keys {
                self.wait_over(id, key);
            }
        }
    }
}
