//! The pure core of Deskhand: an MCP server as a state machine, without clock, I/O, threads or runtime.
//!
//! The driver feeds [`Core::handle_input`](engine::core::Core::handle_input) with what came, drains
//! [`poll_output`](engine::core::Core::poll_output) and wakes it at [`poll_timeout`](engine::core::Core::poll_timeout).
//! The same inputs give the same outputs, byte for byte. `ARCHITECTURE.md` beside this crate says what holds.

pub mod desktop;
pub mod elements;
pub mod engine;
pub mod lease;
pub mod policy;
pub mod protocol;
pub mod rpc;
pub mod shots;
pub mod time;
pub mod tools;
pub mod toolsets;
pub mod trace;

pub use engine::core::{Config, Core, Limits};
pub use engine::io::{CallId, Conn, Input, Op, Output, Route, TimerKind};
pub use protocol::carriage::Carriage;
pub use time::Time;
