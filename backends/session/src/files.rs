//! Small files and directories that nobody else may have prepared for us.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;

/// Makes the directory (0700), or checks that an existing one is ours alone. The error is a sentence with the remedy.
pub(crate) fn private_directory(path: &Path) -> Result<(), String> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(format!("the directory {} can't be made: {}", path.display(), with_remedy(&e))),
    }
    let directory =
        OpenOptions::new().read(true).custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW)).open(path).map_err(
            |e| match e.raw_os_error() {
                Some(code)
                    if code == rustix::io::Errno::LOOP.raw_os_error()
                        || code == rustix::io::Errno::NOTDIR.raw_os_error() =>
                {
                    format!("{} is not a directory of its own (a symlink or a file); remove it", path.display())
                }
                _ => format!("the directory {} can't be opened: {}", path.display(), with_remedy(&e)),
            },
        )?;
    let meta = directory.metadata().map_err(|e| format!("{} can't be examined: {e}", path.display()))?;
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() != us {
        return Err(format!(
            "the directory {} belongs to user {}, not to user {us} who runs deskhand; remove it",
            path.display(),
            meta.uid()
        ));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(format!(
            "others may enter the directory {} (mode {:o}); run: chmod 700 {}",
            path.display(),
            meta.mode() & 0o7777,
            path.display()
        ));
    }
    Ok(())
}

/// Makes the directory and its missing parents, each new one 0700.
pub(crate) fn directories(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(path)
}

/// Replaces the file as one step: a reader sees the old content or the new, never half.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.{}.new", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let temporary: PathBuf = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(flags(OFlags::NOFOLLOW))
            .open(&temporary)?;
        file.write_all(content)?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The content of a regular file of at most `max` bytes; `None` when there is no such file.
pub(crate) fn read_small(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    // NONBLOCK: opening a pipe that somebody put there must not wait for its other end.
    let file = match OpenOptions::new().read(true).custom_flags(flags(OFlags::NONBLOCK | OFlags::NOCTTY)).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    read_open(file, max).map(Some)
}

fn read_open(file: File, max: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {max} bytes")));
    }
    Ok(content)
}

/// Removes the file; one that isn't there is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

pub(crate) fn flags(flags: OFlags) -> i32 {
    flags.bits() as i32
}

/// The system's message, and what a person can do about it.
pub(crate) fn with_remedy(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull => "free some space on that file system",
        io::ErrorKind::QuotaExceeded => "the user's quota is used up; free some space",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only; mount it writable",
        io::ErrorKind::PermissionDenied => "check who owns it and its permissions",
        io::ErrorKind::NotFound => "its directory is missing; create it or check the XDG_* variables",
        _ => return error.to_string(),
    };
    format!("{error} ({remedy})")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_that_others_could_have_prepared_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let good = root.path().join("good");
        private_directory(&good).unwrap();
        private_directory(&good).unwrap();
        assert_eq!(fs::metadata(&good).unwrap().mode() & 0o777, 0o700);

        let link = root.path().join("link");
        symlink(&good, &link).unwrap();
        assert!(private_directory(&link).unwrap_err().contains("symlink"));

        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(private_directory(&file).unwrap_err().contains("remove it"));

        fs::set_permissions(&good, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(private_directory(&good).unwrap_err().contains("chmod 700"));
        assert!(private_directory(&root.path().join("a/b")).unwrap_err().contains("a/b"));
    }

    #[test]
    fn small_files_are_replaced_and_read_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        assert_eq!(read_small(&path, 10).unwrap(), None);
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read_small(&path, 10).unwrap().unwrap(), b"two");
        assert!(read_small(&path, 2).is_err());
        assert!(read_small(root.path(), 10).is_err());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
    }
}
