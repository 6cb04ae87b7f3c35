//! The audit log's file: one write a line, private, rotated, shared by every deskhand process of the user.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};

use crate::files;

const ROTATE_ABOVE: u64 = 16 << 20;
const KEPT: u32 = 3;

/// Open for appending. A line is in the file when [`append`](Self::append) returns.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    rotate_above: u64,
    file: Option<File>,
    /// A line was cut short (the disk filled up): the next one starts on a line of its own.
    torn: bool,
}

impl AuditFile {
    /// The path is `$XDG_STATE_HOME/deskhand/audit.jsonl`; missing directories are made 0700. The error names the remedy.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::with_limit(path, ROTATE_ABOVE)
    }

    fn with_limit(path: &Path, rotate_above: u64) -> Result<Self, String> {
        let mut audit = Self { path: path.to_owned(), rotate_above, file: None, torn: false };
        audit.current()?;
        Ok(audit)
    }

    /// Appends one line (without its newline) with one write. The error names the remedy.
    pub fn append(&mut self, line: &str) -> Result<(), String> {
        if line.contains('\n') {
            return Err("an audit line may not hold a newline".into());
        }
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.rotate_if_needed(bytes.len() as u64);
        let mut file = self.current()?;
        let written = loop {
            match file.write(&bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match written {
            Ok(count) if count == bytes.len() => {
                self.torn = false;
                Ok(())
            }
            Ok(count) => {
                self.torn = self.torn || count > 0;
                Err(format!(
                    "the audit log {} took only part of a line; free some space on that file system",
                    self.path.display()
                ))
            }
            Err(e) => {
                Err(format!("the audit log {} can't be written: {}", self.path.display(), files::with_remedy(&e)))
            }
        }
    }

    /// The file that the path names now: another process may have rotated it away, or a person removed it.
    fn current(&mut self) -> Result<&File, String> {
        let stale = match &self.file {
            Some(file) => !is_at(file, &self.path),
            None => true,
        };
        if stale {
            self.file = None;
            self.file = Some(open(&self.path)?);
        }
        self.file.as_ref().ok_or_else(|| "the audit log is not open".to_owned())
    }

    /// Whoever gets the lock rotates; the others go on with the old file and find the new one at their next line.
    fn rotate_if_needed(&mut self, coming: u64) {
        let Ok(limit) =
            self.current().and_then(|file| file.metadata().map_err(|e| e.to_string())).map(|meta| meta.len())
        else {
            return;
        };
        if limit.saturating_add(coming) <= self.rotate_above || limit == 0 {
            return;
        }
        let Some(file) = self.file.take() else { return };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&file, &self.path) {
            for number in (1..KEPT).rev() {
                let _ = fs::rename(self.numbered(number), self.numbered(number + 1));
            }
            if let Err(error) = fs::rename(&self.path, self.numbered(1)) {
                tracing::warn!(%error, "the audit log could not be rotated");
            }
        }
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let extension = self.path.extension().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!("{stem}.{number}.{extension}"))
    }
}

fn open(path: &Path) -> Result<File, String> {
    let failed = |e: io::Error| format!("the audit log {} can't be opened: {}", path.display(), files::with_remedy(&e));
    if let Some(directory) = path.parent() {
        files::directories(directory)
            .map_err(|e| format!("the directory {} can't be made: {}", directory.display(), files::with_remedy(&e)))?;
    }
    // NONBLOCK: a pipe in its place must not wait for a reader.
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(files::flags(OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY))
        .open(path)
        .map_err(|e| match e.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                format!("the audit log {} is a symlink; remove it", path.display())
            }
            _ => failed(e),
        })?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(format!("the audit log {} is not a regular file; remove it", path.display()));
    }
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() != us {
        return Err(format!(
            "the audit log {} belongs to user {}, not to user {us} who runs deskhand; move it away",
            path.display(),
            meta.uid()
        ));
    }
    if meta.mode() & 0o177 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(file)
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn log(root: &Path) -> PathBuf {
        root.join("state/deskhand/audit.jsonl")
    }

    #[test]
    fn lines_are_private_and_appended_by_several() {
        let root = tempfile::tempdir().unwrap();
        let path = log(root.path());
        let mut one = AuditFile::open(&path).unwrap();
        let mut two = AuditFile::open(&path).unwrap();
        one.append("{\"n\":1}").unwrap();
        two.append("{\"n\":2}").unwrap();
        one.append("{\"n\":3}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert!(one.append("a\nb").is_err());
    }

    #[test]
    fn a_removed_file_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let path = log(root.path());
        let mut audit = AuditFile::open(&path).unwrap();
        audit.append("1").unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        audit.append("2").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
    }

    #[test]
    fn it_rotates_and_keeps_three() {
        let root = tempfile::tempdir().unwrap();
        let path = log(root.path());
        let mut one = AuditFile::with_limit(&path, 100).unwrap();
        let mut two = AuditFile::with_limit(&path, 100).unwrap();
        let line = "x".repeat(39);
        for number in 0..30 {
            let audit = if number % 3 == 0 { &mut two } else { &mut one };
            audit.append(&line).unwrap();
        }
        let mut names: Vec<String> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["audit.1.jsonl", "audit.2.jsonl", "audit.3.jsonl", "audit.jsonl"]);
        for name in names {
            let content = fs::read_to_string(path.with_file_name(&name)).unwrap();
            assert!(content.len() <= 120 && content.lines().all(|l| l == line), "{name}: {content}");
        }
    }

    #[test]
    fn symlinks_and_pipes_are_refused_and_loose_modes_tightened() {
        let root = tempfile::tempdir().unwrap();
        let path = log(root.path());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(root.path().join("elsewhere"), &path).unwrap();
        assert!(AuditFile::open(&path).unwrap_err().contains("symlink"));
        fs::remove_file(&path).unwrap();
        rustix::fs::mkdirat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        assert!(AuditFile::open(&path).is_err());
        fs::remove_dir(&path).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        AuditFile::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_disk_is_an_error_with_its_remedy() {
        let mut audit = AuditFile {
            path: "/dev/full".into(),
            rotate_above: ROTATE_ABOVE,
            file: OpenOptions::new().append(true).open("/dev/full").ok(),
            torn: false,
        };
        let error = audit.append("x").unwrap_err();
        assert!(error.contains("free some space"), "{error}");
    }
}
