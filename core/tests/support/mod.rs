//! A core with a desktop before it, whose outside is played by the test.
#![allow(dead_code)] // each test binary uses its own part

pub mod offers;

use std::collections::BTreeMap;

use bytes::Bytes;
use deskhand_core::desktop::effect::{
    Captured, ClipboardRequest, CompositorRequest, Copied, Effect, EncodedImage, Failure, FailureKind, Outcome, PutBack, Reply, ScreenRequest, SeatRequest, SessionRequest,
};
use deskhand_core::desktop::elements::AccessRequest;
use deskhand_core::desktop::event::{AccessState, Availability, CompositorInfo, CompositorKind, CompositorState, DesktopEvent, LockState, Observation};
use deskhand_core::desktop::geometry::{Rect, Transform};
use deskhand_core::desktop::model::{LogicalOutput, Mode, Output as Monitor, Window, WindowLayout, Workspace};
use deskhand_core::policy::{self, PolicyState};
use deskhand_core::toolsets::desktop::DESKTOP;
use deskhand_core::{Carriage, Config, Conn, Core, Input, Limits, Op, Output, Route, Time};
use serde_json::{Value, json};

pub const START: Time = 1_000_000;
pub const POLICY: &str = "assume_unlocked = true\n[[preset]]\nname = \"terminal\"\nargv = [\"foot\"]\napp_id = \"foot\"\n";

pub fn config() -> Config {
    let (policy, policy_state) = policy::read(Some(POLICY), false);
    assert_eq!(policy_state, PolicyState::Loaded);
    Config {
        toolset: &DESKTOP,
        server_version: "0.0.0".into(),
        policy,
        policy_state,
        audit_path: None,
        wall_offset_ms: 1_700_000_000_000,
        limits: Limits::default(),
    }
}

pub fn window(id: u64, title: &str, workspace: u64) -> Window {
    Window {
        id,
        title: Some(title.into()),
        app_id: Some("foot".into()),
        pid: Some(id as i32 + 1000),
        workspace_id: Some(workspace),
        floating: false,
        urgent: false,
        layout: WindowLayout { window_size: (800, 600), ..WindowLayout::default() },
    }
}

pub fn workspace(id: u64, active: bool) -> Workspace {
    Workspace {
        id,
        index: id as u32,
        name: None,
        output: Some("HEADLESS-1".into()),
        active,
        focused: active,
        urgent: false,
        active_window: None,
    }
}

pub fn monitor() -> Monitor {
    Monitor {
        name: "HEADLESS-1".into(),
        logical: Some(LogicalOutput { x: 0, y: 0, width: 1920, height: 1080, scale: 1.0, transform: Transform::Normal }),
        mode: Some(Mode { width: 1920, height: 1080, refresh_mhz: 60_000 }),
    }
}

/// Everything that makes the desktop ready.
pub fn ready() -> Vec<Input> {
    let info = CompositorInfo { kind: CompositorKind::Niri, version: "26.04".into(), instance: "one".into(), incompatible: None };
    [
        Observation::Compositor(CompositorState::Up(info)),
        Observation::Desktop(DesktopEvent::Outputs(vec![monitor()])),
        Observation::Desktop(DesktopEvent::Workspaces(vec![workspace(1, true), workspace(2, false)])),
        Observation::Desktop(DesktopEvent::Windows { windows: vec![window(1, "one", 1), window(2, "two", 1)], focused: Some(1) }),
        Observation::Compositor(CompositorState::StreamLive),
        Observation::SessionMatch(Ok(())),
        Observation::Screen(Availability::Up),
        Observation::Seat(Availability::Up),
        Observation::Accessibility(AccessState::Up { enabled: true }),
        Observation::Lock { state: LockState::Unlocked, source: "a test".into() },
        Observation::Stop { set: false },
    ]
    .into_iter()
    .map(Input::Observed)
    .collect()
}

/// The core, the time, what is open, and all that came out.
pub struct Rig {
    pub core: Core,
    pub now: Time,
    pub open: BTreeMap<Op, Effect>,
    pub inputs: Vec<(Time, Input)>,
    pub sent: Vec<(Conn, Value)>,
    pub all: Vec<Output>,
}

impl Rig {
    pub fn bare() -> Self {
        Self {
            core: Core::new(config(), [3; 32], START),
            now: START,
            open: BTreeMap::new(),
            inputs: Vec::new(),
            sent: Vec::new(),
            all: Vec::new(),
        }
    }

    pub fn ready() -> Self {
        let mut rig = Self::bare();
        for input in ready() {
            rig.feed(input);
        }
        rig
    }

    /// Feeds one input; gives the outputs that it caused.
    pub fn feed(&mut self, input: Input) -> Vec<Output> {
        self.inputs.push((self.now, input.clone()));
        self.core.handle_input(self.now, input);
        self.drain()
    }

    pub fn drain(&mut self) -> Vec<Output> {
        let outputs: Vec<Output> = std::iter::from_fn(|| self.core.poll_output()).collect();
        for output in &outputs {
            match output {
                Output::Start { op, effect, .. } => {
                    assert!(self.open.insert(*op, effect.clone()).is_none(), "{op} was started twice");
                }
                Output::Send { conn, body, .. } => {
                    self.sent.push((*conn, serde_json::from_slice(&body.to_vec()).expect("what is sent is JSON")));
                }
                _ => {}
            }
        }
        self.all.extend(outputs.iter().cloned());
        outputs
    }

