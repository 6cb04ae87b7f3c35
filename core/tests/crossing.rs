//! Many connections of all carriages with the same ids at once: nothing of one ever reaches another, every request is
//! answered once unless it was given up, and nothing is left over.

#![allow(clippy::disallowed_methods)] // a test may ask its environment

mod support;

use std::collections::{BTreeMap, BTreeSet};

use deskhand_core::rpc::body::Nature;
use deskhand_core::{Carriage, Conn, Input, Limits, Output};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::offers::{OFFERS, Sent, Served, call, everything, modern, request};

#[derive(Clone, Debug)]
enum Op {
    Open { carriage: u8, old: bool },
    Close(usize),
    Call { client: usize, id: u64, what: usize, era: bool },
    Batch { client: usize, ids: [u64; 2], what: [usize; 2] },
    /// A POST of its own.
    Post { id: u64, what: usize },
    Listen { client: usize, id: u64 },
    Cancel { client: usize, id: u64 },
    /// An answer to one of the questions that are open, by its own client or by another.
    Answer { nth: usize, by: Option<usize>, how: u8 },
    Retry { nth: usize, other_state: bool },
    Unreadable(usize),
    LongId(usize),
    Pass(u64),
    Restart,
}

const WHAT: usize = 10;
const CLIENTS: usize = 6;

fn op() -> impl Strategy<Value = Op> {
    let (client, id) = (|| 0..CLIENTS, || 0..4u64);
    prop_oneof![
        3 => (0..2u8, any::<bool>()).prop_map(|(carriage, old)| Op::Open { carriage, old }),
        1 => client().prop_map(Op::Close),
        16 => (client(), id(), 0..WHAT, any::<bool>()).prop_map(|(client, id, what, era)| Op::Call { client, id, what, era }),
        3 => (client(), [id(), id()], [0..WHAT, 0..WHAT]).prop_map(|(client, ids, what)| Op::Batch { client, ids, what }),
        6 => (id(), 0..WHAT).prop_map(|(id, what)| Op::Post { id, what }),
        2 => (client(), id()).prop_map(|(client, id)| Op::Listen { client, id }),
        4 => (client(), id()).prop_map(|(client, id)| Op::Cancel { client, id }),
        10 => (0..8usize, proptest::option::weighted(0.3, client()), 0..4u8).prop_map(|(nth, by, how)| Op::Answer { nth, by, how }),
        5 => (0..8usize, any::<bool>()).prop_map(|(nth, other_state)| Op::Retry { nth, other_state }),
        1 => client().prop_map(Op::Unreadable),
        1 => client().prop_map(Op::LongId),
        6 => (0..3000u64).prop_map(Op::Pass),
        1 => Just(Op::Pass(5 * 60_000)),
        1 => Just(Op::Restart),
    ]
}

/// What a request carries and gets back. In no other message may it stand.
fn nonce(serial: u64) -> String {
    format!("<n{serial}>")
}

fn nonces(text: &str) -> BTreeSet<&str> {
    text.match_indices("<n").filter_map(|(at, _)| text[at..].find('>').map(|end| &text[at..=at + end])).collect()
}

struct Pending {
    nonce: String,
    route: u64,
    batched: bool,
    /// Cancelled within a batch: if it was done by then, its answer comes with the others.
    given_up: bool,
}

struct Client {
    conn: u64,
    carriage: Carriage,
    old: bool,
}

/// An `input_required` result, and the request it answered.
struct Resumable {
    request: Value,
    nonce: String,
    state: Value,
    keys: Vec<String>,
}

struct Model {
    s: Served,
    clients: Vec<Client>,
    alive: BTreeSet<u64>,
    pending: BTreeMap<(u64, u64), Pending>,
    listening: BTreeMap<(u64, u64), u64>,
    /// By connection and number: its call's nonce and route.
    questions: BTreeMap<(u64, u64), (String, u64)>,
    numbers: BTreeSet<(u64, u64)>,
    resumable: Vec<Resumable>,
    conns: u64,
    serial: u64,
    routes: u64,
    /// Errors without an id, due at once on this connection.
    unnamed: Option<u64>,
    /// A request whose id is in flight already: refused at once, with that id.
    twice: Vec<(u64, u64)>,
}

