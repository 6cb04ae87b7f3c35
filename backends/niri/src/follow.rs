//! Follows niri: finds it, opens the event stream, tells what comes, and begins again after a loss.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use deskhand_core::desktop::event::{CompositorInfo, CompositorKind, CompositorState, DesktopEvent, Observation};
use deskhand_core::desktop::model::Workspace;
use deskhand_ports::peer::Backoff;
use deskhand_ports::{Fence, Ticket};
use tokio::time::{Instant, sleep, timeout};

use crate::requests::{self, Greeting};
use crate::{Link, Shared, find, reader, version};

/// How long niri may take to answer when a connection is opened, and to send its whole initial state.
const PATIENCE: Duration = Duration::from_secs(5);
/// A stream that lasted this long is opened again at once when it ends.
const STEADY_AFTER: Duration = Duration::from_secs(2);
/// An initial state without some part (an older or newer niri) counts as whole after this silence.
const INITIAL_SILENCE: Duration = Duration::from_millis(300);
/// A configuration change reaches the outputs after its event.
const OUTPUTS_AGAIN_AFTER: Duration = Duration::from_millis(400);

/// Runs for as long as the backend lives.
pub(crate) async fn events(shared: Arc<Shared>) {
    let mut backoff = Backoff::default();
    let mut last_told: Option<String> = None;
    loop {
        match open(&shared).await {
            Ok(greeting) => {
                last_told = None;
                let opened = Instant::now();
                let reason = follow(&shared, greeting).await;
                if opened.elapsed() > STEADY_AFTER {
                    backoff.reset();
                }
                tracing::info!(reason, "niri's event stream ended");
                shared.observe(Observation::Compositor(CompositorState::StreamLost { detail: reason }));
            }
            Err(reason) => {
                shared.set_link(Err(reason.clone()));
                if last_told.as_ref() != Some(&reason) {
                    tracing::info!(reason, "niri can't be reached");
                    shared.observe(Observation::Compositor(CompositorState::Down { detail: reason.clone() }));
                    last_told = Some(reason);
                }
            }
        }
        sleep(backoff.next_delay()).await;
    }
}

/// Finds niri, opens the stream, and tells that it is up.
async fn open(shared: &Shared) -> Result<Greeting, String> {
    let socket = find(&shared.environment)?;
    let greeting = requests::greet(&socket, PATIENCE).await?;
    let info = CompositorInfo {
        kind: CompositorKind::Niri,
        version: greeting.version.clone(),
        instance: socket.instance.clone(),
        incompatible: version::incompatible(&greeting.version),
    };
    shared.observe(Observation::SessionMatch(socket.matches.clone()));
    shared.observe(Observation::Compositor(CompositorState::Up(info)));
    shared.set_link(Ok(Link { socket, version: greeting.version.clone() }));
    shared.replace_outputs(greeting.outputs.clone());
    match &greeting.outputs {
        Some(outputs) => shared.observe(Observation::Desktop(DesktopEvent::Outputs(outputs.clone()))),
        None => shared.observe(Observation::Desktop(DesktopEvent::Unknown("the answer to Outputs".into()))),
    }
    Ok(greeting)
}

/// Tells each event until the stream ends; why it ended.
async fn follow(shared: &Shared, mut greeting: Greeting) -> String {
    let started = Instant::now();
    let mut initial = InitialState::default();
    let mut live = false;
    let mut shown_on = BTreeSet::new();
    loop {
        let next = async {
            if live { Ok(greeting.events.read().await) } else { timeout(INITIAL_SILENCE, greeting.events.read()).await }
        };
        let line = tokio::select! {
            line = next => line,
            () = shared.resync.notified() => return "the stream was opened again on request".into(),
        };
        match line {
            Ok(Ok(line)) => {
                for event in reader::events(&line) {
                    initial.note(&event);
                    if hints_at_outputs(&event, &mut shown_on) && live {
                        shared.outputs_hint.notify_one();
                    }
                    shared.observe(Observation::Desktop(event));
                }
            }
            Ok(Err(error)) => return format!("niri's event stream ended: {error}"),
            Err(_) if initial.usable() => initial.declare_whole(),
            Err(_) => {}
        }
        if !live && initial.whole() {
            live = true;
            shared.observe(Observation::Compositor(CompositorState::StreamLive));
        }
        if !live && started.elapsed() > PATIENCE {
            return "niri's event stream did not deliver its initial state; restart niri if this persists".into();
        }
    }
}

/// Which parts of the initial state have come.
#[derive(Default)]
struct InitialState {
    workspaces: bool,
    windows: bool,
    layouts: bool,
    overview: bool,
}

impl InitialState {
    fn note(&mut self, event: &DesktopEvent) {
        match event {
            DesktopEvent::Workspaces(_) => self.workspaces = true,
            DesktopEvent::Windows { .. } => self.windows = true,
            DesktopEvent::KeyboardLayouts(_) => self.layouts = true,
            DesktopEvent::Overview { .. } => self.overview = true,
            _ => {}
        }
    }

    fn usable(&self) -> bool {
        self.workspaces && self.windows
    }

    fn whole(&self) -> bool {
        self.usable() && self.layouts && self.overview
    }

    fn declare_whole(&mut self) {
        (self.layouts, self.overview) = (true, true);
    }
}

/// A configuration was loaded, or the workspaces show that an output came or went.
fn hints_at_outputs(event: &DesktopEvent, shown_on: &mut BTreeSet<String>) -> bool {
    match event {
        DesktopEvent::ConfigLoaded { .. } => true,
        DesktopEvent::Workspaces(workspaces) => {
            let now = outputs_of(workspaces);
            let differs = now != *shown_on;
            *shown_on = now;
            differs
        }
        _ => false,
    }
}

fn outputs_of(workspaces: &[Workspace]) -> BTreeSet<String> {
    workspaces.iter().filter_map(|workspace| workspace.output.clone()).collect()
}

/// Asks for the outputs after each hint, and tells them when they have changed.
pub(crate) async fn outputs(shared: Arc<Shared>) {
    loop {
        shared.outputs_hint.notified().await;
        refresh_outputs(&shared).await;
        sleep(OUTPUTS_AGAIN_AFTER).await;
        refresh_outputs(&shared).await;
    }
}

async fn refresh_outputs(shared: &Shared) {
    let ticket = Ticket {
        fence: Fence::default(),
        generation: 0,
        cancelled: Arc::new(AtomicBool::new(false)),
        deadline: std::time::Instant::now() + PATIENCE,
    };
    match requests::outputs(shared, &ticket).await {
        Ok(outputs) => {
            if shared.replace_outputs(Some(outputs.clone())) {
                shared.observe(Observation::Desktop(DesktopEvent::Outputs(outputs)));
            }
        }
        Err(failure) => tracing::debug!(%failure, "the outputs could not be asked for"),
    }
}
