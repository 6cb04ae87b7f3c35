//! Follows sway: finds it, subscribes, tells what differs after each event, and begins again after a loss.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use deskhand_core::desktop::event::{CompositorInfo, CompositorKind, CompositorState, DesktopEvent, Observation};
use deskhand_core::desktop::model::{KeyboardLayouts, Output};
use deskhand_ports::ipc::Wire;
use deskhand_ports::peer::{Backoff, IpcSocket};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::tree::Snapshot;
use crate::wire::{
    self, EVENT_INPUT, EVENT_OUTPUT, EVENT_SHUTDOWN, EVENT_WINDOW, EVENT_WORKSPACE, Frame, Frames, GET_INPUTS,
    GET_OUTPUTS, GET_TREE, GET_VERSION, SUBSCRIBE,
};
use crate::{Shared, find, outputs, tree, version};

/// How long sway may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A stream that lasted this long is opened again at once when it ends.
const STEADY_AFTER: Duration = Duration::from_secs(2);
/// How often the tree is read for the changes that have no event.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const SUBSCRIPTION: &str = r#"["window","workspace","input","shutdown"]"#;
/// Newer than the others: without it a changed output is seen in the tree.
const OPTIONAL_SUBSCRIPTION: &str = r#"["output"]"#;

type Refreshes = mpsc::UnboundedReceiver<oneshot::Sender<()>>;

/// Runs for as long as the backend lives.
pub(crate) async fn events(shared: Arc<Shared>, mut refreshes: Refreshes) {
    let mut backoff = Backoff::default();
    let mut last_told: Option<String> = None;
    loop {
        match open(&shared).await {
            Ok(mut session) => {
                last_told = None;
                let opened = Instant::now();
                let reason = session.follow(&shared, &mut refreshes).await;
                if opened.elapsed() > STEADY_AFTER {
                    backoff.reset();
                }
                tracing::info!(reason, "sway's event stream ended");
                shared.observe(Observation::Compositor(CompositorState::StreamLost { detail: reason }));
            }
            Err(reason) => {
                shared.set_link(Err(reason.clone()));
                if last_told.as_ref() != Some(&reason) {
                    tracing::info!(reason, "sway can't be reached");
                    shared.observe(Observation::Compositor(CompositorState::Down { detail: reason.clone() }));
                    last_told = Some(reason);
                }
            }
        }
        sleep(backoff.next_delay()).await;
    }
}

/// Finds sway, subscribes, and tells that it is up and all that it shows.
async fn open(shared: &Shared) -> Result<Session, String> {
    let socket = find(&shared.environment)?;
    let (mut session, version) = timeout(PATIENCE, greet(&socket)).await.unwrap_or_else(|_| {
        Err(format!("sway doesn't answer on {}; if it hangs, restart it", socket.path.display()))
    })?;
    let (version, incompatible) = version::read(&version);
    let info = CompositorInfo { kind: CompositorKind::Sway, version, instance: socket.instance.clone(), incompatible };
    shared.observe(Observation::SessionMatch(socket.matches.clone()));
    shared.observe(Observation::Compositor(CompositorState::Up(info)));
    shared.set_link(Ok(socket));
    session.look(shared, Dirty::ALL).await?;
    shared.observe(Observation::Compositor(CompositorState::StreamLive));
    Ok(session)
}

/// Subscribes before anything is read, so that no change falls between.
async fn greet(socket: &IpcSocket) -> Result<(Session, Value), String> {
    let unreachable = |e: std::io::Error| format!("sway's socket {} can't be reached ({e})", socket.path.display());
    let mut questions = Wire::connect(socket).await.map_err(unreachable)?;
    let version = ask(&mut questions, GET_VERSION, "").await?;
    let mut stream = Wire::connect(socket).await.map_err(unreachable)?;
    let subscribed = ask(&mut stream, SUBSCRIBE, SUBSCRIPTION).await?;
    if wire::json(&subscribed).and_then(|answer| answer.get("success")?.as_bool()) != Some(true) {
        return Err("sway refused the subscription to its events; update sway".into());
    }
    ask(&mut stream, SUBSCRIBE, OPTIONAL_SUBSCRIPTION).await?;
    let version = wire::json(&version).ok_or("sway's version is not understood; update sway")?;
    let (sender, events) = mpsc::unbounded_channel();
    let reader = tokio::spawn(read_eagerly(stream, sender)).abort_handle();
    Ok((Session { questions, events, reader, told: Told::default() }, version))
}

