//! Marked secrets through every tool and every argument: none is in an audit line, none in a recording.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deskhand_conformance::toolset;
use deskhand_core::desktop::effect::{
    Captured, ClipboardRequest, CompositorRequest, Copied, Effect, EncodedImage, Failure, FailureKind, Holder, PutBack, Reply,
    ScreenRequest, SeatRequest, SessionRequest,
};
use deskhand_core::desktop::elements::{
    AccessRequest, Element, ElementNow, Identity, Listing, Presence, TextSet,
};
use deskhand_core::desktop::event::{
    AccessState, Availability, CompositorInfo, CompositorKind, CompositorState, DesktopEvent, LockState,
    Observation,
};
use deskhand_core::desktop::geometry::{Rect, Transform};
use deskhand_core::desktop::model::{
    LogicalOutput, Mode, Output as Monitor, Window, WindowLayout, Workspace,
};
use deskhand_core::policy;
use deskhand_core::tools::declare::{Arg, Kind, Tool};
use deskhand_core::toolsets::desktop::{DESKTOP, TOOLS};
use deskhand_core::trace::{Recorder, Trace, replay};
use deskhand_core::{Carriage, Config, Conn, Core, Input, Limits, Op, Output, Route};
use serde_json::{Map, Value, json};

/// In every secret, in each way that case could be changed.
const MARK: &str = "Hunter2Mark";

fn secret(n: &mut u32) -> String {
    *n += 1;
    format!("{MARK}{n}")
}

struct Recorded {
    core: Core,
    recorder: Recorder,
    file: Arc<Mutex<String>>,
    now: u64,
    open: BTreeMap<Op, Effect>,
    audit: Vec<String>,
    sent: Vec<Value>,
}

impl Recorded {
    fn new() -> Self {
        let text = format!(
            "assume_unlocked = true\nunrestricted = true\ncapture_dir = \"/home/{MARK}/shots\"\n\
             [[preset]]\nname = \"terminal\"\nargv = [\"foot\", \"--{MARK}\"]\napp_id = \"foot\"\nenv = {{ TOKEN = \"{MARK}\" }}\n"
        );
        let (policy, policy_state) = policy::read(Some(&text), false);
        assert_eq!(policy_state, policy::PolicyState::Loaded);
        let config = Config {
            toolset: &DESKTOP,
            server_version: "0.0.0".into(),
            policy,
            policy_state,
            audit_path: Some(format!("/home/{MARK}/audit.jsonl").into()),
            wall_offset_ms: 1_700_000_000_000,
            limits: Limits::default(),
        };
        let file = Arc::new(Mutex::new(String::new()));
        let sink = file.clone();
        let write = Box::new(move |line: &str| {
            let mut file = sink.lock().unwrap();
            file.push_str(line);
            file.push('\n');
        });
        let recorder = Recorder::new(&config, 1000, write).unwrap();
        let core = Core::new(config, [9; 32], 1000);
        Self {
            core,
            recorder,
            file,
            now: 1000,
            open: BTreeMap::new(),
            audit: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn feed(&mut self, input: Input) {
        self.recorder.input(self.now, &input, &self.core);
        self.core.handle_input(self.now, input);
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Start { op, effect, .. } => {
                    self.open.insert(op, effect);
                }
                Output::Audit(line) => self.audit.push(line.to_string()),
                Output::Send { body, .. } => self
                    .sent
                    .push(serde_json::from_slice(&body.to_vec()).unwrap()),
                _ => {}
            }
        }
    }

    fn message(&mut self, message: &Value) {
        self.feed(Input::Message {
            conn: Conn(1),
            route: Route(0),
            bytes: Bytes::from(message.to_string()),
        });
    }