impl Model {
    fn new() -> Self {
        let limits = Limits {
            calls_per_connection: 4,
            calls: 12,
            calls_per_principal: 8,
            connections: CLIENTS + 3,
            batch: 8,
            subscriptions_per_connection: 2,
            subscribed_resources: 4,
        };
        Self {
            s: Served::of(&OFFERS, limits),
            clients: Vec::new(),
            alive: BTreeSet::new(),
            pending: BTreeMap::new(),
            listening: BTreeMap::new(),
            questions: BTreeMap::new(),
            numbers: BTreeSet::new(),
            resumable: Vec::new(),
            conns: 0,
            serial: 0,
            routes: 0,
            unnamed: None,
            twice: Vec::new(),
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Open { carriage, old } => {
                let carriage = [Carriage::Stdio, Carriage::Session][usize::from(carriage)];
                if self.clients.len() < CLIENTS && self.opened(carriage) {
                    let conn = self.conns;
                    self.s.initialize(conn, 0, if old { "2025-03-26" } else { "2025-11-25" }, everything());
                    self.clients.push(Client { conn, carriage, old });
                }
            }
            Op::Close(client) => {
                if client < self.clients.len() {
                    let conn = self.clients.remove(client).conn;
                    self.close(conn);
                }
            }
            Op::Call { client, id, what, era } => {
                let Some(Client { conn, carriage, .. }) = self.clients.get(client) else { return };
                let (conn, stdio) = (*conn, *carriage == Carriage::Stdio);
                if self.is_batched(conn, id) {
                    return;
                }
                let (message, nonce) = self.request(id, what);
                let message = if stdio && era { modern(message, everything()) } else { message };
                let route = self.route(stdio);
                self.post(conn, route, &message, nonce);
            }
            Op::Batch { client, ids, what } => {
                let Some(Client { conn, carriage, old }) = self.clients.get(client) else { return };
                let (conn, stdio, old) = (*conn, *carriage == Carriage::Stdio, *old);
                // What is refused within a batch comes with the others: told apart only by its id.
                if ids[0] == ids[1] || ids.iter().any(|id| self.in_flight(conn, *id)) {
                    return;
                }
                let route = self.route(stdio);
                let mut members = Vec::new();
                for (id, what) in ids.into_iter().zip(what) {
                    let (message, nonce) = self.request(id, what);
                    members.push(message);
                    if old {
                        self.expect(conn, id, nonce, route, true);
                    }
                }
                if !old {
                    self.unnamed = Some(conn);
                }
                let sent = self.s.text(conn, route, Value::from(members).to_string());
                self.check(sent);
            }
            Op::Post { id, what } => {
                let (message, nonce) = self.request(id, what);
                self.exchange(&modern(message, everything()), nonce);
            }
            Op::Listen { client, id } => {
                let message = |id| modern(request(json!(id), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["t://text"]}})), json!({}));
                let stdio = self.clients.get(client).filter(|c| c.carriage == Carriage::Stdio).map(|c| c.conn);
                if stdio.is_some_and(|conn| self.is_batched(conn, id)) {
                    return;
                }
                match stdio {
                    Some(conn) if self.in_flight(conn, id) => self.twice.push((conn, id)),
                    Some(conn) if self.listening.keys().filter(|(c, _)| *c == conn).count() >= 2 => self.twice.push((conn, id)),
                    Some(conn) => assert!(self.listening.insert((conn, id), 0).is_none()),
                    None if self.opened(Carriage::Exchange) => assert!(self.listening.insert((self.conns, id), 0).is_none()),
                    None => return,
                }
                let conn = stdio.unwrap_or(self.conns);
                let sent = self.s.message(conn, &message(id));
                self.check(sent);
            }
            Op::Cancel { client, id } => {
                let Some(Client { conn, .. }) = self.clients.get(client) else { return };
                let conn = *conn;
                let batched = self.is_batched(conn, id);
                match self.pending.get_mut(&(conn, id)) {
                    Some(pending) if pending.batched => pending.given_up = true,
                    _ => drop(self.pending.remove(&(conn, id))),
                }
                self.listening.remove(&(conn, id));
                let sent = self.s.cancel(conn, json!(id));
                assert!(batched || sent.iter().all(|s| s.message.get("method").is_some()), "a cancelled request is answered: {sent:?}");
                self.check(sent);
            }
            Op::Answer { nth, by, how } => self.answer(nth, by, how),
            Op::Retry { nth, other_state } => self.retry(nth, other_state),
            Op::Unreadable(client) => {
                let Some(Client { conn, .. }) = self.clients.get(client) else { return };
                let sent = self.s.message(*conn, &json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "stray"}}));
                assert_eq!(sent, []);
            }
            Op::LongId(client) => {
                let Some(Client { conn, .. }) = self.clients.get(client) else { return };
                self.unnamed = Some(*conn);
                let sent = self.s.message(*conn, &request(json!("i".repeat(1025)), "ping", json!({})));
                self.check(sent);
            }
            Op::Pass(ms) => {
                let sent = self.s.pass(ms);
                self.check(sent);
            }
            Op::Restart => {
                self.s.core.restart([7; 32]);
                let sent = self.s.drain();
                self.check(sent);
                // Effects of its own: the desktop is given back.
                self.complete_own();
                self.pending.retain(|_, p| !p.given_up);
                assert!(self.pending.is_empty() && self.questions.is_empty(), "a restart leaves none waiting");
                self.resumable.clear();
            }
        }
        assert_eq!((self.unnamed, self.twice.as_slice()), (None, &[][..]), "an error is missing");
        let kept = self.s.core.kept();
        assert_eq!(kept.asks, self.questions.len());
        assert_eq!(kept.subscriptions, self.listening.len());
        assert_eq!(kept.connections, self.alive.len());
        for Client { conn, .. } in &self.clients {
            let due: BTreeSet<u64> = self.s.core.answers_due(Conn(*conn)).into_iter().map(|route| route.0).collect();
            let routes = |alone: bool| self.pending.iter().filter(move |((c, _), p)| c == conn && (!alone || !p.batched)).map(|(_, p)| p.route).collect::<BTreeSet<u64>>();
            assert!(due.is_superset(&routes(true)) && due.is_subset(&routes(false)), "{due:?} are due, {:?} are waited for", routes(false));
        }
        // What is done in a batch waits for the others.
        let single = self.pending.values().filter(|p| !p.batched).count();
        assert!((single..=self.pending.len()).contains(&kept.calls), "{} calls, {} requests", kept.calls, self.pending.len());
    }

    fn opened(&mut self, carriage: Carriage) -> bool {
        self.conns += 1;
        let principal = format!("person {}", self.conns % 2);
        self.s.open(self.conns, &principal, carriage);
        let refused = self.s.others.drain(..).any(|o| matches!(o, Output::Close { .. }));
        assert_eq!(refused, self.alive.len() >= CLIENTS + 3);
        !refused && self.alive.insert(self.conns)
    }

    fn close(&mut self, conn: u64) {
        self.alive.remove(&conn);
        self.pending.retain(|(c, _), _| *c != conn);
        self.listening.retain(|(c, _), _| *c != conn);
        self.questions.retain(|(c, _), _| *c != conn);
        let sent = self.s.close(conn);
        self.check(sent);
    }

    fn route(&mut self, stdio: bool) -> u64 {
        self.routes += 1;
        if stdio { 0 } else { self.routes }
    }

    fn request(&mut self, id: u64, what: usize) -> (Value, String) {
        self.serial += 1;
        let nonce = nonce(self.serial);
        let with = |rest: Value| {
            let mut arguments = json!({"nonce": nonce});
            arguments.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            arguments
        };
        let mut message = match what {
            0 => call(id, "echo", with(json!({}))),
            1 => call(id, "wait", with(json!({"ms": 500}))),
            2 => call(id, "wait", with(json!({"ms": 5000}))),
            3 => call(id, "ask", with(json!({}))),
            4 => call(id, "ask", with(json!({"what": "sample"}))),
            5 => call(id, "ask_all", with(json!({}))),
            6 => call(id, "ask_twice", with(json!({}))),
            7 => call(id, "shrug", with(json!({}))),
            8 => call(id, "tell", with(json!({}))),
            _ => request(json!(id), "completion/complete", json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": nonce}})),
        };
        message["params"]["_meta"] = json!({"progressToken": nonce});
        (message, nonce)
    }

    fn in_flight(&self, conn: u64, id: u64) -> bool {
        self.pending.contains_key(&(conn, id)) || self.listening.contains_key(&(conn, id))
    }

    /// Its answer may be there and wait for its batch: whether the id is free again is the client's to know.
    fn is_batched(&self, conn: u64, id: u64) -> bool {
        self.pending.get(&(conn, id)).is_some_and(|p| p.batched)
    }

    fn expect(&mut self, conn: u64, id: u64, nonce: String, route: u64, batched: bool) {
        if self.in_flight(conn, id) {
            self.twice.push((conn, id));
        } else {
            self.pending.insert((conn, id), Pending { nonce, route, batched, given_up: false });
        }
    }

    fn post(&mut self, conn: u64, route: u64, message: &Value, nonce: String) {
        self.expect(conn, message["id"].as_u64().unwrap(), nonce.clone(), route, false);
        let sent = self.s.text(conn, route, message.to_string());
        for state in sent.iter().filter_map(|s| s.message.pointer("/result/requestState")) {
            let keys = sent[0].message["result"]["inputRequests"].as_object().unwrap().keys().cloned().collect();
            self.resumable.push(Resumable { request: message.clone(), nonce: nonce.clone(), state: state.clone(), keys });
        }
        self.check(sent);
    }

    /// A POST, closed once it is answered.
    fn exchange(&mut self, message: &Value, nonce: String) {
        if self.opened(Carriage::Exchange) {
            let conn = self.conns;
            self.post(conn, 0, message, nonce);
        }
    }

    fn answer(&mut self, nth: usize, by: Option<usize>, how: u8) {
        let Some(((conn, number), (nonce, _))) = self.questions.iter().nth(nth).map(|(k, v)| (*k, v.clone())) else { return };
        let other = by.and_then(|by| self.clients.get(by)).map(|c| c.conn).filter(|other| *other != conn && !self.questions.contains_key(&(*other, number)));
        let word = if other.is_some() { "stray" } else { nonce.as_str() };
        let good = json!({"action": "accept", "content": {"v": word}, "role": "assistant", "roots": [{"uri": word}]});
        let answer = match how {
            0 => json!({"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": word}}),
            1 => json!({"jsonrpc": "2.0", "id": number, "result": {}}),
            _ => json!({"jsonrpc": "2.0", "id": number, "result": good}),
        };
        if other.is_none() {
            self.questions.remove(&(conn, number));
        }
        let sent = self.s.text(other.unwrap_or(conn), 1 << 60, answer.to_string());
        assert!(other.is_none() || sent.is_empty(), "another connection's answer was taken");
        self.check(sent);
        if other.is_none() {
            // Once more, for nobody.
            let stray = json!({"jsonrpc": "2.0", "id": number, "result": {"action": "accept", "content": {"v": "stray"}, "role": "stray", "roots": []}});
            assert_eq!(self.s.text(conn, 1 << 60, stray.to_string()), []);
        }
    }

    fn retry(&mut self, nth: usize, other_state: bool) {
        if self.resumable.is_empty() {
            return;
        }
        let at = nth % self.resumable.len();
        let foreign = self.resumable.iter().find(|r| r.nonce != self.resumable[at].nonce).map(|r| r.state.clone()).filter(|_| other_state);
        let Resumable { request, nonce, state, keys } = if foreign.is_some() {
            let r = &self.resumable[at];
            Resumable { request: r.request.clone(), nonce: r.nonce.clone(), state: r.state.clone(), keys: r.keys.clone() }
        } else {
            self.resumable.remove(at)
        };
        let mut message = request;
        let good = json!({"action": "accept", "content": {"v": nonce}, "role": "assistant", "roots": []});
        message["params"]["inputResponses"] = keys.iter().map(|key| (key.clone(), good.clone())).collect();
        message["params"]["requestState"] = foreign.unwrap_or(state);
        self.exchange(&message, nonce);
    }

    fn complete_own(&mut self) {
        loop {
            let started = self.s.others.drain(..).find_map(|o| if let Output::Start { op, .. } = o { Some(op) } else { None });
            let Some(op) = started else { return };
            let outcome = Ok(deskhand_core::desktop::effect::Reply::Done);
            let sent = self.s.feed(Input::Completed { op, outcome });
            self.check(sent);
        }
    }

    fn check(&mut self, sent: Vec<Sent>) {
        let mut done = Vec::new();
        let mut last = String::new();
        for one in &sent {
            assert!(self.alive.contains(&one.conn), "to a connection that is closed: {one:?}");
            assert!(!one.message.to_string().contains("stray"), "what another connection said: {one:?}");
            let is_answer = matches!(one.nature, Nature::Answer { .. });
            assert_eq!(is_answer, one.message.get("method").is_none());
            match &one.message {
                Value::Array(members) => {
                    members.iter().for_each(|m| self.check_answer(one, m, true));
                    self.pending.retain(|(conn, _), p| !(*conn == one.conn && p.given_up && p.route == one.route && one.route != 0));
                }
                message if is_answer => self.check_answer(one, message, false),
                message => self.check_message(one, message, &mut last),
            }
            if is_answer {
                done.push(one.conn);
            }
        }
        for conn in done {
            if !self.clients.iter().any(|c| c.conn == conn) && self.alive.contains(&conn) {
                self.close(conn);
            }
        }
    }

    fn check_answer(&mut self, at: &Sent, message: &Value, batched: bool) {
        if message["id"].is_null() {
            assert_eq!(self.unnamed.take(), Some(at.conn), "{message}");
            return;
        }
        let key = (at.conn, message["id"].as_u64().unwrap());
        if let Some(nth) = self.twice.iter().position(|twice| *twice == key)
            && message["error"]["code"] == -32600
        {
            self.twice.remove(nth);
            return;
        }
        if self.listening.remove(&key).is_some() {
            assert_eq!((at.route, &message["result"]["resultType"]), (0, &json!("complete")));
            return;
        }
        let Some(pending) = self.pending.remove(&key) else { panic!("{key:?} waits for no answer: {message}") };
        assert_eq!((at.route, batched), (pending.route, pending.batched), "{message}");
        self.is_about(message, &pending.nonce);
        let refused = message.get("error").is_some() || message["result"]["isError"] == json!(true);
        assert!(refused || message["result"].get("requestState").is_some() || message.to_string().contains(&pending.nonce), "not its own: {message}");
    }

    fn is_about(&self, message: &Value, nonce: &str) {
        let text = message.to_string();
        let all = nonces(&text);
        assert!(all.iter().all(|n| *n == nonce), "{nonce} got {all:?}: {text}");
    }

    fn check_message(&mut self, at: &Sent, message: &Value, last: &mut String) {
        let params = &message["params"];
        let text = message.to_string();
        let named = nonces(&text).into_iter().next().map(str::to_string);
        match message["method"].as_str().unwrap() {
            "notifications/cancelled" => {
                let number = params["requestId"].as_u64().unwrap();
                let Some((_, route)) = self.questions.remove(&(at.conn, number)) else { panic!("no question of this connection: {message}") };
                assert_eq!(at.route, route);
            }
            "notifications/subscriptions/acknowledged" => self.is_subscription(at, params),
            "notifications/tools/list_changed" | "notifications/resources/updated" if params["_meta"].is_object() => self.is_subscription(at, params),
            "notifications/tools/list_changed" => assert_eq!(at.route, 0),
            "notifications/progress" | "notifications/message" => self.is_of(at, message, &named.unwrap()),
            _ if message["id"].is_u64() => {
                let number = message["id"].as_u64().unwrap();
                assert!(self.numbers.insert((at.conn, number)), "a number that was there before: {message}");
                // The one question without words comes after those of its call.
                *last = named.unwrap_or_else(|| last.clone());
                self.is_of(at, message, &last.clone());
                self.questions.insert((at.conn, number), (last.clone(), at.route));
            }
            other => panic!("{other}"),
        }
    }

    fn is_of(&self, at: &Sent, message: &Value, nonce: &str) {
        self.is_about(message, nonce);
        let own = self.pending.iter().any(|((conn, _), p)| *conn == at.conn && p.route == at.route && p.nonce == nonce);
        assert!(own, "{nonce} isn't of this connection and route: {at:?}");
    }

    fn is_subscription(&self, at: &Sent, params: &Value) {
        let id = params["_meta"]["io.modelcontextprotocol/subscriptionId"].as_u64().unwrap();
        assert_eq!(self.listening.get(&(at.conn, id)), Some(&at.route), "{at:?}");
    }

    /// Time passes until all that waits has given up; then everyone goes.
    fn end(&mut self) {
        for _ in 0..1000 {
            self.complete_own();
            let Some((at, _)) = self.s.core.poll_timeout() else { break };
            let sent = self.s.pass(at.saturating_sub(self.s.now));
            self.check(sent);
        }
        assert_eq!(self.s.core.poll_timeout(), None);
        self.pending.retain(|_, p| !p.given_up);
        assert!(self.pending.is_empty(), "unanswered: {:?}", self.pending.keys());
        assert!(self.questions.is_empty() && self.s.core.is_idle());
        assert_eq!(self.s.core.kept().batches, 0);
        let sent = self.s.feed(Input::Shutdown);
        self.check(sent);
        self.complete_own();
        assert!(self.listening.is_empty(), "a subscription without its end: {:?}", self.listening);
        for conn in std::mem::take(&mut self.alive) {
            assert_eq!(self.s.close(conn), []);
        }
        assert_eq!(self.s.core.kept(), Default::default());
    }
}

/// `PROPTEST_CASES` says otherwise.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_crosses(ops in proptest::collection::vec(op(), 0..150)) {
        let mut model = Model::new();
        for carriage in [0, 1, 0, 1] {
            model.apply(Op::Open { carriage, old: carriage == 1 });
        }
        for op in ops {
            model.apply(op);
        }
        model.end();
    }
}
