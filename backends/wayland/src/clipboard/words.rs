//! Between the server and the caretaker of its paste: lines of JSON on a socket; the text follows the first one.

use deskhand_core::desktop::effect::PutBack;
use serde::{Deserialize, Serialize};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub text_bytes: usize,
    pub primary: bool,
    /// Whose reading counts.
    pub reader: Option<i32>,
}

/// The server's. Its end of file stands for `PutBack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Offer the text in the place of what was saved.
    Offer,
    AwaitReader { max_ms: u32 },
    PutBack,
}

/// The caretaker's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Word {
    /// All is saved; nothing was changed yet.
    Saved,
    /// It can't be; the caretaker ends.
    Unsaved(String),
    /// Somebody copied since then; it is being saved anew.
    Changed,
    Offered,
    Read(Option<bool>),
    PutBack(PutBack),
    /// The caretaker ends, and what is copied is whatever it is.
    Failed(String),
}
