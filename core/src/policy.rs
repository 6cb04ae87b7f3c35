//! The policy file: what the person allows. Read once, at start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tools::declare::Profile;

/// `policy.toml`. Every key has a default; an unknown one is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    pub profile: Profile,
    pub unrestricted: bool,
    pub deny_input_app_ids: Vec<String>,
    pub deny_capture_app_ids: Vec<String>,
    pub capture_dir: Option<PathBuf>,
    pub lease_idle_minutes: u32,
    pub pause_idle_seconds: u32,
    pub consent: Consent,
    pub badge: bool,
    pub accessibility: Accessibility,
    pub assume_unlocked: bool,
    /// The captures toolset's own table; read by that toolset.
    pub captures: Option<toml::Table>,
    #[serde(rename = "preset")]
    pub presets: Vec<Preset>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consent {
    #[default]
    None,
    Ask,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accessibility {
    /// Use the bus if it is on; never switch it on.
    #[default]
    Auto,
    Enable,
}

/// A program that `launch` may start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    pub name: String,
    pub argv: Vec<String>,
    /// The app id of its windows, for telling and reusing them.
    pub app_id: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            profile: Profile::Full,
            unrestricted: false,
            deny_input_app_ids: Vec::new(),
            deny_capture_app_ids: Vec::new(),
            capture_dir: None,
            lease_idle_minutes: 10,
            pause_idle_seconds: 3,
            consent: Consent::None,
            badge: true,
            accessibility: Accessibility::Auto,
            assume_unlocked: false,
            captures: None,
            presets: Vec::new(),
        }
    }
}

/// How reading it went, for `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyState {
    Missing,
    Loaded,
    /// Why, with the line. The server only looks.
    Invalid(String),
}

impl PolicyState {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Loaded => "loaded",
            Self::Invalid(_) => "invalid",
        }
    }
}

/// Reads the file's text; `None` when there is no file. `unrestricted` is the environment's say.
pub fn read(text: Option<&str>, unrestricted: bool) -> (Policy, PolicyState) {
    let Some(text) = text else {
        return (Policy { unrestricted, ..Policy::default() }, PolicyState::Missing);
    };
    match parse(text, unrestricted) {
        Ok(policy) => (policy, PolicyState::Loaded),
        Err(why) => (Policy::default(), PolicyState::Invalid(why)),
    }
}

fn parse(text: &str, unrestricted: bool) -> Result<Policy, String> {
    let mut policy: Policy = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_of(text, span.start));
        format!("line {line}: {}", e.message())
    })?;
    policy.unrestricted |= unrestricted;
    if let Some((at, why)) = first_fault(&policy) {
        let line = text.find(&at).map_or(1, |offset| line_of(text, offset));
        return Err(format!("line {line}: {why}"));
    }
    Ok(policy)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count() + 1
}

/// What the types can't say: a text to find the line by, and the fault.
fn first_fault(policy: &Policy) -> Option<(String, String)> {
    if policy.lease_idle_minutes == 0 || policy.lease_idle_minutes > 24 * 60 {
        return Some(("lease_idle_minutes".into(), "lease_idle_minutes must be from 1 to 1440".into()));
    }
    if policy.pause_idle_seconds > 3600 {
        return Some(("pause_idle_seconds".into(), "pause_idle_seconds must be at most 3600".into()));
    }
    if policy.capture_dir.as_ref().is_some_and(|d| !d.is_absolute()) {
        return Some(("capture_dir".into(), "capture_dir must be an absolute path".into()));
    }
    let mut names = std::collections::BTreeSet::new();
    policy.presets.iter().find_map(|preset| {
        let fault = preset_fault(preset, policy.unrestricted).or_else(|| {
            (!names.insert(preset.name.as_str())).then(|| format!("preset {:?} is there twice", preset.name))
        })?;
        Some((format!("{:?}", preset.name), fault))
    })
}

