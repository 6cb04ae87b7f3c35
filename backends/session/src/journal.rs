//! What is pressed at this moment, in a file that outlives the process that presses.
//!
//! One byte a key and a button and four for the modifiers: noting a press is one write to a fixed place, it never
//! grows, and a reader needs no history. The server and its guard share the file's lock, so a file that can be locked
//! belonged to a server and a guard that are both dead.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use deskhand_ports::Pressed;
use rustix::fs::{FlockOperation, OFlags};

use crate::files;
use crate::paths::Paths;
use crate::recovery::{self, Unfinished};

const CODES: usize = 1024;
const KEYS_AT: usize = 0;
const BUTTONS_AT: usize = CODES;
const MODIFIERS_AT: usize = 2 * CODES;
const SIZE: usize = MODIFIERS_AT + 4;
const PREFIX: &str = "pressed-";

#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    modifiers: AtomicU32,
}

impl Journal {
    /// A new journal in the instance's directory, which must exist.
    pub(crate) fn create(paths: &Paths) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("{PREFIX}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = paths.instance().join(&name);
        // Not under its name until it is locked: a scan for orphans would take it.
        let unlocked = paths.instance().join(format!("new-{name}"));
        files::remove(&unlocked)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(files::flags(OFlags::NOFOLLOW))
            .open(&unlocked)?;
        file.set_len(SIZE as u64)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&unlocked, &path)?;
        Ok(Self { file, path, modifiers: AtomicU32::new(0) })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn pressing(&self, what: Pressed) -> io::Result<()> {
        match what {
            Pressed::Modifiers(mask) => {
                let held = self.modifiers.fetch_or(mask, Ordering::SeqCst) | mask;
                self.file.write_all_at(&held.to_le_bytes(), MODIFIERS_AT as u64)
            }
            Pressed::Key(code) => self.mark(KEYS_AT, code, 1),
            Pressed::Button(code) => self.mark(BUTTONS_AT, code, 1),
        }
    }

    pub(crate) fn released(&self, what: Pressed) -> io::Result<()> {
        match what {
            Pressed::Modifiers(mask) => {
                let held = self.modifiers.fetch_and(!mask, Ordering::SeqCst) & !mask;
                self.file.write_all_at(&held.to_le_bytes(), MODIFIERS_AT as u64)
            }
            Pressed::Key(code) => self.mark(KEYS_AT, code, 0),
            Pressed::Button(code) => self.mark(BUTTONS_AT, code, 0),
        }
    }

    fn mark(&self, at: usize, code: u32, value: u8) -> io::Result<()> {
        let code = code as usize;
        if code >= CODES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no key or button has the code {code}")));
        }
        self.file.write_all_at(&[value], (at + code) as u64)
    }
}

/// Keys, then modifiers, then buttons.
pub(crate) fn read(file: &File) -> io::Result<Vec<Pressed>> {
    let mut state = [0; SIZE];
    file.read_exact_at(&mut state, 0)?;
    let marked = |at: usize| {
        let part = &state[at..at + CODES];
        part.iter().zip(0u32..).filter(|(mark, _)| **mark != 0).map(|(_, code)| code).collect::<Vec<_>>()
    };
    let mask = u32::from_le_bytes([
        state[MODIFIERS_AT],
        state[MODIFIERS_AT + 1],
        state[MODIFIERS_AT + 2],
        state[MODIFIERS_AT + 3],
    ]);
    let mut pressed: Vec<Pressed> = marked(KEYS_AT).into_iter().map(Pressed::Key).collect();
    if mask != 0 {
        pressed.push(Pressed::Modifiers(mask));
    }
    pressed.extend(marked(BUTTONS_AT).into_iter().map(Pressed::Button));
    Ok(pressed)
}

/// Turns the journals of servers that died together with their guards into unfinished input.
pub(crate) fn adopt_orphans(paths: &Paths) {
    let Ok(entries) = fs::read_dir(paths.instance()) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        if let Err(error) = adopt(paths, &entry.path()) {
            tracing::warn!(%error, path = %entry.path().display(), "a dead server's journal could not be read");
        }
    }
}

fn adopt(paths: &Paths, path: &Path) -> io::Result<()> {
    let file =
        OpenOptions::new().read(true).custom_flags(files::flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)).open(path)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    // Another process may have adopted it between our opening and our locking.
    if file.metadata()?.nlink() == 0 {
        return Ok(());
    }
    let pressed = read(&file).unwrap_or_default();
    if !pressed.is_empty() {
        let server_pid = path.file_name().and_then(|name| name.to_str()).and_then(pid_of).unwrap_or(0);
        let reason = "its guard died too".to_owned();
        recovery::leave(paths, Unfinished::now(server_pid, pressed, reason)).map_err(io::Error::other)?;
    }
    fs::remove_file(path)
}

fn pid_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(root: &Path) -> Paths {
        let paths = Paths::new(root, root, root, "i");
        paths.prepare().unwrap();
        paths
    }

    #[test]
    fn what_is_pressed_is_read_back() {
        let root = tempfile::tempdir().unwrap();
        let journal = Journal::create(&paths(root.path())).unwrap();
        assert_eq!(read(journal.file()).unwrap(), []);
        for what in
            [Pressed::Button(0x110), Pressed::Key(30), Pressed::Modifiers(4), Pressed::Modifiers(1), Pressed::Key(29)]
        {
            journal.pressing(what).unwrap();
        }
        journal.released(Pressed::Key(30)).unwrap();
        journal.released(Pressed::Modifiers(4)).unwrap();
        assert_eq!(read(journal.file()).unwrap(), [Pressed::Key(29), Pressed::Modifiers(1), Pressed::Button(0x110)]);
        assert!(journal.pressing(Pressed::Key(5000)).is_err());
    }

    #[test]
    fn only_the_dead_are_adopted() {
        let root = tempfile::tempdir().unwrap();
        let paths = paths(root.path());
        let living = Journal::create(&paths).unwrap();
        living.pressing(Pressed::Key(30)).unwrap();
        adopt_orphans(&paths);
        assert!(recovery::unfinished(&paths).is_none() && living.path().exists());

        let path = living.path().to_owned();
        drop(living);
        adopt_orphans(&paths);
        let unfinished = recovery::unfinished(&paths).unwrap();
        assert_eq!((unfinished.pressed, unfinished.server_pid), (vec![Pressed::Key(30)], std::process::id()));
        assert!(!path.exists());
    }
}
