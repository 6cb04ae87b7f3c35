//! Plays a trace.
