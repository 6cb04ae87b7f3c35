//! A headless sway of its own: its own directories, session bus and policy, as an unprivileged user when this is root.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::packages::{EDITOR, SEARCH};
use super::processes::{Owner, end, has_ended, sweep};
use super::Interrupt;

/// sway refuses root; this is everybody's nobody.
const NOBODY: u32 = 65534;
const STARTING: Duration = Duration::from_secs(15);
const ENDING: Duration = Duration::from_secs(3);
/// Socket paths end at 107 bytes.
const LONGEST_BASE: usize = 70;

const SWAY: &str = "\
xwayland disable
output HEADLESS-1 mode 1280x800 scale 1
output * bg #2b3440 solid_color
seat * hide_cursor 0
";

/// Starts nothing by itself, unlike the system's own configuration.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <auth>EXTERNAL</auth>
  <listen>unix:path=@BUS@</listen>
  <policy context="default"><allow send_destination="*"/><allow own="*"/></policy>
</busconfig>
"#;

pub struct Desk {
    base: PathBuf,
    owner: Owner,
    /// In the order of their start.
    children: Vec<Child>,
    ended: bool,
}

impl Desk {
    /// Returns when sway answers. What was started is ended when this fails, too.
    pub fn start(interrupt: &Interrupt) -> Result<Self, String> {
        let base = new_directory()?;
        let user = rustix::process::geteuid().is_root().then_some((NOBODY, NOBODY));
        let deskhand = std::env::current_exe().map_err(|e| format!("this program's own path isn't known: {e}"))?;
        let owner = Owner { user, environment: Vec::new(), home: base.join("home"), deskhand };
        let mut desk = Self { base, owner, children: Vec::new(), ended: false };
        desk.furnish()?;
        desk.start_bus(interrupt)?;
        desk.start_sway(interrupt)?;
        Ok(desk)
    }

    pub fn base(&self) -> &Path {
        &self.base
    }

    pub fn home(&self) -> &Path {
        &self.owner.home
    }

    pub fn audit_log(&self) -> PathBuf {
        self.home().join(".local/state/deskhand/audit.jsonl")
    }

    /// Where the server may save screenshots.
    pub fn captures(&self) -> PathBuf {
        self.home().join("captures")
    }

    /// `deskhand mcp` with pipes; it ends with its input.
    pub fn start_server(&mut self) -> Result<(ChildStdin, ChildStdout), String> {
        let failed = |e: std::io::Error| format!("deskhand mcp can't be started: {e}");
        let log = fs::File::create(self.base.join("server.log")).map_err(failed)?;
        let mut command = self.owner.command(&self.owner.deskhand);
        let mut server = command.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().map_err(failed)?;
        let pipes = server.stdin.take().zip(server.stdout.take());
        self.children.push(server);
        pipes.ok_or_else(|| "deskhand mcp has no pipes".into())
    }

    /// Whether the server, whose input was closed, ended by itself and well.
    pub fn server_ended(&mut self) -> bool {
        let Some(server) = self.children.last_mut() else { return false };
        has_ended(server, ENDING) && server.try_wait().is_ok_and(|status| status.is_some_and(|s| s.success()))
    }

