//! Recent snapshots, so that a client can ask for what changed since one it saw.

use std::collections::VecDeque;

use super::state::Desktop;

/// Snapshots share their parts, so keeping many is cheap; a desktop that changes quickly only shortens the memory.
#[derive(Clone, Debug, Default)]
pub struct History {
    snapshots: VecDeque<Desktop>,
}

const KEPT: usize = 256;

impl History {
    pub fn push(&mut self, desktop: Desktop) {
        if self.snapshots.len() == KEPT {
            self.snapshots.pop_front();
        }
        self.snapshots.push_back(desktop);
    }

    pub fn at(&self, seq: u64) -> Option<&Desktop> {
        let at = self.snapshots.partition_point(|d| d.seq < seq);
        self.snapshots.get(at).filter(|d| d.seq == seq)
    }
}
