//! `deskhand mcp`: serves one client over stdin and stdout.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::signals::{asked_to_end, log_to_stderr};
use super::{Failed, recording, runtime};
use crate::edges::{Edges, Setting};
use crate::environment::Place;

/// How long giving the lease back may take at the end.
const ENDING: Duration = Duration::from_millis(400);

pub fn run(place: Place, record: Option<PathBuf>) -> Result<ExitCode, Failed> {
    log_to_stderr();
    let tap = record.map(|file| recording::start(&place, &file)).transpose()?;
    if std::io::stdin().is_terminal() {
        eprintln!("deskhand: serving MCP on this terminal; a client starts this command itself (see `deskhand setup`). Ctrl+D ends it.");
    }
    let duplicate = |fd: std::os::fd::BorrowedFd| fd.try_clone_to_owned().map_err(|e| Failed::Not(format!("stdin or stdout can't be used: {e}")));
    let (input, output) = (duplicate(std::io::stdin().as_fd())?, duplicate(std::io::stdout().as_fd())?);
    runtime()?.block_on(async move {
        let edges = Edges::start(place, Setting { audit: true, acts: true, tap });
        let driver = edges.driver.clone();
        let served = deskhand_stdio::serve(driver, input, output, "stdio", asked_to_end()).await;
        edges.end(ENDING).await;
        served.map_err(|e| Failed::Not(format!("stdin or stdout failed: {e}")))
    })?;
    // Threads that wait for a hung compositor must not keep the process.
    std::process::exit(0);
}