    pub fn observe(&mut self, observation: Observation) -> Vec<Output> {
        self.feed(Input::Observed(observation))
    }

    pub fn open_connection(&mut self, conn: u64) {
        self.feed(Input::Opened { conn: Conn(conn), principal: format!("person-{}", conn % 2), carriage: Carriage::Stdio });
    }

    pub fn message(&mut self, conn: u64, message: &Value) -> Vec<Output> {
        self.feed(Input::Message { conn: Conn(conn), route: Route(0), bytes: Bytes::from(message.to_string()) })
    }

    pub fn initialize(&mut self, conn: u64, revision: &str) {
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": format!("client-{conn}"), "version": "1"}});
        self.message(conn, &json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}));
        self.message(conn, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub fn call(&mut self, conn: u64, id: u64, tool: &str, arguments: &Value) -> Vec<Output> {
        let params = json!({"name": tool, "arguments": arguments});
        self.message(conn, &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    pub fn complete(&mut self, op: Op, outcome: Outcome) -> Vec<Output> {
        self.open.remove(&op);
        self.feed(Input::Completed { op, outcome })
    }

    /// Answers everything that is open as a kind desktop would, until nothing is.
    pub fn answer_all(&mut self) {
        while let Some((op, effect)) = self.open.iter().next().map(|(op, effect)| (*op, effect.clone())) {
            self.complete(op, Ok(kind_reply(&effect)));
        }
    }

    /// Answers all and lets time pass until nothing is under way.
    pub fn quiesce(&mut self) {
        for _ in 0..10_000 {
            self.answer_all();
            match self.core.poll_timeout() {
                Some((at, kind)) if !self.core.is_idle() => {
                    let _ = kind;
                    self.now = self.now.max(at);
                    self.feed(Input::Tick);
                }
                _ => return,
            }
        }
        panic!("it never comes to rest: {:?}", self.core.poll_timeout());
    }

    pub fn answer_to(&self, conn: u64, id: u64) -> Option<&Value> {
        self.sent.iter().rev().find(|(c, m)| *c == Conn(conn) && m["id"] == json!(id)).map(|(_, m)| m)
    }

    pub fn structured(&self, conn: u64, id: u64) -> Value {
        self.answer_to(conn, id).map(|m| m["result"]["structuredContent"].clone()).unwrap_or_default()
    }
}

/// What a desktop answers when all is well.
pub fn kind_reply(effect: &Effect) -> Reply {
    match effect {
        Effect::Compositor(CompositorRequest::Outputs) => Reply::Outputs(vec![monitor()]),
        Effect::Compositor(CompositorRequest::FocusedOutput) => Reply::Name(Some("HEADLESS-1".into())),
        Effect::Compositor(CompositorRequest::Layers) => Reply::Layers(json!([])),
        Effect::Compositor(CompositorRequest::Binds) => Reply::Binds(vec!["ctrl+alt+delete".into()]),
        Effect::Screen(ScreenRequest::Capture(request)) => Reply::Captured(Captured {
            raw_size: (1920, 1080),
            raw_rect: request.raw_region.unwrap_or(Rect::new(0, 0, 1920, 1080)),
            width: 1280,
            height: 720,
            image: Some(EncodedImage { format: request.format, base64: Bytes::from_static(b"AAAA") }),
            unchanged: false,
            saved: request.save.as_ref().map(|s| s.directory.join(&s.name)),
        }),
        Effect::Screen(ScreenRequest::Compare(_)) => Reply::Compared { differing: 0.0 },
        Effect::Screen(ScreenRequest::Settle { .. }) => Reply::Settled { settled: true, waited_ms: 100 },
        Effect::Seat(SeatRequest::Text { text, .. }) => Reply::Typed { characters: text.chars().count() },
        Effect::Clipboard(ClipboardRequest::Read { .. }) => Reply::Copied(Copied::Text("copied".into())),
        Effect::Clipboard(ClipboardRequest::AwaitReader { .. }) => Reply::Read(Some(true)),
        Effect::Clipboard(ClipboardRequest::Restore) => Reply::PutBack(PutBack::Restored),
        Effect::Session(SessionRequest::Launch { .. }) => Reply::Launched { pid: 4242 },
        _ => Reply::Done,
    }
}

pub fn failure(kind: FailureKind) -> Outcome {
    Err(Failure::new(kind, "the test said so"))
}

/// Whether the effect changes something that a person sees.
pub fn acts(effect: &Effect) -> bool {
    match effect {
        Effect::Compositor(request) => matches!(
            request,
            CompositorRequest::FocusWindow(_) | CompositorRequest::FocusWorkspace(_) | CompositorRequest::CloseWindow(_) | CompositorRequest::Action(_)
        ),
        Effect::Seat(request) => matches!(request, SeatRequest::Pointer(_) | SeatRequest::Keys { .. } | SeatRequest::Text { .. }),
        Effect::Clipboard(request) => matches!(request, ClipboardRequest::Offer { .. }),
        Effect::Session(request) => matches!(request, SessionRequest::Launch { .. }),
        Effect::Access(request) => matches!(request, AccessRequest::Activate { .. } | AccessRequest::SetText { .. } | AccessRequest::Focus { .. }),
        Effect::Screen(_) => false,
    }
}
