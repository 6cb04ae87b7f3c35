//! What a dead server left pressed and its guard could not release.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use deskhand_ports::Pressed;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::paths::Paths;

const LARGEST: u64 = 1 << 20;

/// What `deskhand recover` shows, releases and clears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The dead server; 0 when unknown.
    pub server_pid: u32,
    /// Milliseconds since 1970.
    pub at_wall_ms: u64,
    pub pressed: Vec<Pressed>,
    /// Why it could not be released.
    pub reason: String,
}

impl Unfinished {
    pub(crate) fn now(server_pid: u32, pressed: Vec<Pressed>, reason: String) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { server_pid, at_wall_ms: since.as_millis() as u64, pressed, reason }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.pressed.iter().map(|what| name(*what)).collect();
        let names = if names.is_empty() { "an unknown key or button".to_owned() } else { names.join(", ") };
        write!(
            f,
            "a deskhand server (process {}) died while it held {names}, which could not be released: {}; run: deskhand recover",
            self.server_pid, self.reason
        )
    }
}

fn name(what: Pressed) -> String {
    match what {
        Pressed::Key(code) => format!("key {code}"),
        Pressed::Modifiers(mask) => format!("modifiers {mask:#x}"),
        Pressed::Button(code) => match code {
            0x110 => "the left button".into(),
            0x111 => "the right button".into(),
            0x112 => "the middle button".into(),
            _ => format!("button {code:#x}"),
        },
    }
}

/// What is unfinished on this compositor; a record that can't be read counts as one with nothing known in it.
pub fn unfinished(paths: &Paths) -> Option<Unfinished> {
    let path = paths.recovery_file();
    let unreadable = |why: String| {
        Some(Unfinished {
            server_pid: 0,
            at_wall_ms: 0,
            pressed: Vec::new(),
            reason: format!("the record {} can't be read ({why})", path.display()),
        })
    };
    match files::read_small(&path, LARGEST) {
        Ok(None) => None,
        Ok(Some(bytes)) => match serde_json::from_slice::<Record>(&bytes) {
            Ok(record) => Some(record.into()),
            Err(e) => unreadable(e.to_string()),
        },
        Err(e) => unreadable(e.to_string()),
    }
}

/// Forgets it, once a person has seen to it.
pub fn clear_unfinished(paths: &Paths) -> Result<(), String> {
    let path = paths.recovery_file();
    files::remove(&path)
        .map_err(|e| format!("the record {} can't be removed: {}", path.display(), files::with_remedy(&e)))
}

/// Adds to what an earlier server left.
pub(crate) fn leave(paths: &Paths, new: Unfinished) -> Result<(), String> {
    let mut all = new;
    if let Some(earlier) = unfinished(paths) {
        for what in earlier.pressed {
            if !all.pressed.contains(&what) {
                all.pressed.push(what);
            }
        }
    }
    let path = paths.recovery_file();
    let text = serde_json::to_vec(&Record::from(&all)).map_err(|e| e.to_string())?;
    files::replace(&path, &text).map_err(|e| format!("{} can't be written: {}", path.display(), files::with_remedy(&e)))
}

#[derive(Serialize, Deserialize)]
struct Record {
    server_pid: u32,
    at_wall_ms: u64,
    #[serde(default)]
    keys: Vec<u32>,
    #[serde(default)]
    modifiers: u32,
    #[serde(default)]
    buttons: Vec<u32>,
    reason: String,
}

impl From<&Unfinished> for Record {
    fn from(unfinished: &Unfinished) -> Self {
        let mut record = Record {
            server_pid: unfinished.server_pid,
            at_wall_ms: unfinished.at_wall_ms,
            keys: Vec::new(),
            modifiers: 0,
            buttons: Vec::new(),
            reason: unfinished.reason.clone(),
        };
        for what in &unfinished.pressed {
            match *what {
                Pressed::Key(code) => record.keys.push(code),
                Pressed::Modifiers(mask) => record.modifiers |= mask,
                Pressed::Button(code) => record.buttons.push(code),
            }
        }
        record
    }
}

impl From<Record> for Unfinished {
    fn from(record: Record) -> Self {
        let mut pressed: Vec<Pressed> = record.keys.into_iter().map(Pressed::Key).collect();
        if record.modifiers != 0 {
            pressed.push(Pressed::Modifiers(record.modifiers));
        }
        pressed.extend(record.buttons.into_iter().map(Pressed::Button));
        Self { server_pid: record.server_pid, at_wall_ms: record.at_wall_ms, pressed, reason: record.reason }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn records_add_up_and_a_broken_one_still_counts() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::new(root.path(), root.path(), root.path(), "i");
        assert_eq!(unfinished(&paths), None);
        clear_unfinished(&paths).unwrap();
        paths.prepare().unwrap();
        leave(&paths, Unfinished::now(7, vec![Pressed::Key(29), Pressed::Button(0x110)], "no display".into())).unwrap();
        leave(&paths, Unfinished::now(8, vec![Pressed::Key(29), Pressed::Modifiers(5)], "hung".into())).unwrap();
        let found = unfinished(&paths).unwrap();
        assert_eq!(found.pressed, [Pressed::Key(29), Pressed::Modifiers(5), Pressed::Button(0x110)]);
        let text = found.to_string();
        assert!(
            text.contains("process 8") && text.contains("the left button") && text.contains("deskhand recover"),
            "{text}"
        );
        fs::write(paths.recovery_file(), "{").unwrap();
        assert!(unfinished(&paths).unwrap().to_string().contains("can't be read"));
        clear_unfinished(&paths).unwrap();
        assert_eq!(unfinished(&paths), None);
    }
}
