//! What the compositor has told one connection: its globals, outputs, frames and finished syncs.

use std::collections::BTreeMap;

use deskhand_core::desktop::geometry::Rect;
use wayland_client::protocol::{wl_buffer, wl_callback, wl_registry, wl_seat, wl_shm, wl_shm_pool};
use wayland_client::{Connection, Dispatch, Proxy, QueueHandle, WEnum, delegate_noop};
use wayland_protocols::xdg::xdg_output::zv1::client::zxdg_output_manager_v1::ZxdgOutputManagerV1;
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::{
    zwp_virtual_keyboard_manager_v1::ZwpVirtualKeyboardManagerV1,
    zwp_virtual_keyboard_v1::ZwpVirtualKeyboardV1,
};
use wayland_protocols_wlr::screencopy::v1::client::{
    zwlr_screencopy_frame_v1::{self, ZwlrScreencopyFrameV1},
    zwlr_screencopy_manager_v1::ZwlrScreencopyManagerV1,
};
use wayland_protocols_wlr::virtual_pointer::v1::client::{
    zwlr_virtual_pointer_manager_v1::ZwlrVirtualPointerManagerV1,
    zwlr_virtual_pointer_v1::ZwlrVirtualPointerV1,
};

use crate::clipboard::Control;
use crate::outputs::Outputs;

/// What a connection is for; it binds no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Capture,
    Input,
    Clipboard,
    /// Looks at the list of globals and outputs only.
    Look,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Global {
    pub name: u32,
    pub interface: String,
    pub version: u32,
}

/// The state behind one connection's event queue.
pub(crate) struct Wire {
    pub role: Role,
    pub globals: Vec<Global>,
    pub outputs: Outputs,
    pub seat: Option<wl_seat::WlSeat>,
    pub shm: Option<wl_shm::WlShm>,
    pub screencopy: Option<ZwlrScreencopyManagerV1>,
    pub pointers: Option<ZwlrVirtualPointerManagerV1>,
    pub keyboards: Option<ZwpVirtualKeyboardManagerV1>,
    pub frames: BTreeMap<u64, FrameEvents>,
    pub control: Control,
    /// The key of the newest sync that came back; they come back in their order.
    pub synced_up_to: u64,
}

impl Wire {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            globals: Vec::new(),
            outputs: Outputs::default(),
            seat: None,
            shm: None,
            screencopy: None,
            pointers: None,
            keyboards: None,
            frames: BTreeMap::new(),
            control: Control::default(),
            synced_up_to: 0,
        }
    }

    fn bind(
        &mut self,
        registry: &wl_registry::WlRegistry,
        global: &Global,
        queue: &QueueHandle<Self>,
    ) {
        let Global { name, version, .. } = *global;
        match (global.interface.as_str(), self.role) {
            ("wl_output", _) => self.outputs.bind(registry, name, version, queue),
            ("zxdg_output_manager_v1", _) => {
                let manager: ZxdgOutputManagerV1 = registry.bind(name, version.min(3), queue, ());
                self.outputs.use_manager(manager, queue);
            }
            ("wl_shm", Role::Capture) => self.shm = Some(registry.bind(name, 1, queue, ())),
            ("zwlr_screencopy_manager_v1", Role::Capture) => {
                self.screencopy = Some(registry.bind(name, version.min(3), queue, ()));
            }
            ("wl_seat", Role::Input | Role::Clipboard) if self.seat.is_none() => {
                self.seat = Some(registry.bind(name, version.min(5), queue, ()));
            }
            ("zwlr_virtual_pointer_manager_v1", Role::Input) => {
                self.pointers = Some(registry.bind(name, version.min(2), queue, ()));
            }
            ("zwp_virtual_keyboard_manager_v1", Role::Input) => {
                self.keyboards = Some(registry.bind(name, 1, queue, ()));
            }
            (interface, Role::Clipboard) => self.control.bind(registry, (name, interface, version), queue),
            _ => {}
        }
    }
}

