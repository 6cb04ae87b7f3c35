//! Time as the core knows it: a number handed in by the driver.

/// Milliseconds since the driver's epoch (boot time, so that sleep counts).
pub type Time = u64;
