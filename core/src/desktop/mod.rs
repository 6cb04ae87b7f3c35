//! The desktop: what it is, how it changes, what can be asked of it.

pub mod changes;
pub mod diff;
pub mod effect;
pub mod elements;
pub mod event;
pub mod geometry;
pub mod history;
pub mod model;
pub mod report;
pub mod state;
