//! New files below a directory: never through a symlink, never over an existing file, whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use deskhand_core::desktop::effect::{Failure, FailureKind, SaveTo};
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};
use rustix::io::Errno;

/// Writes the file with mode 0600 and returns its path.
pub(crate) fn save(to: &SaveTo, content: &[u8]) -> Result<PathBuf, Failure> {
    let path = to.directory.join(&to.name);
    let refuse = |detail: String| Failure::new(FailureKind::Refused, detail);
    let (folders, name) = split(&to.name).map_err(refuse)?;
    let mut folder = open(
        &to.directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| refuse(explain(error, &to.directory)))?;
    let mut so_far = to.directory.clone();
    for part in folders {
        so_far.push(part);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        folder = openat(&folder, part, flags, Mode::empty())
            .map_err(|error| refuse(explain(error, &so_far)))?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|error| refuse(explain(error, &path)))?;
    write_or_remove(&folder, name, file, content).map_err(|error| {
        let errno = Errno::from_io_error(&error);
        refuse(errno.map_or_else(
            || format!("{}: {error}", path.display()),
            |errno| explain(errno, &path),
        ))
    })?;
    Ok(path)
}

/// The folders and the file's name of a relative path that stays below its root.
fn split(name: &str) -> Result<(Vec<&str>, &str), String> {
    let bad = || {
        format!(
            "{name:?} is not a plain relative file name; use one without \"..\" or a leading \"/\""
        )
    };
    let mut parts = Vec::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(bad)?),
            _ => return Err(bad()),
        }
    }
    let file = parts
        .pop()
        .filter(|_| !name.ends_with('/') && !name.contains('\0'))
        .ok_or_else(bad)?;
    Ok((parts, file))
}

fn write_or_remove(folder: impl AsFd, name: &str, file: OwnedFd, content: &[u8]) -> io::Result<()> {
    let mut file = File::from(file);
    let written = file.write_all(content);
    if written.is_err() {
        let _ = unlinkat(folder, name, AtFlags::empty());
    }
    written
}

fn explain(error: Errno, path: &Path) -> String {
    let path = path.display();
    match error {
        Errno::EXIST => {
            format!("{path} exists already; nothing is overwritten, choose another name")
        }
        Errno::LOOP => format!("{path} is a symbolic link; choose a name that leads through none"),
        Errno::NOTDIR => format!("{path} is not a folder, or a symbolic link; choose another name"),
        Errno::NOENT => {
            format!("the folder of {path} doesn't exist; make it first, or choose another name")
        }
        Errno::NOSPC | Errno::DQUOT => {
            format!("no room is left for {path}: {error}; nothing was kept, free some space")
        }
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            format!("{path} can't be written: {error}; check the folder's permissions")
        }
        Errno::NAMETOOLONG => format!("{path}: the name is too long; choose a shorter one"),
        _ => format!("{path} can't be written: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn to(directory: &Path, name: &str) -> SaveTo {
        SaveTo {
            directory: directory.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_new_file_is_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let path = save(&to(dir.path(), "sub/a.png"), b"content").unwrap();
        assert_eq!(path, dir.path().join("sub/a.png"));
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.png"), b"old").unwrap();
        let error = save(&to(dir.path(), "a.png"), b"new").unwrap_err();
        assert!(error.detail.contains("exists already"), "{}", error.detail);
        assert_eq!(std::fs::read(dir.path().join("a.png")).unwrap(), b"old");
    }

    #[test]
    fn symlinks_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        symlink(outside.path().join("made.png"), dir.path().join("a.png")).unwrap();
        assert!(save(&to(dir.path(), "link/a.png"), b"x").is_err());
        assert!(save(&to(dir.path(), "a.png"), b"x").is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_stay_below_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "",
            "/",
            "/a.png",
            "../a.png",
            "a/../../b.png",
            "..",
            "a.png/",
            "a\0b",
        ] {
            assert!(save(&to(dir.path(), name), b"x").is_err(), "{name:?}");
        }
        assert!(
            save(&to(dir.path(), "missing/a.png"), b"x")
                .unwrap_err()
                .detail
                .contains("make it first")
        );
    }

    #[test]
    fn a_full_disk_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(
            dir.path(),
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        )
        .unwrap();
        std::fs::write(dir.path().join("a.png"), b"").unwrap();
        let full = open("/dev/full", OFlags::WRONLY, Mode::empty()).unwrap();
        let error = write_or_remove(&folder, "a.png", full, b"content").unwrap_err();
        let detail = explain(Errno::from_io_error(&error).unwrap(), Path::new("a.png"));
        assert!(detail.contains("free some space"), "{detail}");
        assert!(!dir.path().join("a.png").exists());
    }
}