async fn ask(wire: &mut Wire<Frames>, kind: u32, payload: &str) -> Result<Bytes, String> {
    wire.write(&wire::encode(kind, payload)).await.map_err(|e| format!("sway closed its socket ({})", e.error))?;
    loop {
        let frame = wire.read().await.map_err(|e| format!("sway gave no answer ({e})"))?;
        match frame.kind {
            found if found == kind => return Ok(frame.payload),
            // Between two subscriptions: everything is read afterwards.
            event if event & wire::EVENT != 0 => {}
            _ => return Err("sway answered another question".into()),
        }
    }
}

/// sway drops a client that lets events pile up: nothing that takes time stands between reads.
async fn read_eagerly(mut stream: Wire<Frames>, events: mpsc::UnboundedSender<Result<Frame, String>>) {
    loop {
        let event = stream.read().await.map_err(|e| format!("sway's event stream ended: {e}"));
        let ended = event.is_err();
        if events.send(event).is_err() || ended {
            return;
        }
    }
}

/// What has to be read again.
#[derive(Clone, Copy, Default)]
struct Dirty {
    tree: bool,
    outputs: bool,
    inputs: bool,
}

impl Dirty {
    const ALL: Self = Self { tree: true, outputs: true, inputs: true };
}

/// What was told, so that only differences are told again.
#[derive(Default)]
struct Told {
    raw_tree: Bytes,
    outputs_part: Vec<Value>,
    snapshot: Option<Snapshot>,
    outputs: Option<Vec<Output>>,
    layouts: Option<KeyboardLayouts>,
}

struct Session {
    questions: Wire<Frames>,
    events: mpsc::UnboundedReceiver<Result<Frame, String>>,
    reader: AbortHandle,
    told: Told,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Session {
    /// Tells every change until the stream ends; why it ended.
    async fn follow(&mut self, shared: &Shared, refreshes: &mut Refreshes) -> String {
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut dirty = Dirty::default();
            let mut waiting = Vec::new();
            tokio::select! {
                event = self.events.recv() => {
                    if let Err(reason) = note(shared, event, &mut dirty) {
                        return reason;
                    }
                }
                refresh = refreshes.recv() => {
                    dirty.tree = true;
                    waiting.extend(refresh);
                }
                _ = look.tick() => dirty.tree = true,
                () = shared.resync.notified() => return "the stream was opened again on request".into(),
            }
            while let Ok(event) = self.events.try_recv() {
                if let Err(reason) = note(shared, Some(event), &mut dirty) {
                    return reason;
                }
            }
            while let Ok(refresh) = refreshes.try_recv() {
                dirty.tree = true;
                waiting.push(refresh);
            }
            if let Err(reason) = self.look(shared, dirty).await {
                return reason;
            }
            for refresh in waiting {
                // The one who asked may have stopped waiting.
                let _ = refresh.send(());
            }
        }
    }

