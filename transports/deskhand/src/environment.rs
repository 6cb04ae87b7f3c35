//! What the process was given: directories, sockets, the policy.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use deskhand_core::policy::{self, Policy, PolicyState};
use deskhand_ports::peer::Environment;
use deskhand_session::{Paths, PolicyText, read_policy};

use crate::commands::Failed;

/// Clients that hand on few variables leave the display out. One compositor is then meant; of several, none is guessed.
fn only_display(runtime_dir: &Path) -> Option<OsString> {
    let served = |path: &Path| deskhand_ports::peer::peer_of(path).is_ok();
    let mut found = std::fs::read_dir(runtime_dir).ok()?.filter_map(Result::ok).map(|entry| entry.file_name()).filter(|name| {
        let text = name.to_string_lossy();
        text.starts_with("wayland-") && !text.ends_with(".lock") && served(&runtime_dir.join(name))
    });
    let only = found.next()?;
    found.next().is_none().then_some(only)
}

/// Where things are, from the environment alone.
#[derive(Clone, Debug)]
pub struct Place {
    pub sockets: Environment,
    pub runtime_dir: PathBuf,
    pub state_home: PathBuf,
    pub config_home: PathBuf,
}

impl Place {
    pub fn from_environment() -> Result<Self, Failed> {
        let dir = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = dir("HOME");
        let below_home = |rest: &str| home.as_ref().map(|h| h.join(rest));
        let missing = |name: &str| Failed::Usage(format!("neither {name} nor HOME is set to an absolute path; set one of them"));
        let runtime_dir = match dir("XDG_RUNTIME_DIR") {
            Some(dir) => dir,
            // A login without one still has the place where it would be.
            None => PathBuf::from(format!("/run/user/{}", rustix::process::getuid().as_raw())),
        };
        let mut sockets = Environment::from_vars(|name| std::env::var_os(name));
        sockets.runtime_dir.get_or_insert_with(|| runtime_dir.clone());
        if sockets.wayland_display.is_none() {
            sockets.wayland_display = only_display(&runtime_dir);
        }
        Ok(Self {
            sockets,
            runtime_dir,
            state_home: dir("XDG_STATE_HOME").or_else(|| below_home(".local/state")).ok_or_else(|| missing("XDG_STATE_HOME"))?,
            config_home: dir("XDG_CONFIG_HOME").or_else(|| below_home(".config")).ok_or_else(|| missing("XDG_CONFIG_HOME"))?,
        })
    }

    pub fn paths(&self, instance: &str) -> Paths {
        Paths::new(&self.runtime_dir, &self.state_home, &self.config_home, instance)
    }

    /// The address of the session's message bus: what the variable says, or the socket where it usually is.
    pub fn session_bus(&self) -> Option<String> {
        if let Some(address) = std::env::var("DBUS_SESSION_BUS_ADDRESS").ok().filter(|address| !address.is_empty()) {
            return Some(address);
        }
        let socket = self.runtime_dir.join("bus");
        // An address escapes what isn't plain; a directory that needs it is left alone.
        let plain = socket.to_str().filter(|path| path.chars().all(|c| c.is_ascii_alphanumeric() || "-_/.".contains(c)))?;
        socket.exists().then(|| format!("unix:path={plain}"))
    }

    /// The instance of the compositor that serves the display now.
    pub fn current_paths(&self) -> Result<Paths, Failed> {
        let display = deskhand_ports::peer::display(&self.sockets).map_err(Failed::Unreachable)?;
        Ok(self.paths(&display.instance))
    }

    pub fn policy(&self) -> (Policy, PolicyState) {
        let unrestricted = std::env::var_os("DESKHAND_UNRESTRICTED").is_some_and(|v| v == "1");
        match read_policy(self.paths("").policy_file()) {
            PolicyText::Missing => policy::read(None, unrestricted),
            PolicyText::Text(text) => policy::read(Some(&text), unrestricted),
            PolicyText::Unreadable(why) => (Policy::default(), PolicyState::Invalid(why)),
        }
    }
}
