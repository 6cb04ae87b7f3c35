//! The person's stop flag: one file for all compositors of the user.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::files;
use crate::paths::Paths;

/// Sets the flag; every server sees it within milliseconds. Already set is fine.
pub fn stop(paths: &Paths) -> Result<(), String> {
    paths.prepare_shared()?;
    let flag = paths.stop_flag();
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(files::flags(OFlags::NOFOLLOW))
        .open(&flag);
    match made {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(format!("the stop flag {} can't be set: {}", flag.display(), files::with_remedy(&e))),
    }
}

/// Clears the flag. Already clear is fine.
pub fn resume(paths: &Paths) -> Result<(), String> {
    let flag = paths.stop_flag();
    files::remove(&flag)
        .map_err(|e| format!("the stop flag {} can't be removed: {}", flag.display(), files::with_remedy(&e)))
}

/// Whether the flag is set; when that can't be told, it counts as set.
pub fn is_stopped(paths: &Paths) -> bool {
    is_set(&paths.stop_flag())
}

pub(crate) fn is_set(flag: &Path) -> bool {
    match fs::symlink_metadata(flag) {
        Ok(_) => true,
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_and_resume_are_idempotent() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::new(root.path(), root.path(), root.path(), "i");
        assert!(!is_stopped(&paths));
        resume(&paths).unwrap();
        stop(&paths).unwrap();
        stop(&paths).unwrap();
        assert!(is_stopped(&paths));
        resume(&paths).unwrap();
        assert!(!is_stopped(&paths));
    }

    #[test]
    fn what_can_not_be_told_counts_as_stopped() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::new(root.path(), root.path(), root.path(), "i");
        fs::write(paths.shared(), "a file in the directory's place").unwrap();
        assert!(is_stopped(&paths));
        assert!(stop(&paths).unwrap_err().contains("remove it"));
        fs::remove_file(paths.shared()).unwrap();
        paths.prepare().unwrap();
        std::os::unix::fs::symlink("/nowhere", paths.stop_flag()).unwrap();
        assert!(is_stopped(&paths), "a dangling symlink");
        resume(&paths).unwrap();
    }
}
