//! Data control, by whichever of the two protocols the compositor has; they differ in nothing but their names.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use wayland_client::protocol::wl_registry::WlRegistry;
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::{Connection, Dispatch, Proxy, QueueHandle, delegate_noop, event_created_child};
use wayland_protocols::ext::data_control::v1::client::{
    ext_data_control_device_v1::{self, ExtDataControlDeviceV1},
    ext_data_control_manager_v1::ExtDataControlManagerV1,
    ext_data_control_offer_v1::{self, ExtDataControlOfferV1},
    ext_data_control_source_v1::{self, ExtDataControlSourceV1},
};
use wayland_protocols_wlr::data_control::v1::client::{
    zwlr_data_control_device_v1::{self, ZwlrDataControlDeviceV1},
    zwlr_data_control_manager_v1::ZwlrDataControlManagerV1,
    zwlr_data_control_offer_v1::{self, ZwlrDataControlOfferV1},
    zwlr_data_control_source_v1::{self, ZwlrDataControlSourceV1},
};

use crate::wire::Wire;

/// The interfaces, the better one first.
pub(crate) const INTERFACES: [&str; 2] = ["ext_data_control_manager_v1", "zwlr_data_control_manager_v1"];
const MOST_TYPES: usize = 256;

#[derive(Clone)]
enum Manager {
    Ext(ExtDataControlManagerV1),
    Wlr(ZwlrDataControlManagerV1),
}

enum Device {
    Ext(ExtDataControlDeviceV1),
    Wlr(ZwlrDataControlDeviceV1),
}

/// What somebody copied.
#[derive(Clone, PartialEq)]
pub(crate) enum Offer {
    Ext(ExtDataControlOfferV1),
    Wlr(ZwlrDataControlOfferV1),
}

/// What we offer.
pub(crate) enum Source {
    Ext(ExtDataControlSourceV1),
    Wlr(ZwlrDataControlSourceV1),
}

impl Offer {
    /// Has the owner write this type into the pipe.
    pub fn receive(&self, mime: &str, into: BorrowedFd<'_>) {
        match self {
            Self::Ext(offer) => offer.receive(mime.to_owned(), into),
            Self::Wlr(offer) => offer.receive(mime.to_owned(), into),
        }
    }

    fn destroy(&self) {
        match self {
            Self::Ext(offer) => offer.destroy(),
            Self::Wlr(offer) => offer.destroy(),
        }
    }
}

impl Source {
    pub fn destroy(&self) {
        match self {
            Self::Ext(source) => source.destroy(),
            Self::Wlr(source) => source.destroy(),
        }
    }
}

/// What one of the two selections holds now.
#[derive(Default)]
pub(crate) struct Selection {
    offer: Option<Offer>,
    /// The types that it is offered in.
    pub types: Vec<String>,
    /// There are more types than are kept.
    pub left_out: bool,
    /// How often it changed.
    pub changes: u64,
    /// When it came; `None` when it was there before we looked.
    pub since: Option<Instant>,
}

impl Selection {
    /// `None` when nothing is copied.
    pub fn offer(&self) -> Option<&Offer> {
        self.offer.as_ref()
    }

    /// Asks for these types; each comes through its pipe.
    pub fn receive(&self, types: &[&str]) -> std::io::Result<Vec<OwnedFd>> {
        let Some(offer) = &self.offer else { return Ok(Vec::new()) };
        let mut ends = Vec::new();
        for mime in types {
            let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            offer.receive(mime, theirs.as_fd());
            ends.push(ours);
        }
        Ok(ends)
    }
}

/// Somebody wants what we offer.
pub(crate) struct Asked {
    /// The number that the source was made with.
    pub source: u64,
    pub mime: String,
    pub pipe: OwnedFd,
}

/// An offer that isn't a selection yet.
struct Announced {
    offer: Offer,
    types: Vec<String>,
    left_out: bool,
}

/// What a connection knows of the selections.
#[derive(Default)]
pub(crate) struct Control {
    ext: Option<ExtDataControlManagerV1>,
    wlr: Option<ZwlrDataControlManagerV1>,
    device: Option<(Manager, Device)>,
    announced: Vec<Announced>,
    pub clipboard: Selection,
    pub primary: Selection,
    /// What comes from now on was copied now.
    pub settled: bool,
    pub asked: Vec<Asked>,
    /// Sources of ours that were replaced.
    pub cancelled: Vec<u64>,
}

impl Control {
    pub fn bind(&mut self, registry: &WlRegistry, (name, interface, version): (u32, &str, u32), queue: &QueueHandle<Wire>) {
        match interface {
            "ext_data_control_manager_v1" => self.ext = Some(registry.bind(name, 1, queue, ())),
            "zwlr_data_control_manager_v1" => self.wlr = Some(registry.bind(name, version.min(2), queue, ())),
            _ => {}
        }
    }

    /// Begins to follow the seat's selections. The present ones are there with the next sync.
    pub fn start(&mut self, seat: Option<&WlSeat>, queue: &QueueHandle<Wire>) -> Result<(), String> {
        let seat = seat.ok_or("the compositor has no seat, so it has no clipboard")?;
        self.device = match (&self.ext, &self.wlr) {
            (Some(manager), _) => Some((Manager::Ext(manager.clone()), Device::Ext(manager.get_data_device(seat, queue, ())))),
            (None, Some(manager)) => Some((Manager::Wlr(manager.clone()), Device::Wlr(manager.get_data_device(seat, queue, ())))),
            (None, None) => {
                return Err(format!(
                    "the compositor offers neither {} nor {}; the clipboard needs niri or sway, outside a sandbox",
                    INTERFACES[0], INTERFACES[1]
                ));
            }
        };
        Ok(())
    }

