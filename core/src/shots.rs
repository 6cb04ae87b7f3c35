//! Screenshots that a later call may name: their geometry, and the frames whose raw pixels are still kept.

use std::collections::VecDeque;

use crate::desktop::effect::FrameId;
use crate::desktop::geometry::{Rect, Transform};
use crate::desktop::model::LogicalOutput;
use crate::time::Time;

/// How long a pixel of a screenshot may be aimed at.
pub const VALID_MS: u64 = 60_000;
/// How many screenshots of a lease keep their raw pixels.
pub const FRAMES_KEPT: usize = 4;
const REMEMBERED: usize = 64;

/// One screenshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Shot {
    pub reference: String,
    /// The lease it was taken under (its token), if any.
    pub lease: Option<String>,
    pub output: String,
    /// The output's geometry then.
    pub logical: LogicalOutput,
    pub transform: Transform,
    /// Pixels of the output's raw buffer, and the part of it shown.
    pub raw_size: (u32, u32),
    pub raw_rect: Rect,
    /// Pixels of the image.
    pub width: u32,
    pub height: u32,
    pub frame: Option<FrameId>,
    pub taken: Time,
    /// Where our pointer was on this output, in raw pixels.
    pub pointer: Option<(u32, u32)>,
    /// Everything that the image depends on beside the pixels: asked again alike, it can be `unchanged`.
    pub request: String,
}

#[derive(Clone, Debug, Default)]
pub struct Shots {
    list: VecDeque<Shot>,
    issued: u64,
    frames: u64,
    /// Our pointer's last place, per output, in raw pixels.
    pub pointer: Option<(String, (u32, u32))>,
}

impl Shots {
    pub fn next_reference(&mut self) -> String {
        self.issued += 1;
        format!("shot-{}", self.issued)
    }

    pub fn next_frame(&mut self) -> FrameId {
        self.frames += 1;
        FrameId(self.frames)
    }

    /// Remembers one; gives the frames that are no longer needed.
    pub fn remember(&mut self, shot: Shot) -> Vec<FrameId> {
        let lease = shot.lease.clone();
        self.list.push_back(shot);
        let mut freed = Vec::new();
        let mut kept = 0;
        for shot in self.list.iter_mut().rev() {
            if shot.frame.is_some() && shot.lease == lease {
                kept += 1;
                if kept > FRAMES_KEPT {
                    freed.extend(shot.frame.take());
                }
            }
        }
        while self.list.len() > REMEMBERED {
            freed.extend(self.list.pop_front().and_then(|s| s.frame));
        }
        freed
    }

    pub fn find(&self, reference: &str) -> Option<&Shot> {
        self.list.iter().rev().find(|s| s.reference == reference)
    }

    pub fn newest(&self, lease: &str) -> Option<&Shot> {
        self.list.iter().rev().find(|s| s.lease.as_deref() == Some(lease))
    }

    /// Forgets a lease's screenshots; gives their frames.
    pub fn end_lease(&mut self) -> Vec<FrameId> {
        self.pointer = None;
        let mut freed = Vec::new();
        self.list.retain_mut(|shot| {
            freed.extend(shot.frame.take());
            shot.lease.is_none()
        });
        freed
    }

    pub fn is_known(&self, reference: &str) -> bool {
        self.find(reference).is_some()
    }
}
