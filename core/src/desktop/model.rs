//! The desktop as the compositor tells it.

use serde::{Deserialize, Serialize};

use super::geometry::Transform;

pub type WindowId = u64;
pub type WorkspaceId = u64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    pub id: WindowId,
    pub title: Option<String>,
    pub app_id: Option<String>,
    pub pid: Option<i32>,
    /// `None` while it is between workspaces (an interactive drag), or before niri said.
    pub workspace_id: Option<WorkspaceId>,
    #[serde(default)]
    pub floating: bool,
    #[serde(default)]
    pub urgent: bool,
    #[serde(default)]
    pub layout: WindowLayout,
}

/// Sizes and places in logical pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowLayout {
    pub window_size: (i32, i32),
    pub tile_size: (f64, f64),
    pub place: Place,
}

/// Where the window's content begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The compositor doesn't say.
    #[default]
    Unknown,
    /// Relative to the origin of the output that shows its workspace.
    OnOutput(f64, f64),
    /// In layout coordinates.
    InLayout(f64, f64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workspace {
    pub id: WorkspaceId,
    /// 1-based position on its output (niri's `idx`, sway's number).
    pub index: u32,
    pub name: Option<String>,
    pub output: Option<String>,
    #[serde(default)]
    pub active: bool,
    #[serde(default)]
    pub focused: bool,
    #[serde(default)]
    pub urgent: bool,
    pub active_window: Option<WindowId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    pub name: String,
    /// Layout coordinates; `None` when the output is off.
    pub logical: Option<LogicalOutput>,
    /// Pixels, and thousandths of a hertz.
    pub mode: Option<Mode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogicalOutput {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
    pub scale: f64,
    pub transform: Transform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    pub width: u32,
    pub height: u32,
    pub refresh_mhz: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyboardLayouts {
    pub names: Vec<String>,
    pub current: usize,
}
