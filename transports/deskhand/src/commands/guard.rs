//! `deskhand guard`: started by the server; releases what it held when it dies.

use std::path::Path;
use std::process::ExitCode;

use super::Failed;

pub fn run(socket: &Path) -> Result<ExitCode, Failed> {
    deskhand_session::guard::run(&|pressed| deskhand_wayland::release_pressed(socket, pressed)).map_err(Failed::Not)?;
    Ok(ExitCode::SUCCESS)
}
