//! Random lives of a core: whatever comes in whichever order, its promises hold.

#![allow(clippy::disallowed_methods)] // a test may ask its environment

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use deskhand_core::desktop::effect::{Effect, FailureKind, SeatRequest, SessionRequest};
use deskhand_core::desktop::event::{CompositorInfo, CompositorKind, CompositorState, DesktopEvent, LockState, Observation};
use deskhand_core::lease::rules::State;
use deskhand_core::trace::print_output;
use deskhand_core::{Conn, Core, Input, Op as OpId, Output, Route};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Rig, acts, config, failure, kind_reply, window};

#[derive(Clone, Debug)]
enum Op {
    Open,
    Close(u64),
    End(u64),
    Call { conn: u64, id: u64, tool: usize },
    Cancel { conn: u64, id: u64 },
    Complete { nth: usize, well: bool, kind: usize },
    Pass(u64),
    PassToTimer,
    Stop(bool),
    Lock(u8),
    LeaseLost,
    Compositor(u8),
    Focus(Option<u64>),
    Title(u64),
    Closed(u64),
    UserInput,
    Audit(bool),
    /// A bug was met, and the core began anew.
    Restart,
    Garbage(Vec<u8>),
}

const CALLS: &[(&str, &str)] = &[
    ("acquire_desktop", "{}"),
    ("acquire_desktop", r#"{"request_key": "k"}"#),
    ("release_desktop", "{}"),
    ("release_desktop", r#"{"restore_focus": true}"#),
    ("status", "{}"),
    ("desktop_state", "{}"),
    ("wait_for", r#"{"until": {"closed": 1}, "timeout_ms": 3000}"#),
    ("wait_for", r#"{"until": "screen_stable", "timeout_ms": 500}"#),
    ("screenshot", "{}"),
    ("focus", r#"{"window_id": 2}"#),
    ("focus", r#"{"workspace_id": 2, "screenshot": true}"#),
    ("close_window", r#"{"window_id": 1}"#),
    ("launch", r#"{"preset": "terminal"}"#),
    ("niri_action", r#"{"action": {"OpenOverview": {}}}"#),
    ("click", r#"{"x": 100, "y": 100}"#),
    ("drag", r#"{"from": {"x": 9, "y": 9}, "to": {"x": 90, "y": 90}, "guard": false}"#),
    ("scroll", r#"{"x": 10, "y": 10, "notches_y": 1}"#),
    ("key", r#"{"keys": ["ctrl+t"]}"#),
    ("type_text", r#"{"text": "hello", "screenshot": true}"#),
];

const KINDS: &[FailureKind] = &[
    FailureKind::Unavailable,
    FailureKind::NotFound,
    FailureKind::Refused,
    FailureKind::TimedOut,
    FailureKind::Lost,
    FailureKind::Fenced,
    FailureKind::Unmappable,
];

fn op() -> impl Strategy<Value = Op> {
    let conn = || 1..4u64;
    prop_oneof![
        1 => Just(Op::Open),
        1 => conn().prop_map(Op::Close),
        1 => conn().prop_map(Op::End),
        8 => (conn(), 0..6u64, 0..CALLS.len()).prop_map(|(conn, id, tool)| Op::Call { conn, id, tool }),
        4 => (conn(), 0..6u64).prop_map(|(conn, id)| Op::Call { conn, id, tool: 0 }),
        2 => (conn(), 0..6u64).prop_map(|(conn, id)| Op::Cancel { conn, id }),
        18 => (0..4usize).prop_map(|nth| Op::Complete { nth, well: true, kind: 0 }),
        3 => (0..4usize, 0..KINDS.len()).prop_map(|(nth, kind)| Op::Complete { nth, well: false, kind }),
        3 => (0..6000u64).prop_map(Op::Pass),
        1 => Just(Op::Pass(700_000)),
        6 => Just(Op::PassToTimer),
        1 => any::<bool>().prop_map(Op::Stop),
        2 => Just(Op::Stop(false)),
        1 => (0..3u8).prop_map(Op::Lock),
        2 => Just(Op::Lock(0)),
        1 => Just(Op::LeaseLost),
        1 => (0..4u8).prop_map(Op::Compositor),
        2 => Just(Op::Compositor(3)),
        2 => proptest::option::of(1..4u64).prop_map(Op::Focus),
        1 => (1..4u64).prop_map(Op::Title),
        1 => (1..4u64).prop_map(Op::Closed),
        1 => Just(Op::UserInput),
        1 => any::<bool>().prop_map(Op::Audit),
        1 => Just(Op::Restart),
        1 => proptest::collection::vec(any::<u8>(), 0..20).prop_map(Op::Garbage),
    ]
}

/// The rig, and what must be true of it.
struct Model {
    rig: Rig,
    /// Requests without an answer yet, and whether they were cancelled.
    pending: BTreeMap<(u64, u64), bool>,
    alive: BTreeSet<u64>,
    cancelled: BTreeSet<OpId>,
    fence: u64,
    serial: u64,
    /// Locks taken and not given back.
    locks: i64,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            rig: Rig::ready(),
            pending: BTreeMap::new(),
            alive: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            fence: 1,
            serial: 0,
            locks: 0,
        };
        model.open_all();
        model
    }

    /// Numbers are never reused: three new connections at a time.
    fn open_all(&mut self) {
        self.serial += 1;
        for (conn, revision) in [(1, "2025-11-25"), (2, "2025-06-18"), (3, "2024-11-05")] {
            self.alive.insert(conn);
            let number = self.number(conn);
            self.rig.open_connection(number);
            self.rig.initialize(number, revision);
        }
    }

    fn number(&self, conn: u64) -> u64 {
        self.serial * 10 + conn
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Open => {
                if self.alive.is_empty() {
                    self.open_all();
                }
            }
            Op::Close(conn) => {
                if self.alive.remove(&conn) {
                    let number = self.number(conn);
                    self.pending.retain(|(c, _), _| *c != number);
                    self.step(Input::Closed { conn: Conn(number) });
                }
            }
            Op::End(conn) => {
                let number = self.number(conn);
                self.step(Input::Ended { conn: Conn(number) });
            }
            Op::Call { conn, id, tool } => {
                let number = self.number(conn);
                if !self.alive.contains(&conn) || self.pending.contains_key(&(number, id)) {
                    return;
                }
                let (name, arguments) = CALLS[tool];
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
                self.pending.insert((number, id), false);
                self.step(Input::Message { conn: Conn(number), route: Route(0), bytes: Bytes::from(message.to_string()) });
            }
            Op::Cancel { conn, id } => {
                let number = self.number(conn);
                if let Some(cancelled) = self.pending.get_mut(&(number, id)) {
                    *cancelled = true;
                }
                let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                self.step(Input::Message { conn: Conn(number), route: Route(0), bytes: Bytes::from(message.to_string()) });
            }
            Op::Complete { nth, well, kind } => {
                let Some((op, effect)) = self.rig.open.iter().nth(nth).map(|(op, effect)| (*op, effect.clone())) else { return };
                let (op, effect) = self.first_of_session(op, effect);
                self.complete(op, &effect, well, kind);
            }
            Op::Pass(ms) => {
                self.rig.now += ms;
                self.step(Input::Tick);
            }
            Op::PassToTimer => {
                if let Some((at, kind)) = self.rig.core.poll_timeout() {
                    self.rig.now = self.rig.now.max(at);
                    self.step(Input::Tick);
                    assert_ne!(self.rig.core.poll_timeout(), Some((at, kind)), "the timer that was due is still there");
                }
            }
            Op::Stop(set) => self.observe(Observation::Stop { set }),
            Op::Lock(state) => {
                let state = [LockState::Unlocked, LockState::Locked, LockState::Unknown][usize::from(state)];
                self.observe(Observation::Lock { state, source: "a test".into() });
            }
            Op::LeaseLost => self.observe(Observation::LeaseLost { detail: "gone".into() }),
            Op::Compositor(what) => {
                if what == 3 {
                    let info = CompositorInfo { kind: CompositorKind::Niri, version: "26.04".into(), instance: "one".into(), incompatible: None };
                    self.observe(Observation::Compositor(CompositorState::Up(info)));
                }
                self.observe(Observation::Compositor(match what {
                    0 => CompositorState::Down { detail: "gone".into() },
                    1 => CompositorState::StreamLost { detail: "lost".into() },
                    _ => CompositorState::StreamLive,
                }));
            }
            Op::Focus(id) => self.observe(Observation::Desktop(DesktopEvent::FocusChanged(id))),
            Op::Title(id) => {
                let window = window(id, &format!("title {}", self.rig.inputs.len()), 1);
                self.observe(Observation::Desktop(DesktopEvent::WindowOpenedOrChanged { window, focused: false }));
            }
            Op::Closed(id) => self.observe(Observation::Desktop(DesktopEvent::WindowClosed(id))),
            Op::UserInput => self.observe(Observation::UserInput),
            Op::Audit(well) => self.step(Input::AuditWritten(if well { Ok(()) } else { Err("disk full".into()) })),
            Op::Restart => {
                self.rig.core.restart([5; 32]);
                let outputs = self.rig.drain();
                self.check(&outputs);
            }
            Op::Garbage(bytes) => {
                let number = self.number(1);
                self.step(Input::Message { conn: Conn(number), route: Route(0), bytes: Bytes::from(bytes) });
            }
        }
    }

    fn observe(&mut self, observation: Observation) {
        self.step(Input::Observed(observation));
    }

    /// The session backend does one thing after the other.
    fn first_of_session(&self, op: OpId, effect: Effect) -> (OpId, Effect) {
        if !matches!(effect, Effect::Session(_)) {
            return (op, effect);
        }
        let started = self.rig.all.iter().filter_map(|o| if let Output::Start { op, effect, .. } = o { Some((op, effect)) } else { None });
        let mut open = started.filter(|(op, effect)| matches!(effect, Effect::Session(_)) && self.rig.open.contains_key(op));
        open.next().map_or((op, effect), |(op, effect)| (*op, effect.clone()))
    }

    fn complete(&mut self, op: OpId, effect: &Effect, well: bool, kind: usize) {
        let outcome = if well { Ok(kind_reply(effect)) } else { failure(KINDS[kind]) };
        match effect {
            // A lock whose answer is lost isn't counted: it may be held or not, and both is fine.
            Effect::Session(SessionRequest::Lock { .. }) if well => self.locks += 1,
            Effect::Session(SessionRequest::Unlock) => self.locks = 0,
            _ => {}
        }
        self.rig.open.remove(&op);
        self.cancelled.remove(&op);
        self.step(Input::Completed { op, outcome });
    }

    fn step(&mut self, input: Input) {
        let outputs = self.rig.feed(input);
        self.check(&outputs);
    }

    fn check(&mut self, outputs: &[Output]) {
        for (i, output) in outputs.iter().enumerate() {
            match output {
                Output::Fence(generation) => {
                    assert!(*generation > self.fence, "fences only rise");
                    self.fence = *generation;
                }
                Output::Start { op, effect, generation, deadline } => {
                    assert_eq!(*generation, self.fence, "{op} starts under an old generation");
                    assert!(*deadline >= self.rig.now);
                    let fenced_at_once = outputs[i..].iter().any(|o| matches!(o, Output::Fence(_)));
                    if acts(effect) && !fenced_at_once {
                        assert!(self.held(), "{op} acts without a lease: {effect:?}");
                    }
                }
                Output::Cancel { op } => {
                    assert!(self.rig.open.contains_key(op), "{op} is cancelled without being open");
                    self.cancelled.insert(*op);
                }
                Output::Send { conn, body, .. } => self.answered(*conn, &serde_json::from_slice(&body.to_vec()).unwrap()),
                Output::Audit(_) | Output::Close { .. } | Output::EndStream { .. } => {}
            }
        }
        self.assert_invariants();
    }

    fn answered(&mut self, conn: Conn, message: &Value) {
        let Some(id) = message["id"].as_u64() else { return };
        let cancelled = self.pending.remove(&(conn.0, id));
        match cancelled {
            None => panic!("{conn:?} got an answer that it doesn't wait for: {message}"),
            Some(true) => panic!("{conn:?} got an answer to what it had cancelled: {message}"),
            Some(false) => {}
        }
    }

    fn held(&self) -> bool {
        self.rig.core.look(|w| matches!(w.lease.state, State::Held(_)))
    }

    fn assert_invariants(&self) {
        // What acts has a live lease, or was told to stop.
        for (op, effect) in &self.rig.open {
            if acts(effect) && !self.cancelled.contains(op) {
                assert!(self.held(), "{op} goes on without a lease: {effect:?}");
            }
        }
        if let Some((at, kind)) = self.rig.core.poll_timeout() {
            assert!(at > self.rig.now, "{kind:?} is due already");
        }
        // One desktop, one actor.
        let acting = self.rig.open.iter().filter(|(op, effect)| acts(effect) && !self.cancelled.contains(op)).count();
        assert!(acting <= 1, "{acting} actions at once");
    }

    /// Everything ends well; then everything must be given back and answered.
    fn end(&mut self) {
        for _ in 0..10_000 {
            if let Some((op, effect)) = self.rig.open.iter().next().map(|(op, effect)| (*op, effect.clone())) {
                let (op, effect) = self.first_of_session(op, effect);
                self.complete(op, &effect, true, 0);
            } else if self.rig.core.is_idle() {
                break;
            } else {
                let (at, _) = self.rig.core.poll_timeout().expect("something is under way and nothing is waited for");
                self.rig.now = self.rig.now.max(at);
                self.step(Input::Tick);
            }
        }
        assert!(self.rig.core.is_idle(), "it never comes to rest");
        let unanswered: Vec<_> = self.pending.iter().filter(|(_, cancelled)| !**cancelled).collect();
        assert!(unanswered.is_empty(), "no answer to {unanswered:?}");
    }
}

fn run(ops: Vec<Op>) -> Model {
    let mut model = Model::new();
    for op in ops {
        model.apply(op);
    }
    model.end();
    model
}

/// `PROPTEST_CASES` says otherwise.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn promises_hold(ops in proptest::collection::vec(op(), 0..120)) {
        let mut model = run(ops);
        // All go, and the desktop is given back whole.
        for conn in 1..4 {
            model.apply(Op::Close(conn));
        }
        model.end();
        model.rig.core.look(|w| assert!(matches!(w.lease.state, State::Free), "{:?}", w.lease.state));
        assert_eq!(model.locks, 0, "a lock was taken and not given back");
        assert_eq!(model.rig.core.poll_timeout(), None);
    }

    #[test]
    fn when_outputs_are_drained_makes_no_difference(
        ops in proptest::collection::vec(op(), 0..80),
        drain_at in proptest::collection::vec(any::<bool>(), 1..50),
    ) {
        // A restart isn't an input.
        let model = run(ops.into_iter().filter(|op| !matches!(op, Op::Restart)).collect());
        let mut late = Core::new(config(), [3; 32], support::START);
        let mut got = Vec::new();
        for (i, (at, input)) in model.rig.inputs.iter().enumerate() {
            late.handle_input(*at, input.clone());
            if drain_at[i % drain_at.len()] {
                got.extend(std::iter::from_fn(|| late.poll_output()));
            }
        }
        got.extend(std::iter::from_fn(|| late.poll_output()));
        let print = |all: &[Output]| all.iter().map(|o| print_output(o).unwrap()).collect::<Vec<_>>();
        prop_assert_eq!(print(&model.rig.all), print(&got));
    }

    #[test]
    fn equal_ids_of_two_clients_never_cross(order in proptest::collection::vec(0..4usize, 0..12)) {
        let mut rig = Rig::ready();
        for conn in [1, 2] {
            rig.open_connection(conn);
            rig.initialize(conn, "2025-11-25");
            // The answer repeats the number, so it shows whose it is.
            rig.call(conn, 0, "desktop_state", &json!({"since": 1_000_000 + conn}));
        }
        for nth in order {
            if let Some((op, effect)) = rig.open.iter().nth(nth).map(|(op, effect)| (*op, effect.clone())) {
                rig.complete(op, Ok(kind_reply(&effect)));
            }
        }
        rig.answer_all();
        for conn in [1, 2] {
            let answers: Vec<String> = rig.sent.iter().filter(|(c, m)| *c == Conn(conn) && m["id"] == json!(0)).map(|(_, m)| m.to_string()).collect();
            prop_assert_eq!(answers.len(), 1);
            let own = (1_000_000 + conn).to_string();
            prop_assert!(answers[0].contains(&own), "{}", answers[0]);
        }
    }

    #[test]
    fn garbage_is_answered_with_an_error(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
        let mut rig = Rig::ready();
        rig.open_connection(1);
        rig.feed(Input::Message { conn: Conn(1), route: Route(0), bytes: Bytes::from(bytes) });
        prop_assert_eq!(rig.sent.len(), 1);
        prop_assert!(rig.sent[0].1["error"]["code"].is_i64());
    }

    #[test]
    fn nearly_right_messages_never_panic(
        base in 0..6usize, cut in 0..400usize, flip in proptest::collection::vec((0..400usize, any::<u8>()), 0..4),
    ) {
        let bases = [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"click","arguments":{"x":1,"y":2,"expect":{"window_id":1}}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait_for","arguments":{"until":{"title":{"window_id":1,"contains":"x"}}}}}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"niri_action","arguments":{"action":{"FocusWindow":{"id":18446744073709551615}}}}}"#,
        ];
        let mut bytes = bases[base].as_bytes().to_vec();
        for (at, byte) in flip {
            let len = bytes.len();
            bytes[at % len] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut % 7));
        let mut rig = Rig::ready();
        rig.open_connection(1);
        rig.initialize(1, "2025-03-26");
        rig.call(1, 77, "acquire_desktop", &json!({}));
        rig.answer_all();
        rig.feed(Input::Message { conn: Conn(1), route: Route(0), bytes: Bytes::from(bytes) });
        rig.quiesce();
    }
}

#[test]
fn a_seat_is_closed_before_the_lock_is_given_back() {
    let mut rig = Rig::ready();
    rig.open_connection(1);
    rig.initialize(1, "2025-11-25");
    rig.call(1, 1, "acquire_desktop", &json!({}));
    rig.answer_all();
    assert!(rig.structured(1, 1)["lease"].is_string());
    rig.feed(Input::Closed { conn: Conn(1) });
    rig.quiesce();
    let effects: Vec<&Effect> = rig.all.iter().filter_map(|o| if let Output::Start { effect, .. } = o { Some(effect) } else { None }).collect();
    let at = |wanted: &Effect| effects.iter().position(|e| *e == wanted);
    let (close, unlock) = (at(&Effect::Seat(SeatRequest::Close)), at(&Effect::Session(SessionRequest::Unlock)));
    assert!(close.is_some() && close < unlock, "{effects:?}");
}
