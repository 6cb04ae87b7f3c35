//! The state machine: inputs in, outputs out, calls and their handlers between.

pub mod caller;
pub mod call_table;
pub mod calls;
pub mod core;
pub mod cx;
pub mod io;
pub mod observe;
pub mod random;
mod ending;
mod restart;
pub mod startup;
pub mod timers;
pub mod world;
