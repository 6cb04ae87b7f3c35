//! `deskhand`: the program that puts the core, its transports and its backends together.

mod cli;
mod commands;
mod edges;
mod effects;
mod environment;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match commands::run(cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("deskhand: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
