//! The backend against a niri played by the test: what it does when niri is slow, broken, gone or new.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{CompositorRequest, Failure, FailureKind, Reply};
use deskhand_core::desktop::event::{CompositorState, DesktopEvent, Observation};
use deskhand_niri::Niri;
use deskhand_ports::peer::Environment;
use deskhand_ports::{Compositor, Fence, Ticket};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(10);
const VERSION: &str = r#"{"Ok":{"Version":"26.04 (8ed0da44)"}}"#;
const HANDLED: &str = r#"{"Ok":"Handled"}"#;
const INITIAL: [&str; 6] = [
    r#"{"WorkspacesChanged":{"workspaces":[{"id":1,"idx":1,"name":null,"output":"winit","is_urgent":false,"is_active":true,"is_focused":true,"active_window_id":3}]}}"#,
    r#"{"WindowsChanged":{"windows":[{"id":3,"title":"t","app_id":"a","pid":7,"workspace_id":1,"is_focused":true}]}}"#,
    r#"{"KeyboardLayoutsChanged":{"keyboard_layouts":{"names":["English (US)"],"current_idx":0}}}"#,
    r#"{"OverviewOpenedOrClosed":{"is_open":false}}"#,
    r#"{"ConfigLoaded":{"failed":false}}"#,
    r#"{"CastsChanged":{"casts":[]}}"#,
];

/// How the played niri treats an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Answer(&'static str),
    HalfAnswer,
    EndOfFile,
    Silence,
}

struct Stage {
    runtime_dir: tempfile::TempDir,
    manner: Arc<Mutex<Manner>>,
    /// Every request line that was received.
    received: Arc<Mutex<Vec<String>>>,
    /// The scale of the one output.
    scale: Arc<Mutex<f64>>,
    /// Lines for the event streams; an empty one ends them.
    events: broadcast::Sender<String>,
    observed: mpsc::UnboundedReceiver<Observation>,
    observe: mpsc::UnboundedSender<Observation>,
    tasks: JoinSet<()>,
}

impl Stage {
    fn new() -> Self {
        let (observe, observed) = mpsc::unbounded_channel();
        Self {
            runtime_dir: tempfile::tempdir().unwrap(),
            manner: Arc::new(Mutex::new(Manner::Answer(HANDLED))),
            received: Arc::default(),
            scale: Arc::new(Mutex::new(1.0)),
            events: broadcast::channel(4096).0,
            observed,
            observe,
            tasks: JoinSet::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.runtime_dir.path().join(name)
    }

    /// Plays a compositor that listens on its two sockets.
    fn open(&mut self, socket: &str) {
        let display = UnixListener::bind(self.path("wayland-1")).unwrap();
        self.tasks.spawn(async move {
            loop {
                let _ = display.accept().await;
            }
        });
        let listener = UnixListener::bind(self.path(socket)).unwrap();
        let (manner, received, scale, events) =
            (self.manner.clone(), self.received.clone(), self.scale.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let client = Client {
                    stream: BufReader::new(stream),
                    manner: manner.clone(),
                    received: received.clone(),
                    scale: scale.clone(),
                    events: events.subscribe(),
                };
                clients.spawn(client.serve());
            }
        });
    }

    /// Ends every connection and removes the sockets.
    async fn close(&mut self, socket: &str) {
        self.tasks.shutdown().await;
        std::fs::remove_file(self.path("wayland-1")).unwrap();
        std::fs::remove_file(self.path(socket)).unwrap();
    }

    fn start(&self) -> Niri {
        let observe = self.observe.clone();
        let environment = Environment {
            runtime_dir: Some(self.runtime_dir.path().to_owned()),
            wayland_display: Some("wayland-1".into()),
            niri_socket: Some(self.path("niri.wayland-1.1.sock")),
            ..Environment::default()
        };
        Niri::start(environment, Arc::new(move |observation| _ = observe.send(observation)))
    }

    /// Starts a niri and a backend, and waits until it is followed.
    async fn live() -> (Self, Niri) {
        let mut stage = Self::new();
        stage.open("niri.wayland-1.1.sock");
        let niri = stage.start();
        stage.until_live().await;
        stage.until_event(DesktopEvent::ConfigLoaded { failed: false }).await;
        (stage, niri)
    }

    async fn next(&mut self) -> Observation {
        tokio::time::timeout(PATIENCE, self.observed.recv()).await.expect("an observation").unwrap()
    }

    async fn until(&mut self, wanted: impl Fn(&Observation) -> bool) -> Vec<Observation> {
        let mut seen = Vec::new();
        loop {
            let next = self.next().await;
            let found = wanted(&next);
            seen.push(next);
            if found {
                return seen;
            }
        }
    }

    async fn until_live(&mut self) -> Vec<Observation> {
        self.until(|o| *o == Observation::Compositor(CompositorState::StreamLive)).await
    }

    async fn until_event(&mut self, wanted: DesktopEvent) -> Vec<Observation> {
        self.until(|o| *o == Observation::Desktop(wanted.clone())).await
    }

    fn say(&self, line: &str) {
        self.events.send(line.to_owned()).unwrap();
    }

    fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    fn actions(&self) -> usize {
        self.received.lock().unwrap().iter().filter(|line| line.contains("Action")).count()
    }
}

