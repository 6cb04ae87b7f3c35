//! The direction of dependencies, and what the core may bring along.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What stands in the core's tree; anything else was added and must be looked at.
const CORE_MAY: &[&str] = &["base64-simd", "bytes", "hmac", "humantime", "jsonschema", "memchr", "serde", "serde_json", "sha2", "thiserror", "toml"];
/// Never below the core, by whatever way: runtimes, wires, clocks of their own.
const CORE_NEVER: &[&str] = &[
    "tokio", "async-std", "smol", "mio", "zbus", "atspi", "wayland-client", "wayland-backend", "niri-ipc", "rustix", "reqwest", "hyper", "rusqlite", "tempfile", "image",
    "async-trait", "tracing",
];

struct Workspace {
    /// Name to folder, relative to the workspace.
    members: BTreeMap<String, String>,
    /// Ordinary dependencies by name.
    needs: BTreeMap<String, BTreeSet<String>>,
    /// The same of every package there is, by package id.
    graph: BTreeMap<String, Vec<String>>,
    names: BTreeMap<String, String>,
}

fn workspace() -> Workspace {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let members: BTreeSet<&str> = all["workspace_members"].as_array().unwrap().iter().map(|m| m.as_str().unwrap()).collect();
    let mut result = Workspace { members: BTreeMap::new(), needs: BTreeMap::new(), graph: BTreeMap::new(), names: BTreeMap::new() };
    for package in all["packages"].as_array().unwrap() {
        let (id, name) = (package["id"].as_str().unwrap(), package["name"].as_str().unwrap());
        result.names.insert(id.to_string(), name.to_string());
        if members.contains(id) {
            let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().strip_prefix(&root).unwrap();
            result.members.insert(name.to_string(), folder.to_string_lossy().into_owned());
            let needs = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null()).map(|d| d["name"].as_str().unwrap().to_string());
            result.needs.insert(name.to_string(), needs.collect());
        }
    }
    for node in all["resolve"]["nodes"].as_array().unwrap() {
        let ordinary = |dep: &&Value| dep["dep_kinds"].as_array().unwrap().iter().any(|k| k["kind"].is_null());
        let deps = node["deps"].as_array().unwrap().iter().filter(ordinary).map(|d| d["pkg"].as_str().unwrap().to_string());
        result.graph.insert(node["id"].as_str().unwrap().to_string(), deps.collect());
    }
    result
}

#[test]
fn dependencies_point_one_way() {
    let w = workspace();
    assert_eq!(w.members.get("deskhand-core").map(String::as_str), Some("core"));
    for (name, folder) in &w.members {
        let ours: Vec<(&str, &str)> = w.needs[name].iter().filter_map(|n| w.members.get(n).map(|f| (n.as_str(), f.as_str()))).collect();
        let side = |folder: &str| folder.split('/').next().unwrap_or_default().to_string();
        match side(folder).as_str() {
            "core" => assert!(ours.is_empty(), "the core depends on {ours:?}"),
            // The program is where the two meet.
            "transports" if name == "deskhand" => {}
            "transports" | "backends" => {
                for (other, other_folder) in ours {
                    assert!(
                        matches!(side(other_folder).as_str(), s if s == "core" || s == side(folder)),
                        "{name} ({folder}) depends on {other} ({other_folder})"
                    );
                }
            }
            _ => {}
        }
        if side(folder) != "conformance" {
            assert!(!w.needs[name].contains("deskhand-conformance"), "{name} depends on the tests");
        }
    }
}

#[test]
fn the_core_stays_pure() {
    let w = workspace();
    let direct: BTreeSet<&str> = w.needs["deskhand-core"].iter().map(String::as_str).collect();
    let allowed: BTreeSet<&str> = CORE_MAY.iter().copied().collect();
    let new: Vec<_> = direct.difference(&allowed).collect();
    assert!(new.is_empty(), "new in the core: {new:?}");
    let (start, _) = w.names.iter().find(|(_, name)| *name == "deskhand-core").unwrap();
    let (mut seen, mut next) = (BTreeSet::new(), vec![start.clone()]);
    while let Some(id) = next.pop() {
        if seen.insert(id.clone()) {
            next.extend(w.graph.get(&id).into_iter().flatten().cloned());
        }
    }
    let below: BTreeSet<&str> = seen.iter().map(|id| w.names[id].as_str()).collect();
    let banned: Vec<_> = CORE_NEVER.iter().filter(|name| below.contains(**name)).collect();
    assert!(banned.is_empty(), "below the core stand {banned:?}");
}

/// What clippy's list of forbidden methods also says, for those who don't run clippy.
#[test]
fn the_cores_source_names_nothing_ambient() {
    fn visit(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//")) {
                for word in ["Instant::now", "SystemTime::now", "std::env", "std::fs", "std::net", "std::thread", "std::process", "HashMap", "HashSet"] {
                    if line.contains(word) {
                        found.push(format!("{}:{}: {word}", path.display(), i + 1));
                    }
                }
            }
        }
    }
    let mut found = Vec::new();
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src"), &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
