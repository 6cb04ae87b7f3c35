//! The machine-wide side of Deskhand, outside the compositor: the lease's lock, the person's stop flag, the guard
//! process, the lock state, launching, the audit file.

mod audit;
mod files;
pub mod guard;
mod inherited;
mod journal;
mod launch;
mod lease;
mod logind;
mod paths;
mod policy;
mod readiness;
mod recovery;
mod session;
mod stop;
mod watch;

pub use audit::AuditFile;
pub use guard::Guard;
pub use launch::Variables;
pub use lease::current_holder;
pub use logind::{Bus, LockFollower};
pub use paths::Paths;
pub use policy::{PolicyText, read_policy};
pub use recovery::{Unfinished, clear_unfinished, unfinished};
pub use session::Session;
pub use stop::{is_stopped, resume, stop};
