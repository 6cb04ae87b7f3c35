//! What each subcommand does.

mod guard;
mod mcp;
mod status;
mod stop;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::environment::Place;

/// Why a command failed, by what the person can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// It didn't work out.
    #[error("{0}")]
    Not(String),
    #[error("{0}")]
    Usage(String),
    /// The desktop can't be reached.
    #[error("{0}")]
    Unreachable(String),
    /// A file can't be read or written.
    #[error("{0}")]
    File(String),
}

impl Failed {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Not(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::File(_) => 4,
        }
    }
}

pub fn run(cli: Cli) -> Result<ExitCode, Failed> {
    match cli.command {
        Command::Mcp { record } => mcp::run(Place::from_environment()?, record),
        Command::Status { json } => status::run(Place::from_environment()?, json),
        Command::Stop => stop::stop(&Place::from_environment()?),
        Command::Resume => stop::resume(&Place::from_environment()?),
        Command::Guard { socket } => guard::run(&socket),
        other => Err(Failed::Usage(format!("not built yet: {other:?}"))),
    }
}

/// One thread for the core and all I/O; capture and input have their own.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .map_err(|e| Failed::Not(format!("the runtime can't be started: {e}")))
}
