//! `deskhand token`: the tokens that HTTP clients carry.

use std::path::PathBuf;
use std::process::ExitCode;

use deskhand_http::Tokens;
use deskhand_http::tokens::TokenError;

use super::{Failed, print};
use crate::cli::TokenCommand;
use crate::environment::Place;

const FIRST: &str = "default";

/// Beside the policy.
pub fn file(place: &Place) -> PathBuf {
    place.paths("").policy_file().with_file_name("tokens")
}

pub fn failed(error: TokenError) -> Failed {
    match error {
        TokenError::Name => Failed::Usage(error.to_string()),
        TokenError::Taken(_) | TokenError::Missing(_) => Failed::Not(error.to_string()),
        _ => Failed::File(error.to_string()),
    }
}

pub fn run(place: &Place, command: Option<TokenCommand>) -> Result<ExitCode, Failed> {
    let tokens = Tokens::load_or_create(&file(place)).map_err(failed)?;
    match command.unwrap_or(TokenCommand::Show { name: FIRST.into() }) {
        TokenCommand::Show { name } => match tokens.token(&name) {
            Some(token) => print(&format!("{}\n", token.expose()))?,
            None => return Err(Failed::Not(format!("there is no token named {name}; `deskhand token list` names them, `deskhand token add {name}` makes it"))),
        },
        TokenCommand::Add { name } => print(&format!("{}\n", tokens.add(&name).map_err(failed)?.expose()))?,
        TokenCommand::List => print(&tokens.names().iter().map(|name| format!("{name}\n")).collect::<String>())?,
        TokenCommand::Remove { name } => {
            tokens.remove(&name).map_err(failed)?;
            print(&format!("Removed {name}: its sessions end, and it admits nobody any more.\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
