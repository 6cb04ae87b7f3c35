//! What the core asks of the outside, and what comes back, in the desktop's own words.
//!
//! Nothing here knows a wire format. Sizes are pixels, times are milliseconds, keys are XKB keysyms.

use std::path::PathBuf;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::elements::{AccessRequest, ElementNow, Listing, TextSet};
use super::geometry::{Rect, Transform};
use super::model::{Output, WindowId, WorkspaceId};

/// One piece of work for a backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Compositor(CompositorRequest),
    Screen(ScreenRequest),
    Seat(SeatRequest),
    Clipboard(ClipboardRequest),
    Session(SessionRequest),
    Access(AccessRequest),
}

/// Asked of the compositor's own IPC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompositorRequest {
    FocusWindow(WindowId),
    FocusWorkspace(WorkspaceId),
    CloseWindow(WindowId),
    /// A niri action in niri's IPC form, e.g. `{"FullscreenWindow":{"id":3}}`.
    Action(Value),
    /// The outputs as they are now; they have no events.
    Outputs,
    /// The name of the output that has the focus.
    FocusedOutput,
    /// The layer surfaces as they are now.
    Layers,
    /// Key combinations that the running configuration binds (sway), in `ctrl+shift+t` form, lower case.
    Binds,
}

/// Names the raw pixels of one capture for as long as the backend keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrameId(pub u64);

/// Asked of the capture backend. Pixels stay there: the core sees geometry and a finished image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreenRequest {
    Capture(CaptureRequest),
    Compare(CompareRequest),
    /// Resolves once no damage was seen for `quiet_ms` (damage no larger than a caret doesn't count), or `max_ms` passed.
    Settle { output: String, quiet_ms: u32, max_ms: u32 },
    /// The raw pixels of these frames are no longer needed.
    Forget(Vec<FrameId>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// The output's name.
    pub output: String,
    /// A rectangle of the output's raw buffer, in raw pixels; all of it when `None`.
    pub raw_region: Option<Rect>,
    /// Turns the raw buffer upright (the transform that the output shows it with).
    pub transform: Transform,
    /// The longest width of the image; it is never enlarged.
    pub max_width: u32,
    /// Neither side of the image is longer than this.
    pub max_side: u32,
    /// The base64 text is no longer than this many bytes (quality, then size, is lowered to fit).
    pub max_base64: usize,
    pub format: ImageFormat,
    /// Keep the raw pixels under this id (for `Compare` and `unchanged_since`).
    pub keep: Option<FrameId>,
    /// When the pixels equal this kept frame's, no image is made and `unchanged` is true.
    pub unchanged_since: Option<FrameId>,
    /// Also write the whole capture, upright and at full resolution, as a PNG to this new file.
    pub save: Option<SaveTo>,
}

/// A file to make: `name` (relative, checked by the core) below `directory`; never through a symlink, never over an existing file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaveTo {
    pub directory: PathBuf,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    Jpeg,
    Png,
}

impl ImageFormat {
    pub fn mime(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
        }
    }
}

/// Captures a patch again and compares it with the same place of a kept frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRequest {
    pub output: String,
    pub frame: FrameId,
    /// The centre of the patch, in raw pixels of the output.
    pub centre: (u32, u32),
    /// The patch's side in raw pixels, clipped to the output.
    pub side: u32,
    /// Rectangles in raw pixels of the output that don't count (where our pointer was and is).
    pub masks: Vec<Rect>,
    /// Try shifts of up to this many pixels and take the best (fractional scales).
    pub slack: u32,
}

/// Asked of the virtual pointer and keyboard. The backend checks the fence before each write and between chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatRequest {
    /// Make the devices for a lease. Idempotent.
    Open { outputs: Vec<String> },
    /// Release what is pressed and destroy the devices. Needs no fence.
    Close,
    /// Release what is pressed, keep the devices. Needs no fence.
    Release,
    Pointer(PointerRequest),
    /// Each chord is pressed and released before the next one.
    Keys { chords: Vec<Chord> },
    /// Unicode text; `\n` is Return, `\t` is Tab. `submit` presses Return afterwards.
    Text { text: String, submit: bool },
}

/// Positions are raw pixels of the named output's buffer, whose size is `extent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointerRequest {
    pub output: String,
    pub extent: (u32, u32),
    pub steps: Vec<PointerStep>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointerStep {
    /// To the centre of this raw pixel.
    Move { x: u32, y: u32 },
    /// A Linux button code (`BTN_LEFT` is 0x110).
    Button { code: u32, pressed: bool },
    /// Wheel notches, positive down and right.
    Wheel { x: i32, y: i32 },
    /// Hold these modifiers down (or let go of them) on the virtual keyboard.
    Modifiers { held: Modifiers },
    /// Let the compositor handle what was sent, then wait.
    Pause { ms: u32 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Modifiers {
    pub shift: bool,
    pub ctrl: bool,
    pub alt: bool,
    #[serde(rename = "super")]
    pub super_: bool,
}

impl Modifiers {
    pub fn any(self) -> bool {
        self.shift || self.ctrl || self.alt || self.super_
    }
}

/// Modifiers and at most one key. `keysym` is an XKB keysym number; `None` presses the modifiers alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chord {
    pub modifiers: Modifiers,
    pub keysym: Option<u32>,
}

/// Asked of the clipboard backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClipboardRequest {
    /// The clipboard's text, if it was copied within these last milliseconds and has at most so many bytes.
    Read { within_ms: u64, max_bytes: usize },
    /// Save all that is copied now, then offer this text in its place, marked as a password. `primary`: as the primary
    /// selection too. Nothing is offered when what is there can't be saved (`Unsaved`).
    /// `reader`: the process whose reading counts; anybody's when unknown.
    Offer { text: String, primary: bool, reader: Option<i32> },
    /// Wait until the offered text was read, or was replaced by somebody's copy.
    AwaitReader { max_ms: u32 },
    /// Put back what was saved. Needs no fence; nothing happens when nothing is offered.
    Restore,
}

