//! The lease's lock file: who has it, across all deskhand processes on one compositor.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use deskhand_core::desktop::effect::{Failure, FailureKind, Holder};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::files;
use crate::paths::Paths;

const LARGEST_HOLDER: u64 = 64 << 10;

/// The lock, taken. Dropping it gives it back unless the guard shares it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) lock: OwnedFd,
    device: u64,
    inode: u64,
}

pub(crate) enum Attempt {
    Taken(Held),
    /// Somebody has it, or is only looking whether somebody has it.
    Busy,
    /// The file was replaced while we locked it.
    Replaced,
}

/// Tries once; never waits.
pub(crate) fn try_take(paths: &Paths) -> Result<Attempt, Failure> {
    let path = paths.lock_file();
    let failed = |e: io::Error| {
        let why = match e.raw_os_error() {
            Some(code) if code == Errno::LOOP.raw_os_error() => "it is a symlink; remove it".to_owned(),
            _ => files::with_remedy(&e),
        };
        Failure::new(FailureKind::Unavailable, format!("the lease's lock file {} can't be used: {why}", path.display()))
    };
    // Open for writing, so that its last close is an event for whoever watches the directory.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(files::flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
        .open(&path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Ok(Attempt::Busy),
        Err(e) => return Err(failed(e.into())),
    }
    let meta = file.metadata().map_err(failed)?;
    let held = Held { device: meta.dev(), inode: meta.ino(), lock: file.into() };
    match held.is_in_place(paths) {
        Ok(()) => Ok(Attempt::Taken(held)),
        Err(_) => Ok(Attempt::Replaced),
    }
}

impl Held {
    /// Whether the path still names the file that we locked; what happened when not.
    pub(crate) fn is_in_place(&self, paths: &Paths) -> Result<(), String> {
        let path = paths.lock_file();
        let same = |meta: &Metadata| (meta.dev(), meta.ino()) == (self.device, self.inode);
        match fs::symlink_metadata(&path) {
            Ok(meta) if same(&meta) => Ok(()),
            Ok(_) => Err(format!("the lease's lock file {} was replaced by another one", path.display())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(format!("the lease's lock file {} was removed", path.display()))
            }
            Err(e) => Err(format!("the lease's lock file {} can't be seen any more ({e})", path.display())),
        }
    }

    pub(crate) fn give_back(self, paths: &Paths) {
        if self.is_in_place(paths).is_ok()
            && let Err(error) = files::remove(&paths.holder_file())
        {
            tracing::warn!(%error, "the lease holder's record could not be removed");
        }
        // Unlocked by name: the guard may have the same open file for a moment longer.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

pub(crate) fn write_holder(paths: &Paths, holder: &Holder) -> Result<(), Failure> {
    let path = paths.holder_file();
    let text = serde_json::to_vec(holder).map_err(|e| Failure::new(FailureKind::Refused, e.to_string()))?;
    files::replace(&path, &text).map_err(|e| {
        Failure::new(
            FailureKind::Unavailable,
            format!("the lease holder's record {} can't be written: {}", path.display(), files::with_remedy(&e)),
        )
    })
}

/// Who has the lock now, seen without disturbing; `None`: nobody, so far as can be told.
pub fn current_holder(paths: &Paths) -> Option<Holder> {
    // Read-only: closing it is no event for other watchers. The shared lock lasts for microseconds, and whoever wants
    // the lock tries more than once.
    let file = File::options()
        .read(true)
        .custom_flags(files::flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
        .open(paths.lock_file())
        .ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::AGAIN) => Some(recorded_holder(paths)),
        _ => None,
    }
}

fn recorded_holder(paths: &Paths) -> Holder {
    files::read_small(&paths.holder_file(), LARGEST_HOLDER)
        .ok()
        .flatten()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_else(|| Holder { label: "another deskhand process".into(), since_wall_ms: 0, pid: 0 })
}

fn flock(file: impl std::os::fd::AsFd, operation: FlockOperation) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| rustix::fs::flock(&file, operation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_the_others_see_who() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::new(root.path(), root.path(), root.path(), "i");
        assert_eq!(current_holder(&paths), None);
        paths.prepare().unwrap();
        let Attempt::Taken(held) = try_take(&paths).unwrap() else { panic!("not taken") };
        assert!(matches!(try_take(&paths).unwrap(), Attempt::Busy));
        assert_eq!(current_holder(&paths).unwrap().pid, 0);
        let holder = Holder { label: "agent".into(), since_wall_ms: 5, pid: 9 };
        write_holder(&paths, &holder).unwrap();
        assert_eq!(current_holder(&paths), Some(holder));
        held.give_back(&paths);
        assert_eq!(current_holder(&paths), None);
        assert!(!paths.holder_file().exists() && paths.lock_file().exists());
    }

    #[test]
    fn a_replaced_file_is_noticed_and_symlinks_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::new(root.path(), root.path(), root.path(), "i");
        paths.prepare().unwrap();
        let Attempt::Taken(held) = try_take(&paths).unwrap() else { panic!("not taken") };
        fs::remove_file(paths.lock_file()).unwrap();
        assert!(held.is_in_place(&paths).unwrap_err().contains("removed"));
        fs::write(paths.lock_file(), "").unwrap();
        assert!(held.is_in_place(&paths).unwrap_err().contains("replaced"));
        fs::remove_file(paths.lock_file()).unwrap();
        std::os::unix::fs::symlink(root.path().join("x"), paths.lock_file()).unwrap();
        assert!(try_take(&paths).err().unwrap().detail.contains("symlink"));
    }
}
