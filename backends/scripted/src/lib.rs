//! Backends that play a trace: each effect gets the outcome that was recorded for it, and what was observed is
//! observed again, in the recorded order.
//!
//! Requests don't carry the operation they belong to, so a request is taken for the first recorded one that is alike
//! and wasn't asked for yet. An outcome is given once everything recorded before it was played.

mod player;
mod script;

pub use player::Player;
pub use script::Script;
