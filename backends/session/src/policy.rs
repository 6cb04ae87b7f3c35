//! The policy file's text; what it means is the core's.

use std::path::Path;

use crate::files;

/// Far more than any policy needs.
const LARGEST: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyText {
    /// No file: the defaults hold.
    Missing,
    Text(String),
    /// It exists and can't be read; the reason, with the remedy.
    Unreadable(String),
}

pub fn read_policy(path: &Path) -> PolicyText {
    match files::read_small(path, LARGEST) {
        Ok(None) => PolicyText::Missing,
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => PolicyText::Text(text),
            Err(e) => {
                let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
                PolicyText::Unreadable(format!("{} is not UTF-8 text (line {line}); save it as UTF-8", path.display()))
            }
        },
        Err(e) => PolicyText::Unreadable(format!("{} can't be read: {}", path.display(), files::with_remedy(&e))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn missing_text_and_unreadable_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deskhand/policy.toml");
        assert_eq!(read_policy(&path), PolicyText::Missing);
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, "profile = \"act\"\n").unwrap();
        assert_eq!(read_policy(&path), PolicyText::Text("profile = \"act\"\n".into()));
        fs::write(&path, b"a = 1\nb = \xff\n").unwrap();
        assert!(matches!(read_policy(&path), PolicyText::Unreadable(why) if why.contains("line 2")));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(read_policy(&path), PolicyText::Unreadable(_)));
    }
}
