//! Traces: what came in and what went out, as JSON lines that replay exactly.
//!
//! The first line is the [`Header`]. Then `{"at": ms, "in": ...}` lines, each followed by the `{"out": ...}` lines it
//! causes. An exact trace holds every output byte for byte. A trace whose header says `"match": "subset"` is written
//! by hand: each `out` is a pattern (see [`pattern`]) that one of the outputs must fit, in order, and
//! `{"none": pattern}` says that none may. Operations are written `call 7 / op 2`, images by length and hash.

mod entry;
mod header;
mod mask;
mod masked_input;
mod masked_message;
pub mod pattern;
mod recorder;
mod replay;

pub use entry::{Entry, parse_input, print_input, print_output};
pub use header::{FORMAT, Header, Matching, REVISION, Setup};
pub use mask::stand_in;
pub use recorder::Recorder;
pub use replay::{ReplayError, Step, Trace, regenerate, replay};
