//! A server of a tool that does nothing and one that gives a large image, on loopback without tokens: what the core and this transport cost by themselves.
//!
//! `noop-http [PORT [THREADS]]` prints the port that it bound.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use deskhand_core::desktop::effect::Effect;
use deskhand_core::engine::cx::Cx;
use deskhand_core::policy::{Policy, PolicyState};
use deskhand_core::tools::args::Args;
use deskhand_core::tools::content::Block;
use deskhand_core::tools::declare::{Hints, LeaseNeed, Profile, Tool};
use deskhand_core::tools::facts::{Facts, Refused};
use deskhand_core::tools::toolset::Toolset;
use deskhand_core::{Config, Limits, Op, handler};
use deskhand_driver::{Driver, Effects};
use deskhand_http::{Doors, Limits as HttpLimits, Listener, Mount};

static NOOP: Tool = Tool {
    name: "noop",
    title: "Nothing",
    summary: "does nothing",
    description: "Does nothing.",
    args: &[],
    hints: Hints::ReadOnly,
    lease: LeaseNeed::No,
    profile: Profile::Observe,
    always_load: false,
    schema: None,
    run: handler!(noop),
};

async fn noop(_: Cx, _: Args) -> Result<Facts, Refused> {
    Ok(Facts::new(serde_json::json!({"done": true})))
}

/// Two megabytes of base64 that somebody else made, as a screenshot's are.
static IMAGE: Tool = Tool { name: "image", title: "A large image", summary: "gives a large image", description: "Gives an image of 2 MB.", run: handler!(image), ..NOOP };

async fn image(_: Cx, _: Args) -> Result<Facts, Refused> {
    let base64 = Bytes::from(vec![b'A'; 2 << 20]);
    Ok(Facts::blocks(vec![Block::Image { mime: "image/png".into(), base64 }]))
}

static TOOLSET: Toolset = Toolset {
    name: "noop",
    title: "Nothing",
    description: "Does nothing",
    instructions: "One tool does nothing, the other gives a large image.",
    tools: &[&NOOP, &IMAGE],
    ..Toolset::BARE
};

struct NoEffects;

impl Effects for NoEffects {
    fn start(&self, _: Op, _: Effect, _: Instant, _: u64) {}
    fn cancel(&self, _: Op) {}
    fn fence(&self, _: u64) {}
}

fn main() -> std::io::Result<()> {
    let threads: usize = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut runtime = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let config = Config {
            toolset: &TOOLSET,
            server_version: "0".into(),
            policy: Policy::default(),
            policy_state: PolicyState::Missing,
            audit_path: None,
            wall_offset_ms: 0,
            limits: Limits::default(),
        };
        let driver = Driver::start(config, Arc::new(NoEffects), None, None);
        let port: u16 = std::env::args().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        println!("{}", listener.local_addr()?.port());
        let mount = Mount { paths: vec!["/mcp".into()], driver, toolset: &TOOLSET };
        deskhand_http::serve(vec![Listener::Tcp(listener)], vec![mount], Doors::default(), HttpLimits::default(), std::future::pending()).await
    })
}
