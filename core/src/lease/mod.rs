//! The rules of the lease, as one pure function.

pub mod rules;