struct Client {
    stream: BufReader<UnixStream>,
    manner: Arc<Mutex<Manner>>,
    received: Arc<Mutex<Vec<String>>>,
    scale: Arc<Mutex<f64>>,
    events: broadcast::Receiver<String>,
}

impl Client {
    async fn serve(mut self) {
        let mut line = String::new();
        while self.stream.read_line(&mut line).await.is_ok_and(|n| n > 0) {
            let request = std::mem::take(&mut line).trim_end().to_owned();
            self.received.lock().unwrap().push(request.clone());
            let manner = *self.manner.lock().unwrap();
            match request.as_str() {
                "\"Version\"" => self.send(VERSION).await,
                "\"Outputs\"" => {
                    let scale = *self.scale.lock().unwrap();
                    self.send(&format!(r#"{{"Ok":{{"Outputs":{{"winit":{{"name":"winit","modes":[],"current_mode":null,"logical":{{"x":0,"y":0,"width":1920,"height":1080,"scale":{scale},"transform":"Flipped180"}}}}}}}}}}"#)).await;
                }
                "\"EventStream\"" => {
                    self.send(HANDLED).await;
                    return self.stream_events().await;
                }
                "\"FocusedOutput\"" => self.send(r#"{"Ok":{"FocusedOutput":{"name":"winit"}}}"#).await,
                "\"Layers\"" => self.send(r#"{"Ok":{"Layers":[]}}"#).await,
                _ => match manner {
                    Manner::Answer(answer) => self.send(answer).await,
                    Manner::HalfAnswer => {
                        let _ = self.stream.get_mut().write_all(b"{\"Ok\":\"Han").await;
                        return;
                    }
                    Manner::EndOfFile => return,
                    Manner::Silence => {}
                },
            }
        }
    }

    async fn stream_events(mut self) {
        for line in INITIAL {
            self.send(line).await;
        }
        let mut byte = [0];
        loop {
            tokio::select! {
                line = self.events.recv() => match line {
                    Ok(line) if !line.is_empty() => self.send(&line).await,
                    _ => return,
                },
                read = self.stream.read(&mut byte) => if read.is_ok_and(|n| n == 0) { return },
            }
        }
    }

    async fn send(&mut self, line: &str) {
        // A client that left is noticed at the next read.
        let _ = self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).await;
    }
}

fn ticket(patience: Duration) -> Ticket {
    Ticket {
        fence: Fence::default(),
        generation: 0,
        cancelled: Arc::new(AtomicBool::new(false)),
        deadline: Instant::now() + patience,
    }
}

async fn focus(niri: &Niri, patience: Duration) -> Result<Reply, Failure> {
    niri.request(CompositorRequest::FocusWindow(3), ticket(patience)).await
}

fn kind(outcome: Result<Reply, Failure>) -> FailureKind {
    outcome.unwrap_err().kind
}

#[tokio::test]
async fn what_is_told_first() {
    let mut stage = Stage::new();
    stage.open("niri.wayland-1.1.sock");
    let _niri = stage.start();
    let told = stage.until_live().await;
    assert_eq!(told[0], Observation::SessionMatch(Ok(())));
    match &told[1] {
        Observation::Compositor(CompositorState::Up(info)) => {
            assert_eq!((info.version.as_str(), &info.incompatible), ("26.04 (8ed0da44)", &None));
            assert!(info.instance.starts_with(&format!("wayland-1.{}.", std::process::id())), "{}", info.instance);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(&told[2], Observation::Desktop(DesktopEvent::Outputs(outputs)) if outputs[0].name == "winit"));
    assert!(matches!(&told[3], Observation::Desktop(DesktopEvent::Workspaces(_))));
    assert!(matches!(&told[4], Observation::Desktop(DesktopEvent::Windows { focused: Some(3), .. })));
    assert_eq!(told.len(), 8);
}

#[tokio::test]
async fn requests_and_their_answers() {
    let (stage, niri) = Stage::live().await;
    let ask = |request| niri.request(request, ticket(PATIENCE));
    assert_eq!(ask(CompositorRequest::FocusWindow(3)).await, Ok(Reply::Done));
    assert_eq!(ask(CompositorRequest::FocusWorkspace(1)).await, Ok(Reply::Done));
    assert_eq!(ask(CompositorRequest::CloseWindow(3)).await, Ok(Reply::Done));
    let action = serde_json::json!({"FullscreenWindow": {"id": 3}});
    assert_eq!(ask(CompositorRequest::Action(action)).await, Ok(Reply::Done));
    assert_eq!(ask(CompositorRequest::FocusedOutput).await, Ok(Reply::Name(Some("winit".into()))));
    assert_eq!(ask(CompositorRequest::Layers).await, Ok(Reply::Layers(serde_json::json!([]))));
    assert_eq!(ask(CompositorRequest::Binds).await, Ok(Reply::Binds(vec![])));
    assert!(matches!(ask(CompositorRequest::Outputs).await, Ok(Reply::Outputs(outputs)) if outputs.len() == 1));
    let received = stage.received.lock().unwrap();
    let actions: Vec<&String> = received.iter().filter(|line| line.contains("Action")).collect();
    assert_eq!(
        actions,
        [
            r#"{"Action":{"FocusWindow":{"id":3}}}"#,
            r#"{"Action":{"FocusWorkspace":{"reference":{"Id":1}}}}"#,
            r#"{"Action":{"CloseWindow":{"id":3}}}"#,
            r#"{"Action":{"FullscreenWindow":{"id":3}}}"#,
        ]
    );
}

#[tokio::test]
async fn a_refusal_keeps_niris_words() {
    let (stage, niri) = Stage::live().await;
    stage.behave(Manner::Answer(r#"{"Err":"error parsing request"}"#));
    let failure = focus(&niri, PATIENCE).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.detail.contains("error parsing request") && failure.detail.contains("26.04"), "{}", failure.detail);
}

#[tokio::test]
async fn an_answer_that_never_comes_whole_is_lost_and_nothing_is_sent_twice() {
    let (stage, niri) = Stage::live().await;
    for (sent, manner) in [(1, Manner::HalfAnswer), (2, Manner::EndOfFile), (3, Manner::Answer("7"))] {
        stage.behave(manner);
        assert_eq!(kind(focus(&niri, PATIENCE).await), FailureKind::Lost);
        assert_eq!(stage.actions(), sent);
    }
    stage.behave(Manner::Answer(HANDLED));
    assert_eq!(focus(&niri, PATIENCE).await, Ok(Reply::Done));
}

#[tokio::test]
async fn a_late_answer_is_never_taken_for_the_next_ones() {
    let (stage, niri) = Stage::live().await;
    stage.behave(Manner::Silence);
    let before = Instant::now();
    assert_eq!(kind(focus(&niri, Duration::from_millis(150)).await), FailureKind::TimedOut);
    assert!(before.elapsed() < Duration::from_secs(2));
    stage.behave(Manner::Answer(r#"{"Err":"mine"}"#));
    assert!(focus(&niri, PATIENCE).await.unwrap_err().detail.contains("mine"));
}

#[tokio::test]
async fn a_request_behind_a_stuck_one_is_not_sent() {
    let (stage, niri) = Stage::live().await;
    stage.behave(Manner::Silence);
    let (first, second) =
        tokio::join!(focus(&niri, Duration::from_millis(600)), focus(&niri, Duration::from_millis(200)));
    assert_eq!((kind(first), kind(second)), (FailureKind::TimedOut, FailureKind::Unavailable));
    assert_eq!(stage.actions(), 1);
}

#[tokio::test]
async fn a_dropped_wait_does_not_spoil_the_connection() {
    let (stage, niri) = Stage::live().await;
    stage.behave(Manner::Silence);
    let dropped = tokio::time::timeout(Duration::from_millis(100), focus(&niri, PATIENCE)).await;
    assert!(dropped.is_err());
    stage.behave(Manner::Answer(HANDLED));
    assert_eq!(focus(&niri, PATIENCE).await, Ok(Reply::Done));
}

#[tokio::test]
async fn a_raised_fence_or_a_cancelled_call_sends_nothing() {
    let (stage, niri) = Stage::live().await;
    let fenced = ticket(PATIENCE);
    fenced.fence.raise(1);
    assert_eq!(kind(niri.request(CompositorRequest::CloseWindow(3), fenced).await), FailureKind::Fenced);
    let cancelled = ticket(PATIENCE);
    cancelled.cancelled.store(true, Ordering::SeqCst);
    assert_eq!(kind(niri.request(CompositorRequest::CloseWindow(3), cancelled).await), FailureKind::Fenced);
    assert_eq!(stage.actions(), 0);
}

#[tokio::test]
async fn a_call_cancelled_while_niri_is_silent_ends_early() {
    let (stage, niri) = Stage::live().await;
    stage.behave(Manner::Silence);
    let ticket = ticket(PATIENCE);
    let cancelled = ticket.cancelled.clone();
    let before = Instant::now();
    let (outcome, ()) = tokio::join!(niri.request(CompositorRequest::CloseWindow(3), ticket), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancelled.store(true, Ordering::SeqCst);
    });
    assert_eq!(kind(outcome), FailureKind::Lost);
    assert!(before.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn unknown_broken_and_huge_events_do_no_harm() {
    let (mut stage, _niri) = Stage::live().await;
    stage.say(r#"{"PigsFlew":{"altitude":3}}"#);
    stage.say("{broken");
    stage.say(r#"{"WindowFocusTimestampChanged":{"id":3,"focus_timestamp":null}}"#);
    let title = "x".repeat(8 << 20);
    stage.say(&format!(r#"{{"WindowOpenedOrChanged":{{"window":{{"id":9,"title":"{title}","layout":null}}}}}}"#));
    stage.say(r#"{"WindowClosed":{"id":9}}"#);
    let seen = stage.until_event(DesktopEvent::WindowClosed(9)).await;
    assert_eq!(seen[0], Observation::Desktop(DesktopEvent::Unknown("PigsFlew".into())));
    assert_eq!(seen[1], Observation::Desktop(DesktopEvent::Unknown("a line that is not JSON".into())));
    assert!(matches!(&seen[2], Observation::Desktop(DesktopEvent::WindowOpenedOrChanged { window, .. })
        if window.title.as_ref().is_some_and(|title| title.len() == 8 << 20)));
    assert_eq!(seen.len(), 4);
}

#[tokio::test]
async fn many_events_come_in_order() {
    let (mut stage, _niri) = Stage::live().await;
    for id in 0..3000 {
        stage.say(&format!(r#"{{"WindowClosed":{{"id":{id}}}}}"#));
    }
    for id in 0..3000 {
        assert_eq!(stage.next().await, Observation::Desktop(DesktopEvent::WindowClosed(id)));
    }
}

#[tokio::test]
async fn a_lost_stream_is_opened_again() {
    let (mut stage, niri) = Stage::live().await;
    stage.say("");
    assert!(matches!(stage.next().await, Observation::Compositor(CompositorState::StreamLost { .. })));
    let again = stage.until_live().await;
    assert!(matches!(&again[1], Observation::Compositor(CompositorState::Up(_))));
    assert!(again.iter().any(|o| matches!(o, Observation::Desktop(DesktopEvent::Windows { .. }))));
    niri.resync();
    stage.until(|o| matches!(o, Observation::Compositor(CompositorState::StreamLost { .. }))).await;
    stage.until_live().await;
}

#[tokio::test]
async fn outputs_are_asked_again_after_a_configuration_change() {
    let (mut stage, _niri) = Stage::live().await;
    *stage.scale.lock().unwrap() = 1.5;
    stage.say(r#"{"ConfigLoaded":{"failed":false}}"#);
    let seen = stage.until(|o| matches!(o, Observation::Desktop(DesktopEvent::Outputs(_)))).await;
    match seen.last() {
        Some(Observation::Desktop(DesktopEvent::Outputs(outputs))) => {
            assert_eq!(outputs[0].logical.unwrap().scale, 1.5);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_niri_that_ends_is_down_and_a_new_one_is_found_under_its_new_name() {
    let (mut stage, niri) = Stage::live().await;
    assert_eq!(focus(&niri, PATIENCE).await, Ok(Reply::Done));
    stage.close("niri.wayland-1.1.sock").await;
    let seen = stage.until(|o| matches!(o, Observation::Compositor(CompositorState::Down { .. }))).await;
    assert!(seen.iter().any(|o| matches!(o, Observation::Compositor(CompositorState::StreamLost { .. }))));
    let failure = focus(&niri, PATIENCE).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert!(failure.detail.contains("can't be reached"), "{}", failure.detail);

    stage.open("niri.wayland-1.2.sock");
    stage.until_live().await;
    assert_eq!(focus(&niri, PATIENCE).await, Ok(Reply::Done));
}

#[tokio::test]
async fn without_a_niri_the_server_waits_for_one() {
    let mut stage = Stage::new();
    let niri = stage.start();
    assert!(matches!(stage.next().await, Observation::Compositor(CompositorState::Down { .. })));
    assert_eq!(kind(focus(&niri, PATIENCE).await), FailureKind::Unavailable);
    stage.open("niri.wayland-1.1.sock");
    stage.until_live().await;
    assert_eq!(focus(&niri, PATIENCE).await, Ok(Reply::Done));
}
