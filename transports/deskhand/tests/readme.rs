//! The README's tables are what `deskhand tools` prints. `UPDATE_DOCS=1` writes them anew.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_readmes_tables_are_up_to_date() {
    let printed = Command::new(env!("CARGO_BIN_EXE_deskhand")).arg("tools").output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let printed = String::from_utf8(printed.stdout).unwrap();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let mut readme = std::fs::read_to_string(&path).unwrap();
    for name in ["tools", "errors"] {
        let wanted = block(&printed, name).unwrap().to_string();
        let there = block(&readme, name).unwrap_or_else(|| panic!("README.md has no <!-- {name} --> ... <!-- /{name} -->")).to_string();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            readme = readme.replacen(&there, &wanted, 1);
        } else {
            assert!(there == wanted, "README.md's {name} differ from `deskhand tools`; UPDATE_DOCS=1 cargo test -p deskhand writes them anew");
        }
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, readme).unwrap();
    }
}

/// With its markers.
fn block<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let start = text.find(&open)?;
    let end = start + text[start..].find(&close)? + close.len();
    Some(&text[start..end])
}