    fn call(&mut self, id: u64, tool: &str, arguments: &Value, secret: &str) {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": secret, (secret): secret}});
        self.message(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}),
        );
    }

    /// Answers until nothing is under way; every seventh answer is a failure that quotes a secret.
    fn settle(&mut self, n: &mut u32) {
        for round in 0..2000u32 {
            if let Some((op, effect)) = self.open.pop_first() {
                let outcome = if round % 7 == 6 {
                    let detail = format!(
                        "can't do it with \"{}\" in /home/{}/x",
                        secret(n),
                        secret(n)
                    );
                    let kind = [
                        FailureKind::Unmappable,
                        FailureKind::Refused,
                        FailureKind::Lost,
                    ][(round % 3) as usize];
                    Err(Failure {
                        typed: Some(1),
                        ..Failure::new(kind, detail)
                    })
                } else {
                    Ok(reply(&effect, n))
                };
                self.feed(Input::Completed { op, outcome });
            } else if let Some((at, _)) = self.core.poll_timeout().filter(|_| !self.core.is_idle())
            {
                self.now = self.now.max(at);
                self.feed(Input::Tick);
            } else {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}

fn reply(effect: &Effect, n: &mut u32) -> Reply {
    match effect {
        Effect::Compositor(CompositorRequest::Outputs) => Reply::Outputs(vec![monitor()]),
        Effect::Compositor(CompositorRequest::Layers) => Reply::Layers(json!([])),
        Effect::Screen(ScreenRequest::Capture(request)) => Reply::Captured(Captured {
            raw_size: (1920, 1080),
            raw_rect: Rect::new(0, 0, 1920, 1080),
            width: 1280,
            height: 720,
            image: Some(EncodedImage {
                format: request.format,
                base64: Bytes::from(secret(n).repeat(300)),
            }),
            unchanged: false,
            saved: request.save.as_ref().map(|s| s.directory.join(&s.name)),
        }),
        Effect::Screen(ScreenRequest::Compare(_)) => Reply::Compared { differing: 0.0 },
        Effect::Screen(ScreenRequest::Settle { .. }) => Reply::Settled {
            settled: true,
            waited_ms: 100,
        },
        Effect::Seat(SeatRequest::Text { text, .. }) => Reply::Typed {
            characters: text.chars().count(),
        },
        Effect::Clipboard(ClipboardRequest::Read { .. }) => Reply::Copied(Copied::Text(secret(n))),
        Effect::Clipboard(ClipboardRequest::AwaitReader { .. }) => Reply::Read(Some(true)),
        Effect::Clipboard(ClipboardRequest::Restore) => Reply::PutBack(PutBack::Restored),
        Effect::Session(SessionRequest::Launch { .. }) => Reply::Launched { pid: 42 },
        Effect::Access(AccessRequest::Elements(_)) => Reply::Elements(Listing {
            elements: (0..3).map(|_| element(n)).collect(),
            truncated: None,
            nodes: 3,
            hint: None,
        }),
        Effect::Access(AccessRequest::SetText { .. } | AccessRequest::CompareText { .. }) => {
            Reply::TextSet(TextSet::Matched)
        }
        Effect::Access(_) => Reply::Element(ElementNow {
            presence: Presence::Present,
            before: Vec::new(),
            states: vec!["focused".into()],
            place: Ok(Rect::new(1, 2, 30, 40)),
        }),
        _ => Reply::Done,
    }
}

fn element(n: &mut u32) -> Element {
    Element {
        identity: Identity {
            bus: secret(n),
            path: secret(n),
            role: "push button".into(),
            name: secret(n),
            parents: vec![secret(n)],
            row: Some(secret(n)),
        },
        states: vec!["focused".into()],
        actions: vec!["click".into(), secret(n)],
        place: Ok(Rect::new(1, 2, 30, 40)),
    }
}

fn monitor() -> Monitor {
    Monitor {
        name: "HEADLESS-1".into(),
        logical: Some(LogicalOutput {
            x: 0,
            y: 0,
            width: 1920,
            height: 1080,
            scale: 1.0,
            transform: Transform::Normal,
        }),
        mode: Some(Mode {
            width: 1920,
            height: 1080,
            refresh_mhz: 60_000,
        }),
    }
}

fn window(id: u64, title: &str) -> Window {
    let layout = WindowLayout {
        window_size: (800, 600),
        ..WindowLayout::default()
    };
    Window {
        id,
        title: Some(title.into()),
        app_id: Some("foot".into()),
        pid: Some(7),
        workspace_id: Some(1),
        floating: false,
        urgent: false,
        layout,
    }
}

fn ready(n: &mut u32) -> Vec<Input> {
    let info = CompositorInfo {
        kind: CompositorKind::Niri,
        version: "26.04".into(),
        instance: "one".into(),
        incompatible: None,
    };
    let workspace = Workspace {
        id: 1,
        index: 1,
        name: Some(secret(n)),
        output: Some("HEADLESS-1".into()),
        active: true,
        focused: true,
        urgent: false,
        active_window: None,
    };
    [
        Observation::Compositor(CompositorState::Up(info)),
        Observation::Desktop(DesktopEvent::Outputs(vec![monitor()])),
        Observation::Desktop(DesktopEvent::Workspaces(vec![workspace])),
        Observation::Desktop(DesktopEvent::Windows {
            windows: vec![window(1, &secret(n)), window(2, &secret(n))],
            focused: Some(1),
        }),
        Observation::Compositor(CompositorState::StreamLive),
        Observation::SessionMatch(Ok(())),
        Observation::Screen(Availability::Up),
        Observation::Seat(Availability::Up),
        Observation::Accessibility(AccessState::Up { enabled: true }),
        Observation::Lock {
            state: LockState::Unlocked,
            source: "logind".into(),
        },
        Observation::OtherHolder(Some(Holder {
            label: secret(n),
            since_wall_ms: 0,
            pid: 3,
        })),
        Observation::OtherHolder(None),
        Observation::Stop { set: false },
    ]
    .into_iter()
    .map(Input::Observed)
    .collect()
}

/// Arguments that fit the schema, with a secret wherever a text may stand; `only` leaves out the other optional ones.
fn fitting(args: &[Arg], only: Option<&str>, n: &mut u32) -> Value {
    let chosen = args
        .iter()
        .filter(|a| a.required || only.is_none_or(|o| o == a.name))
        .filter(|a| a.name != "lease" || only == Some("lease"));
    Value::Object(
        chosen
            .map(|a| (a.name.to_string(), value(&a.kind, n)))
            .collect(),
    )
}

fn value(kind: &Kind, n: &mut u32) -> Value {
    match kind {
        Kind::Bool { .. } => json!(true),
        Kind::Integer { min, max, .. } => json!((*min).max(1).min(*max)),
        Kind::Text { max, .. } => json!(secret(n).chars().take(*max).collect::<String>()),
        Kind::Choice { of, .. } => json!(of[0]),
        Kind::List { of, min, .. } => (0..(*min).max(1)).map(|_| value(of, n)).collect(),
        Kind::Object { fields } => fitting(fields, None, n),
        Kind::AnyObject => {
            let mut inner = Map::new();
            inner.insert("command".into(), json!([secret(n)]));
            inner.insert(secret(n), json!({"Name": secret(n)}));
            json!({ "Spawn": inner })
        }
        Kind::ObjectOr { fields, .. } => fitting(fields, Some(fields[0].name), n),
    }
}

/// A secret in the place of every value, whatever it should be.
fn misfitting(tool: &Tool, n: &mut u32) -> Vec<Value> {
    let mut all = vec![
        json!(secret(n)),
        json!([secret(n)]),
        json!({ secret(n): secret(n) }),
    ];
    for arg in tool.args {
        for wrong in [
            json!(secret(n)),
            json!([secret(n)]),
            json!({ secret(n): secret(n) }),
            json!([{ secret(n): 1 }]),
        ] {
            let mut arguments = fitting(tool.args, None, n);
            arguments[arg.name] = wrong;
            all.push(arguments);
        }
    }
    all
}

#[test]
fn no_secret_is_written() {
    let mut n = 0;
    let mut r = Recorded::new();
    for input in ready(&mut n) {
        r.feed(input);
    }
    r.feed(Input::Opened {
        conn: Conn(1),
        principal: "person".into(),
        carriage: Carriage::Stdio,
    });
    let client =
        json!({"name": secret(&mut n), "version": secret(&mut n), "title": secret(&mut n)});
    let capabilities = json!({"experimental": {secret(&mut n): secret(&mut n)}});
    r.message(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}}));
    r.message(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    r.call(
        1,
        "acquire_desktop",
        &json!({"request_key": secret(&mut n)}),
        MARK,
    );
    // Both answers well: the lease must be there for what follows.
    while let Some((op, effect)) = r.open.pop_first() {
        r.feed(Input::Completed {
            op,
            outcome: Ok(reply(&effect, &mut n)),
        });
    }
    let token = r
        .core
        .look(|w| w.lease.held().map(|l| l.token.clone()))
        .expect("the lease");
    r.call(2, "screenshot", &json!({"lease": token}), MARK);
    while let Some((op, effect)) = r.open.pop_first() {
        r.feed(Input::Completed {
            op,
            outcome: Ok(reply(&effect, &mut n)),
        });
    }
    let mut id = 10;
    let mut call = |r: &mut Recorded, tool: &str, arguments: &Value, n: &mut u32| {
        id += 1;
        r.call(id, tool, arguments, &secret(n));
        let title = secret(n);
        r.feed(Input::Observed(Observation::Desktop(
            DesktopEvent::WindowOpenedOrChanged {
                window: window(1, &title),
                focused: true,
            },
        )));
        r.settle(n);
    };
    for tool in TOOLS
        .iter()
        .filter(|t| !matches!(t.name, "acquire_desktop" | "release_desktop"))
    {
        let none = fitting(tool.args, Some(""), &mut n);
        call(&mut r, tool.name, &none, &mut n);
        let all = fitting(tool.args, None, &mut n);
        call(&mut r, tool.name, &all, &mut n);
        for arg in tool.args {
            let one = fitting(tool.args, Some(arg.name), &mut n);
            call(&mut r, tool.name, &one, &mut n);
            let mut leased = fitting(tool.args, Some(arg.name), &mut n);
            if tool.arg("lease").is_some() {
                leased["lease"] = json!(token);
            }
            call(&mut r, tool.name, &leased, &mut n);
        }
        for arguments in misfitting(tool, &mut n) {
            call(&mut r, tool.name, &arguments, &mut n);
        }
    }
    call(
        &mut r,
        "key",
        &json!({"keys": ["h", "shift+U", "comma", "ctrl+c"]}),
        &mut n,
    );
    call(&mut r, &secret(&mut n).clone(), &json!({}), &mut n);
    for text in [
        format!("{MARK} isn't JSON"),
        format!("{{\"{MARK}\":1"),
        format!("[\"{MARK}\"]"),
        format!("{{\"{MARK}\":\"{MARK}\",\"method\":\"{MARK}\",\"id\":1,\"jsonrpc\":\"2.0\"}}"),
    ] {
        r.feed(Input::Message {
            conn: Conn(1),
            route: Route(0),
            bytes: Bytes::from(text),
        });
    }
    for message in beside_tools(&mut n) {
        r.message(&message);
        r.settle(&mut n);
    }
    r.feed(Input::AuditWritten(Err(format!(
        "\"/home/{MARK}/audit.jsonl\" is full"
    ))));
    r.feed(Input::Observed(Observation::Compositor(
        CompositorState::StreamLost {
            detail: format!("`{MARK}` in /run/{MARK}"),
        },
    )));
    call(&mut r, "status", &json!({}), &mut n);

    let clear =
        |text: &str| !text.to_lowercase().contains(&MARK.to_lowercase()) && !text.contains(&token);
    assert!(r.audit.len() > 150, "only {} audit lines", r.audit.len());
    for line in &r.audit {
        assert!(clear(line), "the audit log would hold {line}");
    }
    let file = r.file.lock().unwrap().clone();
    for line in file.lines() {
        assert!(clear(line), "the recording would hold {line}");
    }
    // The secrets did go through: clients were told of them, and things were typed.
    assert!(
        r.sent
            .iter()
            .filter(|m| m.to_string().contains(MARK))
            .count()
            > 20
    );
    // And what was written replays.
    replay(&file, toolset).unwrap();
    let recorded = Trace::parse(&file).unwrap();
    assert!(recorded.steps.len() > 1000);
    // The recorder's core took the real one's path: it holds its own lease and gave images.
    assert!(
        file.contains("\"typed\":"),
        "nothing was typed in the recording"
    );
    assert!(file.contains("blob-"), "no image in the recording");
}

