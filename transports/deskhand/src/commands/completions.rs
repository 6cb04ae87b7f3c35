//! `deskhand completions`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Failed, print};
use crate::cli::Cli;

pub fn run(shell: Shell) -> Result<ExitCode, Failed> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "deskhand", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
