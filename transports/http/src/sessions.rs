//! The legacy sessions of all mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deskhand_driver::Driver;

use crate::limits::Limits;
use crate::session::Session;
use crate::tokens::random;

#[derive(Default)]
pub(crate) struct Sessions {
    by_id: Mutex<BTreeMap<String, Arc<Session>>>,
}

#[derive(Debug)]
pub(crate) enum NoSession {
    /// As many as there may be, all of them in use.
    Full,
    /// The system gives no randomness.
    NoId(io::Error),
}

impl Sessions {
    /// A new one, which the core doesn't know yet. The one that was idle longest gives way when there are too many.
    pub fn open(&self, mount: usize, principal: &Arc<str>, driver: &Arc<Driver>, limits: &Limits, now_ms: u64) -> Result<Arc<Session>, NoSession> {
        let id: String = random::<16>().map_err(NoSession::NoId)?.iter().map(|b| format!("{b:02x}")).collect();
        loop {
            let session = {
                let mut sessions = self.lock();
                if sessions.len() < limits.sessions {
                    let session = Arc::new(Session::new(id.clone(), mount, principal.clone(), driver.clone(), limits, now_ms));
                    sessions.insert(id, session.clone());
                    return Ok(session);
                }
                let idle = sessions.values().filter_map(|s| if s.is_ended() { Some((0, s)) } else { s.idle_since().map(|at| (at, s)) });
                idle.min_by_key(|(at, _)| *at).map(|(_, s)| s.clone())
            };
            let session = session.ok_or(NoSession::Full)?;
            self.end(&session);
        }
    }

    /// Another principal's, another mount's and an ended one are as unknown as any.
    pub fn find(&self, id: &str, mount: usize, principal: &str) -> Option<Arc<Session>> {
        let session = self.lock().get(id)?.clone();
        (session.mount == mount && *session.principal == *principal && !session.is_ended() && session.conn().is_some()).then_some(session)
    }

    pub fn end(&self, session: &Session) {
        self.lock().remove(&session.id);
        session.end();
    }

    pub fn end_of(&self, principals: &BTreeSet<Arc<str>>) {
        self.all().iter().filter(|s| principals.contains(&s.principal)).for_each(|s| self.end(s));
    }

    pub fn end_all(&self) {
        self.all().iter().for_each(|s| self.end(s));
    }

    /// No more messages that belong to no request: those streams end once read.
    pub fn end_unsolicited(&self) {
        self.all().iter().for_each(|s| s.end_unsolicited());
    }

    /// Ends those that were idle too long, and lets go of those who wait in vain.
    pub fn sweep(&self, limits: &Limits, now_ms: u64) {
        let bound = u64::try_from(limits.session_idle.as_millis()).unwrap_or(u64::MAX);
        for session in self.all() {
            if session.is_ended() || session.idle_since().is_some_and(|at| now_ms.saturating_sub(at) > bound) {
                self.end(&session);
            } else {
                session.let_go_of_cancelled();
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Session>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
