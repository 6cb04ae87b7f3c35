//! What each subcommand does.

mod clipboard;
mod completions;
mod doctor;
mod guard;
mod mcp;
mod recording;
mod recover;
mod replay;
mod serve;
mod setup;
mod signals;
mod status;
mod stop;
mod token;
mod tools;
mod r#try;

use std::io::Write as _;
use std::process::ExitCode;

use crate::cli::{Cli, Command, Format};
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
        Command::Serve(options) => serve::run(Place::from_environment()?, options),
        Command::Token { command } => token::run(&Place::from_environment()?, command),
        Command::Status { json } => status::run(Place::from_environment()?, json),
        Command::Stop => stop::stop(&Place::from_environment()?),
        Command::Resume => stop::resume(&Place::from_environment()?),
        Command::Recover => recover::run(&Place::from_environment()?),
        Command::Doctor { json } => doctor::run(Place::from_environment(), json),
        Command::Setup(wish) => setup::run(&Place::from_environment()?, &wish),
        Command::Tools { format, json } => tools::run(if json { Format::Json } else { format }),
        Command::Replay { files } => replay::run(&files),
        Command::Try { out, no_install } => r#try::run(out, no_install),
        Command::Completions { shell } => completions::run(shell),
        Command::Clipboard { socket } => clipboard::run(&socket),
        Command::Guard { socket } => guard::run(&socket),
        Command::Child { parent, argv } => r#try::child(parent, &argv),
    }
}

/// To stdout. A reader that went away is no failure: there is nobody left to tell.
pub fn print(text: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failed::File(format!("stdout can't be written: {e}"))),
        _ => Ok(()),
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
