//! Traces are played through the real driver by scripted backends while a recorder looks on: at the driver's own door,
//! through stdio and through HTTP. Clients get the recorded answers whatever the way, and what was recorded replays.

mod posts;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use deskhand_conformance::{toolset, traces};
use deskhand_core::desktop::effect::Effect;
use deskhand_core::toolsets::desktop::DESKTOP;
use deskhand_core::trace::{Recorder, Trace, replay};
use deskhand_core::{Config, Conn, Core, Input, Limits, Op, Output, Time, policy};
use deskhand_driver::{Driver, Effects, Tap};
use deskhand_ports::{Access, Clipboard, Compositor, Fence, Screen, Seat, Session, Ticket};
use deskhand_scripted::{Player, Script};
use serde_json::Value;
use tokio::sync::watch;
use ways::{Client, Door, End, Taken, Way};

/// Longer waits than this are cut short in playing.
const LONGEST: Duration = Duration::from_millis(400);

struct Edge {
    driver: Mutex<Weak<Driver>>,
    player: Mutex<Option<Arc<Player>>>,
    fence: Fence,
}

impl Effects for Edge {
    fn start(&self, op: Op, effect: Effect, deadline: Instant, generation: u64) {
        let player = self
            .player
            .lock()
            .unwrap()
            .clone()
            .expect("the player plays before anyone asks");
        let driver = self.driver.lock().unwrap().clone();
        let ticket = Ticket {
            fence: self.fence.clone(),
            generation,
            cancelled: Arc::new(AtomicBool::new(false)),
            deadline,
        };
        tokio::spawn(async move {
            let outcome = match effect {
                Effect::Compositor(request) => Compositor::request(&*player, request, ticket).await,
                Effect::Screen(request) => Screen::request(&*player, request, ticket).await,
                Effect::Seat(request) => Seat::request(&*player, request, ticket).await,
                Effect::Clipboard(request) => Clipboard::request(&*player, request, ticket).await,
                Effect::Session(request) => Session::request(&*player, request, ticket).await,
                Effect::Access(request) => Access::request(&*player, request, ticket).await,
            };
            if let Some(driver) = driver.upgrade() {
                driver.handle(Input::Completed { op, outcome });
            }
        });
    }

    fn cancel(&self, _: Op) {}

    fn fence(&self, generation: u64) {
        self.fence.raise(generation);
    }
}

struct Record(Recorder, watch::Sender<usize>);

impl Tap for Record {
    fn input(&mut self, now: Time, input: &Input, core: &Core) {
        self.0.input(now, input, core);
        if matches!(input, Input::Message { .. }) {
            self.1.send_modify(|count| *count += 1);
        }
    }
}

/// Without what differs from run to run: times, and the lease's token.
fn settled(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, inner)| {
                let varies = matches!(
                    key.as_str(),
                    "time"
                        | "expires_at"
                        | "since"
                        | "outputs_time"
                        | "layers_time"
                        | "waited_ms"
                        | "lease"
                );
                let plain = if varies && !inner.is_object() {
                    Value::Null
                } else {
                    settled(inner)
                };
                (key.clone(), plain)
            })
            .collect(),
        Value::Array(list) => list.iter().map(settled).collect(),
        Value::String(text) => serde_json::from_str::<Value>(text)
            .ok()
            .filter(Value::is_object)
            .map_or_else(|| value.clone(), |inner| settled(&inner)),
        other => other.clone(),
    }
}

/// What happens in these hangs on the trace's own clock, or on the order of an observation and a message that come by
/// different ways: only the replay through the core keeps those.
const NOT_PLAYED: &[&str] = &[
    "compositor-restarts",
    "ended-during-wait",
    "gates",
    "handshake-2024-11-05",
    "handshake-2025-03-26",
    "handshake-2025-06-18",
    "handshake-2025-11-25",
    "in-doubt",
    "late-answers",
    "lease",
    "lease-lost",
    "lease-refused",
    "lease-release",
    "lease-stopped",
    "list-changed",
    "modern",
    "order-event-first",
    "order-reply-first",
    "startup",
    "target-changed",
    "whose-screenshot",
];

#[tokio::test]
async fn at_the_driver() {
    play_all(Way::Driver).await;
}

#[tokio::test]
async fn through_stdio() {
    play_all(Way::Stdio).await;
}

#[tokio::test]
async fn through_http() {
    play_all(Way::Http).await;
}

async fn play_all(way: Way) {
    let (mut failed, mut compared) = (Vec::new(), 0);
    for path in traces("desktop") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if NOT_PLAYED.iter().any(|not| name == format!("{not}.jsonl")) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let playing = tokio::spawn(async move { play(way, &text).await });
        match playing.await {
            Ok(messages) => compared += messages,
            Err(e) => failed.push(format!("{name}: {e}")),
        }
    }
    assert!(compared >= 50, "only {compared} messages were compared");
    assert!(failed.is_empty(), "{way:?}: {failed:#?}");
}