fn preset_fault(preset: &Preset, unrestricted: bool) -> Option<String> {
    let name = &preset.name;
    if name.is_empty() || name.len() > 64 {
        return Some("a preset's name has 1 to 64 characters".into());
    }
    let Some(program) = preset.argv.first().filter(|p| !p.is_empty()) else {
        return Some(format!("preset {name:?}: argv must name a program"));
    };
    if preset.argv.iter().any(|a| a.contains('\0')) {
        return Some(format!("preset {name:?}: argv holds a NUL"));
    }
    if !preset.env.is_empty() && !unrestricted {
        return Some(format!("preset {name:?}: env needs unrestricted = true"));
    }
    if preset.env.iter().any(|(k, v)| k.is_empty() || k.contains(['=', '\0']) || v.contains('\0')) {
        return Some(format!("preset {name:?}: env holds a name or value that can't be one"));
    }
    let base = program.rsplit('/').next().unwrap_or(program);
    if !unrestricted && runs_anything(base) {
        return Some(format!("preset {name:?}: {base} is a shell, interpreter, privilege tool or wrapper, which a preset may not be"));
    }
    None
}

/// Programs whose arguments are programs.
fn runs_anything(base: &str) -> bool {
    const NAMES: &[&str] = &[
        "sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash", "busybox", "toybox", "nu", "elvish", "xonsh", "pwsh",
        "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh", "wish", "expect", "guile", "awk", "gawk", "mawk",
        "nawk", "sed", "make", "gdb", "java", "osascript", "sudo", "su", "doas", "run0", "pkexec", "runuser", "setpriv", "capsh", "env",
        "nohup", "setsid", "nice", "ionice", "chrt", "timeout", "time", "stdbuf", "xargs", "find", "parallel", "watch", "script", "exec",
        "systemd-run", "dbus-run-session", "dbus-launch", "flatpak-spawn", "distrobox", "toolbox", "docker", "podman", "chroot", "unshare", "nsenter", "bwrap",
        "firejail", "ssh", "strace", "ltrace", "ld.so", "ld-linux-x86-64.so.2", "eval", "vim", "vi", "nvim", "emacs", "swaymsg", "niri", "hyprctl", "uwsm", "app2unit",
    ];
    NAMES.contains(&base)
        || ["python", "pypy", "lua5", "ruby", "perl5", "php", "ld-linux"].iter().any(|p| {
            base.strip_prefix(p).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || "._-so".contains(c)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_valid_and_an_unknown_key_names_its_line() {
        assert_eq!(read(None, true), (Policy { unrestricted: true, ..Policy::default() }, PolicyState::Missing));
        let bad = |text: &str| match read(Some(text), false) {
            (policy, PolicyState::Invalid(why)) => {
                assert_eq!(policy, Policy::default());
                why
            }
            other => panic!("{other:?}"),
        };
        assert!(bad("profile = \"act\"\nnonsense = 1\n").starts_with("line 2:"), "{}", bad("profile = \"act\"\nnonsense = 1\n"));
        assert!(bad("\n\nprofile = \"most\"").starts_with("line 3:"));
        assert!(bad("lease_idle_minutes = 0").contains("lease_idle_minutes"));
        assert!(bad("capture_dir = \"shots\"").contains("absolute"));
        assert!(bad("[[preset]]\nname = \"x\"\nargv = [\"/usr/bin/python3.11\"]").starts_with("line 2:"));
        for program in ["bash", "/bin/sh", "env", "pkexec", "python3", "perl", "node"] {
            assert!(bad(&format!("[[preset]]\nname = \"x\"\nargv = [\"{program}\", \"-c\", \"x\"]")).contains("may not be"), "{program}");
        }
        assert!(bad("[[preset]]\nname = \"a\"\nargv = []").contains("argv"));
        assert!(bad("[[preset]]\nname = \"a\"\nargv = [\"foot\"]\nenv = {A = \"1\"}").contains("unrestricted"));
        assert!(bad("[[preset]]\nname = \"a\"\nargv = [\"foot\"]\n[[preset]]\nname = \"a\"\nargv = [\"foot\"]").contains("twice"));
    }

    #[test]
    fn presets_load() {
        let (policy, state) = read(Some("[[preset]]\nname = \"terminal\"\nargv = [\"foot\"]\napp_id = \"foot\"\n"), false);
        assert_eq!(state, PolicyState::Loaded);
        assert_eq!(policy.presets[0].app_id.as_deref(), Some("foot"));
    }
}
