//! The virtual keyboard and pointers on one connection, and what is held down with them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_ports::Pressed;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use wayland_client::Proxy;
use wayland_client::protocol::wl_keyboard::KeymapFormat;
use wayland_client::protocol::wl_pointer::{Axis, AxisSource, ButtonState};
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_v1::ZwpVirtualKeyboardV1;
use wayland_protocols_wlr::virtual_pointer::v1::client::zwlr_virtual_pointer_v1::ZwlrVirtualPointerV1;

use crate::connection::Link;
use crate::keymap::Keymap;

/// What one notch of a wheel scrolls, in the protocol's units.
const NOTCH: f64 = 15.0;

struct Pointer {
    proxy: ZwlrVirtualPointerV1,
    output: String,
    /// The wl_output that it is bound to: a re-plugged output is another one.
    global: u32,
}

/// The devices. Every request at them is counted.
pub(crate) struct Hands {
    keyboard: Option<(ZwpVirtualKeyboardV1, Keymap)>,
    pointers: Vec<Pointer>,
    /// Codes of the keys that are down, in the order of their presses.
    pub keys: Vec<u32>,
    /// The XKB modifiers last sent.
    pub modifiers: u32,
    /// Buttons that are down, and the output whose pointer pressed them.
    pub buttons: Vec<(u32, String)>,
    count: Arc<AtomicU64>,
}

impl Hands {
    pub fn new(count: Arc<AtomicU64>) -> Self {
        Self {
            keyboard: None,
            pointers: Vec::new(),
            keys: Vec::new(),
            modifiers: 0,
            buttons: Vec::new(),
            count,
        }
    }

    pub fn nothing_down(&self) -> bool {
        self.keys.is_empty() && self.modifiers == 0 && self.buttons.is_empty()
    }

    pub fn nothing_made(&self) -> bool {
        self.keyboard.is_none() && self.pointers.is_empty()
    }

    /// Makes the keyboard, with the US keymap, unless there is one.
    pub fn make_keyboard(&mut self, link: &Link) -> Result<(), Failure> {
        if self.keyboard.is_some() {
            return Ok(());
        }
        let (Some(manager), Some(seat)) = (&link.wire.keyboards, &link.wire.seat) else {
            return Err(missing("zwp_virtual_keyboard_manager_v1"));
        };
        let proxy = manager.create_virtual_keyboard(seat, &link.handle(), ());
        self.counted();
        let keymap = Keymap::default();
        self.send_keymap(&proxy, &keymap)?;
        self.keyboard = Some((proxy, keymap));
        Ok(())
    }

    /// Makes the output's pointer unless there is one.
    pub fn make_pointer(&mut self, link: &Link, output: &str) -> Result<(), Failure> {
        let Some(entry) = link.wire.outputs.find(output) else {
            let detail = format!(
                "there is no output {output:?}; {}",
                link.wire.outputs.describe()
            );
            return Err(Failure::new(FailureKind::NotFound, detail));
        };
        if self
            .pointers
            .iter()
            .any(|pointer| pointer.output == output && pointer.global == entry.global)
        {
            return Ok(());
        }
        let Some(manager) = &link.wire.pointers else {
            return Err(missing("zwlr_virtual_pointer_manager_v1"));
        };
        if manager.version() < 2 {
            return Err(missing("version 2 of zwlr_virtual_pointer_manager_v1"));
        }
        self.drop_pointer(output);
        let seat = link.wire.seat.as_ref();
        let proxy = manager.create_virtual_pointer_with_output(
            seat,
            Some(&entry.proxy),
            &link.handle(),
            (),
        );
        self.counted();
        self.pointers.push(Pointer {
            proxy,
            output: output.to_owned(),
            global: entry.global,
        });
        Ok(())
    }

    pub fn keymap(&self) -> Keymap {
        self.keyboard
            .as_ref()
            .map(|(_, keymap)| keymap.clone())
            .unwrap_or_default()
    }

    /// Switches the keyboard's keymap; false when it was that one already.
    pub fn use_keymap(&mut self, keymap: &Keymap) -> Result<bool, Failure> {
        let Some((proxy, current)) = &self.keyboard else {
            return Ok(false);
        };
        if current == keymap {
            return Ok(false);
        }
        let proxy = proxy.clone();
        self.send_keymap(&proxy, keymap)?;
        self.keyboard = Some((proxy, keymap.clone()));
        Ok(true)
    }

    pub fn key(&mut self, code: u32, pressed: bool) {
        let Some((proxy, _)) = &self.keyboard else {
            return;
        };
        proxy.key(now_ms(), code, u32::from(pressed));
        self.keys.retain(|down| *down != code);
        if pressed {
            self.keys.push(code);
        }
        self.counted();
    }

