//! Accessible elements, as an accessibility backend finds them, and what may be asked of it.

use serde::{Deserialize, Serialize};

use super::geometry::Rect;

/// What an element is known by. It is the same element only while all of this holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// The application's name on the accessibility bus, and the object's path there.
    pub bus: String,
    pub path: String,
    /// One of [`ROLES`].
    pub role: String,
    /// The app's own text.
    pub name: String,
    /// The objects it stands in, `bus path`, from the nearest to the window's frame.
    pub parents: Vec<String>,
    /// In a row of a list or table: what the whole row shows. Toolkits use one object for many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
}

/// Which window is meant, by what the compositor tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessWindow {
    pub pid: i32,
    pub title: Option<String>,
    /// Logical pixels of its content.
    pub size: (i32, i32),
    /// The compositor shows no other window of this process.
    pub alone: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessRequest {
    Elements(ElementsRequest),
    /// What this element is like now; fails as `Stale` when it is not the same any more.
    Look { element: Identity, window: AccessWindow },
    /// Has the element do its action of this name.
    Activate { element: Identity, action: String },
    /// Replaces an editable element's text, and reads it back.
    SetText { element: Identity, text: String },
    /// Gives the element the keyboard within its window.
    Focus { element: Identity },
    /// Reads the text and compares; it never leaves the backend.
    CompareText { element: Identity, text: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElementsRequest {
    pub window: AccessWindow,
    /// Only elements of this role.
    pub role: Option<String>,
    /// Only elements whose name contains this, whatever the case.
    pub name_contains: Option<String>,
    pub limit: u32,
    /// Whether to ask for actions and places, too.
    pub details: bool,
    /// Looking ends after so long, with what was found.
    pub budget_ms: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// In the order of the tree.
    pub elements: Vec<Element>,
    /// Why there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// How many nodes of the tree were seen.
    pub nodes: u32,
    /// What the person can do about a tree that shows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Element {
    pub identity: Identity,
    /// Words such as `focused`, `checked`, `disabled`, `hidden`.
    pub states: Vec<String>,
    pub actions: Vec<String>,
    /// Logical pixels from the window's origin, or why that isn't known.
    pub place: Result<Rect, NoBox>,
}

/// Why an element has no box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoBox {
    /// It isn't shown (an unopened menu, a row scrolled away).
    NotShown,
    /// It has no place of its own.
    NoComponent,
    /// The app didn't tell, or told nothing sensible.
    NotTold,
    /// Where the app's coordinates begin in the window can't be told.
    OriginUnknown,
    /// It lies outside of the window.
    OutsideWindow,
    /// The compositor doesn't tell where the window is.
    WindowPositionUnknown,
}

impl NoBox {
    pub fn word(self) -> &'static str {
        match self {
            Self::NotShown => "not_shown",
            Self::NoComponent => "no_component",
            Self::NotTold => "not_told",
            Self::OriginUnknown => "origin_unknown",
            Self::OutsideWindow => "outside_window",
            Self::WindowPositionUnknown => "window_position_unknown",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncated {
    Limit,
    NodeCap,
    ByteBudget,
    Deadline,
}

impl Truncated {
    pub fn word(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::NodeCap => "node_cap",
            Self::ByteBudget => "byte_budget",
            Self::Deadline => "deadline",
        }
    }
}

/// An element after it was looked at or acted on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElementNow {
    pub presence: Presence,
    /// Before it was acted on, and now.
    pub before: Vec<String>,
    pub states: Vec<String>,
    pub place: Result<Rect, NoBox>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    Present,
    Gone,
    /// The app doesn't answer.
    Unknown,
}

/// What was read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextSet {
    Matched,
    Differs,
    Unknown,
    /// The element doesn't take text this way; nothing was sent.
    NotEditable,
}

/// AT-SPI's roles by their numbers.
pub const ROLES: &[&str] = &[
    "invalid", "accelerator label", "alert", "animation", "arrow", "calendar", "canvas", "check box", "check menu item", "color chooser",
    "column header", "combo box", "date editor", "desktop icon", "desktop frame", "dial", "dialog", "directory pane", "drawing area", "file chooser",
    "filler", "focus traversable", "font chooser", "frame", "glass pane", "html container", "icon", "image", "internal frame", "label",
    "layered pane", "list", "list item", "menu", "menu bar", "menu item", "option pane", "page tab", "page tab list", "panel",
    "password text", "popup menu", "progress bar", "push button", "radio button", "radio menu item", "root pane", "row header", "scroll bar", "scroll pane",
    "separator", "slider", "spin button", "split pane", "status bar", "table", "table cell", "table column header", "table row header", "tearoff menu item",
    "terminal", "text", "toggle button", "tool bar", "tool tip", "tree", "tree table", "unknown", "viewport", "window",
    "extended", "header", "footer", "paragraph", "ruler", "application", "autocomplete", "edit bar", "embedded", "entry",
    "chart", "caption", "document frame", "heading", "page", "section", "redundant object", "form", "link", "input method window",
    "table row", "tree item", "document spreadsheet", "document presentation", "document text", "document web", "document email", "comment", "list box", "grouping",
    "image map", "notification", "info bar", "level bar", "title bar", "block quote", "audio", "video", "definition", "article",
    "landmark", "log", "marquee", "math", "rating", "timer", "static", "math fraction", "math root", "subscript",
    "superscript", "description list", "description term", "description value", "footnote", "content deletion", "content insertion", "mark", "suggestion", "push button menu",
    "switch",
];

/// The names that toolkits give to ordinary actions.
pub const ACTIONS: &[&str] = &[
    "activate", "check", "clear-selection", "click", "clickAncestor", "close", "collapse", "decrement", "doDefault", "edit", "expand", "expand or contract", "increment", "jump", "menu", "open",
    "popup", "press", "Press", "release", "select", "SetFocus", "showContextMenu", "ShowMenu", "switch", "toggle", "Toggle", "uncheck", "unselect",
];
