//! Tools that echo, tell progress, wait and are waited for; and effects that a test completes itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deskhand_core::desktop::effect::{Effect, EncodedImage, Failure, FailureKind, ImageFormat, Reply, SessionRequest};
use deskhand_core::engine::cx::Cx;
use deskhand_core::policy::{Policy, PolicyState};
use deskhand_core::tools::args::Args;
use deskhand_core::tools::declare::{Arg, Audit, Hints, Known, LeaseNeed, Profile, Tool};
use deskhand_core::tools::facts::{Facts, Image, Refused};
use deskhand_core::tools::redact::Knows;
use deskhand_core::tools::toolset::{Negotiation, Pick, RefusalStyle, Style, Toolset};
use deskhand_core::{Config, Input, Limits, Op, handler};
use deskhand_driver::{Driver, Effects};
use serde_json::json;
use tokio::sync::Notify;

const fn tool(name: &'static str, args: &'static [Arg], run: deskhand_core::tools::declare::Handler) -> Tool {
    Tool {
        name,
        title: name,
        summary: name,
        description: name,
        args,
        hints: Hints::ReadOnly,
        lease: LeaseNeed::No,
        profile: Profile::Observe,
        always_load: false,
        schema: None,
        run,
    }
}

const TEXT: Arg = Arg::text("text", "any", 0, 100_000, Audit::Never);
const COUNT: Arg = Arg::integer("count", "how many", 0, 100_000).or(1);
const BYTES: Arg = Arg::integer("bytes", "how large", 0, 100_000_000).or(1);
const RETRY: Arg = Arg::integer("retry", "ms", 0, 100_000).or(0);

const AFTER: Arg = Arg::integer("after", "how many", 0, 100_000).or(1);

static ECHO: Tool = tool("echo", &[TEXT], handler!(echo));
/// Tells progress so often, in messages so large, then answers.
static STEPS: Tool = tool("steps", &[COUNT, BYTES], handler!(steps));
/// Waits for the test; before that tells progress `count` times, and if it did, so often after.
static HOLD: Tool = tool("hold", &[TEXT, COUNT, RETRY, AFTER, BYTES], handler!(hold));
static PICTURE: Tool = tool("picture", &[BYTES], handler!(picture));

async fn echo(_: Cx, args: Args) -> Result<Facts, Refused> {
    Ok(Facts::new(json!({"text": args.text("text")})))
}

async fn steps(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let text = "x".repeat(args.integer("bytes").unwrap() as usize);
    for step in 1..=args.integer("count").unwrap() {
        cx.progress(step as f64, None, &text);
    }
    Ok(Facts::new(json!({"done": true})))
}

async fn hold(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let name = args.text("text").unwrap_or_default().to_string();
    let before = args.integer("count").unwrap();
    for step in 1..=before {
        cx.progress(step as f64, None, "before");
    }
    if args.integer("retry").unwrap() > 0 {
        cx.end_stream(args.integer("retry").unwrap() as u64);
    }
    let effect = Effect::Session(SessionRequest::Launch { argv: vec![name.clone()], env: Vec::new() });
    cx.run(effect, 60_000).await.map_err(|e| Refused::named("stopped", e.detail))?;
    let text = match args.integer("bytes") {
        Some(bytes) if bytes > 1 => "x".repeat(bytes as usize),
        _ => "after".to_string(),
    };
    for step in 1..=args.integer("after").unwrap().min(before * 100_000) {
        cx.progress((before + step) as f64, None, &text);
    }
    Ok(Facts::new(json!({"held": name})))
}

async fn picture(_: Cx, args: Args) -> Result<Facts, Refused> {
    let base64 = Bytes::from(vec![b'A'; args.integer("bytes").unwrap() as usize]);
    let image = Image { encoded: EncodedImage { format: ImageFormat::Png, base64 }, first: false };
    Ok(Facts { image: Some(image), ..Facts::default() })
}

struct Nothing;