/// Messages with a secret in every place of what a toolset may offer beside tools, and of answers to a server's questions.
fn beside_tools(n: &mut u32) -> Vec<Value> {
    let mut s = || secret(n);
    let meta = |s: &mut dyn FnMut() -> String| {
        json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {(s()): s()}},
            "io.modelcontextprotocol/logLevel": s(),
            (s()): s(),
        })
    };
    let params = |s: &mut dyn FnMut() -> String| {
        json!({
            "uri": s(), "cursor": s(), "level": s(), "requestState": s(), "name": s(),
            "inputResponses": {(s()): {"action": s(), "content": {(s()): s()}, "role": s(), (s()): [s()]}, "b": s(), "c": [s()], "d": {"action": {(s()): s()}}},
            "ref": {"type": s(), "name": s(), "uri": s(), (s()): s()},
            "argument": {"name": s(), "value": s(), (s()): s()},
            "context": {"arguments": {(s()): s()}, (s()): s()},
            "arguments": {(s()): s(), "name": s()},
            "notifications": {"resourceSubscriptions": [s()], "toolsListChanged": s(), (s()): s()},
            (s()): {"uri": s()},
        })
    };
    let methods = [
        "tools/call", "tools/list", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe", "resources/unsubscribe", "prompts/list",
        "prompts/get", "completion/complete", "logging/setLevel", "subscriptions/listen", "server/discover",
    ];
    let mut all = Vec::new();
    for method in methods {
        for modern in [false, true] {
            let mut params = params(&mut s);
            if modern {
                params["_meta"] = meta(&mut s);
            }
            all.push(json!({"jsonrpc": "2.0", "id": 900_000 + all.len(), "method": method, "params": params}));
        }
        // Each of a wrong form.
        for key in ["uri", "cursor", "level", "requestState", "inputResponses", "ref", "argument", "context", "notifications"] {
            for wrong in [json!([s()]), json!({(s()): s()}), json!(s())] {
                all.push(json!({"jsonrpc": "2.0", "id": 900_000 + all.len(), "method": method, "params": {(key): wrong}}));
            }
        }
    }
    for answer in [
        json!({"action": "accept", "content": {(s()): s(), "name": s()}}),
        json!({"action": s(), "role": s(), "model": s(), "content": {"type": s(), "text": s()}, "stopReason": s()}),
        json!({"role": "assistant", "content": [{"type": "text", "text": s()}]}),
        json!({"roots": [{"uri": s(), "name": s(), (s()): s()}]}),
        json!([s()]),
        json!(s()),
    ] {
        all.push(json!({"jsonrpc": "2.0", "id": 1, "result": answer}));
    }
    for error in [json!({"code": -1, "message": s(), "data": {(s()): s()}}), json!(s()), json!({(s()): s()})] {
        all.push(json!({"jsonrpc": "2.0", "id": 1, "error": error}));
        all.push(json!({"jsonrpc": "2.0", "id": null, "error": error, "result": {"action": s()}}));
    }
    all
}

