//! A trace is played through the real driver by scripted backends while a recorder looks on, once at the driver's own
//! door and once through stdio: clients get the recorded answers, and what was recorded replays.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deskhand_conformance::{toolset, traces};
use deskhand_core::desktop::effect::Effect;
use deskhand_core::rpc::body::Body;
use deskhand_core::toolsets::desktop::DESKTOP;
use deskhand_core::trace::{Recorder, Trace, replay};
use deskhand_core::{Carriage, Config, Conn, Core, Input, Limits, Op, Output, Route, Time, policy};
use deskhand_driver::{Driver, Effects, Sink, Tap};
use deskhand_ports::{Compositor, Fence, Screen, Seat, Session, Ticket};
use deskhand_scripted::{Player, Script};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// Longer waits than this are cut short in playing.
const LONGEST: Duration = Duration::from_millis(400);

struct Edge {
    driver: Mutex<Weak<Driver>>,
    player: Mutex<Option<Arc<Player>>>,
    fence: Fence,
}

impl Effects for Edge {
    fn start(&self, op: Op, effect: Effect, deadline: Instant, generation: u64) {
        let player = self.player.lock().unwrap().clone().expect("the player plays before anyone asks");
        let driver = self.driver.lock().unwrap().clone();
        let ticket = Ticket { fence: self.fence.clone(), generation, cancelled: Arc::new(AtomicBool::new(false)), deadline };
        tokio::spawn(async move {
            let outcome = match effect {
                Effect::Compositor(request) => Compositor::request(&*player, request, ticket).await,
                Effect::Screen(request) => Screen::request(&*player, request, ticket).await,
                Effect::Seat(request) => Seat::request(&*player, request, ticket).await,
                Effect::Session(request) => Session::request(&*player, request, ticket).await,
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

#[derive(Default)]
struct Client {
    got: Mutex<VecDeque<Value>>,
    came: Notify,
}

impl Sink for Client {
    fn send(&self, _: Route, body: Body) {
        self.take(serde_json::from_slice(&body.to_vec()).unwrap());
    }

    fn close(&self) {}
}

impl Client {
    fn take(&self, message: Value) {
        self.got.lock().unwrap().push_back(message);
        self.came.notify_one();
    }

    async fn next(&self) -> Value {
        loop {
            if let Some(message) = self.got.lock().unwrap().pop_front() {
                return message;
            }
            tokio::time::timeout(Duration::from_secs(10), self.came.notified()).await.expect("an answer in ten seconds");
        }
    }
}

/// How a client reaches the driver.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Driver,
    Stdio,
}

/// A client's end of its connection.
enum End {
    Driver(Conn),
    Stdio(OwnedWriteHalf),
}

impl End {
    async fn send(&mut self, driver: &Driver, route: Route, bytes: Bytes) {
        match self {
            Self::Driver(conn) => driver.handle(Input::Message { conn: *conn, route, bytes }),
            Self::Stdio(stream) => {
                let mut line = bytes.to_vec();
                line.push(b'\n');
                stream.write_all(&line).await.unwrap();
            }
        }
    }
}

fn connect(way: Way, driver: &Arc<Driver>, principal: &str, client: &Arc<Client>) -> End {
    if way == Way::Driver {
        return End::Driver(driver.open(principal, Carriage::Stdio, client.clone()));
    }
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (input, output) = (OwnedFd::from(theirs.try_clone().unwrap()), OwnedFd::from(theirs));
    let (driver, principal) = (driver.clone(), principal.to_string());
    tokio::spawn(async move { deskhand_stdio::serve(driver, input, output, &principal, std::future::pending()).await });
    let (reading, writing) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
    let client = client.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(reading).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            client.take(serde_json::from_str(&line).unwrap());
        }
    });
    End::Stdio(writing)
}

struct Record(Recorder);

impl Tap for Record {
    fn input(&mut self, now: Time, input: &Input, core: &Core) {
        self.0.input(now, input, core);
    }
}

/// Without what differs from run to run: times, and the lease's token.
fn settled(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, inner)| {
                let varies = matches!(key.as_str(), "time" | "expires_at" | "since" | "outputs_time" | "layers_time" | "waited_ms" | "lease");
                let plain = if varies && !inner.is_object() { Value::Null } else { settled(inner) };
                (key.clone(), plain)
            })
            .collect(),
        Value::Array(list) => list.iter().map(settled).collect(),
        Value::String(text) => serde_json::from_str::<Value>(text).ok().filter(Value::is_object).map_or_else(|| value.clone(), |inner| settled(&inner)),
        other => other.clone(),
    }
}

