//! The session backend with real processes: other servers, guards, kills, hangs, a private bus.

mod guard;
mod helper;
mod launch;
mod lease;
mod logind;
mod stop;
