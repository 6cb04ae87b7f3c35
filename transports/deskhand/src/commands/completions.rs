//! `deskhand completions`.

use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Failed, print};
use crate::cli::Cli;

pub fn run(shell: Shell) -> Result<ExitCode, Failed> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut offered(), "deskhand", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Without what the program only tells itself: some shells' scripts would name it.
fn offered() -> Command {
    let all = Cli::command();
    let visible: Vec<Command> = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    Command::new("deskhand").version(env!("CARGO_PKG_VERSION")).about(all.get_about().cloned().unwrap_or_default()).subcommands(visible)
}
