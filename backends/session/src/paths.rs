//! Where Deskhand keeps what its processes share.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files;

/// The files of one user and one run of a compositor. Nothing is read from the environment here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    runtime_dir: PathBuf,
    instance_name: String,
    audit: PathBuf,
    policy: PathBuf,
}

impl Paths {
    /// `$XDG_RUNTIME_DIR`, `$XDG_STATE_HOME`, `$XDG_CONFIG_HOME` (absolute), and what names this run of the compositor
    /// (any text; what can't stand in a file name is escaped).
    pub fn new(runtime_dir: &Path, state_home: &Path, config_home: &Path, instance: &str) -> Self {
        Self {
            runtime_dir: runtime_dir.to_owned(),
            instance_name: file_name(instance),
            audit: state_home.join("deskhand/audit.jsonl"),
            policy: config_home.join("deskhand/policy.toml"),
        }
    }

    /// Makes the shared and the instance's directory, or checks that they are ours alone.
    pub fn prepare(&self) -> Result<(), String> {
        self.prepare_shared()?;
        files::private_directory(&self.instance())
    }

    pub(crate) fn prepare_shared(&self) -> Result<(), String> {
        if !self.runtime_dir.is_absolute() {
            return Err(format!(
                "XDG_RUNTIME_DIR is not an absolute path ({:?}); start deskhand inside the desktop session",
                self.runtime_dir
            ));
        }
        files::private_directory(&self.shared())
    }

    /// `$XDG_RUNTIME_DIR/deskhand`, 0700
    pub fn shared(&self) -> PathBuf {
        self.runtime_dir.join("deskhand")
    }

    /// `$XDG_RUNTIME_DIR/deskhand/<instance>`, 0700
    pub fn instance(&self) -> PathBuf {
        self.shared().join(&self.instance_name)
    }

    /// Everything is stopped while this exists, whatever it holds.
    pub fn stop_flag(&self) -> PathBuf {
        self.shared().join("stop")
    }

    /// Locked with `flock` by the lease's holder; never unlinked.
    pub fn lock_file(&self) -> PathBuf {
        self.instance().join("lease.lock")
    }

    /// Who holds the lock, as JSON.
    pub fn holder_file(&self) -> PathBuf {
        self.instance().join("holder.json")
    }

    /// What a dead server's guard could not release, as JSON.
    pub fn recovery_file(&self) -> PathBuf {
        self.instance().join("recovery.json")
    }

    /// `$XDG_STATE_HOME/deskhand/audit.jsonl`
    pub fn audit_log(&self) -> &Path {
        &self.audit
    }

    /// `$XDG_CONFIG_HOME/deskhand/policy.toml`
    pub fn policy_file(&self) -> &Path {
        &self.policy
    }
}

/// At most 200 bytes, no `/`, no NUL, not hidden; different texts stay different.
fn file_name(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        match character {
            '/' => name.push_str("%2F"),
            '\0' => name.push_str("%00"),
            '.' if at == 0 => name.push_str("%2E"),
            other => name.push(other),
        }
    }
    if name.is_empty() {
        name.push_str("default");
    }
    // The stop flag's own name is taken in the shared directory.
    if name == "stop" {
        name.push('%');
    }
    if name.len() > 200 {
        let digest = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut end = 180;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name.push_str(&format!("{digest:016x}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_instance_is_one_component_below_the_shared_directory() {
        for text in ["wayland-1.42.999", "../../etc", "..", ".", "", "/run/user/1/x", "a\0b", "stop", &"é/".repeat(400)]
        {
            let paths = Paths::new(Path::new("/run/u"), Path::new("/s"), Path::new("/c"), text);
            let directory = paths.instance();
            assert_eq!(directory.parent(), Some(Path::new("/run/u/deskhand")), "{text:?}");
            let name = directory.file_name().unwrap().to_str().unwrap();
            assert!(!name.starts_with('.') && name.len() <= 200 && name != "stop", "{name:?}");
        }
        assert_ne!(file_name("a/b"), file_name("a.b"));
        assert_eq!(file_name("%2Ftmp%2Fw.1.2"), "%2Ftmp%2Fw.1.2");
    }

    #[test]
    fn a_relative_runtime_directory_is_refused() {
        let paths = Paths::new(Path::new("x"), Path::new("/s"), Path::new("/c"), "i");
        assert!(paths.prepare().unwrap_err().contains("XDG_RUNTIME_DIR"));
    }
}