    /// Reads what is dirty and tells what differs.
    async fn look(&mut self, shared: &Shared, dirty: Dirty) -> Result<(), String> {
        let mut root = None;
        let mut outputs_changed = dirty.outputs;
        if dirty.tree {
            let answer = self.question(GET_TREE).await?;
            if answer != self.told.raw_tree {
                let tree = wire::json(&answer).unwrap_or_default();
                let outputs = tree::outputs_part(&tree);
                outputs_changed |= outputs != self.told.outputs_part;
                self.told.outputs_part = outputs;
                self.told.raw_tree = answer;
                root = Some(tree);
            }
        }
        if outputs_changed {
            let answer = self.question(GET_OUTPUTS).await?;
            self.tell_outputs(shared, wire::json(&answer).and_then(|answer| outputs::outputs(&answer)));
        }
        if let Some(root) = root {
            self.tell_tree(shared, tree::snapshot(&root));
        }
        if dirty.inputs {
            let answer = self.question(GET_INPUTS).await?;
            self.tell_layouts(shared, wire::json(&answer).map(|answer| outputs::keyboard_layouts(&answer)));
        }
        Ok(())
    }

    async fn question(&mut self, kind: u32) -> Result<Bytes, String> {
        timeout(PATIENCE, ask(&mut self.questions, kind, ""))
            .await
            .unwrap_or_else(|_| Err("sway doesn't answer; if it hangs, restart it".into()))
    }

    fn tell_outputs(&mut self, shared: &Shared, outputs: Option<Vec<Output>>) {
        let Some(outputs) = outputs else {
            return tell(shared, DesktopEvent::Unknown("the answer to GET_OUTPUTS".into()));
        };
        if self.told.outputs.as_ref() != Some(&outputs) {
            tell(shared, DesktopEvent::Outputs(outputs.clone()));
            self.told.outputs = Some(outputs);
        }
    }

    fn tell_tree(&mut self, shared: &Shared, snapshot: Option<Snapshot>) {
        let Some(snapshot) = snapshot else {
            return tell(shared, DesktopEvent::Unknown("the answer to GET_TREE".into()));
        };
        let before = self.told.snapshot.as_ref();
        if before.is_none_or(|before| before.workspaces != snapshot.workspaces) {
            tell(shared, DesktopEvent::Workspaces(snapshot.workspaces.clone()));
        }
        if before.is_none_or(|before| before.windows != snapshot.windows) {
            let (windows, focused) = (snapshot.windows.clone(), snapshot.focused);
            tell(shared, DesktopEvent::Windows { windows, focused });
        } else if before.is_none_or(|before| before.focused != snapshot.focused) {
            tell(shared, DesktopEvent::FocusChanged(snapshot.focused));
        }
        self.told.snapshot = Some(snapshot);
    }

    fn tell_layouts(&mut self, shared: &Shared, layouts: Option<KeyboardLayouts>) {
        let Some(layouts) = layouts else {
            return tell(shared, DesktopEvent::Unknown("the answer to GET_INPUTS".into()));
        };
        if self.told.layouts.as_ref() != Some(&layouts) {
            tell(shared, DesktopEvent::KeyboardLayouts(layouts.clone()));
            self.told.layouts = Some(layouts);
        }
    }
}

fn tell(shared: &Shared, event: DesktopEvent) {
    shared.observe(Observation::Desktop(event));
}

/// Marks what an event makes dirty; the error is why the stream ended.
fn note(shared: &Shared, event: Option<Result<Frame, String>>, dirty: &mut Dirty) -> Result<(), String> {
    let event = event.unwrap_or_else(|| Err("sway's event stream ended".into()))?;
    match event.kind {
        EVENT_WINDOW => dirty.tree = true,
        EVENT_WORKSPACE => {
            dirty.tree = true;
            if event.json().is_some_and(|event| event.get("change").and_then(Value::as_str) == Some("reload")) {
                *dirty = Dirty::ALL;
                tell(shared, DesktopEvent::ConfigLoaded { failed: false });
            }
        }
        EVENT_OUTPUT => (dirty.tree, dirty.outputs) = (true, true),
        EVENT_INPUT => dirty.inputs = true,
        EVENT_SHUTDOWN => return Err("sway is shutting down".into()),
        other => tell(shared, DesktopEvent::Unknown(format!("event {}", other & !wire::EVENT))),
    }
    Ok(())
}
