//! A headless sway of our own, ended with the test.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;

pub struct Session {
    sway: Child,
    programs: Vec<Child>,
    runtime: tempfile::TempDir,
}

impl Session {
    /// `None`, with a message, when sway isn't installed. HEADLESS-1 has 1280x800 pixels, HEADLESS-2 800x600 to its right.
    pub fn start(config: &str) -> Option<Self> {
        if !Path::new("/usr/bin/sway").exists() {
            eprintln!("skipped: sway is not installed");
            return None;
        }
        let runtime = tempfile::Builder::new()
            .prefix("deskhand-sway")
            .tempdir_in("/tmp")
            .unwrap();
        fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let root = rustix::process::getuid().is_root();
        let text = format!(
            "output HEADLESS-1 mode 1280x800 pos 0 0\noutput HEADLESS-2 mode 800x600 pos 4000 0\n\
             default_border none\nfocus_follows_mouse no\n{config}\n"
        );
        fs::write(runtime.path().join("config"), text).unwrap();
        let mut session = Self {
            sway: Command::new("true").spawn().unwrap(),
            programs: vec![],
            runtime,
        };
        session.run_sway(root);
        Some(session)
    }

    fn run_sway(&mut self, root: bool) {
        let dir = self.runtime.path();
        let mut command = if root {
            chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sway"]);
            command
        } else {
            Command::new("sway")
        };
        command
            .arg("-c")
            .arg(dir.join("config"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", dir)
            .env("XDG_RUNTIME_DIR", dir)
            .envs([
                ("WLR_BACKENDS", "headless"),
                ("WLR_RENDERER", "pixman"),
                ("WLR_LIBINPUT_NO_DEVICES", "1"),
            ])
            .env("WLR_HEADLESS_OUTPUTS", "2")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _ = self.sway.wait();
        self.sway = command.spawn().unwrap();
        // It exits when its child (swaybg and the like) can't be started, so what counts is that both outputs are there.
        let socket = self.socket();
        wait_for("sway's outputs", || {
            deskhand_wayland::probe(&socket).is_ok_and(|found| found.outputs.len() == 2)
                && self.ipc().is_some()
        });
    }

    /// Kills sway and starts another at the same socket.
    pub fn restart(&mut self) {
        let _ = self.sway.kill();
        let _ = self.sway.wait();
        for name in ["wayland-1", "wayland-1.lock"] {
            let _ = fs::remove_file(self.runtime.path().join(name));
        }
        if let Some(ipc) = self.ipc() {
            let _ = fs::remove_file(ipc);
        }
        self.run_sway(rustix::process::getuid().is_root());
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.sway)
    }

    pub fn socket(&self) -> PathBuf {
        self.runtime.path().join("wayland-1")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.runtime.path().join(name)
    }

    fn ipc(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.runtime.path()).ok()?.flatten();
        let mut found = entries
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("sway-ipc."));
        found.find(|path| UnixStream::connect(path).is_ok())
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            .env("WAYLAND_DISPLAY", "wayland-1")
            .env("GDK_BACKEND", "wayland")
            .env("GSK_RENDERER", "cairo")
            .env("LC_ALL", "C.UTF-8")
            .env("GTK_A11Y", "none")
            .env("NO_AT_BRIDGE", "1")
            .env("HOME", self.runtime.path())
            .env_remove("DISPLAY");
        command
    }

    /// Starts a program that ends with the session.
    pub fn spawn(&mut self, mut command: Command) {
        self.programs.push(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
    }

    pub fn swaymsg(&self, args: &[&str]) -> String {
        let ipc = self.ipc().unwrap();
        let mut child = Command::new("swaymsg")
            .arg("-s")
            .arg(ipc)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        child.wait().unwrap();
        text
    }

    /// Waits until a window with this app id has the focus.
    pub fn wait_focused(&self, app_id: &str) {
        wait_for(app_id, || {
            let tree = self.swaymsg(&["-t", "get_tree"]);
            tree.contains(&format!("\"app_id\": \"{app_id}\""))
                && focused_app(&tree).as_deref() == Some(app_id)
        });
    }
}

/// The app id of the focused node: in sway's tree it follows the node's own `"focused": true`.
fn focused_app(tree: &str) -> Option<String> {
    let rest = &tree[tree.find("\"focused\": true")?..];
    let rest = &rest[rest.find("\"app_id\": \"")? + 11..];
    Some(rest[..rest.find('"')?].to_owned())
}

impl Drop for Session {
    fn drop(&mut self) {
        for child in self.programs.iter_mut().chain([&mut self.sway]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !ready() {
        assert!(Instant::now() < until, "{what} did not come in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}
