//! A server of one tool that does nothing: what the protocol core and this transport cost by themselves.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use deskhand_core::desktop::effect::Effect;
use deskhand_core::engine::cx::Cx;
use deskhand_core::policy::{Policy, PolicyState};
use deskhand_core::tools::args::Args;
use deskhand_core::tools::declare::{Hints, LeaseNeed, Profile, Tool};
use deskhand_core::tools::facts::{Facts, Refused};
use deskhand_core::tools::toolset::Toolset;
use deskhand_core::{Config, Limits, Op, handler};
use deskhand_driver::{Driver, Effects};

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

static TOOLSET: Toolset = Toolset {
    name: "noop",
    title: "Nothing",
    description: "Does nothing",
    instructions: "There is one tool, and it does nothing.",
    tools: &[&NOOP],
    ..Toolset::BARE
};

struct NoEffects;

impl Effects for NoEffects {
    fn start(&self, _: Op, _: Effect, _: Instant, _: u64) {}
    fn cancel(&self, _: Op) {}
    fn fence(&self, _: u64) {}
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
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
        let (input, output) = (std::io::stdin().as_fd().try_clone_to_owned()?, std::io::stdout().as_fd().try_clone_to_owned()?);
        deskhand_stdio::serve(driver, input, output, "stdio", std::future::pending()).await
    })
}