    pub fn selection(&self, primary: bool) -> &Selection {
        if primary { &self.primary } else { &self.clipboard }
    }

    /// Whether the primary selection can be set.
    pub fn has_primary(&self) -> bool {
        match &self.device {
            Some((_, Device::Wlr(device))) => device.version() >= 2,
            device => device.is_some(),
        }
    }

    /// Makes a source; `number` names it in what is asked of it.
    pub fn make_source<'a>(&self, types: impl Iterator<Item = &'a str>, number: u64, queue: &QueueHandle<Wire>) -> Option<Source> {
        let (manager, _) = self.device.as_ref()?;
        Some(match manager {
            Manager::Ext(manager) => {
                let source = manager.create_data_source(queue, number);
                types.for_each(|mime| source.offer(mime.to_owned()));
                Source::Ext(source)
            }
            Manager::Wlr(manager) => {
                let source = manager.create_data_source(queue, number);
                types.for_each(|mime| source.offer(mime.to_owned()));
                Source::Wlr(source)
            }
        })
    }

    /// Sets the selection to our source, or to nothing.
    pub fn select(&self, primary: bool, source: Option<&Source>) {
        match &self.device {
            Some((_, Device::Ext(device))) => {
                let source = source.and_then(|source| if let Source::Ext(source) = source { Some(source) } else { None });
                if primary { device.set_primary_selection(source) } else { device.set_selection(source) }
            }
            Some((_, Device::Wlr(device))) => {
                let source = source.and_then(|source| if let Source::Wlr(source) = source { Some(source) } else { None });
                if primary { device.set_primary_selection(source) } else { device.set_selection(source) }
            }
            None => {}
        }
    }

    fn announce(&mut self, offer: Offer) {
        self.announced.push(Announced { offer, types: Vec::new(), left_out: false });
    }

    fn add_type(&mut self, offer: &Offer, mime: String) {
        let Some(announced) = self.announced.iter_mut().find(|known| known.offer == *offer) else { return };
        if announced.types.contains(&mime) {
            return;
        }
        if announced.types.len() < MOST_TYPES {
            announced.types.push(mime);
        } else {
            announced.left_out = true;
        }
    }

    fn selected(&mut self, primary: bool, offer: Option<Offer>) {
        let at = offer.as_ref().and_then(|offer| self.announced.iter().position(|known| known.offer == *offer));
        let announced = at.map(|at| self.announced.remove(at));
        let since = self.settled.then(Instant::now);
        let selection = if primary { &mut self.primary } else { &mut self.clipboard };
        if let Some(old) = std::mem::replace(&mut selection.offer, offer) {
            old.destroy();
        }
        (selection.types, selection.left_out) = announced.map(|announced| (announced.types, announced.left_out)).unwrap_or_default();
        selection.since = since;
        selection.changes += 1;
    }

    fn finished(&mut self) {
        self.selected(false, None);
        self.selected(true, None);
    }
}

macro_rules! dispatch {
    ($family:ident, $manager:ident, $device_module:ident::$device:ident, $offer_module:ident::$offer:ident, $source_module:ident::$source:ident) => {
        delegate_noop!(Wire: $manager);

        impl Dispatch<$device, ()> for Wire {
            fn event(wire: &mut Self, _: &$device, event: $device_module::Event, _: &(), _: &Connection, _: &QueueHandle<Self>) {
                match event {
                    $device_module::Event::DataOffer { id } => wire.control.announce(Offer::$family(id)),
                    $device_module::Event::Selection { id } => wire.control.selected(false, id.map(Offer::$family)),
                    $device_module::Event::PrimarySelection { id } => wire.control.selected(true, id.map(Offer::$family)),
                    $device_module::Event::Finished => wire.control.finished(),
                    _ => {}
                }
            }

            event_created_child!(Wire, $device, [$device_module::EVT_DATA_OFFER_OPCODE => ($offer, ())]);
        }

        impl Dispatch<$offer, ()> for Wire {
            fn event(wire: &mut Self, offer: &$offer, event: $offer_module::Event, _: &(), _: &Connection, _: &QueueHandle<Self>) {
                if let $offer_module::Event::Offer { mime_type } = event {
                    wire.control.add_type(&Offer::$family(offer.clone()), mime_type);
                }
            }
        }

        impl Dispatch<$source, u64> for Wire {
            fn event(wire: &mut Self, _: &$source, event: $source_module::Event, number: &u64, _: &Connection, _: &QueueHandle<Self>) {
                match event {
                    $source_module::Event::Send { mime_type, fd } => wire.control.asked.push(Asked { source: *number, mime: mime_type, pipe: fd }),
                    $source_module::Event::Cancelled => wire.control.cancelled.push(*number),
                    _ => {}
                }
            }
        }
    };
}

dispatch!(
    Ext, ExtDataControlManagerV1, ext_data_control_device_v1::ExtDataControlDeviceV1,
    ext_data_control_offer_v1::ExtDataControlOfferV1, ext_data_control_source_v1::ExtDataControlSourceV1
);
dispatch!(
    Wlr, ZwlrDataControlManagerV1, zwlr_data_control_device_v1::ZwlrDataControlDeviceV1,
    zwlr_data_control_offer_v1::ZwlrDataControlOfferV1, zwlr_data_control_source_v1::ZwlrDataControlSourceV1
);
