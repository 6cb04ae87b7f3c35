//! The backend against a real headless sway, started by the test. Without sway installed the tests say so and pass.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{CompositorRequest, FailureKind, Outcome, Reply};
use deskhand_core::desktop::event::{CompositorKind, CompositorState, DesktopEvent, Observation};
use deskhand_core::desktop::geometry::Transform;
use deskhand_core::desktop::model::{Output, Place, Window, Workspace};
use deskhand_ports::peer::Environment;
use deskhand_ports::{Compositor, Fence, Ticket};
use deskhand_sway::Sway;
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(20);
const NOBODY: u32 = 65534;
const CONFIG: &str = r#"
output HEADLESS-1 pos 0 0 resolution 1280x720
output HEADLESS-2 pos 2000 0 transform 90 scale 1.5
set $mod Mod4
bindsym $mod+Shift+q kill
bindsym Control+Mod1+Delete exit
default_border normal 3
focus_follows_mouse no
workspace 1 output HEADLESS-1
"#;

/// A sway of the test's own, and what the backend tells of it.
struct Stage {
    runtime_dir: tempfile::TempDir,
    sway: Child,
    observed: mpsc::UnboundedReceiver<Observation>,
    backend: Sway,
    outputs: Vec<Output>,
    workspaces: Vec<Workspace>,
    windows: Vec<Window>,
    focused: Option<u64>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.sway.kill();
        let _ = self.sway.wait();
    }
}

