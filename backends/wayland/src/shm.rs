//! Shared-memory buffers that the compositor copies frames into, used again and again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use memmap2::{Mmap, MmapOptions};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use wayland_client::QueueHandle;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_shm::{self, WlShm};
use wayland_client::protocol::wl_shm_pool::WlShmPool;

use crate::mailbox::Mailbox;
use crate::pixels::Order;
use crate::wire::{Offer, Wire};

/// Larger than any screen; a bogus offer beyond it is refused.
const MOST_BYTES: u64 = 1 << 30;
/// How many idle buffers wait for their next use.
const MOST_IDLE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub format: wl_shm::Format,
    pub order: Order,
    pub width: u32,
    pub height: u32,
    pub stride: u32,
}

impl Spec {
    /// `None` for formats and sizes that this crate doesn't read.
    pub fn of(offer: &Offer) -> Option<Self> {
        let order = Order::of(offer.format)?;
        let format = offer.format.into_result().ok()?;
        let bytes = u64::from(offer.stride) * u64::from(offer.height);
        let sane = offer.width > 0
            && offer.height > 0
            && u64::from(offer.stride) >= u64::from(offer.width) * 4
            && bytes <= MOST_BYTES;
        let Offer {
            width,
            height,
            stride,
            ..
        } = *offer;
        sane.then_some(Self {
            format,
            order,
            width,
            height,
            stride,
        })
    }
}

/// One buffer: memory that we read and the compositor writes.
pub(crate) struct Slot {
    pub spec: Spec,
    memory: Mmap,
    pool: WlShmPool,
    pub buffer: WlBuffer,
    /// Which connection made it.
    pub era: u64,
}

impl Slot {
    pub fn new(shm: &WlShm, queue: &QueueHandle<Wire>, spec: Spec, era: u64) -> io::Result<Self> {
        let too_large = || io::Error::other("the frame is too large");
        let bytes = spec
            .stride
            .checked_mul(spec.height)
            .and_then(|n| i32::try_from(n).ok())
            .ok_or_else(too_large)?;
        let file = memfd_create(
            "deskhand-frame",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = File::from(file);
        let memory = map(&file)?;
        let pool = shm.create_pool(OwnedFd::from(file).as_fd(), bytes, queue, ());
        let (width, height, stride) = (spec.width as i32, spec.height as i32, spec.stride as i32);
        let buffer = pool.create_buffer(0, width, height, stride, spec.format, queue, ());
        Ok(Self {
            spec,
            memory,
            pool,
            buffer,
            era,
        })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// Tells the compositor that it is no longer used.
    pub fn destroy(self) {
        self.buffer.destroy();
        self.pool.destroy();
    }
}

/// SAFETY of the mapping: the file is an anonymous one of ours, sealed so that it can't shrink below the map. The only
/// other writer is the compositor, between our `copy` request and its `ready` or `failed` (or, abandoned, the answer to
/// a sync after the frame's end); the bytes are read only outside that time.
#[allow(unsafe_code, reason = "a shared mapping can't be made otherwise")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: see above.
    unsafe { MmapOptions::new().populate().map(file) }
}

/// A slot on loan: it goes back to the capture thread when dropped.
pub(crate) struct Loan<M: From<Slot>> {
    slot: Option<Slot>,
    home: Mailbox<M>,
}

impl<M: From<Slot>> Loan<M> {
    pub fn new(slot: Slot, home: Mailbox<M>) -> Self {
        Self {
            slot: Some(slot),
            home,
        }
    }

    pub fn slot(&self) -> Option<&Slot> {
        self.slot.as_ref()
    }
}

impl<M: From<Slot>> Drop for Loan<M> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.home.send(M::from(slot));
        }
    }
}

/// Idle slots of the present connection.
#[derive(Default)]
pub(crate) struct Slots {
    idle: Vec<Slot>,
}

impl Slots {
    pub fn take(&mut self, spec: Spec, era: u64) -> Option<Slot> {
        let at = self
            .idle
            .iter()
            .position(|slot| slot.spec == spec && slot.era == era)?;
        Some(self.idle.remove(at))
    }

    /// Keeps it for later; the oldest one goes when there are too many.
    pub fn give(&mut self, slot: Slot, era: u64) {
        if slot.era != era {
            return;
        }
        self.idle.push(slot);
        if self.idle.len() > MOST_IDLE {
            self.idle.remove(0).destroy();
        }
    }

    pub fn clear(&mut self) {
        self.idle.clear();
    }
}
