//! A recording of what is offered beside tools holds nothing of what clients said, and goes the way of the real one.

mod support;

use std::sync::{Arc, Mutex};

use deskhand_core::policy::{Policy, PolicyState};
use deskhand_core::trace::{Recorder, replay};
use deskhand_core::{Carriage, Config, Conn, Core, Input, Limits, Output, Route};
use serde_json::{Value, json};
use support::offers::{OFFERS, call, everything, modern, request};

const MARK: &str = "Hunter2Mark";

struct Recorded {
    core: Core,
    recorder: Recorder,
    file: Arc<Mutex<String>>,
    sent: Vec<Value>,
}

impl Recorded {
    fn new() -> Self {
        let config = || Config {
            toolset: &OFFERS,
            server_version: "0.0.0".into(),
            policy: Policy::default(),
            policy_state: PolicyState::Missing,
            audit_path: None,
            wall_offset_ms: 0,
            limits: Limits::default(),
        };
        let file = Arc::new(Mutex::new(String::new()));
        let sink = file.clone();
        let write = Box::new(move |line: &str| sink.lock().unwrap().push_str(&format!("{line}\n")));
        let recorder = Recorder::new(&config(), 1000, write).unwrap();
        let mut recorded = Self { core: Core::new(config(), [9; 32], 1000), recorder, file, sent: Vec::new() };
        recorded.feed(Input::Opened { conn: Conn(1), principal: "person".into(), carriage: Carriage::Stdio });
        recorded
    }

    fn feed(&mut self, input: Input) {
        self.recorder.input(1000, &input, &self.core);
        self.core.handle_input(1000, input);
        while let Some(output) = self.core.poll_output() {
            if let Output::Send { body, .. } = output {
                self.sent.push(serde_json::from_slice(&body.to_vec()).unwrap());
            }
        }
    }

    fn message(&mut self, message: &Value) {
        self.feed(Input::Message { conn: Conn(1), route: Route(0), bytes: message.to_string().into() });
    }
}

/// What kind of message it is: by this the two are compared.
fn verdict(message: &Value) -> Value {
    let result = &message["result"];
    let keys: Vec<&String> = result.as_object().into_iter().flatten().map(|(key, _)| key).collect();
    json!([message["id"], message["method"], message["error"]["code"], result["isError"], result["resultType"], keys])
}

#[test]
fn a_recording_tells_nothing_and_goes_the_same_way() {
    let mut r = Recorded::new();
    let info = json!({"name": MARK, "version": MARK});
    r.message(&request(json!(0), "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": everything(), "clientInfo": info})));
    r.message(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let filled = json!({"action": "accept", "content": {(MARK): MARK}});
    // Ours are numbered from one.
    for (number, (what, answer)) in [
        ("form", filled.clone()),
        ("form", json!({"action": "decline", "content": MARK})),
        ("form", json!({"action": MARK})),
        ("sample", json!({"role": "assistant", "model": MARK, "content": {"type": "text", "text": MARK}})),
        ("sample", json!({"role": "user", "content": [MARK]})),
        ("roots", json!({"roots": [{"uri": MARK, "name": MARK}]})),
        ("roots", json!({"roots": MARK})),
    ]
    .into_iter()
    .enumerate()
    {
        r.message(&call(10 + number as u64, "ask", json!({"nonce": MARK, "what": what})));
        r.message(&json!({"jsonrpc": "2.0", "id": number + 1, "result": answer}));
    }
    r.message(&call(20, "ask", json!({"nonce": MARK})));
    r.message(&json!({"jsonrpc": "2.0", "id": 8, "error": {"code": 1, "message": MARK, "data": {(MARK): MARK}}}));
    r.message(&json!({"jsonrpc": "2.0", "id": null, "error": {"message": MARK}}));
    let complete = |reference: Value, argument: &str| json!({"ref": reference, "argument": {"name": argument, "value": MARK}, "context": {"arguments": {(MARK): MARK}}});
    let prompt = json!({"type": "ref/prompt", "name": "greet"});
    let cases = [
        ("logging/setLevel", json!({"level": "debug"})),
        ("logging/setLevel", json!({"level": MARK})),
        ("resources/subscribe", json!({"uri": MARK})),
        ("resources/unsubscribe", json!({"uri": MARK})),
        ("resources/read", json!({"uri": MARK})),
        ("resources/list", json!({"cursor": MARK})),
        ("prompts/get", json!({"name": "greet", "arguments": {"name": MARK, "tone": MARK}})),
        ("prompts/get", json!({"name": "greet", "arguments": {(MARK): MARK}})),
        ("prompts/get", json!({"name": MARK})),
        ("completion/complete", complete(prompt.clone(), "tone")),
        ("completion/complete", complete(prompt, MARK)),
        ("completion/complete", complete(json!({"type": "ref/prompt", "name": MARK}), MARK)),
        ("completion/complete", complete(json!({"type": "ref/resource", "uri": "t://{id}"}), MARK)),
        ("completion/complete", complete(json!({"type": "ref/resource", "uri": MARK}), MARK)),
        ("completion/complete", complete(json!({"type": MARK}), MARK)),
    ];
    for (id, (method, params)) in cases.into_iter().enumerate() {
        r.message(&request(json!(30 + id), method, params.clone()));
        let mut message = modern(request(json!(60 + id), method, params), everything());
        message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
        r.message(&message);
    }
    r.message(&call(90, "tell", json!({"nonce": MARK})));
    r.message(&modern(call(91, "ask_twice", json!({"nonce": MARK})), everything()));
    r.message(&modern(request(json!(92), "subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [MARK]}})), json!({})));
    let file = r.file.lock().unwrap().clone();
    let told = |r: &Recorded| r.sent.iter().map(verdict).collect::<Vec<_>>();
    let lines = || file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let recorded: Vec<Value> = lines().filter_map(|line| line.pointer("/out/send/json").map(verdict)).collect();
    assert_eq!(told(&r), recorded);
    // The state holds what was answered: it goes, and with it the way.
    let state = r.sent.iter().find_map(|m| m["result"]["requestState"].as_str()).expect("a state").to_string();
    let mut retry = modern(call(93, "ask_twice", json!({"nonce": MARK})), everything());
    retry["params"]["requestState"] = json!(state);
    retry["params"]["inputResponses"] = json!({"name": filled, (MARK): MARK});
    r.message(&retry);
    let state = r.sent.last().unwrap()["result"]["requestState"].as_str().expect("a state").to_string();
    assert!(state.contains(MARK));
    retry["params"]["requestState"] = json!(state);
    r.message(&retry);
    let file = r.file.lock().unwrap().clone();
    for line in file.lines() {
        assert!(!line.to_lowercase().contains(&MARK.to_lowercase()) && !line.contains(&state[..64]), "the recording would hold {line}");
    }
    assert!(r.sent.iter().filter(|m| m.to_string().contains(MARK)).count() > 20);
    replay(&file, |name| (name == OFFERS.name).then_some(&OFFERS)).unwrap();
}
