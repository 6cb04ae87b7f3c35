//! `deskhand replay`: plays traces through a fresh core and compares.

use std::path::Path;
use std::process::ExitCode;

use deskhand_core::tools::toolset::Toolset;
use deskhand_core::toolsets::desktop::DESKTOP;
use deskhand_core::trace::replay;

use super::{Failed, print};

/// All of them, whatever becomes of the first.
pub fn run(files: &[impl AsRef<Path>]) -> Result<ExitCode, Failed> {
    let (mut differing, mut unreadable) = (0, None);
    for file in files.iter().map(AsRef::as_ref) {
        let shown = file.display();
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(e) => {
                print(&format!("{shown}: can't be read: {e}\n"))?;
                unreadable.get_or_insert_with(|| format!("{shown} can't be read: {e}"));
                continue;
            }
        };
        match replay(&text, toolset) {
            Ok(()) => print(&format!("{shown}: ok\n"))?,
            Err(why) => {
                differing += 1;
                print(&format!("{shown}: {why}\n"))?;
            }
        }
    }
    match unreadable {
        Some(why) => Err(Failed::File(why)),
        None if differing > 0 => Err(Failed::Not(format!("{differing} of {} traces don't replay", files.len()))),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn toolset(name: &str) -> Option<&'static Toolset> {
    [&DESKTOP].into_iter().find(|toolset| toolset.name == name)
}
