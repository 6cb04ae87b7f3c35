//! The backend against a real nested niri. `DESKHAND_NIRI_RUN` names a program that starts one in the runtime directory
//! given to it and prints `export NAME=value` lines; `DESKHAND_NIRI_STOP` one that ends it. Without them the test says
//! so and passes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{CompositorRequest, FailureKind, Outcome, Reply};
use deskhand_core::desktop::event::{CompositorInfo, CompositorState, DesktopEvent, Observation};
use deskhand_core::desktop::model::Place;
use deskhand_niri::Niri;
use deskhand_ports::peer::Environment;
use deskhand_ports::{Compositor, Fence, Ticket};
use serde_json::json;
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(30);

struct Stage {
    runtime_dir: tempfile::TempDir,
    stop: String,
    observed: mpsc::UnboundedReceiver<Observation>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        end(&self.stop, self.runtime_dir.path());
    }
}

impl Stage {
    async fn until<T>(&mut self, mut wanted: impl FnMut(&Observation) -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let next = tokio::time::timeout_at(deadline, self.observed.recv()).await;
            let next = next.unwrap_or_else(|_| panic!("not seen, but {seen:#?}")).unwrap();
            assert!(!matches!(next, Observation::Desktop(DesktopEvent::Unknown(_))), "{next:?}");
            if let Some(found) = wanted(&next) {
                return found;
            }
            seen.push(next);
        }
    }

    async fn until_live(&mut self) -> CompositorInfo {
        let mut up = None;
        self.until(|observation| match observation {
            Observation::Compositor(CompositorState::Up(info)) => {
                up = Some(info.clone());
                None
            }
            Observation::SessionMatch(matches) => {
                assert_eq!(*matches, Ok(()));
                None
            }
            Observation::Compositor(CompositorState::StreamLive) => Some(()),
            _ => None,
        })
        .await;
        up.unwrap()
    }

    async fn until_opened(&mut self, title: &str) -> (u64, Child) {
        let app = Command::new("foot")
            .args(["-T", title, "sleep", "1000"])
            .env("XDG_RUNTIME_DIR", self.runtime_dir.path())
            .env("WAYLAND_DISPLAY", "wayland-1")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = app.id() as i32;
        let id = self
            .until(|observation| match observation {
                Observation::Desktop(DesktopEvent::WindowOpenedOrChanged { window, focused: true })
                    if window.title.as_deref() == Some(title) =>
                {
                    assert_eq!((window.app_id.as_deref(), window.pid), (Some("foot"), Some(pid)));
                    Some(window.id)
                }
                _ => None,
            })
            .await;
        (id, app)
    }
}

fn begin(run: &str, runtime_dir: &Path) -> Environment {
    let output = Command::new(run).arg(runtime_dir).stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    Environment::from_vars(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")))?;
        Some(line.into())
    })
}

fn end(stop: &str, runtime_dir: &Path) {
    assert!(Command::new(stop).arg(runtime_dir).status().unwrap().success());
}

async fn ask(niri: &Niri, request: CompositorRequest, patience: Duration) -> Outcome {
    let ticket = Ticket {
        fence: Fence::default(),
        generation: 0,
        cancelled: Arc::new(AtomicBool::new(false)),
        deadline: Instant::now() + patience,
    };
    niri.request(request, ticket).await
}

fn signal(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

#[tokio::test]
async fn seen_driven_stopped_and_restarted() {
    let (Ok(run), Ok(stop)) = (std::env::var("DESKHAND_NIRI_RUN"), std::env::var("DESKHAND_NIRI_STOP")) else {
        eprintln!("DESKHAND_NIRI_RUN and DESKHAND_NIRI_STOP are not set: not tested");
        return;
    };
    let runtime_dir = tempfile::tempdir().unwrap();
    let environment = begin(&run, runtime_dir.path());
    let (observe, observed) = mpsc::unbounded_channel();
    let mut stage = Stage { runtime_dir, stop: stop.clone(), observed };
    let niri = Niri::start(environment.clone(), Arc::new(move |observation| _ = observe.send(observation)));
    let first = stage.until_live().await;
    assert_eq!(first.incompatible, None, "{}", first.version);

    let (one, mut app_one) = stage.until_opened("one").await;
    let (two, mut app_two) = stage.until_opened("two").await;
    assert_eq!(ask(&niri, CompositorRequest::FocusWindow(one), PATIENCE).await, Ok(Reply::Done));
    stage.until(|o| (*o == Observation::Desktop(DesktopEvent::FocusChanged(Some(one)))).then_some(())).await;

    let float = CompositorRequest::Action(json!({"ToggleWindowFloating": {"id": two}}));
    assert_eq!(ask(&niri, float, PATIENCE).await, Ok(Reply::Done));
    stage
        .until(|o| match o {
            Observation::Desktop(DesktopEvent::WindowOpenedOrChanged { window, .. }) if window.id == two => {
                (window.floating && matches!(window.layout.place, Place::OnOutput(..))).then_some(())
            }
            _ => None,
        })
        .await;
    let unknown = ask(&niri, CompositorRequest::Action(json!({"NoSuchAction": {}})), PATIENCE).await.unwrap_err();
    assert_eq!(unknown.kind, FailureKind::Refused);
    assert!(matches!(ask(&niri, CompositorRequest::Outputs, PATIENCE).await,
        Ok(Reply::Outputs(outputs)) if outputs.len() == 1 && outputs[0].logical.is_some()));
    assert_eq!(ask(&niri, CompositorRequest::FocusedOutput, PATIENCE).await, Ok(Reply::Name(Some("winit".into()))));
    assert_eq!(ask(&niri, CompositorRequest::CloseWindow(one), PATIENCE).await, Ok(Reply::Done));
    stage.until(|o| (*o == Observation::Desktop(DesktopEvent::WindowClosed(one))).then_some(())).await;
    app_one.wait().unwrap();

    let pid = first.instance.split('.').nth(1).unwrap().to_owned();
    signal("-STOP", &pid);
    let hung = ask(&niri, CompositorRequest::FocusWindow(two), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(hung.kind, FailureKind::TimedOut);
    signal("-CONT", &pid);
    assert_eq!(ask(&niri, CompositorRequest::FocusWindow(two), PATIENCE).await, Ok(Reply::Done));

    let quit = CompositorRequest::Action(json!({"Quit": {"skip_confirmation": true}}));
    assert_eq!(ask(&niri, quit, PATIENCE).await.unwrap_err().kind, FailureKind::Lost);
    stage.until(|o| matches!(o, Observation::Compositor(CompositorState::Down { .. })).then_some(())).await;
    app_two.wait().unwrap();
    end(&stop, stage.runtime_dir.path());

    let again = begin(&run, stage.runtime_dir.path());
    assert_ne!(again.niri_socket, environment.niri_socket);
    let second = stage.until_live().await;
    assert_ne!(second.instance, first.instance);
    let (three, mut app_three) = stage.until_opened("three").await;
    assert_eq!(ask(&niri, CompositorRequest::CloseWindow(three), PATIENCE).await, Ok(Reply::Done));
    app_three.wait().unwrap();
}