impl Stage {
    async fn live() -> Option<Self> {
        if Command::new("sway").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("sway is not installed: not tested");
            return None;
        }
        let runtime_dir = tempfile::tempdir().unwrap();
        fs::set_permissions(runtime_dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(runtime_dir.path().join("config"), CONFIG).unwrap();
        if is_root() {
            chown(runtime_dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let sway = start_sway(runtime_dir.path());
        let (observe, observed) = mpsc::unbounded_channel();
        let environment = Environment {
            runtime_dir: Some(runtime_dir.path().to_owned()),
            wayland_display: Some("wayland-1".into()),
            ..Environment::default()
        };
        let backend = Sway::start(environment, Arc::new(move |observation| _ = observe.send(observation)));
        let mut stage = Self {
            runtime_dir,
            sway,
            observed,
            backend,
            outputs: Vec::new(),
            workspaces: Vec::new(),
            windows: Vec::new(),
            focused: None,
        };
        stage.until(|o, _| *o == Observation::Compositor(CompositorState::StreamLive)).await;
        Some(stage)
    }

    /// Takes observations in until one satisfies.
    async fn until(&mut self, wanted: impl Fn(&Observation, &Stage) -> bool) -> Observation {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let next = tokio::time::timeout_at(deadline, self.observed.recv()).await;
            let next = next.unwrap_or_else(|_| panic!("not seen; windows are {:#?}", self.windows)).unwrap();
            match &next {
                Observation::Desktop(DesktopEvent::Outputs(outputs)) => self.outputs = outputs.clone(),
                Observation::Desktop(DesktopEvent::Workspaces(workspaces)) => self.workspaces = workspaces.clone(),
                Observation::Desktop(DesktopEvent::Windows { windows, focused }) => {
                    (self.windows, self.focused) = (windows.clone(), *focused);
                }
                Observation::Desktop(DesktopEvent::FocusChanged(focused)) => self.focused = *focused,
                Observation::Desktop(DesktopEvent::Unknown(what)) => panic!("unknown: {what}"),
                _ => {}
            }
            if wanted(&next, self) {
                return next;
            }
        }
    }

    async fn until_windows(&mut self, wanted: impl Fn(&Stage) -> bool) {
        if !wanted(self) {
            self.until(|_, stage| wanted(stage)).await;
        }
    }

    async fn ask(&self, request: CompositorRequest) -> Outcome {
        self.backend.request(request, ticket(PATIENCE)).await
    }

    /// Runs one of sway's own commands.
    fn command(&self, command: &str) {
        let socket = self.ipc_socket();
        let status = Command::new("swaymsg").arg("-s").arg(socket).args(["-q", "--", command]).status().unwrap();
        assert!(status.success(), "{command}");
    }

    fn ipc_socket(&self) -> PathBuf {
        self.runtime_dir.path().join(format!(
            "sway-ipc.{}.{}.sock",
            if is_root() { NOBODY } else { uid() },
            self.sway.id()
        ))
    }

    /// Opens a terminal whose background is one colour, and waits for it.
    async fn open(&mut self, title: &str, colour: &str) -> u64 {
        self.command(&format!("exec foot -T '{title}' -o colors.background={colour} -o csd.preferred=none sleep 1000"));
        self.until_windows(|stage| stage.window(title).is_some()).await;
        self.window(title).unwrap().id
    }

    fn window(&self, title: &str) -> Option<&Window> {
        self.windows.iter().find(|window| window.title.as_deref() == Some(title))
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.sway.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Asserts that exactly the told rectangle of the first output shows the colour.
    async fn content_is_where_it_is_told(&mut self, title: &str, colour: [u8; 3], shape: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut agreed = 0;
        loop {
            // Tells the places anew, as the core does before it uses them.
            self.ask(CompositorRequest::Outputs).await.unwrap();
            self.catch_up();
            let layout = self.window(title).unwrap().layout;
            let Place::InLayout(x, y) = layout.place else { panic!("{shape}: no place") };
            let told = (x as usize, y as usize, layout.window_size.0 as usize, layout.window_size.1 as usize);
            let seen = bounds(&self.picture(), colour);
            // The command before may still be under way.
            agreed = if seen == Some(told) { agreed + 1 } else { 0 };
            if agreed == 4 {
                return;
            }
            assert!(Instant::now() < deadline, "{shape}: told {told:?}, seen {seen:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn catch_up(&mut self) {
        while let Ok(observation) = self.observed.try_recv() {
            if let Observation::Desktop(DesktopEvent::Windows { windows, focused }) = observation {
                (self.windows, self.focused) = (windows, focused);
            }
        }
    }

    fn picture(&self) -> Picture {
        let picture = Command::new("grim")
            .env("XDG_RUNTIME_DIR", self.runtime_dir.path())
            .env("WAYLAND_DISPLAY", "wayland-1")
            .args(["-t", "ppm", "-o", "HEADLESS-1", "-"])
            .output()
            .unwrap();
        Picture::read(&picture.stdout)
    }
}

struct Picture {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn read(ppm: &[u8]) -> Self {
        let mut rest = ppm;
        let mut fields = Vec::new();
        while fields.len() < 4 {
            let end = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap();
            fields.push(String::from_utf8_lossy(&rest[..end]).into_owned());
            rest = &rest[end + 1..];
        }
        Self { width: fields[1].parse().unwrap(), pixels: rest.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect() }
    }
}

/// The smallest rectangle that holds all pixels of the colour: x, y, width, height.
fn bounds(picture: &Picture, colour: [u8; 3]) -> Option<(usize, usize, usize, usize)> {
    let places = || picture.pixels.iter().enumerate().filter(|(_, pixel)| **pixel == colour).map(|(at, _)| at);
    let (left, right) = (places().map(|at| at % picture.width).min()?, places().map(|at| at % picture.width).max()?);
    let (top, bottom) = (places().min()? / picture.width, places().max()? / picture.width);
    Some((left, top, right - left + 1, bottom - top + 1))
}

fn start_sway(runtime_dir: &Path) -> Child {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups", "sway"]);
        command
    } else {
        Command::new("sway")
    };
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", runtime_dir)
        .env("XDG_RUNTIME_DIR", runtime_dir)
        .env("WLR_BACKENDS", "headless")
        .env("WLR_RENDERER", "pixman")
        .env("WLR_LIBINPUT_NO_DEVICES", "1")
        .env("WLR_HEADLESS_OUTPUTS", "2")
        .arg("-c")
        .arg(runtime_dir.join("config"))
        .current_dir(runtime_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid()
}

fn is_root() -> bool {
    uid() == 0
}

fn ticket(patience: Duration) -> Ticket {
    Ticket {
        fence: Fence::default(),
        generation: 0,
        cancelled: Arc::new(AtomicBool::new(false)),
        deadline: Instant::now() + patience,
    }
}

#[tokio::test]
async fn outputs_windows_and_workspaces() {
    let Some(mut stage) = Stage::live().await else { return };
    let second = stage.outputs.iter().find(|output| output.name == "HEADLESS-2").unwrap();
    let logical = second.logical.unwrap();
    assert_eq!((logical.x, logical.width, logical.scale), (2000, 480, 1.5));
    assert_eq!(logical.transform, Transform::Rotate270);
    assert_eq!(stage.ask(CompositorRequest::Outputs).await, Ok(Reply::Outputs(stage.outputs.clone())));
    assert_eq!(stage.ask(CompositorRequest::FocusedOutput).await, Ok(Reply::Name(Some("HEADLESS-1".into()))));
    assert_eq!(
        stage.ask(CompositorRequest::Binds).await,
        Ok(Reply::Binds(vec!["ctrl+alt+delete".into(), "shift+super+q".into()]))
    );
    let action = CompositorRequest::Action(serde_json::json!({"FullscreenWindow": {}}));
    assert_eq!(stage.ask(action).await.unwrap_err().kind, FailureKind::Refused);

    let one = stage.open("one", "ff0000").await;
    let two = stage.open("two", "00ff00").await;
    stage.until_windows(|stage| stage.focused == Some(two)).await;
    assert_eq!(stage.ask(CompositorRequest::FocusWindow(one)).await, Ok(Reply::Done));
    stage.until_windows(|stage| stage.focused == Some(one)).await;
    let window = stage.window("one").unwrap();
    assert_eq!((window.app_id.as_deref(), window.floating, window.urgent), (Some("foot"), false, false));
    assert!(window.pid.is_some_and(|pid| pid > 0));

    stage.command("[title=two] move to scratchpad");
    stage.until_windows(|stage| stage.window("two").is_some_and(|w| w.workspace_id.is_none())).await;
    assert_eq!(stage.ask(CompositorRequest::FocusWindow(two)).await, Ok(Reply::Done));
    stage.until_windows(|stage| stage.window("two").is_some_and(|w| w.workspace_id.is_some() && w.floating)).await;

    assert_eq!(stage.ask(CompositorRequest::CloseWindow(two)).await, Ok(Reply::Done));
    stage.until_windows(|stage| stage.window("two").is_none()).await;
    let gone = stage.ask(CompositorRequest::CloseWindow(two)).await.unwrap_err();
    assert_eq!(gone.kind, FailureKind::NotFound);
    assert!(gone.detail.contains("No matching node"), "{}", gone.detail);
}

#[tokio::test]
async fn a_socket_of_another_process_is_not_taken_for_sways() {
    let Some(stage) = Stage::live().await else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = elsewhere.path().join("sway-ipc.1.1.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&foreign).unwrap();
    let environment = Environment {
        runtime_dir: Some(stage.runtime_dir.path().to_owned()),
        wayland_display: Some("wayland-1".into()),
        sway_socket: Some(foreign.clone()),
        ..Environment::default()
    };
    let found = deskhand_sway::find(&environment).unwrap();
    assert_eq!((found.path, found.matches), (stage.ipc_socket(), Ok(())));

    let without_another = Environment {
        runtime_dir: Some(elsewhere.path().to_owned()),
        wayland_display: Some(stage.runtime_dir.path().join("wayland-1").into_os_string()),
        ..environment
    };
    let found = deskhand_sway::find(&without_another).unwrap();
    assert_eq!(found.path, foreign);
    let reason = found.matches.unwrap_err();
    assert!(reason.contains(&format!("served by process {}", stage.sway.id())), "{reason}");
    assert!(reason.contains(&format!("belongs to process {}", std::process::id())), "{reason}");
}

#[tokio::test]
async fn workspaces_with_odd_names_are_reached() {
    let Some(mut stage) = Stage::live().await else { return };
    stage.open("one", "ff0000").await;
    let names = ["a\"; exec touch pwned; \"", "it's", "$mod", "back\\slash", "ends\\", "3: wide", "next"];
    for (number, name) in names.iter().enumerate() {
        let title = format!("window {number}");
        stage.command("workspace scratch");
        let window = stage.open(&title, "0000ff").await;
        let quote = if name.contains('"') { '\'' } else { '"' };
        // sway has no way to say some of these: then the workspace keeps its name, or gets a similar one.
        let rename = format!("rename workspace scratch to {quote}{}{quote}", name.replace('$', "$$"));
        Command::new("swaymsg").arg("-s").arg(stage.ipc_socket()).args(["-q", "--", &rename]).status().unwrap();
        let id = stage.window(&title).unwrap().workspace_id.unwrap();
        stage.command("workspace 1");
        stage.until_windows(|stage| stage.workspaces.iter().any(|w| w.focused && w.id != id)).await;
        assert_eq!(stage.ask(CompositorRequest::FocusWorkspace(id)).await, Ok(Reply::Done), "{name}");
        stage.until_windows(|stage| stage.workspaces.iter().any(|w| w.focused && w.id == id)).await;
        stage.ask(CompositorRequest::CloseWindow(window)).await.unwrap();
        stage.until_windows(|stage| stage.window(&title).is_none()).await;
        stage.command("workspace 1");
        stage.until_windows(|stage| stage.workspaces.iter().all(|w| w.id != id)).await;
    }
    assert!(!stage.runtime_dir.path().join("pwned").exists());
    assert_eq!(stage.ask(CompositorRequest::FocusWorkspace(1 << 40)).await.unwrap_err().kind, FailureKind::NotFound);
}

#[tokio::test]
async fn places_are_where_the_pixels_are() {
    let Some(mut stage) = Stage::live().await else { return };
    const BLUE: [u8; 3] = [0x12, 0x34, 0xf6];
    stage.command("workspace 1");
    stage.open("other", "ff0000").await;
    stage.open("seen", "1234f6").await;
    let shapes = [
        ("[title=seen] border normal 3", "tiled with a title bar"),
        ("[title=seen] border pixel 5", "tiled with a thin border"),
        ("[title=seen] border none", "tiled without a border"),
        ("[title=seen] border normal 3, layout tabbed", "in tabs"),
        ("[title=seen] layout stacking", "in a stack"),
        ("[title=seen] border pixel 2", "in a stack with a thin border"),
        ("[title=seen] layout tabbed, border none", "in tabs without a border"),
        ("[title=seen] layout splitv, border normal 3", "below another"),
        ("hide_edge_borders both; [title=seen] border pixel 5", "at the bottom without edge borders"),
        ("[title=seen] move up", "at the top without edge borders"),
        ("hide_edge_borders none; gaps inner all set 10", "with gaps"),
        ("gaps inner all set 0", "without gaps"),
        (
            "[title=seen] floating enable, border normal 4, resize set 411 303, move absolute position 97 113",
            "floating",
        ),
        ("[title=seen] border pixel 1", "floating with a thin border"),
        ("[title=seen] border none", "floating without a border"),
        ("[title=seen] move absolute position 203 51", "moved"),
        ("[title=seen] fullscreen enable", "fullscreen"),
    ];
    for (command, shape) in shapes {
        stage.command(command);
        stage.content_is_where_it_is_told("seen", BLUE, shape).await;
    }
}

#[tokio::test]
async fn a_hung_sway_times_out_and_is_followed_again() {
    let Some(mut stage) = Stage::live().await else { return };
    let one = stage.open("one", "ff0000").await;
    stage.signal("-STOP");
    let before = Instant::now();
    let outcome = stage.backend.request(CompositorRequest::FocusWindow(one), ticket(Duration::from_millis(300))).await;
    assert_eq!(outcome.unwrap_err().kind, FailureKind::TimedOut);
    assert!(before.elapsed() < Duration::from_secs(3));
    stage.until(|o, _| matches!(o, Observation::Compositor(CompositorState::StreamLost { .. }))).await;
    stage.signal("-CONT");
    stage.until(|o, _| *o == Observation::Compositor(CompositorState::StreamLive)).await;
    assert_eq!(stage.ask(CompositorRequest::FocusWindow(one)).await, Ok(Reply::Done));
}

#[tokio::test]
async fn a_restarted_sway_is_another_instance() {
    let Some(mut stage) = Stage::live().await else { return };
    stage.sway.kill().unwrap();
    stage.sway.wait().unwrap();
    stage.until(|o, _| matches!(o, Observation::Compositor(CompositorState::Down { .. }))).await;
    assert_eq!(stage.ask(CompositorRequest::FocusWindow(1)).await.unwrap_err().kind, FailureKind::Unavailable);
    stage.sway = start_sway(stage.runtime_dir.path());
    let up = stage.until(|o, _| matches!(o, Observation::Compositor(CompositorState::Up(_)))).await;
    let Observation::Compositor(CompositorState::Up(info)) = up else { unreachable!() };
    assert_eq!((info.kind, info.incompatible), (CompositorKind::Sway, None));
    assert!(info.instance.starts_with(&format!("wayland-1.{}.", stage.sway.id())), "{}", info.instance);
    stage.until(|o, _| *o == Observation::Compositor(CompositorState::StreamLive)).await;
}
