//! Every trace replays, and twice the same; `UPDATE_TRACES=1` writes the exact ones anew.

use std::path::PathBuf;

use deskhand_conformance::traces;
use deskhand_core::tools::toolset::Toolset;
use deskhand_core::trace::{Trace, regenerate, replay};
use deskhand_fixtures::FIXTURES;

/// What the product has no use for is traced with the fixtures.
fn toolset(name: &str) -> Option<&'static Toolset> {
    if name == FIXTURES.name { Some(&FIXTURES) } else { deskhand_conformance::toolset(name) }
}

fn all() -> Vec<PathBuf> {
    let (desktop, fixtures) = (traces("desktop"), traces("fixtures"));
    assert!(desktop.len() >= 15 && fixtures.len() >= 2, "only {} traces were found", desktop.len() + fixtures.len());
    [desktop, fixtures].concat()
}

#[test]
fn every_trace_replays() {
    let update = std::env::var_os("UPDATE_TRACES").is_some();
    let files = all();
    let mut wrong = Vec::new();
    for path in &files {
        let mut text = std::fs::read_to_string(path).unwrap();
        let exact = Trace::parse(&text).map(|t| t.is_exact());
        if update && exact == Ok(true) {
            match regenerate(&text, toolset) {
                Ok(new) => {
                    std::fs::write(path, &new).unwrap();
                    text = new;
                }
                Err(error) => wrong.push(format!("{}: {error}", path.display())),
            }
        }
        if let Err(error) = replay(&text, toolset) {
            wrong.push(format!("{}: {error}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} traces don't replay:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    for path in all() {
        let text = std::fs::read_to_string(&path).unwrap();
        let (once, again) = (regenerate(&text, toolset).unwrap(), regenerate(&text, toolset).unwrap());
        assert!(once == again, "{}", path.display());
        // And what was written replays exactly.
        replay(&once, toolset).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(regenerate(&once, toolset).unwrap(), once);
    }
}

#[test]
fn a_difference_is_told_with_its_line() {
    let path = traces("desktop").into_iter().find(|p| p.ends_with("lease.jsonl")).unwrap();
    let exact = regenerate(&std::fs::read_to_string(path).unwrap(), toolset).unwrap();
    let lines: Vec<&str> = exact.lines().collect();
    let at = lines.iter().position(|l| l.starts_with("{\"out\":{\"send\"")).unwrap();
    let without: Vec<&str> = lines.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, l)| *l).collect();
    let twice: Vec<&str> = lines[..=at].iter().chain(&lines[at..]).copied().collect();
    let altered = exact.replacen("\"protocolVersion\":\"2025-11-25\",\"serverInfo\"", "\"protocolVersion\":\"2025-11-26\",\"serverInfo\"", 1);
    assert_ne!(altered, exact);
    for (what, text) in [("one is missing", without.join("\n")), ("one too many", twice.join("\n")), ("one differs", altered)] {
        let error = replay(&text, toolset).expect_err(what).to_string();
        assert!(error.starts_with("line "), "{error}");
    }
}
