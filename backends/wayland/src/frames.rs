//! Captured raw frames, and those that are kept for later comparison.

use std::sync::Arc;

use deskhand_core::desktop::effect::FrameId;
use deskhand_core::desktop::geometry::Rect;

use crate::capture::Command;
use crate::pixels::Pixels;
use crate::shm::Loan;

/// The core keeps four a lease; what is far beyond that was forgotten by mistake.
const MOST_FRAMES: usize = 16;
const MOST_BYTES: usize = 768 << 20;

/// The raw pixels of one capture.
pub(crate) struct RawImage {
    pub output: String,
    /// The size of the output's whole raw buffer.
    pub raw_size: (u32, u32),
    /// The part of it that the pixels show.
    pub covers: Rect,
    pub y_invert: bool,
    pub loan: Loan<Command>,
}

impl RawImage {
    pub fn pixels(&self) -> Option<Pixels<'_>> {
        let slot = self.loan.slot()?;
        Pixels::new(
            slot.bytes(),
            slot.spec.stride as usize,
            slot.spec.order,
            self.covers,
            self.y_invert,
        )
    }

    fn bytes(&self) -> usize {
        self.loan.slot().map_or(0, |slot| slot.bytes().len())
    }
}

/// The kept frames, oldest first.
#[derive(Default)]
pub(crate) struct Frames {
    kept: Vec<(FrameId, Arc<RawImage>)>,
}

impl Frames {
    pub fn keep(&mut self, id: FrameId, image: Arc<RawImage>) {
        self.forget(&[id]);
        self.kept.push((id, image));
        while self.kept.len() > MOST_FRAMES || (self.kept.len() > 1 && self.bytes() > MOST_BYTES) {
            self.kept.remove(0);
        }
    }

    pub fn get(&self, id: FrameId) -> Option<Arc<RawImage>> {
        self.kept
            .iter()
            .find(|(kept, _)| *kept == id)
            .map(|(_, image)| image.clone())
    }

    pub fn forget(&mut self, ids: &[FrameId]) {
        self.kept.retain(|(id, _)| !ids.contains(id));
    }

    fn bytes(&self) -> usize {
        self.kept.iter().map(|(_, image)| image.bytes()).sum()
    }
}
