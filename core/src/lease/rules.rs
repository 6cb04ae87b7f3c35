//! Who may act on the desktop: Free, Acquiring, Held, Releasing. Locks and devices are the engine's effects; this
//! decides, and knows no I/O.

use crate::engine::io::Conn;
use crate::time::Time;

/// One holder's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Unguessable, and yet no capability by itself: it counts only from its principal.
    pub token: String,
    pub principal: String,
    /// The legacy session it belongs to, whose end is its end.
    pub session: Option<Conn>,
    pub label: String,
    pub request_key: Option<String>,
    pub since_wall_ms: u64,
    pub expires_at: Time,
    /// Calls that are using it now; it doesn't expire under them.
    pub in_use: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Free,
    Acquiring(Lease),
    Held(Lease),
    /// No longer anyone's; its devices and lock are being given back.
    Releasing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub state: State,
    pub idle_ms: u64,
}

/// Who asks, and by which claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    pub principal: &'a str,
    pub session: Option<Conn>,
    pub token: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Acquire { claim: Claim<'a>, label: &'a str, request_key: Option<&'a str>, fresh_token: String, wall_ms: u64 },
    /// The lock came, or not.
    Locked(bool),
    /// A call begins or ends to use the lease.
    Begin(Claim<'a>),
    Finish(Claim<'a>),
    Release(Claim<'a>),
    /// A legacy session is gone.
    SessionEnded(Conn),
    /// Stop flag, lost lock, the compositor's end: whoever holds it, it ends.
    Revoke,
    Expire,
    /// Devices and lock were given back.
    Released,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Take the lock, then say `Locked`.
    TakeLock,
    /// It is the asker's already.
    Yours(Lease),
    /// Another has it.
    HeldBy { label: String, since_wall_ms: u64 },
    /// The asker has none.
    NotHeld,
    /// It ended now: close the devices, give the lock back, then say `Released`.
    GiveBack,
    /// Being given back; wait.
    Ending,
    Nothing,
}

impl Lease {
    fn is(&self, claim: &Claim) -> bool {
        self.principal == claim.principal
            && match claim.token {
                Some(token) => constant_time_equal(token, &self.token),
                None => self.session.is_some() && self.session == claim.session,
            }
    }
}

impl Table {
    pub fn new(idle_ms: u64) -> Self {
        Self { state: State::Free, idle_ms }
    }

    pub fn held(&self) -> Option<&Lease> {
        match &self.state {
            State::Held(lease) => Some(lease),
            _ => None,
        }
    }

    /// Whether this claim may act now.
    pub fn check(&self, claim: &Claim) -> Verdict {
        match &self.state {
            State::Held(lease) if lease.is(claim) => Verdict::Yours(lease.clone()),
            State::Held(lease) | State::Acquiring(lease) => {
                Verdict::HeldBy { label: lease.label.clone(), since_wall_ms: lease.since_wall_ms }
            }
            State::Releasing => Verdict::Ending,
            State::Free => Verdict::NotHeld,
        }
    }

    /// When `Expire` is due.
    pub fn expiry(&self) -> Option<Time> {
        self.held().filter(|l| l.in_use == 0).map(|l| l.expires_at)
    }
}

/// The whole of the rules: a table and a request give the next table and what to do.
pub fn decide(table: &Table, request: &Request, now: Time) -> (Table, Verdict) {
    let (state, verdict) = next(&table.state, request, now, table.idle_ms);
    (Table { state, idle_ms: table.idle_ms }, verdict)
}

fn next(state: &State, request: &Request, now: Time, idle_ms: u64) -> (State, Verdict) {
    use Request::*;
    let same = |verdict| (state.clone(), verdict);
    match (state, request) {
        (State::Free, Acquire { claim, label, request_key, fresh_token, wall_ms }) => {
            let lease = Lease {
                token: fresh_token.clone(),
                principal: claim.principal.to_string(),
                session: claim.session,
                label: label.to_string(),
                request_key: request_key.map(str::to_string),
                since_wall_ms: *wall_ms,
                expires_at: now + idle_ms,
                in_use: 0,
            };
            (State::Acquiring(lease), Verdict::TakeLock)
        }
        (State::Held(lease), Acquire { claim, request_key, .. }) => {
            let own_session = claim.session.is_some() && lease.session == claim.session;
            let same_key = request_key.is_some() && lease.request_key.as_deref() == *request_key;
            if lease.principal == claim.principal && (own_session || same_key) {
                let mut lease = lease.clone();
                lease.expires_at = now + idle_ms;
                (State::Held(lease.clone()), Verdict::Yours(lease))
            } else {
                same(Verdict::HeldBy { label: lease.label.clone(), since_wall_ms: lease.since_wall_ms })
            }
        }
        (State::Acquiring(lease), Acquire { .. }) => {
            same(Verdict::HeldBy { label: lease.label.clone(), since_wall_ms: lease.since_wall_ms })
        }
        (State::Releasing, Acquire { .. }) => same(Verdict::Ending),
        (State::Acquiring(lease), Locked(true)) => {
            let mut lease = lease.clone();
            lease.expires_at = now + idle_ms;
            (State::Held(lease.clone()), Verdict::Yours(lease))
        }
        (State::Acquiring(_), Locked(false)) => (State::Free, Verdict::NotHeld),
        (State::Held(lease), Begin(claim)) if lease.is(claim) => {
            let mut lease = lease.clone();
            lease.in_use += 1;
            lease.expires_at = now + idle_ms;
            (State::Held(lease.clone()), Verdict::Yours(lease))
        }
        (State::Held(lease), Finish(claim)) if lease.is(claim) => {
            let mut lease = lease.clone();
            lease.in_use = lease.in_use.saturating_sub(1);
            lease.expires_at = now + idle_ms;
            (State::Held(lease), Verdict::Nothing)
        }
        (State::Held(lease), Release(claim)) if lease.is(claim) => (State::Releasing, Verdict::GiveBack),
        (State::Held(lease), Begin(_) | Release(_)) => {
            same(Verdict::HeldBy { label: lease.label.clone(), since_wall_ms: lease.since_wall_ms })
        }
        (_, Begin(_) | Release(_)) => same(Verdict::NotHeld),
        (State::Held(lease) | State::Acquiring(lease), SessionEnded(conn)) if lease.session == Some(*conn) => {
            (State::Releasing, Verdict::GiveBack)
        }
        (State::Held(_) | State::Acquiring(_), Revoke) => (State::Releasing, Verdict::GiveBack),
        (State::Held(lease), Expire) if lease.in_use == 0 && now >= lease.expires_at => (State::Releasing, Verdict::GiveBack),
        (State::Releasing, Released) => (State::Free, Verdict::Nothing),
        _ => same(Verdict::Nothing),
    }
}

fn constant_time_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}
