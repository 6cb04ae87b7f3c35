//! Prints traces with the outputs that their inputs cause now, for writing new ones; `--check` compares instead.

use std::process::ExitCode;

use deskhand_conformance::toolset;
use deskhand_core::trace::{regenerate, replay};

fn main() -> ExitCode {
    let check = std::env::args().any(|a| a == "--check");
    let mut wrong = false;
    for path in std::env::args().skip(1).filter(|a| a != "--check") {
        let done = std::fs::read_to_string(&path)
            .map_err(|e| e.to_string())
            .and_then(|text| {
                if check {
                    return replay(&text, toolset).map_err(|e| e.to_string());
                }
                regenerate(&text, toolset)
                    .map(|exact| print!("{exact}"))
                    .map_err(|e| e.to_string())
            });
        if let Err(error) = done {
            eprintln!("{path}: {error}");
            wrong = true;
        }
    }
    if wrong {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
