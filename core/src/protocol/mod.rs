//! MCP itself: revisions, handshakes, listing and calling. Knows no tool by name.

pub mod connection;
pub mod dispatch;
pub mod handshake;
pub mod listing;
pub mod params;
pub mod render;
pub mod revision;
pub mod subscriptions;