    /// Tells the modifiers that are on; a change costs one request, none costs nothing.
    pub fn set_modifiers(&mut self, mask: u32) {
        let Some((proxy, _)) = &self.keyboard else {
            return;
        };
        if mask != self.modifiers {
            proxy.modifiers(mask, 0, 0, 0);
            self.modifiers = mask;
            self.counted();
        }
    }

    /// Tells that none are on, whatever was told before.
    pub fn clear_modifiers(&mut self) {
        let Some((proxy, _)) = &self.keyboard else {
            return;
        };
        proxy.modifiers(0, 0, 0, 0);
        self.modifiers = 0;
        self.counted();
    }

    /// To the centre of a raw pixel of the output's buffer.
    pub fn motion(&self, output: &str, (x, y): (u32, u32), extent: (u32, u32)) {
        let Some(pointer) = self.pointer(output) else {
            return;
        };
        pointer.motion_absolute(now_ms(), 2 * x + 1, 2 * y + 1, 2 * extent.0, 2 * extent.1);
        pointer.frame();
        self.counted();
        self.counted();
    }

    pub fn button(&mut self, output: &str, code: u32, pressed: bool) {
        let Some(pointer) = self.pointer(output) else {
            return;
        };
        let state = if pressed {
            ButtonState::Pressed
        } else {
            ButtonState::Released
        };
        pointer.button(now_ms(), code, state);
        pointer.frame();
        self.counted();
        self.counted();
        self.buttons.retain(|(down, _)| *down != code);
        if pressed {
            self.buttons.push((code, output.to_owned()));
        }
    }

    /// One notch, down or right when positive.
    pub fn notch(&self, output: &str, vertical: bool, direction: i32) {
        let Some(pointer) = self.pointer(output) else {
            return;
        };
        let axis = if vertical {
            Axis::VerticalScroll
        } else {
            Axis::HorizontalScroll
        };
        pointer.axis_source(AxisSource::Wheel);
        pointer.axis_discrete(
            now_ms(),
            axis,
            NOTCH * f64::from(direction.signum()),
            direction.signum(),
        );
        pointer.frame();
        (0..3).for_each(|_| self.counted());
    }

    /// Lets go of each thing that is down, once; says what that was.
    pub fn release_all(&mut self) -> Vec<Pressed> {
        let mut released = Vec::new();
        for code in self.keys.clone().into_iter().rev() {
            self.key(code, false);
            released.push(Pressed::Key(code));
        }
        if self.modifiers != 0 {
            released.push(Pressed::Modifiers(self.modifiers));
            self.set_modifiers(0);
        }
        for (code, output) in self.buttons.clone() {
            self.button(&output, code, false);
            released.push(Pressed::Button(code));
        }
        released
    }

    /// Takes the devices away; nothing may be down.
    pub fn destroy(&mut self) {
        if let Some((keyboard, _)) = self.keyboard.take() {
            keyboard.destroy();
            self.counted();
        }
        for pointer in std::mem::take(&mut self.pointers) {
            pointer.proxy.destroy();
            self.counted();
        }
    }

    fn pointer(&self, output: &str) -> Option<&ZwlrVirtualPointerV1> {
        self.pointers
            .iter()
            .find(|pointer| pointer.output == output)
            .map(|pointer| &pointer.proxy)
    }

    fn drop_pointer(&mut self, output: &str) {
        if let Some(at) = self
            .pointers
            .iter()
            .position(|pointer| pointer.output == output)
        {
            self.pointers.remove(at).proxy.destroy();
            self.counted();
        }
    }

    fn send_keymap(&self, proxy: &ZwpVirtualKeyboardV1, keymap: &Keymap) -> Result<(), Failure> {
        let (file, size) = keymap_file(&keymap.text()).map_err(|error| {
            Failure::new(
                FailureKind::Refused,
                format!("no memory for a keymap: {error}"),
            )
        })?;
        proxy.keymap(KeymapFormat::XkbV1 as u32, file.as_fd(), size);
        self.counted();
        Ok(())
    }

    fn counted(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A file with the text, and the text's size.
///
/// Smithay parses exactly that many bytes and refuses a final NUL; wlroots may look for one. So the NUL comes after the
/// size, but on the same page.
fn keymap_file(text: &str) -> io::Result<(File, u32)> {
    let mut content = text.as_bytes().to_vec();
    if content.len().is_multiple_of(rustix::param::page_size()) {
        content.push(b'\n');
    }
    let size = u32::try_from(content.len()).map_err(io::Error::other)?;
    content.push(0);
    let mut file = File::from(memfd_create("deskhand-keymap", MemfdFlags::CLOEXEC)?);
    file.write_all(&content)?;
    Ok((file, size))
}

/// Milliseconds of the clock that compositors stamp real input with.
pub(crate) fn now_ms() -> u32 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000) as u32
}

fn missing(what: &str) -> Failure {
    let detail = format!(
        "the compositor offers no {what}; virtual input needs niri or sway, outside a sandbox"
    );
    Failure::new(FailureKind::Unavailable, detail)
}