    /// The ends of what the server and sway wrote, for a failure's report.
    pub fn logs(&self) -> String {
        let mut out = String::new();
        for name in ["server", "sway"] {
            let text = fs::read_to_string(self.base.join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            for line in &lines[lines.len().saturating_sub(5)..] {
                out.push_str(&format!("\n  {name}: {line}"));
            }
        }
        out
    }

    /// Ends everything, newest first, and removes the directory.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        for child in self.children.iter_mut().rev() {
            end(child, ENDING);
        }
        sweep(&self.base.join("run"));
        let _ = fs::remove_dir_all(&self.base);
    }

    fn furnish(&mut self) -> Result<(), String> {
        let failed = |e: std::io::Error| format!("{} can't be furnished: {e}", self.base.display());
        for name in ["run", "home", "home/captures", "home/.config", "home/.config/deskhand", "home/.local", "home/.local/state"] {
            let path = self.base.join(name);
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            self.give(&path).map_err(failed)?;
        }
        if self.owner.user.is_some() {
            // The owner may not be able to reach where this program is.
            let copy = self.base.join("deskhand");
            fs::copy(&self.owner.deskhand, &copy).map_err(failed)?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).map_err(failed)?;
            self.owner.deskhand = copy;
        }
        self.write("run/sway.conf", SWAY).map_err(failed)?;
        self.write("run/bus.conf", &BUS.replace("@BUS@", &self.base.join("run/bus").to_string_lossy())).map_err(failed)?;
        self.write("home/.config/deskhand/policy.toml", &self.policy()).map_err(failed)?;
        self.owner.environment = self.bare_environment();
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        let path = self.base.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        self.give(&path)
    }

    fn give(&self, path: &Path) -> std::io::Result<()> {
        match self.owner.user {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    fn policy(&self) -> String {
        let text = |path: PathBuf| serde_json::Value::from(path.to_string_lossy().into_owned()).to_string();
        format!(
            "assume_unlocked = true\ncapture_dir = {}\n\n\
             [[preset]]\nname = \"terminal\"\nargv = [\"foot\", \"--config=/dev/null\"]\napp_id = \"foot\"\n\n\
             [[preset]]\nname = \"editor\"\nargv = [\"{EDITOR}\", {}]\n",
            text(self.captures()),
            text(self.home().join("letter.txt"))
        )
    }

    fn bare_environment(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.base.join(name).to_string_lossy().into_owned();
        let mut all: Vec<(String, String)> = [
            ("PATH", SEARCH.to_string()),
            ("HOME", path("home")),
            ("LANG", "C.UTF-8".into()),
            // nobody's own shell ends at once, and a terminal with it.
            ("SHELL", "/bin/sh".into()),
            ("XDG_RUNTIME_DIR", path("run")),
            ("XDG_CONFIG_HOME", path("home/.config")),
            ("XDG_STATE_HOME", path("home/.local/state")),
            ("GSETTINGS_BACKEND", "memory".into()),
            ("NO_AT_BRIDGE", "1".into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
        all.push(("DBUS_SESSION_BUS_ADDRESS".into(), format!("unix:path={}", path("run/bus"))));
        all
    }

    fn start_bus(&mut self, interrupt: &Interrupt) -> Result<(), String> {
        let config = format!("--config-file={}", self.base.join("run/bus.conf").display());
        let bus = self.owner.spawn(&["dbus-daemon", "--nofork", "--nopidfile", &config], &self.base.join("bus.log"))?;
        self.children.push(bus);
        let socket = self.base.join("run/bus");
        self.until(interrupt, "the session bus", || UnixStream::connect(&socket).is_ok().then_some(()))
    }

    fn start_sway(&mut self, interrupt: &Interrupt) -> Result<(), String> {
        let bare = self.owner.environment.clone();
        let headless = [("WLR_BACKENDS", "headless"), ("WLR_RENDERER", "pixman"), ("WLR_LIBINPUT_NO_DEVICES", "1"), ("WLR_HEADLESS_OUTPUTS", "1")];
        self.owner.environment.extend(headless.map(|(name, value)| (name.to_string(), value.to_string())));
        let config = self.base.join("run/sway.conf").to_string_lossy().into_owned();
        let sway = self.owner.spawn(&["sway", "-c", &config], &self.base.join("sway.log"))?;
        let ipc_end = format!(".{}.sock", sway.id());
        self.children.push(sway);
        let run = self.base.join("run");
        let (display, ipc) = self.until(interrupt, "sway", || sockets(&run, &ipc_end))?;
        self.owner.environment = bare;
        let session = [
            ("WAYLAND_DISPLAY", display),
            ("SWAYSOCK", ipc),
            ("XDG_CURRENT_DESKTOP", "sway".into()),
            ("XDG_SESSION_TYPE", "wayland".into()),
            ("GDK_BACKEND", "wayland".into()),
        ];
        self.owner.environment.extend(session.map(|(name, value)| (name.to_string(), value)));
        Ok(())
    }

    /// Waits while the newest child lives.
    fn until<T>(&mut self, interrupt: &Interrupt, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
        let child = self.children.last_mut();
        let waited = match child {
            None => Err(format!("{what} wasn't started")),
            Some(child) => interrupt.wait(what, STARTING, || match child.try_wait() {
                Ok(None) => Ok(look()),
                Ok(Some(status)) => Err(format!("{what} ended at once ({status})")),
                Err(e) => Err(format!("{what} can't be watched: {e}")),
            }),
        };
        waited.map_err(|why| format!("{why}{}", self.logs()))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.end();
    }
}

/// The display's name and the IPC socket's path, once both are there.
fn sockets(run: &Path, ipc_end: &str) -> Option<(String, String)> {
    let entries: Vec<_> = fs::read_dir(run).ok()?.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_socket())).collect();
    let named = |fits: &dyn Fn(&str) -> bool| entries.iter().find_map(|e| e.file_name().into_string().ok().filter(|name| fits(name)));
    let display = named(&|name| name.starts_with("wayland-"))?;
    let ipc = named(&|name| name.starts_with("sway-ipc.") && name.ends_with(ipc_end))?;
    Some((display, run.join(ipc).to_string_lossy().into_owned()))
}

/// Made now, under a name that nobody had.
fn new_directory() -> Result<PathBuf, String> {
    let parent = std::env::temp_dir();
    for attempt in 0..100_u32 {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = u64::from(time.subsec_nanos()) + u64::from(std::process::id()) * 1_000_000_007 + u64::from(attempt);
        let path = parent.join(format!("deskhand-try-{:08x}", number & 0xffff_ffff));
        if path.as_os_str().len() > LONGEST_BASE {
            return Err(format!("{} is too long for sockets; set TMPDIR to a shorter path", parent.display()));
        }
        // Entered by the desktop's user; what is in it is that user's alone.
        match DirBuilder::new().mode(0o711).create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(format!("{} can't be made: {e}", path.display())),
        }
    }
    Err(format!("no new directory could be made in {}", parent.display()))
}
