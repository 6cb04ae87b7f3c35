//! MCP itself: revisions, handshakes, listing and calling. Knows no tool by name.

pub mod asking;
pub mod carriage;
pub mod connection;
pub mod dispatch;
pub mod handshake;
pub mod http;
pub mod listing;
pub mod offering;
pub mod params;
pub mod render;
pub mod revision;
pub mod state;
pub mod subscriptions;