#[tokio::test]
async fn a_session_is_played_at_the_driver() {
    play(Way::Driver).await;
}

#[tokio::test]
async fn a_session_is_played_through_stdio() {
    play(Way::Stdio).await;
}

async fn play(way: Way) {
    let path = traces("desktop").into_iter().find(|p| p.ends_with("session.jsonl")).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let trace = Trace::parse(&text).unwrap();
    let policy_text = trace.header.config.policy.as_ref().and_then(Value::as_str).map(str::to_string);
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
    let edge = Arc::new(Edge { driver: Mutex::default(), player: Mutex::default(), fence: Fence::default() });
    let driver = Driver::start(config(), edge.clone(), None, Some(Box::new(Record(recorder))));
    *edge.driver.lock().unwrap() = Arc::downgrade(&driver);
    let observing = Arc::downgrade(&driver);
    let observe = Arc::new(move |observation| {
        if let Some(driver) = observing.upgrade() {
            driver.handle(Input::Observed(observation));
        }
    });
    let player = Script::read(&text, toolset).unwrap().play(observe, LONGEST);
    *edge.player.lock().unwrap() = Some(player.clone());

    // Each message goes out once the answers recorded before it have come.
    let mut clients: BTreeMap<Conn, (End, Arc<Client>)> = BTreeMap::new();
    let mut script: Vec<(Input, Vec<(Conn, Value)>)> = Vec::new();
    trace
        .run(toolset, |step, outputs, _| {
            let sent = outputs.iter().filter_map(|o| match o {
                Output::Send { conn, body, .. } => Some((*conn, serde_json::from_slice(&body.to_vec()).unwrap())),
                _ => None,
            });
            script.push((step.input.clone(), sent.collect()));
            Ok(())
        })
        .unwrap();
    let mut compared = 0;
    for (input, sent) in script {
        match input {
            Input::Opened { conn, principal, .. } => {
                let client = Arc::new(Client::default());
                clients.insert(conn, (connect(way, &driver, &principal, &client), client));
            }
            Input::Message { conn, route, bytes } => clients.get_mut(&conn).unwrap().0.send(&driver, route, bytes).await,
            Input::Closed { conn } => match clients.remove(&conn).unwrap().0 {
                End::Driver(conn) => driver.close(conn),
                // Dropping the writing half ends the server's input.
                End::Stdio(_) => {}
            },
            // The player's.
            _ => {}
        }
        for (conn, expected) in sent {
            let got = clients[&conn].1.next().await;
            assert_eq!(settled(&got), settled(&expected));
            compared += 1;
        }
    }
    assert!(compared >= 10, "only {compared} messages were compared");
    assert!(player.finished(Duration::from_secs(10)).await, "the trace was not played to its end: {:?}", player.differences());
    assert_eq!(player.differences(), (Vec::new(), Vec::new()));
    assert!(driver.wait_until(Duration::from_secs(5), Core::is_idle).await);

    let recorded = recording.lock().unwrap().clone();
    replay(&recorded, toolset).unwrap();
    let typed = recorded.lines().find(|l| l.contains("\"type_text\"")).expect("the call");
    assert!(typed.contains("Xxééx") && !recorded.contains("Grüße"), "what was typed is masked: {typed}");
}
