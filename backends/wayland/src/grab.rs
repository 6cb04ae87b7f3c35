//! Frames in flight: from the screencopy request to raw pixels.

use std::collections::BTreeMap;

use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_core::desktop::geometry::Rect;
use wayland_client::Proxy;
use wayland_protocols_wlr::screencopy::v1::client::zwlr_screencopy_frame_v1::ZwlrScreencopyFrameV1;

use crate::capture::Command;
use crate::connection::Link;
use crate::frames::RawImage;
use crate::mailbox::Mailbox;
use crate::region::{self, Region};
use crate::shm::{Loan, Slot, Slots, Spec};
use crate::wire::FrameEvents;

/// So many unanswered abandoned frames mean that the connection is of no use.
const MOST_DRYING: usize = 16;

struct Grab {
    proxy: ZwlrScreencopyFrameV1,
    slot: Option<Slot>,
    on_damage: bool,
    output: String,
    raw_size: Option<(u32, u32)>,
    region: Option<Region>,
    error: Option<GrabError>,
}

/// Why a frame didn't come.
#[derive(Debug)]
pub(crate) enum GrabError {
    /// The region came in another size than expected: only a full capture is exact.
    Region,
    /// Worth another try: the output may just have changed.
    Failed,
    Final(Failure),
}

/// A frame that came, and where it changed (in its own buffer's pixels) when it waited for damage.
pub(crate) struct Grabbed {
    pub image: RawImage,
    pub damage: Option<Rect>,
}

/// All frames of one connection that are under way, and the buffers for them.
pub(crate) struct Grabs {
    under_way: BTreeMap<u64, Grab>,
    /// Buffers of abandoned frames, until the compositor has surely let go of them.
    drying: Vec<(u64, Slot)>,
    slots: Slots,
    era: u64,
    home: Mailbox<Command>,
}

impl Grabs {
    pub fn new(home: Mailbox<Command>) -> Self {
        Self {
            under_way: BTreeMap::new(),
            drying: Vec::new(),
            slots: Slots::default(),
            era: 0,
            home,
        }
    }

    /// Asks for a frame of the output: all of it, or at least `want` (raw pixels); at once, or when something changed.
    pub fn start(
        &mut self,
        link: &mut Link,
        output: &str,
        want: Option<Rect>,
        on_damage: bool,
    ) -> Result<u64, Failure> {
        let key = link.fresh_key();
        let queue = link.handle();
        let wire = &mut link.wire;
        let Some(manager) = &wire.screencopy else {
            let detail = "the compositor offers no zwlr_screencopy_manager_v1; captures need niri or sway, outside a sandbox";
            return Err(Failure::new(FailureKind::Unavailable, detail));
        };
        let Some(entry) = wire.outputs.find(output) else {
            let detail = format!("there is no output {output:?}; {}", wire.outputs.describe());
            return Err(Failure::new(FailureKind::NotFound, detail));
        };
        let region =
            want.and_then(|want| region::plan(entry.mode?, entry.logical?, entry.transform, want));
        let proxy = match region {
            Some(Region {
                logical:
                    Rect {
                        x,
                        y,
                        width,
                        height,
                    },
                ..
            }) => manager.capture_output_region(0, &entry.proxy, x, y, width, height, &queue, key),
            None => manager.capture_output(0, &entry.proxy, &queue, key),
        };
        let on_damage = on_damage && proxy.version() >= 2;
        let grab = Grab {
            proxy,
            slot: None,
            on_damage,
            output: output.into(),
            raw_size: entry.mode,
            region,
            error: None,
        };
        wire.frames.insert(key, FrameEvents::default());
        self.under_way.insert(key, grab);
        Ok(key)
    }

