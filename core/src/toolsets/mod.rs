//! The toolsets that the core serves.

pub mod desktop;
