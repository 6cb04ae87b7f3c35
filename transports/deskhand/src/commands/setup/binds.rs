//! Key binds that stop and resume, in the compositors' own syntax.

/// Works on the lock screen, and while a window asks the compositor for all keys.
pub fn niri(program: &str) -> String {
    let program = quoted(program);
    format!(
        "In niri's configuration (~/.config/niri/config.kdl), within `binds {{ }}`:\n\n    \
         Mod+Shift+Escape repeat=false allow-when-locked=true allow-inhibiting=false hotkey-overlay-title=\"Deskhand: stop\" {{ spawn {program} \"stop\"; }}\n    \
         Mod+Ctrl+Shift+Escape repeat=false hotkey-overlay-title=\"Deskhand: resume\" {{ spawn {program} \"resume\"; }}\n"
    )
}

pub fn sway(program: &str) -> String {
    let program = in_sway(program);
    format!(
        "In sway's configuration (~/.config/sway/config):\n\n    \
         bindsym --locked --inhibited --no-repeat Mod4+Shift+Escape exec {program} stop\n    \
         bindsym --no-repeat Mod4+Ctrl+Shift+Escape exec {program} resume\n"
    )
}

/// A string in double quotes, as KDL, TOML and JSON read it.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A word for a shell.
pub fn for_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A word for a systemd unit's ExecStart, which replaces % and $.
pub fn for_unit(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$"))
}

/// sway replaces variables before the shell sees the word.
fn in_sway(word: &str) -> String {
    for_shell(word).replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_stay_one_word() {
        assert_eq!(for_shell("/usr/bin/deskhand"), "/usr/bin/deskhand");
        assert_eq!(for_shell("/home/o'neil/my bin/deskhand"), r"'/home/o'\''neil/my bin/deskhand'");
        assert_eq!(for_shell(""), "''");
        assert_eq!(in_sway("/a$b/deskhand"), "'/a$$b/deskhand'");
        assert_eq!(for_unit(r#"/my "bin"/a%b$c\d"#), r#""/my \"bin\"/a%%b$$c\\d""#);
        assert_eq!(quoted(r#"/a"b\c"#), r#""/a\"b\\c""#);
        assert!(niri("/x/deskhand").contains(r#"allow-when-locked=true"#));
        assert!(niri("/x/deskhand").contains(r#"{ spawn "/x/deskhand" "stop"; }"#));
        assert!(sway("/x/deskhand").contains("--locked"));
    }
}
