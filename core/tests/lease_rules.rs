//! The lease's rules, whoever asks for what in whichever order.

use deskhand_core::lease::rules::{Claim, Lease, Request, State, Table, Verdict, decide};
use deskhand_core::{Conn, Time};
use proptest::prelude::*;

const IDLE: u64 = 1000;

#[derive(Clone, Debug)]
enum Op {
    Acquire { who: usize, key: Option<u8> },
    Locked(bool),
    Begin { who: usize, stranger: bool },
    Finish { who: usize },
    Release { who: usize, stranger: bool },
    SessionEnded(usize),
    Revoke,
    Released,
    Pass(u64),
}

/// Principal and session: two people, one with two legacy sessions, one modern client.
const WHO: &[(&str, Option<u64>)] = &[("ann", Some(1)), ("ann", Some(2)), ("ben", Some(3)), ("ben", None)];

fn op() -> impl Strategy<Value = Op> {
    let who = || 0..WHO.len();
    prop_oneof![
        4 => (who(), proptest::option::of(0..2u8)).prop_map(|(who, key)| Op::Acquire { who, key }),
        4 => any::<bool>().prop_map(Op::Locked),
        3 => Just(Op::Locked(true)),
        4 => (who(), any::<bool>()).prop_map(|(who, stranger)| Op::Begin { who, stranger }),
        3 => who().prop_map(|who| Op::Finish { who }),
        2 => (who(), any::<bool>()).prop_map(|(who, stranger)| Op::Release { who, stranger }),
        1 => who().prop_map(Op::SessionEnded),
        1 => Just(Op::Revoke),
        3 => Just(Op::Released),
        3 => (0..1500u64).prop_map(Op::Pass),
    ]
}

struct Model {
    table: Table,
    now: Time,
    tokens: u64,
    /// Who was last given a lease that hasn't ended.
    holder: Option<(usize, String)>,
    running: u32,
    /// Locks taken or being taken and not given back.
    locks: i32,
}