    /// Gives buffers to the frames whose layouts are known now, and takes dry ones back.
    pub fn advance(&mut self, link: &mut Link) {
        for (key, grab) in &mut self.under_way {
            let Some(events) = link.wire.frames.get(key) else {
                continue;
            };
            if !events.all_offered || grab.slot.is_some() || grab.error.is_some() || events.failed {
                continue;
            }
            match choose_slot(&mut self.slots, self.era, link, events, grab.region) {
                Ok(slot) => {
                    if grab.on_damage {
                        grab.proxy.copy_with_damage(&slot.buffer);
                    } else {
                        grab.proxy.copy(&slot.buffer);
                    }
                    grab.slot = Some(slot);
                }
                Err(error) => grab.error = Some(error),
            }
        }
        for (key, slot) in std::mem::take(&mut self.drying) {
            if link.is_synced(key) {
                self.slots.give(slot, self.era);
            } else {
                self.drying.push((key, slot));
            }
        }
    }

    /// The frame's pixels or error, once there is either.
    pub fn take(&mut self, link: &mut Link, key: u64) -> Option<Result<Grabbed, GrabError>> {
        let events = link.wire.frames.get(&key)?;
        let grab = self.under_way.get(&key)?;
        if !events.ready && !events.failed && grab.error.is_none() {
            return None;
        }
        let events = link.wire.frames.remove(&key)?;
        let grab = self.under_way.remove(&key)?;
        grab.proxy.destroy();
        if let Some(error) = grab.error {
            return Some(Err(error));
        }
        let Some(slot) = grab.slot.filter(|_| events.ready) else {
            return Some(Err(GrabError::Failed));
        };
        let size = (slot.spec.width, slot.spec.height);
        let whole = Rect::new(0, 0, size.0 as i32, size.1 as i32);
        let (covers, raw_size) = match grab.region {
            Some(region) => (region.covers, grab.raw_size.unwrap_or(size)),
            None => (whole, size),
        };
        let loan = Loan::new(slot, self.home.clone());
        let image = RawImage {
            output: grab.output,
            raw_size,
            covers,
            y_invert: events.y_invert,
            loan,
        };
        Some(Ok(Grabbed {
            image,
            damage: events.damage,
        }))
    }

    /// Nobody waits for this frame any more. False when too many hang for the connection to be of use.
    pub fn abandon(&mut self, link: &mut Link, key: u64) -> bool {
        link.wire.frames.remove(&key);
        let Some(grab) = self.under_way.remove(&key) else {
            return true;
        };
        grab.proxy.destroy();
        if let Some(slot) = grab.slot {
            self.drying.push((link.sync(), slot));
        }
        self.drying.len() <= MOST_DRYING
    }

    /// A buffer came back from whoever read it.
    pub fn give_back(&mut self, slot: Slot) {
        self.slots.give(slot, self.era);
    }

    /// The connection is gone, and all that was made with it.
    pub fn lose(&mut self) {
        self.era += 1;
        self.under_way.clear();
        self.drying.clear();
        self.slots.clear();
    }
}

fn choose_slot(
    slots: &mut Slots,
    era: u64,
    link: &Link,
    events: &FrameEvents,
    region: Option<Region>,
) -> Result<Slot, GrabError> {
    let Some(spec) = events.offers.iter().find_map(Spec::of) else {
        let offered: Vec<String> = events
            .offers
            .iter()
            .map(|offer| format!("{:?}", offer.format))
            .collect();
        let detail = format!(
            "the compositor offers captures only as {}; deskhand reads 8-bit XRGB, ARGB, XBGR and ABGR: \
             switch the output to 8 bits a channel",
            if offered.is_empty() {
                "dmabuf".into()
            } else {
                offered.join(", ")
            }
        );
        return Err(GrabError::Final(Failure::new(FailureKind::Refused, detail)));
    };
    let expected = region.map(|region| (region.covers.width as u32, region.covers.height as u32));
    if expected.is_some_and(|expected| expected != (spec.width, spec.height)) {
        return Err(GrabError::Region);
    }
    if let Some(slot) = slots.take(spec, era) {
        return Ok(slot);
    }
    let Some(shm) = &link.wire.shm else {
        return Err(GrabError::Final(Failure::new(
            FailureKind::Unavailable,
            "the compositor offers no wl_shm",
        )));
    };
    Slot::new(shm, &link.handle(), spec, era).map_err(|error| {
        let detail = format!(
            "no memory for a {}x{} capture: {error}",
            spec.width, spec.height
        );
        GrabError::Final(Failure::new(FailureKind::Refused, detail))
    })
}
