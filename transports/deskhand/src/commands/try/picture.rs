//! Keeping the screenshot that the server saved.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A PNG's width and height.
pub fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let is_png = bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.get(12..16) == Some(b"IHDR");
    if is_png { Some((number(16)?, number(20)?)) } else { None }
}

/// Writes it into the directory under a name that nothing has yet.
pub fn keep(bytes: &[u8], directory: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(directory).map_err(|e| format!("{} can't be made: {e}", directory.display()))?;
    let directory = fs::canonicalize(directory).map_err(|e| format!("{} can't be reached: {e}", directory.display()))?;
    for number in 1..10_000 {
        let path = directory.join(if number == 1 { "deskhand-try.png".to_string() } else { format!("deskhand-try-{number}.png") });
        let failed = |e: std::io::Error| format!("{} can't be written: {e}", path.display());
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(bytes).map_err(failed)?;
                return Ok(path);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(e)),
        }
    }
    Err(format!("{} is full of screenshots of earlier tries", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_nothing_is_overwritten() {
        let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &[0, 0, 5, 0, 0, 0, 3, 32]].concat();
        assert_eq!(png_size(&png), Some((1280, 800)));
        assert_eq!(png_size(&png[..20]), None);
        assert_eq!(png_size(b"GIF89a"), None);
        let dir = tempfile::tempdir().unwrap();
        let first = keep(b"one", &dir.path().join("new")).unwrap();
        let second = keep(b"two", &dir.path().join("new")).unwrap();
        assert_ne!(first, second);
        assert_eq!(fs::read(first).unwrap(), b"one");
    }
}