impl Model {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Pass(ms) => {
                self.now += ms;
                if self.table.expiry().is_some_and(|at| at <= self.now) {
                    assert_eq!(self.running, 0, "a lease doesn't expire under an action");
                    let verdict = self.decide(&Request::Expire);
                    assert_eq!(verdict, Verdict::GiveBack);
                    self.ended();
                }
            }
            Op::Acquire { who, key } => {
                self.tokens += 1;
                let token = format!("token-{}", self.tokens);
                let key = key.map(|k| format!("key-{k}"));
                let was = self.table.state.clone();
                let request = Request::Acquire { claim: claim(*who, None), label: "x", request_key: key.as_deref(), fresh_token: token.clone(), wall_ms: 0 };
                match self.decide(&request) {
                    Verdict::TakeLock => {
                        assert_eq!(was, State::Free);
                        self.locks += 1;
                        self.holder = Some((*who, token));
                    }
                    Verdict::Yours(lease) => {
                        let State::Held(before) = was else { panic!("given from {was:?}") };
                        assert_eq!((lease.token, &lease.principal[..]), (before.token, WHO[*who].0));
                    }
                    Verdict::HeldBy { .. } => assert!(matches!(was, State::Held(_) | State::Acquiring(_))),
                    Verdict::Ending => assert_eq!(was, State::Releasing),
                    other => panic!("{other:?}"),
                }
            }
            Op::Locked(well) => {
                let was = self.table.state.clone();
                let verdict = self.decide(&Request::Locked(*well));
                match (was, well) {
                    (State::Acquiring(_), true) => assert!(matches!(verdict, Verdict::Yours(_))),
                    (State::Acquiring(_), false) => {
                        assert_eq!(verdict, Verdict::NotHeld);
                        self.locks -= 1;
                        self.ended();
                    }
                    _ => assert_eq!(verdict, Verdict::Nothing),
                }
            }
            Op::Begin { who, stranger } => {
                let token = self.token(*stranger);
                let verdict = self.decide(&Request::Begin(claim(*who, token.as_deref())));
                let may = self.may(*who, token.as_deref());
                assert_eq!(matches!(verdict, Verdict::Yours(_)), may, "{verdict:?}");
                self.running += u32::from(may);
            }
            Op::Finish { who } => {
                let token = self.token(false);
                if self.running > 0 && self.may(*who, token.as_deref()) {
                    self.running -= 1;
                    self.decide(&Request::Finish(claim(*who, token.as_deref())));
                }
            }
            Op::Release { who, stranger } => {
                let token = self.token(*stranger);
                let may = self.may(*who, token.as_deref());
                let verdict = self.decide(&Request::Release(claim(*who, token.as_deref())));
                assert_eq!(verdict == Verdict::GiveBack, may);
                if may {
                    self.ended();
                }
            }
            Op::SessionEnded(who) => {
                let Some(session) = WHO[*who].1 else { return };
                let own = match &self.table.state {
                    State::Held(l) | State::Acquiring(l) => l.session == Some(Conn(session)),
                    _ => false,
                };
                let verdict = self.decide(&Request::SessionEnded(Conn(session)));
                assert_eq!(verdict == Verdict::GiveBack, own);
                if own {
                    self.ended();
                }
            }
            Op::Revoke => {
                let any = matches!(self.table.state, State::Held(_) | State::Acquiring(_));
                assert_eq!(self.decide(&Request::Revoke) == Verdict::GiveBack, any);
                if any {
                    self.ended();
                }
            }
            Op::Released => {
                if self.table.state == State::Releasing {
                    self.locks -= 1;
                }
                self.decide(&Request::Released);
            }
        }
        self.assert_invariants();
    }

    fn decide(&mut self, request: &Request) -> Verdict {
        let (table, verdict) = decide(&self.table, request, self.now);
        // Pure: the same again gives the same.
        assert_eq!(decide(&self.table, request, self.now), (table.clone(), verdict.clone()));
        self.table = table;
        verdict
    }

    fn ended(&mut self) {
        self.holder = None;
        self.running = 0;
    }

    fn token(&self, stranger: bool) -> Option<String> {
        if stranger { Some("token-of-nobody".into()) } else { self.table.held().map(|l| l.token.clone()) }
    }

    /// What the table should allow, told from the outside.
    fn may(&self, who: usize, token: Option<&str>) -> bool {
        let Some(Lease { principal, session, token: real, .. }) = self.table.held() else { return false };
        let (name, own) = WHO[who];
        principal == name
            && match token {
                Some(token) => token == real,
                None => session.is_some() && *session == own.map(Conn),
            }
    }

    fn assert_invariants(&self) {
        match &self.table.state {
            State::Free => assert_eq!(self.locks, 0, "free, and yet a lock is out"),
            State::Acquiring(lease) | State::Held(lease) => {
                assert_eq!(self.locks, 1);
                let (who, token) = self.holder.as_ref().expect("someone holds it");
                assert_eq!((&lease.principal[..], &lease.token), (WHO[*who].0, token), "another one holds it than was told");
                assert_eq!(lease.in_use, self.running);
            }
            State::Releasing => assert_eq!(self.locks, 1),
        }
        assert!(self.running == 0 || self.table.held().is_some(), "something runs without a lease");
        // Nobody else's claim passes.
        for (who, (name, _)) in WHO.iter().enumerate() {
            let passes = matches!(self.table.check(&claim(who, None)), Verdict::Yours(_));
            let holder = self.table.held();
            assert!(!passes || holder.is_some_and(|l| l.principal == *name));
        }
    }
}

fn claim(who: usize, token: Option<&str>) -> Claim<'_> {
    let (principal, session) = WHO[who];
    Claim { principal, session: session.map(Conn), token }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_two_holders(ops in proptest::collection::vec(op(), 0..100)) {
        let mut model = Model { table: Table::new(IDLE), now: 0, tokens: 0, holder: None, running: 0, locks: 0 };
        for op in &ops {
            model.apply(op);
        }
    }
}
