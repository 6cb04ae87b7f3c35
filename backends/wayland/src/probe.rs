//! What the compositor behind a socket offers, for a readiness report.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::clipboard::INTERFACES;
use crate::connection::{Link, LinkDown};
use crate::release::greet;
use crate::wire::Role;

const PATIENCE: Duration = Duration::from_secs(2);

/// The globals that Deskhand can't do without, and what each is for.
pub const NEEDED: &[(&str, u32, &str)] = &[
    ("wl_shm", 1, "captures"),
    ("zwlr_screencopy_manager_v1", 1, "captures"),
    ("wl_seat", 1, "input"),
    ("zwlr_virtual_pointer_manager_v1", 2, "the pointer"),
    ("zwp_virtual_keyboard_manager_v1", 1, "the keyboard"),
];

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Interface and version of every global, in the compositor's order.
    pub globals: Vec<(String, u32)>,
    /// The outputs' names.
    pub outputs: Vec<String>,
    /// The interface by which the clipboard is reached, if there is one.
    pub clipboard: Option<&'static str>,
    /// One sentence for each needed global that isn't there or too old.
    pub missing: Vec<String>,
}

/// Asks the compositor for its globals and outputs; takes at most two seconds.
pub fn probe(socket: &Path) -> Result<Probe, String> {
    let mut link = Link::open(socket, Role::Look).map_err(|LinkDown(detail)| detail)?;
    greet(&mut link, Instant::now() + PATIENCE)?;
    let globals: Vec<(String, u32)> = link
        .wire
        .globals
        .iter()
        .map(|global| (global.interface.clone(), global.version))
        .collect();
    let missing = NEEDED.iter().filter_map(|(interface, version, purpose)| {
        let found = globals.iter().filter(|(name, _)| name == interface).map(|(_, version)| *version).max();
        match found {
            Some(found) if found >= *version => None,
            Some(found) => Some(format!("{interface} has version {found}, {purpose} need {version}: update the compositor")),
            None => Some(format!(
                "{interface} is missing, {purpose} need it: use niri or sway, and start deskhand outside of sandboxes"
            )),
        }
    });
    Ok(Probe {
        missing: missing.collect(),
        clipboard: INTERFACES.into_iter().find(|interface| globals.iter().any(|(name, _)| name == interface)),
        globals,
        outputs: link.wire.outputs.names(),
    })
}