/// Asked of the session backend: the machine-wide side of the lease, launching, and the person's switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRequest {
    /// Take the desktop's file lock and write who holds it. `Refused` carries the other holder in `Failure::holder`.
    Lock { label: String, since_wall_ms: u64 },
    /// Give the lock back.
    Unlock,
    /// Start a program with the session's environment, detached from us.
    Launch { argv: Vec<String>, env: Vec<(String, String)> },
}

/// What an effect led to.
pub type Outcome = Result<Reply, Failure>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The peer took it; for input, the compositor has handled it (a `wl_display.sync` came back).
    Done,
    Outputs(Vec<Output>),
    Name(Option<String>),
    Layers(Value),
    Binds(Vec<String>),
    Captured(Captured),
    /// How much of the patch differs, 0.0 to 1.0, at the best alignment.
    Compared { differing: f64 },
    Settled { settled: bool, waited_ms: u32 },
    /// How many characters went out.
    Typed { characters: usize },
    Launched { pid: u32 },
    Copied(Copied),
    /// Whether the offered text was read; `None`: it can't be told, since a clipboard manager serves it now.
    Read(Option<bool>),
    PutBack(PutBack),
    Elements(Listing),
    Element(ElementNow),
    TextSet(TextSet),
}

/// The clipboard's text, or why it isn't given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copied {
    Text(String),
    NothingCopied,
    NotText,
    /// Before the time that was asked for, or nobody knows when.
    BeforeLease,
    /// Its owner marks it as a password.
    Secret,
    TooLarge,
}

/// What became of a clipboard that was lent for a paste.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PutBack {
    Restored,
    /// It was empty before and is so again.
    Cleared,
    /// Somebody copied something meanwhile, and that stays.
    Replaced,
}

impl PutBack {
    pub fn word(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Cleared => "cleared",
            Self::Replaced => "replaced",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Captured {
    /// The size of the output's whole raw buffer in pixels.
    pub raw_size: (u32, u32),
    /// The raw rectangle that the image shows.
    pub raw_rect: Rect,
    /// The size of the image in pixels (also when `image` is `None`).
    pub width: u32,
    pub height: u32,
    /// `None` when unchanged.
    pub image: Option<EncodedImage>,
    pub unchanged: bool,
    pub saved: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedImage {
    pub format: ImageFormat,
    /// Base64 text, ready to stand in a JSON string.
    #[serde(with = "plain_text")]
    pub base64: Bytes,
}

/// Why an effect led to nothing, or to nobody knows what.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{detail}")]
pub struct Failure {
    pub kind: FailureKind,
    /// The upstream message, and for a person what to do about it.
    pub detail: String,
    /// For typing: how many characters went out before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<usize>,
    /// For the lock: who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

impl Failure {
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), typed: None, holder: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The peer can't be reached; nothing was sent.
    Unavailable,
    /// The peer doesn't know what was named (an output, a frame, a window).
    NotFound,
    /// The peer said no.
    Refused,
    /// No answer in time; it may have happened.
    TimedOut,
    /// It was sent, and the connection ended before the answer: it may have happened.
    Lost,
    /// The fence had moved on, or the operation was cancelled: the rest was not sent.
    Fenced,
    /// No answer to a question in time; nothing was done.
    Unanswered,
    /// Text that no keymap can hold.
    Unmappable,
    /// What the clipboard holds can't be saved, or is a secret; it is as it was.
    Unsaved,
    /// The window has no accessible tree.
    NotAccessible,
    /// Several accessible windows fit the window.
    Ambiguous,
    /// The element is gone, or another one has its place.
    Stale,
    /// The element is a password field.
    Secret,
    /// The core gave up waiting; only the core makes this.
    Abandoned,
}

/// Who holds a desktop's lease, as another process wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub label: String,
    pub since_wall_ms: u64,
    pub pid: u32,
}

/// Bytes that are text without anything that JSON would escape.
mod plain_text {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer, de, ser};

    pub fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(std::str::from_utf8(bytes).map_err(|_| ser::Error::custom("image data is not text"))?)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(from)?;
        if text.chars().any(|c| c.is_control() || matches!(c, '"' | '\\')) {
            return Err(de::Error::custom("image data must be text that needs no escaping"));
        }
        Ok(text.into())
    }
}
