//! What the core knows of the outside: the desktop, the person's switches, the lease, the policy.

use std::path::PathBuf;
use std::sync::Arc;

use crate::desktop::effect::Holder;
use super::cx::Reason;
use super::random::Random;
use super::startup::Told;
use crate::desktop::event::{AccessState, Availability, CompositorInfo, CompositorKind, CompositorState, DesktopEvent, LockState, Observation};
use crate::desktop::history::History;
use crate::desktop::state::Desktop;
use crate::elements::Elements;
use crate::lease::rules::Table;
use crate::policy::{Policy, PolicyState};
use crate::shots::Shots;
use crate::time::Time;
use crate::tools::facts::Refused;

pub struct World {
    pub now: Time,
    /// Wall time minus `now`, in milliseconds since 1970.
    pub wall_offset_ms: u64,
    pub desktop: Arc<Desktop>,
    pub history: History,
    pub compositor: Result<CompositorInfo, String>,
    /// The last one that was reached: what a message names even when it is gone.
    pub last_kind: Option<CompositorKind>,
    pub stream: Stream,
    pub stop: StopFlag,
    /// Why the stop flag can't be watched.
    pub stop_unwatched: Option<String>,
    pub lock: LockState,
    pub lock_source: String,
    pub session_match: Result<(), String>,
    pub unfinished: Option<String>,
    pub screen: Availability,
    pub seat: Availability,
    /// `None` until somebody told.
    pub access: Option<AccessState>,
    pub lease: Table,
    pub other_holder: Option<Holder>,
    /// The lease's window to go back to, and the workspace.
    pub users_window: Option<u64>,
    pub users_workspace: Option<u64>,
    pub shots: Shots,
    pub elements: Elements,
    pub policy: Arc<Policy>,
    pub policy_state: PolicyState,
    pub audit_path: Option<PathBuf>,
    pub audit_error: Option<String>,
    /// How often the person was seen to use keyboard or pointer.
    pub user_inputs: u64,
    /// Raised with every end of a lease, stop and lock.
    pub generation: u64,
    /// The compositor's own key combinations, lower case; asked once per lease (sway).
    pub binds: Option<Arc<Vec<String>>>,
    pub(crate) random: Random,
    pub told: Told,
    /// The toolset's own answer for a call that must stop.
    pub(crate) abandoned: fn(&World, Reason) -> Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    Opening,
    Live,
    Lost(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopFlag {
    /// Its state isn't known yet, which counts as set.
    Unknown,
    Set,
    Clear,
}

impl World {
    /// Takes an event; true when it changed anything.
    pub(crate) fn learn(&mut self, event: &DesktopEvent) -> bool {
        let changed = Arc::make_mut(&mut self.desktop).apply(event);
        if changed {
            self.history.push(Desktop::clone(&self.desktop));
        }
        changed
    }

    pub(crate) fn note_told(&mut self, observation: &Observation) {
        match observation {
            // Up is only half of it: the desktop is known once its stream is.
            Observation::Compositor(CompositorState::Up(_)) => {}
            Observation::Compositor(_) => self.told.compositor = true,
            Observation::Stop { .. } | Observation::StopUnwatched { .. } => self.told.stop = true,
            Observation::Lock { .. } => self.told.lock = true,
            Observation::Screen(_) => self.told.screen = true,
            Observation::Seat(_) => self.told.seat = true,
            _ => {}
        }
    }

    pub fn wall_ms(&self) -> u64 {
        self.wall_offset_ms + self.now
    }

    /// Unknown counts as locked, unless the policy says otherwise on a compositor that has no real screen.
    pub fn locked(&self) -> bool {
        match self.lock {
            LockState::Unlocked => false,
            LockState::Locked => true,
            LockState::Unknown => !self.unlocked_by_policy(),
        }
    }

    pub fn unlocked_by_policy(&self) -> bool {
        self.policy.assume_unlocked && self.virtual_outputs_only()
    }

    /// Nested and headless compositors: no person sits before them.
    pub fn virtual_outputs_only(&self) -> bool {
        let is_virtual = |name: &str| {
            name == "winit" || ["HEADLESS-", "WL-", "X11-"].iter().any(|p| name.starts_with(p))
        };
        !self.desktop.outputs.is_empty() && self.desktop.outputs.iter().all(|o| is_virtual(&o.name))
    }

    pub fn compositor_name(&self) -> &'static str {
        self.last_kind.map_or("niri", CompositorKind::name)
    }
}

/// Wall time in RFC 3339, UTC, to the millisecond.
pub fn rfc3339(wall_ms: u64) -> String {
    let time = std::time::UNIX_EPOCH.checked_add(std::time::Duration::from_millis(wall_ms));
    time.map_or_else(String::new, |t| humantime::format_rfc3339_millis(t).to_string())
}
