//! One queue of timers, with reasons.

use std::collections::{BTreeMap, BTreeSet};

use super::io::TimerKind;
use crate::time::Time;

/// Each reason has at most one time.
#[derive(Debug, Default)]
pub struct Timers {
    queue: BTreeSet<(Time, TimerKind)>,
    at: BTreeMap<TimerKind, Time>,
}

impl Timers {
    pub fn set(&mut self, kind: TimerKind, at: Time) {
        if let Some(old) = self.at.insert(kind, at) {
            self.queue.remove(&(old, kind));
        }
        self.queue.insert((at, kind));
    }

    pub fn clear(&mut self, kind: TimerKind) {
        if let Some(old) = self.at.remove(&kind) {
            self.queue.remove(&(old, kind));
        }
    }

    pub fn next(&self) -> Option<(Time, TimerKind)> {
        self.queue.first().copied()
    }

    pub fn pop_due(&mut self, now: Time) -> Option<TimerKind> {
        let (at, kind) = self.next()?;
        if at > now {
            return None;
        }
        self.clear(kind);
        Some(kind)
    }
}
