//! Accessible elements of windows, over the accessibility bus (AT-SPI).
//!
//! An application answers for itself, from its main thread: every call has its own deadline, many are under way at a
//! time, and one that hangs holds up nobody else's.

mod act;
mod backend;
mod calls;
mod find;
mod follow;
mod node;
mod place;
mod verify;
mod walk;

pub use backend::AtSpi;
