//! What backends tell the core without being asked.

use serde::{Deserialize, Serialize};

use super::effect::Holder;
use super::model::{KeyboardLayouts, Output, Window, WindowId, WindowLayout, Workspace, WorkspaceId};

/// One thing a backend saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observation {
    Compositor(CompositorState),
    /// A change on the desktop, from the compositor's event stream.
    Desktop(DesktopEvent),
    /// The stop flag. Until its first state arrives the core acts as if stopped.
    Stop { set: bool },
    /// The stop flag can't be watched: nobody could stop us, so it counts as set.
    StopUnwatched { detail: String },
    Lock { state: LockState, source: String },
    /// Our own file lock is gone (its file was removed or replaced).
    LeaseLost { detail: String },
    /// Another process took or gave back the desktop's lock; `None`: nobody else has it.
    OtherHolder(Option<Holder>),
    /// What a dead server left pressed and the guard could not release; `None`: nothing.
    Unfinished(Option<String>),
    /// Whether the Wayland display and the compositor's socket belong to one compositor; the reason when not.
    SessionMatch(Result<(), String>),
    Screen(Availability),
    Seat(Availability),
    /// The session's accessibility bus.
    Accessibility(AccessState),
    /// The real keyboard or pointer was used.
    UserInput,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    Up,
    Down { detail: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessState {
    /// `enabled`: applications are told to offer their trees; some do it anyway.
    Up { enabled: bool },
    Down { detail: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompositorState {
    Up(CompositorInfo),
    /// The event stream has delivered its whole initial state and is followed.
    StreamLive,
    /// The event stream was lost; it is being opened again.
    StreamLost { detail: String },
    Down { detail: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompositorInfo {
    pub kind: CompositorKind,
    pub version: String,
    /// Identifies this run of the compositor: socket name, process id, start time.
    pub instance: String,
    /// Why its version can't be acted on; `None` when it is understood.
    pub incompatible: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompositorKind {
    Niri,
    Sway,
}

impl CompositorKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Niri => "niri",
            Self::Sway => "sway",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockState {
    Locked,
    Unlocked,
    Unknown,
}

/// One change of the desktop. Ids that were never mentioned before are no error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesktopEvent {
    /// All workspaces; those not in the list are gone.
    Workspaces(Vec<Workspace>),
    /// All windows; those not in the list are gone. Also sets the focus from `focused`.
    Windows { windows: Vec<Window>, focused: Option<WindowId> },
    WindowOpenedOrChanged { window: Window, focused: bool },
    WindowClosed(WindowId),
    /// `None`: a layer surface, the lock screen or the overview has the keyboard, or nothing has.
    FocusChanged(Option<WindowId>),
    LayoutsChanged(Vec<(WindowId, WindowLayout)>),
    WindowUrgency { id: WindowId, urgent: bool },
    WorkspaceUrgency { id: WorkspaceId, urgent: bool },
    /// The workspace is now the visible one of its output; `focused`: it also has the focus.
    WorkspaceActivated { id: WorkspaceId, focused: bool },
    WorkspaceActiveWindow { id: WorkspaceId, window: Option<WindowId> },
    KeyboardLayouts(KeyboardLayouts),
    KeyboardLayoutSwitched(usize),
    Overview { open: bool },
    Outputs(Vec<Output>),
    ConfigLoaded { failed: bool },
    /// An event this reader doesn't know, by name.
    Unknown(String),
}
