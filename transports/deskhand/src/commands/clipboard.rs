//! `deskhand clipboard`: started by the server; takes care of the clipboard while a text is pasted.

use std::path::Path;
use std::process::ExitCode;

use super::Failed;

pub fn run(socket: &Path) -> Result<ExitCode, Failed> {
    deskhand_wayland::care_for_clipboard(socket).map_err(Failed::Not)?;
    Ok(ExitCode::SUCCESS)
}
