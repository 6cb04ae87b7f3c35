//! `deskhand stop` and `deskhand resume`: the person's switch. They need no compositor, so that they work from a
//! console or over ssh when it hangs.

use std::process::ExitCode;

use super::Failed;
use crate::environment::Place;

pub fn stop(place: &Place) -> Result<ExitCode, Failed> {
    deskhand_session::stop(&place.paths("")).map_err(Failed::File)?;
    println!("Stopped: no agent acts on this desktop until `deskhand resume`.");
    Ok(ExitCode::SUCCESS)
}

pub fn resume(place: &Place) -> Result<ExitCode, Failed> {
    deskhand_session::resume(&place.paths("")).map_err(Failed::File)?;
    println!("Resumed: agents may take the lease again.");
    Ok(ExitCode::SUCCESS)
}