/// The same calls are accepted and refused alike in the recording.
#[test]
fn a_recording_goes_the_way_of_the_real_one() {
    let mut n = 0;
    let mut r = Recorded::new();
    for input in ready(&mut n) {
        r.feed(input);
    }
    r.feed(Input::Opened {
        conn: Conn(1),
        principal: "person".into(),
        carriage: Carriage::Stdio,
    });
    let info = json!({"name": "claude-code", "version": "1.0"});
    r.message(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}}));
    let well = |r: &mut Recorded, n: &mut u32| {
        while !r.core.is_idle() {
            if let Some((op, effect)) = r.open.pop_first() {
                let outcome = Ok(reply(&effect, n));
                r.feed(Input::Completed { op, outcome });
            } else {
                r.now = r.core.poll_timeout().expect("a timer").0;
                r.feed(Input::Tick);
            }
        }
    };
    for (id, (tool, arguments)) in [
        ("acquire_desktop", json!({"request_key": "a"})),
        ("acquire_desktop", json!({"request_key": "b"})),
        ("screenshot", json!({})),
        (
            "click",
            json!({"x": 40, "y": 40, "screenshot_ref": "shot-1"}),
        ),
        ("key", json!({"keys": ["q", "ctrl+shift+t", "Return", "é"]})),
        (
            "type_text",
            json!({"text": "Ein Passwort: 123!\n", "submit": true}),
        ),
        (
            "niri_action",
            json!({"action": {"FullscreenWindow": {"id": 2}}}),
        ),
        ("focus", json!({"window_id": 9})),
        ("launch", json!({"preset": "nothing"})),
        ("wait_for", json!({"until": {"window": {"app_id": "foot"}}})),
        ("release_desktop", json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        r.call(id as u64 + 1, tool, &arguments, "p");
        well(&mut r, &mut n);
    }
    let file = r.file.lock().unwrap().clone();
    replay(&file, toolset).unwrap();
    let verdict = |m: &Value| {
        (
            m["id"].clone(),
            m["result"]["isError"].clone(),
            m["result"]["structuredContent"]["observed"].clone(),
            m["result"]["structuredContent"]["typed"].clone(),
        )
    };
    let real: Vec<_> = r.sent.iter().map(verdict).collect();
    let told: Vec<_> = file
        .lines()
        .filter_map(|l| {
            serde_json::from_str::<Value>(l)
                .unwrap()
                .pointer("/out/send/json")
                .map(verdict)
        })
        .collect();
    assert_eq!(real, told);
}
