//! Asking the client: by requests to it in the legacy era, by `input_required` in the modern one.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::revision::Revision;
use crate::engine::core::Core;
use crate::engine::cx::{Cx, Either, Reason, Slot, Want, lock, select};
use crate::engine::io::{CallId, Conn, Output};
use crate::rpc::body::{notification, request};
use crate::rpc::error::{MISSING_CAPABILITY, RpcError, shortened};
use crate::rpc::id::RequestId;
use crate::tools::facts::Refused;

/// A person may have to be found: how long an answer is waited for.
const ANSWER_MS: u64 = 5 * 60_000;

/// What a server may ask of its client. The values are the request's `params`.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    Elicit(Value),
    Sample(Value),
    Roots,
}

/// What the client said that it can be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    elicit_form: bool,
    elicit_url: bool,
    sample: bool,
    roots: bool,
}

/// Requests to clients that have no answer yet.
#[derive(Default)]
pub(crate) struct Asks {
    issued: u64,
    open: BTreeMap<(Conn, u64), (CallId, u32)>,
}

impl Asks {
    pub fn len(&self) -> usize {
        self.open.len()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AskFailed {
    Abandoned(Reason),
    Client(String),
    /// The client's input is over.
    Ended,
}

impl Ask {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => "elicitation/create",
            Self::Sample(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    pub(crate) fn params(&self) -> Value {
        match self {
            Self::Elicit(params) | Self::Sample(params) => params.clone(),
            Self::Roots => json!({}),
        }
    }

    fn by_url(&self) -> bool {
        matches!(self, Self::Elicit(params) if params.get("mode").and_then(Value::as_str) == Some("url"))
    }

    fn capability(&self) -> Value {
        match self {
            Self::Elicit(_) if self.by_url() => json!({"elicitation": {"url": {}}}),
            Self::Elicit(_) => json!({"elicitation": {"form": {}}}),
            Self::Sample(_) => json!({"sampling": {}}),
            Self::Roots => json!({"roots": {}}),
        }
    }

    /// Whether this has the shape of an answer.
    fn is_answered_by(&self, value: &Value) -> bool {
        match self {
            Self::Elicit(_) => match value.get("action").and_then(Value::as_str) {
                Some("accept") => self.by_url() || value.get("content").is_some_and(Value::is_object),
                Some("decline" | "cancel") => true,
                _ => false,
            },
            Self::Sample(_) => value.get("role").is_some_and(Value::is_string) && value.get("content").is_some(),
            Self::Roots => value.get("roots").is_some_and(Value::is_array),
        }
    }
}

impl Capabilities {
    pub fn read(declared: Option<&Value>) -> Self {
        let has = |name: &str| declared.and_then(|d| d.get(name)).filter(|v| v.is_object());
        let elicitation = has("elicitation");
        Self {
            // An empty object means forms: what elicitation was when it came.
            elicit_form: elicitation.is_some_and(|e| e.get("form").is_some() || e.get("url").is_none()),
            elicit_url: elicitation.is_some_and(|e| e.get("url").is_some()),
            sample: has("sampling").is_some(),
            roots: has("roots").is_some(),
        }
    }

    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub fn can(self, ask: &Ask) -> bool {
        match ask {
            Ask::Elicit(_) if ask.by_url() => self.elicit_url,
            Ask::Elicit(_) => self.elicit_form,
            Ask::Sample(_) => self.sample,
            Ask::Roots => self.roots,
        }
    }
}

impl Cx {
    pub fn client_can(&self, ask: &Ask) -> bool {
        self.caller.capabilities.can(ask)
    }

    /// Asks the client all of these at once and gives the answers by their keys. In the legacy era it waits; in the
    /// modern one the first pass ends here (pass the error on with `?`), and when the client has the answers the
    /// handler runs again from its start. So a handler asks before it does anything, and names its questions the
    /// same each time.
    ///
    /// # Errors
    /// The client can't be asked this, answered with an error, or didn't answer within five minutes.
    pub async fn ask(&self, asks: Vec<(&'static str, Ask)>) -> Result<Map<String, Value>, Refused> {
        if let Some((_, ask)) = asks.iter().find(|(_, ask)| !self.client_can(ask)) {
            return Err(self.cannot(ask));
        }
        if self.caller.revision.has_input_required() { self.ask_by_result(asks) } else { self.ask_by_request(asks).await }
    }

    fn cannot(&self, ask: &Ask) -> Refused {
        let what = format!("the client did not declare the capability that {} needs", ask.method());
        if self.caller.revision.has_input_required() {
            Refused::Rpc(RpcError::new(MISSING_CAPABILITY, format!("Missing required client capability: {what}")).with_data(json!({"requiredCapabilities": ask.capability()})))
        } else {
            Refused::Plain(format!("{what}; use a client that has it"))
        }
    }

    fn ask_by_result(&self, asks: Vec<(&'static str, Ask)>) -> Result<Map<String, Value>, Refused> {
        let given = self.caller.given.as_deref();
        let mut answers = Map::new();
        let mut missing = Vec::new();
        for (key, ask) in asks {
            match given.and_then(|g| g.get(key)).filter(|value| ask.is_answered_by(value)) {
                Some(value) => {
                    answers.insert(key.to_string(), value.clone());
                }
                None => missing.push((key.to_string(), ask)),
            }
        }
        lock(&self.slot).answers_used.extend(answers.clone());
        if missing.is_empty() { Ok(answers) } else { Err(Refused::InputRequired(missing)) }
    }

    async fn ask_by_request(&self, asks: Vec<(&'static str, Ask)>) -> Result<Map<String, Value>, Refused> {
        let open: Vec<(&'static str, Ask, Asking)> = asks
            .into_iter()
            .map(|(key, ask)| {
                let asking = self.start_asking(&ask);
                (key, ask, asking)
            })
            .collect();
        let until = self.now() + ANSWER_MS;
        let mut answers = Map::new();
        for (key, ask, asking) in open {
            let answer = match select(asking, self.sleep(until.saturating_sub(self.now()))).await {
                Either::First(Ok(answer)) => answer,
                Either::First(Err(AskFailed::Client(why))) => return Err(Refused::Plain(format!("the client answered {} with an error: {why}", ask.method()))),
                Either::First(Err(AskFailed::Ended)) => {
                    return Err(Refused::Plain(format!("the client ended its input, so {} can't be answered; keep it open until the call is answered", ask.method())));
                }
                Either::First(Err(AskFailed::Abandoned(reason))) | Either::Second(Err(reason)) => return Err(self.stopped(reason)),
                Either::Second(Ok(())) => {
                    return Err(Refused::Plain(format!("the client left {} unanswered for {} minutes; call again when someone can answer", ask.method(), ANSWER_MS / 60_000)));
                }
            };
            if !ask.is_answered_by(&answer) {
                return Err(Refused::Plain(format!("the client's answer to {} has not the shape of one", ask.method())));
            }
            answers.insert(key.to_string(), answer);
        }
        Ok(answers)
    }

    fn start_asking(&self, ask: &Ask) -> Asking {
        let mut slot = lock(&self.slot);
        let key = slot.key();
        if let Some(reason) = slot.abandoned {
            slot.answered.insert(key, Err(AskFailed::Abandoned(reason)));
        } else if slot.ending {
            slot.answered.insert(key, Err(AskFailed::Ended));
        } else {
            slot.asking.insert(key);
            slot.wanted.push_back(Want::Ask { key, method: ask.method(), params: ask.params() });
        }
        Asking { slot: self.slot.clone(), key }
    }
}

/// A request to the client under way.
struct Asking {
    slot: Arc<Mutex<Slot>>,
    key: u32,
}

impl Future for Asking {
    type Output = Result<Value, AskFailed>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match lock(&self.slot).answered.remove(&self.key) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        }
    }
}

impl Drop for Asking {
    /// The handler went on without the answer.
    fn drop(&mut self) {
        let mut slot = lock(&self.slot);
        slot.answered.remove(&self.key);
        if slot.asking.remove(&self.key) {
            slot.wanted.push_back(Want::Withdraw { key: self.key });
        }
    }
}

impl Revision {
    fn has_input_required(self) -> bool {
        self.is_modern()
    }
}

impl Core {
    pub(crate) fn send_ask(&mut self, call: CallId, key: u32, method: &'static str, params: &Value) {
        let Some((conn, route)) = self.calls.place(call) else { return };
        if !self.connections.contains_key(&conn) {
            return self.calls.answer(call, key, Err(AskFailed::Ended));
        }
        self.asks.issued += 1;
        let number = self.asks.issued;
        self.asks.open.insert((conn, number), (call, key));
        self.put(Output::Send { conn, route, body: request(number, method, params) });
    }

    /// The client's answer; one that nobody waits for is dropped.
    pub(crate) fn answered(&mut self, conn: Conn, id: &RequestId, outcome: Result<&RawValue, &RawValue>) {
        let RequestId::Number(digits) = id else { return };
        let Ok(number) = digits.parse::<u64>() else { return };
        let Some((call, key)) = self.asks.open.remove(&(conn, number)) else { return };
        let answer = match outcome {
            Ok(result) => serde_json::from_str(result.get()).map_err(|_| AskFailed::Client("a result that can't be read".into())),
            Err(error) => Err(AskFailed::Client(error_text(error))),
        };
        self.calls.answer(call, key, answer);
    }

    /// What a call still asks is withdrawn.
    pub(crate) fn withdraw_asks(&mut self, call: CallId) {
        self.withdraw(call, |_| true);
    }

    pub(crate) fn withdraw_ask(&mut self, call: CallId, key: u32) {
        self.withdraw(call, |other| other == key);
    }

    fn withdraw(&mut self, call: CallId, which: impl Fn(u32) -> bool) {
        let withdrawn: Vec<(Conn, u64)> = self.asks.open.iter().filter(|(_, (of, key))| *of == call && which(*key)).map(|(place, _)| *place).collect();
        let place = self.calls.place(call);
        for (conn, number) in withdrawn {
            self.asks.open.remove(&(conn, number));
            // Whoever is gone needs no word.
            let Some((_, route)) = place.filter(|_| self.connections.contains_key(&conn)) else { continue };
            let params = json!({"requestId": number, "reason": "the call that asked this is over"});
            self.put(Output::Send { conn, route, body: notification("notifications/cancelled", &params) });
        }
    }

    /// Numbers go on after it, so that a late answer finds nobody.
    pub(crate) fn withdraw_all_asks(&mut self) {
        let calls: BTreeSet<CallId> = self.asks.open.values().map(|(call, _)| *call).collect();
        for call in calls {
            self.withdraw_asks(call);
        }
    }

    /// Nobody will answer any more.
    pub(crate) fn asks_ended(&mut self, call: CallId, keys: &[u32]) {
        self.asks.open.retain(|_, (of, key)| *of != call || !keys.contains(key));
        for key in keys {
            self.calls.answer(call, *key, Err(AskFailed::Ended));
        }
    }
}

fn error_text(error: &RawValue) -> String {
    let parsed: Value = serde_json::from_str(error.get()).unwrap_or_default();
    shortened(parsed.get("message").and_then(Value::as_str).unwrap_or("no message")).to_string()
}
