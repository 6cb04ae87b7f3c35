//! Un-sticking what a dead process left down, from a fresh connection.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use deskhand_ports::Pressed;
use wayland_client::protocol::wl_pointer::ButtonState;

use crate::connection::{Link, LinkDown};
use crate::hands::Hands;
use crate::wire::Role;

/// How long a compositor may take for all of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// Releases each of these once on the compositor behind the socket, and clears the modifiers.
///
/// Nothing is pressed first. Blocks for at most a few seconds; an error says what is still stuck and why.
pub fn release_pressed(socket: &Path, pressed: &[Pressed]) -> Result<(), String> {
    if pressed.is_empty() {
        return Ok(());
    }
    let until = Instant::now() + PATIENCE;
    let mut link = Link::open(socket, Role::Input).map_err(|LinkDown(detail)| detail)?;
    greet(&mut link, until)?;
    unstick(&mut link, pressed, until)
}

/// Two rounds: the globals, then what the outputs bound by them say.
pub(crate) fn greet(link: &mut Link, until: Instant) -> Result<(), String> {
    roundtrip(link, until)?;
    roundtrip(link, until)
}

/// Does the releasing on a greeted connection.
pub(crate) fn unstick(link: &mut Link, pressed: &[Pressed], until: Instant) -> Result<(), String> {
    let mut keys: Vec<u32> = Vec::new();
    let mut buttons: Vec<u32> = Vec::new();
    let mut modifiers = false;
    for what in pressed {
        match *what {
            Pressed::Key(code) if !keys.contains(&code) => keys.push(code),
            Pressed::Button(code) if !buttons.contains(&code) => buttons.push(code),
            Pressed::Modifiers(_) => modifiers = true,
            _ => {}
        }
    }
    if modifiers || !keys.is_empty() {
        let mut hands = Hands::new(Arc::new(AtomicU64::new(0)));
        hands
            .make_keyboard(link)
            .map_err(|failure| failure.detail)?;
        for code in keys.into_iter().rev() {
            hands.key(code, false);
        }
        hands.clear_modifiers();
        roundtrip(link, until)?;
        hands.destroy();
    }
    if !buttons.is_empty() {
        let Some(manager) = &link.wire.pointers else {
            return Err("the compositor offers no zwlr_virtual_pointer_manager_v1; press and release the mouse button yourself".into());
        };
        // Bound to no output, and never moved: only the button is of interest.
        let pointer = manager.create_virtual_pointer(link.wire.seat.as_ref(), &link.handle(), ());
        for code in buttons {
            pointer.button(crate::hands::now_ms(), code, ButtonState::Released);
            pointer.frame();
        }
        roundtrip(link, until)?;
        pointer.destroy();
    }
    roundtrip(link, until)
}

/// Waits until the compositor has handled everything sent so far.
pub(crate) fn roundtrip(link: &mut Link, until: Instant) -> Result<(), String> {
    let key = link.sync();
    while !link.is_synced(key) {
        if Instant::now() >= until {
            return Err("the compositor doesn't answer; it may hang".into());
        }
        link.step(until, None).map_err(|LinkDown(detail)| detail)?;
    }
    Ok(())
}
