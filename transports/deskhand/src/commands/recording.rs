//! `--record FILE`: a trace of the session, with secrets masked, that replays.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use deskhand_core::trace::Recorder;
use deskhand_core::{Core, Input, Time};
use deskhand_driver::{Tap, boot_ms};

use super::Failed;
use crate::edges::config;
use crate::environment::Place;

struct Recording(Recorder);

impl Tap for Recording {
    fn input(&mut self, now: Time, input: &Input, core: &Core) {
        self.0.input(now, input, core);
    }
}

/// The file must be new; only its owner may read it.
pub fn start(place: &Place, path: &Path) -> Result<Box<dyn Tap>, Failed> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|e| {
        Failed::File(format!("{} can't be made: {e}; name a new file in a directory that you may write to", path.display()))
    })?;
    let mut out = Lines { out: Some(BufWriter::new(file)), path: path.display().to_string() };
    let recorder = Recorder::new(&config(place), boot_ms(), Box::new(move |line| out.write(line)))
        .map_err(|why| Failed::Not(format!("this session can't be recorded: {why}")))?;
    Ok(Box::new(Recording(recorder)))
}

struct Lines {
    out: Option<BufWriter<File>>,
    path: String,
}

impl Lines {
    /// A whole line at once, so that a server that is killed leaves a trace up to its last input.
    fn write(&mut self, line: &str) {
        let Some(out) = &mut self.out else { return };
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            tracing::error!(path = self.path, %error, "the recording ends here; the server goes on");
            self.out = None;
        }
    }
}