impl Dispatch<wl_registry::WlRegistry, ()> for Wire {
    fn event(
        wire: &mut Self,
        registry: &wl_registry::WlRegistry,
        event: wl_registry::Event,
        _: &(),
        _: &Connection,
        queue: &QueueHandle<Self>,
    ) {
        match event {
            wl_registry::Event::Global {
                name,
                interface,
                version,
            } => {
                let global = Global {
                    name,
                    interface,
                    version,
                };
                wire.bind(registry, &global, queue);
                wire.globals.push(global);
            }
            wl_registry::Event::GlobalRemove { name } => {
                wire.globals.retain(|global| global.name != name);
                wire.outputs.remove(name);
            }
            _ => {}
        }
    }
}

impl Dispatch<wl_callback::WlCallback, u64> for Wire {
    fn event(
        wire: &mut Self,
        _: &wl_callback::WlCallback,
        event: wl_callback::Event,
        key: &u64,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        if let wl_callback::Event::Done { .. } = event {
            wire.synced_up_to = wire.synced_up_to.max(*key);
        }
    }
}

/// One buffer layout that the compositor offers for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub format: WEnum<wl_shm::Format>,
    pub width: u32,
    pub height: u32,
    pub stride: u32,
}

/// What was heard of one screencopy frame.
#[derive(Default)]
pub(crate) struct FrameEvents {
    pub offers: Vec<Offer>,
    pub all_offered: bool,
    pub y_invert: bool,
    pub damage: Option<Rect>,
    pub ready: bool,
    pub failed: bool,
}

impl Dispatch<ZwlrScreencopyFrameV1, u64> for Wire {
    fn event(
        wire: &mut Self,
        proxy: &ZwlrScreencopyFrameV1,
        event: zwlr_screencopy_frame_v1::Event,
        key: &u64,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        let Some(frame) = wire.frames.get_mut(key) else {
            return;
        };
        match event {
            zwlr_screencopy_frame_v1::Event::Buffer {
                format,
                width,
                height,
                stride,
            } => {
                frame.offers.push(Offer {
                    format,
                    width,
                    height,
                    stride,
                });
                if proxy.version() < 3 {
                    frame.all_offered = true;
                }
            }
            zwlr_screencopy_frame_v1::Event::BufferDone => frame.all_offered = true,
            zwlr_screencopy_frame_v1::Event::Flags { flags } => {
                frame.y_invert = matches!(flags, WEnum::Value(flags) if flags.contains(zwlr_screencopy_frame_v1::Flags::YInvert));
            }
            zwlr_screencopy_frame_v1::Event::Damage {
                x,
                y,
                width,
                height,
            } => {
                let rect = Rect::new(to_i32(x), to_i32(y), to_i32(width), to_i32(height));
                frame.damage = Some(frame.damage.map_or(rect, |so_far| union(so_far, rect)));
            }
            zwlr_screencopy_frame_v1::Event::Ready { .. } => frame.ready = true,
            zwlr_screencopy_frame_v1::Event::Failed => frame.failed = true,
            _ => {}
        }
    }
}

fn to_i32(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The smallest rectangle around both.
pub(crate) fn union(a: Rect, b: Rect) -> Rect {
    let (x, y) = (a.x.min(b.x), a.y.min(b.y));
    Rect::new(
        x,
        y,
        a.right().max(b.right()) - x,
        a.bottom().max(b.bottom()) - y,
    )
}

delegate_noop!(Wire: ignore wl_shm::WlShm);
delegate_noop!(Wire: ignore wl_seat::WlSeat);
delegate_noop!(Wire: ignore wl_buffer::WlBuffer);
delegate_noop!(Wire: wl_shm_pool::WlShmPool);
delegate_noop!(Wire: ZwlrScreencopyManagerV1);
delegate_noop!(Wire: ZwlrVirtualPointerManagerV1);
delegate_noop!(Wire: ZwlrVirtualPointerV1);
delegate_noop!(Wire: ZwpVirtualKeyboardManagerV1);
delegate_noop!(Wire: ZwpVirtualKeyboardV1);
delegate_noop!(Wire: ZxdgOutputManagerV1);
