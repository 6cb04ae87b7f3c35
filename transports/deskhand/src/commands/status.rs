//! `deskhand status`: the tool's report, for a person.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use deskhand_core::desktop::event::{Availability, LockState};
use deskhand_core::engine::world::{StopFlag, Stream, World};
use deskhand_core::toolsets::desktop::status::report;
use serde_json::Value;

use super::{Failed, runtime};
use crate::edges::{Edges, Setting};
use crate::environment::Place;

/// How long what is there may take to be found.
const FINDING: Duration = Duration::from_millis(1500);

pub fn run(place: Place, json: bool) -> Result<ExitCode, Failed> {
    let report = ask(place)?;
    if json {
        println!("{report:#}");
    } else {
        print!("{}", for_a_person(&report));
    }
    let ready = report["ready"].as_bool().unwrap_or(false);
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report once all that is looked for was found, or the time is over.
pub fn ask(place: Place) -> Result<Value, Failed> {
    let report = runtime()?.block_on(async move {
        let edges = Edges::start(place, Setting { audit: true, acts: false, tap: None });
        let driver = edges.driver.clone();
        let end = tokio::time::Instant::now() + FINDING;
        while !driver.look(|core| core.look(found)) && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        driver.look(|core| core.look(report))
    });
    Ok(report)
}

fn found(w: &World) -> bool {
    w.compositor.is_ok()
        && w.stream == Stream::Live
        && (w.stop != StopFlag::Unknown || w.stop_unwatched.is_some())
        && w.screen == Availability::Up
        && w.seat == Availability::Up
        && (w.lock != LockState::Unknown || w.lock_source != "nobody told yet")
        && w.access.is_some()
}

fn for_a_person(report: &Value) -> String {
    let mut out = String::new();
    let text = |v: &Value| v.as_str().unwrap_or("-").to_string();
    let mut line = |what: &str, value: String| {
        let _ = writeln!(out, "{what:<14}{value}");
    };
    let compositor = &report["compositor"];
    line(
        "Compositor",
        match compositor["name"].as_str() {
            Some(name) => format!("{name} {}", text(&compositor["version"])),
            None => format!("not reachable: {}", text(&compositor["why_not"])),
        },
    );
    line("Events", text(&report["event_stream"]["state"]));
    let lease = &report["lease"];
    line(
        "Lease",
        if lease["held"].as_bool().unwrap_or(false) {
            format!("held by {} since {}", text(&lease["holder"]), text(&lease["since"]))
        } else {
            "free".into()
        },
    );
    line("Stopped", report["stopped"].as_bool().map_or("not known".into(), |s| if s { "yes".into() } else { "no".to_string() }));
    line("Screen", format!("{} ({})", text(&report["lock"]["state"]), text(&report["lock"]["source"])));
    let can = |key: &str| match report[key]["available"].as_bool() {
        Some(true) => "yes".to_string(),
        _ => format!("no: {}", text(&report[key]["why_not"])),
    };
    line("Capture", can("capture"));
    line("Input", can("input"));
    let outputs: Vec<String> = report["outputs"].as_array().into_iter().flatten().map(|o| text(&o["name"])).collect();
    line("Outputs", if outputs.is_empty() { "none".into() } else { outputs.join(", ") });
    let policy = &report["policy"];
    line("Policy", format!("{}, profile {}", text(&policy["state"]), text(&policy["profile"])));
    let presets: Vec<String> = policy["presets"].as_array().into_iter().flatten().map(text).collect();
    line("Presets", if presets.is_empty() { "none".into() } else { presets.join(", ") });
    line("Audit log", text(&report["audit"]["path"]));
    let blockers: Vec<String> = report["blockers"].as_array().into_iter().flatten().map(text).collect();
    if blockers.is_empty() {
        out.push_str("\nReady.\n");
    } else {
        out.push_str("\nNot ready:\n");
        for blocker in blockers {
            let _ = writeln!(out, "  - {blocker}");
        }
    }
    out
}