impl Knows for Nothing {
    fn knows(&self, _: Known, _: &str) -> bool {
        false
    }
}

pub static TOOLSET: Toolset = Toolset {
    name: "test",
    title: "Test",
    description: "For tests",
    instructions: "None.",
    tools: &[&ECHO, &STEPS, &HOLD, &PICTURE],
    prompts: &[],
    resources: None,
    complete: None,
    logging: false,
    capabilities: "{}",
    result_meta: None,
    negotiation: Negotiation { absent: Pick::Newest, unknown: Pick::Newest },
    retired: &[],
    ready: |_| true,
    listed: |_, _| true,
    gate: |_, _, _, _| Ok(()),
    busy: || Refused::named("busy", "too many calls"),
    abandoned: |_, _| Refused::named("stopped", "stopped"),
    refusals: &[],
    style: Style { refusal: RefusalStyle::Error, image_with_structured: false },
    audited: false,
    knows: |_| Box::new(Nothing),
    audit_outcome: |_| serde_json::Map::new(),
};

/// What `hold` waits for.
#[derive(Default)]
pub struct Held {
    state: Mutex<State>,
    changed: Notify,
    driver: Mutex<Weak<Driver>>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<Op, String>,
    cancelled: BTreeSet<String>,
}

impl Held {
    pub fn driver(self: &Arc<Self>) -> Arc<Driver> {
        let config = Config {
            toolset: &TOOLSET,
            server_version: "0".into(),
            policy: Policy::default(),
            policy_state: PolicyState::Missing,
            audit_path: None,
            wall_offset_ms: 0,
            limits: Limits { calls: 4096, calls_per_connection: 4096, calls_per_principal: 4096, connections: 8192, ..Limits::default() },
        };
        let driver = Driver::start(config, self.clone(), None, None);
        *self.driver.lock().unwrap() = Arc::downgrade(&driver);
        driver
    }

    pub async fn is_held(&self, name: &str) {
        self.until(|s| s.open.values().any(|n| n == name)).await;
    }

    pub async fn was_cancelled(&self, name: &str) {
        self.until(|s| s.cancelled.contains(name)).await;
    }

    pub fn is_cancelled(&self, name: &str) -> bool {
        self.state.lock().unwrap().cancelled.contains(name)
    }

    pub async fn release(&self, name: &str) {
        self.is_held(name).await;
        let op = *self.state.lock().unwrap().open.iter().find(|(_, n)| *n == name).unwrap().0;
        self.state.lock().unwrap().open.remove(&op);
        let driver = self.driver.lock().unwrap().upgrade().unwrap();
        driver.handle(Input::Completed { op, outcome: Ok(Reply::Done) });
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        let all = async {
            loop {
                let changed = self.changed.notified();
                if holds(&self.state.lock().unwrap()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), all).await.expect("waited in vain");
    }
}

impl Effects for Held {
    fn start(&self, op: Op, effect: Effect, _: Instant, _: u64) {
        let driver = self.driver.lock().unwrap().clone();
        match effect {
            Effect::Session(SessionRequest::Launch { argv, .. }) => {
                self.state.lock().unwrap().open.insert(op, argv[0].clone());
                self.changed.notify_waiters();
            }
            _ => complete(driver, op, Ok(Reply::Done)),
        }
    }

    fn cancel(&self, op: Op) {
        let name = self.state.lock().unwrap().open.remove(&op);
        self.state.lock().unwrap().cancelled.extend(name);
        self.changed.notify_waiters();
        complete(self.driver.lock().unwrap().clone(), op, Err(Failure::new(FailureKind::Fenced, "cancelled")));
    }

    fn fence(&self, _: u64) {}
}

fn complete(driver: Weak<Driver>, op: Op, outcome: Result<Reply, Failure>) {
    tokio::spawn(async move {
        if let Some(driver) = driver.upgrade() {
            driver.handle(Input::Completed { op, outcome });
        }
    });
}
