//! MCP over Streamable HTTP, in both eras: a POST of the stateless revision is an exchange of its own, a legacy client
//! has a session.
//!
//! What a request must pass, in this order: the path (404), `Host` and `Origin` (403), the token (401), the rate (429),
//! the method (405), `Content-Type` (415), `Accept` (406), the body's size (413), and then the message itself.

mod accepting;
mod doors;
mod exchange;
mod limits;
mod link;
mod negotiation;
mod payload;
mod post;
mod rate;
mod replies;
mod server;
mod service;
mod session;
mod sessions;
mod sse;
mod stream_log;
mod sweep;
pub mod tokens;
mod well_known;

use std::sync::Arc;

use deskhand_core::tools::toolset::Toolset;
use deskhand_driver::Driver;

pub use doors::Doors;
pub use limits::Limits;
pub use server::serve;
pub use tokens::Tokens;

/// One toolset and where it is found.
pub struct Mount {
    /// Such as `/mcp`; each begins with a slash and is matched whole.
    pub paths: Vec<String>,
    pub driver: Arc<Driver>,
    /// The one that the driver's core serves.
    pub toolset: &'static Toolset,
}

/// A socket that is bound already, by us or by systemd.
#[derive(Debug)]
pub enum Listener {
    Tcp(std::net::TcpListener),
    /// The file's mode is the door; `Host` isn't checked.
    Unix(std::os::unix::net::UnixListener),
}