async fn play(way: Way, text: &str) -> usize {
    let trace = Trace::parse(text).unwrap();
    let policy_text = trace
        .header
        .config
        .policy
        .as_ref()
        .and_then(Value::as_str)
        .map(str::to_string);
    let config = || {
        let (policy, policy_state) = policy::read(policy_text.as_deref(), false);
        Config {
            toolset: &DESKTOP,
            server_version: "0.0.0".into(),
            policy,
            policy_state,
            audit_path: None,
            wall_offset_ms: 1_700_000_000_000,
            limits: Limits::default(),
        }
    };
    let recording = Arc::new(Mutex::new(String::new()));
    let sink = recording.clone();
    let write = Box::new(move |line: &str| {
        let mut file = sink.lock().unwrap();
        file.push_str(line);
        file.push('\n');
    });
    let recorder = Recorder::new(&config(), deskhand_driver::boot_ms(), write).unwrap();
    let (counting, taken) = watch::channel(0);
    let taken = Taken(taken);
    let edge = Arc::new(Edge {
        driver: Mutex::default(),
        player: Mutex::default(),
        fence: Fence::default(),
    });
    let driver = Driver::start(
        config(),
        edge.clone(),
        None,
        Some(Box::new(Record(recorder, counting))),
    );
    *edge.driver.lock().unwrap() = Arc::downgrade(&driver);
    let observing = Arc::downgrade(&driver);
    let observe = Arc::new(move |observation| {
        if let Some(driver) = observing.upgrade() {
            driver.handle(Input::Observed(observation));
        }
    });
    let player = Script::read(text, toolset).unwrap().play(observe, LONGEST);
    *edge.player.lock().unwrap() = Some(player.clone());

    // Each message goes out once the answers recorded before it have come.
    let mut clients: BTreeMap<Conn, (Option<End>, Arc<Client>)> = BTreeMap::new();
    let mut script: Vec<(Input, Vec<(Conn, Value)>)> = Vec::new();
    trace
        .run(toolset, |step, outputs, _| {
            let sent = outputs.iter().filter_map(|o| match o {
                Output::Send { conn, body, .. } => {
                    Some((*conn, serde_json::from_slice(&body.to_vec()).unwrap()))
                }
                _ => None,
            });
            script.push((step.input.clone(), sent.collect()));
            Ok(())
        })
        .unwrap();
    let principals: BTreeSet<String> = script
        .iter()
        .filter_map(|(input, _)| match input {
            Input::Opened { principal, .. } => Some(principal.clone()),
            _ => None,
        })
        .collect();
    let door = Door::open(way, &driver, &principals.into_iter().collect::<Vec<_>>());
    let mut compared = 0;
    for (input, sent) in script {
        match input {
            Input::Opened {
                conn, principal, ..
            } => {
                let client = Arc::new(Client::default());
                clients.insert(conn, (Some(door.connect(&principal, &client)), client));
            }
            Input::Message { conn, route, bytes } => {
                clients
                    .get_mut(&conn)
                    .unwrap()
                    .0
                    .as_mut()
                    .unwrap()
                    .send(route, bytes, &taken)
                    .await
            }
            Input::Closed { conn } => {
                clients
                    .get_mut(&conn)
                    .unwrap()
                    .0
                    .take()
                    .unwrap()
                    .close()
                    .await
            }
            // The player's.
            _ => {}
        }
        // Messages of different POSTs have no order among themselves.
        let mut missing: BTreeMap<Conn, Vec<Value>> = BTreeMap::new();
        for (conn, expected) in sent {
            missing.entry(conn).or_default().push(settled(&expected));
        }
        for (conn, mut expected) in missing {
            while !expected.is_empty() {
                let got = settled(&clients[&conn].1.next().await);
                let among = if way == Way::Http { expected.len() } else { 1 };
                let Some(at) = expected[..among].iter().position(|wanted| *wanted == got) else {
                    panic!("{got} came, and {expected:?} was expected");
                };
                expected.remove(at);
                compared += 1;
            }
        }
    }
    assert!(
        player.finished(Duration::from_secs(10)).await,
        "the trace was not played to its end: {:?}",
        player.differences()
    );
    assert_eq!(player.differences(), (Vec::new(), Vec::new()));
    assert!(
        driver
            .wait_until(Duration::from_secs(5), Core::is_idle)
            .await
    );

    let recorded = recording.lock().unwrap().clone();
    replay(&recorded, toolset).unwrap();
    compared
}
