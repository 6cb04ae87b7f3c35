//! What clients see of the tools, per revision, held as files; `UPDATE_SNAPSHOTS=1` writes them anew.

#![allow(clippy::disallowed_methods)] // a test may ask its environment

mod support;

use std::path::PathBuf;

use deskhand_core::protocol::revision::Revision;
use deskhand_core::tools::declare::{Arg, Audit, Kind};
use deskhand_core::toolsets::desktop::{DESKTOP, TOOLS};
use serde_json::{Value, json};
use support::Rig;

fn list(revision: Revision) -> Value {
    let mut rig = Rig::ready();
    rig.open_connection(1);
    let mut params = json!({});
    if revision.is_modern() {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": revision.name(), "io.modelcontextprotocol/clientCapabilities": {}});
    } else {
        rig.initialize(1, revision.name());
    }
    rig.message(1, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}));
    rig.answer_to(1, 1).expect("an answer")["result"].clone()
}

#[test]
fn lists_are_as_recorded() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some();
    for revision in Revision::ALL {
        let path = folder.join(format!("tools-list-{}.json", revision.name()));
        let got = serde_json::to_string_pretty(&list(revision)).unwrap() + "\n";
        if update {
            std::fs::write(&path, &got).unwrap();
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(got == recorded, "{} differs; look at the change, then run with UPDATE_SNAPSHOTS=1", path.display());
    }
}

#[test]
fn lists_keep_to_what_clients_bear() {
    for revision in Revision::ALL {
        let result = list(revision);
        for tool in result["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            assert!((1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
            assert!(tool["description"].as_str().unwrap().len() <= 2048, "{name}: its description would be cut");
            let schema = &tool["inputSchema"];
            assert_eq!(schema["type"], "object", "{name}");
            assert_eq!(schema["additionalProperties"], false, "{name}");
            for key in ["anyOf", "oneOf", "allOf", "$schema"] {
                assert!(schema.get(key).is_none(), "{name}: {key} at the root");
            }
            assert!(!schema.to_string().contains("\"type\":["), "{name}: a union type");
            assert_eq!(tool.get("annotations").is_some(), revision.has_annotations(), "{name}");
            assert_eq!(tool.get("title").is_some(), revision.has_titles(), "{name}");
        }
        assert_eq!(result.get("ttlMs").is_some(), revision.is_modern());
    }
    assert!(DESKTOP.instructions.len() <= 2048);
}

/// Every text argument says whether it may be logged; none slips in as plain.
#[test]
fn no_text_is_plain() {
    fn check(tool: &str, args: &[Arg]) {
        for arg in args {
            match &arg.kind {
                Kind::Text { .. } => assert_ne!(arg.audit, Audit::Plain, "{tool}.{}", arg.name),
                Kind::Object { fields } | Kind::ObjectOr { fields, .. } => check(tool, fields),
                _ => {}
            }
        }
    }
    for tool in TOOLS {
        check(tool.name, tool.args);
    }
}

/// The schema and the parser agree: what the schema refuses is an argument mistake that names no value.
#[test]
fn wrong_arguments_are_told_without_their_values() {
    let mut rig = Rig::ready();
    rig.open_connection(1);
    rig.initialize(1, "2025-11-25");
    let secret = "s3cr3t-v4lue";
    for (id, (tool, arguments)) in [
        ("type_text", json!({"text": 5})),
        ("type_text", json!({"text": [secret]})),
        ("type_text", json!({secret: 1, "text": "a"})),
        ("click", json!({"x": secret, "y": 1})),
        ("click", json!({"x": -1, "y": 1})),
        ("click", json!({"x": 1, "y": 1, "button": secret})),
        ("wait_for", json!({"until": secret})),
        ("wait_for", json!({"until": {"window": {}, "closed": 1}})),
        ("wait_for", json!({"until": {secret: 1}})),
        ("focus", json!([secret])),
        ("focus", json!(secret)),
        ("key", json!({"keys": []})),
        ("niri_action", json!({"action": {"a": {}, "b": {}}})),
    ]
    .into_iter()
    .enumerate()
    {
        rig.call(1, id as u64, tool, &arguments);
        let answer = rig.answer_to(1, id as u64).unwrap_or_else(|| panic!("{tool} {arguments} got no answer"));
        assert_eq!(answer["result"]["isError"], json!(true), "{tool} {arguments}: {answer}");
        assert!(rig.open.is_empty(), "{tool} {arguments} did something");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        // An unknown argument's name is the client's own word and is told back to it; values never are.
        if arguments.get(secret).is_none() {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn a_null_for_an_optional_argument_and_a_whole_float_are_fine() {
    let mut rig = Rig::ready();
    rig.open_connection(1);
    rig.initialize(1, "2025-11-25");
    rig.call(1, 1, "desktop_state", &json!({"since": null}));
    rig.answer_all();
    assert!(rig.structured(1, 1)["windows"].is_array());
    rig.call(1, 2, "desktop_state", &json!({"since": 1.0}));
    rig.answer_all();
    assert_eq!(rig.answer_to(1, 2).unwrap()["result"]["isError"], json!(false));
}
