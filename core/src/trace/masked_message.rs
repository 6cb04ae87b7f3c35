//! A client's message without what it must not tell: only what the protocol and the tools' declarations know stays.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::mask::Masks;
use crate::protocol::connection::is_known_client;
use crate::protocol::offering::Level;
use crate::protocol::params::client_label;
use crate::tools::declare::{Arg, Audit, Kind, Known};
use crate::tools::redact::Knows;
use crate::tools::toolset::Toolset;
use crate::toolsets::desktop::chords;

/// What tells a secret from a name that the server knows.
pub(super) struct Context<'a> {
    pub toolset: &'static Toolset,
    pub knows: &'a dyn Knows,
    /// The running core's lease token, and the recorder's own in its place.
    pub lease: Option<(String, String)>,
}

/// Words of the protocol, and of the messages' own structure.
const WORDS: &[&str] = &[
    "_meta", "action", "annotations", "argument", "arguments", "capabilities", "clientInfo", "content", "context", "cursor", "elicitation", "experimental", "form",
    "inputResponses", "level", "listChanged", "name", "notifications", "prompts", "protocolVersion", "reason", "ref", "requestId", "requestState",
    "resourceSubscriptions", "resources", "role", "roots", "sampling", "subscribe", "title", "tools", "toolsListChanged", "promptsListChanged", "resourcesListChanged",
    "progressToken", "type", "uri", "url", "value", "version", "websiteUrl", "io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel", "io.modelcontextprotocol/protocolVersion",
];

const METHODS: &[&str] = &[
    "initialize", "ping", "server/discover", "tools/list", "tools/call", "subscriptions/listen", "notifications/initialized", "notifications/cancelled",
    "notifications/progress", "notifications/roots/list_changed", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe",
    "resources/unsubscribe", "prompts/list", "prompts/get", "logging/setLevel", "completion/complete",
];

/// What an action in niri's IPC form is made of.
const ACTION_WORDS: &[&str] = &[
    "id", "window_id", "workspace_id", "reference", "workspace", "focus", "index", "output", "change", "display", "x", "y", "name", "path", "layout", "Id", "Index",
    "Name", "SetFixed", "SetProportion", "AdjustFixed", "AdjustProportion", "Normal", "Tabbed", "Next", "Prev", "skip_confirmation", "command",
];

pub(super) fn message(masks: &mut Masks, bytes: &[u8], context: &Context) -> Bytes {
    let masked = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(members)) => Value::Array(members.iter().map(|m| envelope(masks, m, context)).collect()),
        Ok(value) => envelope(masks, &value, context),
        // Not JSON: what it was meant to be can't be told, so none of it stays.
        Err(_) => return Bytes::from(masks.text(&String::from_utf8_lossy(bytes))),
    };
    Bytes::from(masked.to_string())
}

fn envelope(masks: &mut Masks, value: &Value, context: &Context) -> Value {
    let Some(map) = value.as_object() else { return anything(masks, value, WORDS) };
    let method = map.get("method").and_then(Value::as_str).unwrap_or_default();
    let entries = map.iter().map(|(key, value)| {
        let masked = match (key.as_str(), value) {
            ("jsonrpc", Value::String(version)) if version == "2.0" => value.clone(),
            // Ids are compared and echoed, and name nothing.
            ("id", Value::String(_) | Value::Number(_)) => value.clone(),
            ("method", Value::String(method)) if METHODS.contains(&method.as_str()) => value.clone(),
            ("params", Value::Object(params)) => Value::Object(parameters(masks, method, params, context)),
            ("result", Value::Object(result)) => answer(masks, result),
            ("jsonrpc" | "id" | "method" | "params" | "result" | "error", other) => anything(masks, other, WORDS),
            (_, other) => return (masks.text(key), anything(masks, other, WORDS)),
        };
        (key.clone(), masked)
    });
    Value::Object(entries.collect())
}

fn parameters(masks: &mut Masks, method: &str, params: &Map<String, Value>, context: &Context) -> Map<String, Value> {
    let tool = params.get("name").and_then(Value::as_str).filter(|_| method == "tools/call").and_then(|name| context.toolset.find(name));
    params
        .iter()
        .map(|(key, value)| {
            let masked = match (key.as_str(), value, &tool) {
                ("name", _, Some(_)) => value.clone(),
                ("name", Value::String(name), _) if method == "prompts/get" && is_prompt(context, name) => value.clone(),
                ("arguments", Value::Object(map), _) if method == "prompts/get" => Value::Object(prompt_arguments(masks, map, context)),
                ("ref", Value::Object(reference), _) => Value::Object(reference.iter().map(|(k, v)| (word(masks, k, WORDS), referred(masks, k, v, context))).collect()),
                ("argument", Value::Object(argument), _) => Value::Object(argument.iter().map(|(k, v)| (word(masks, k, WORDS), argued(masks, k, v, context))).collect()),
                ("level", Value::String(_), _) if Level::parse(value).is_some() => value.clone(),
                // What was asked by which key only the handler knows, so the keys are as much the client's as the answers.
                ("inputResponses", Value::Object(responses), _) => Value::Object(responses.iter().map(|(k, v)| (masks.text(k), response(masks, v))).collect()),
                ("arguments", Value::Object(map), Some((tool, _))) => Value::Object(arguments(masks, tool.args, map, context)),
                ("_meta", Value::Object(meta), _) => Value::Object(meta.iter().map(|(k, v)| meta_entry(masks, k, v)).collect()),
                ("protocolVersion", _, _) => version(masks, value),
                ("clientInfo", _, _) => client(masks, value),
                ("requestId", Value::String(_) | Value::Number(_), _) => value.clone(),
                _ => anything(masks, value, WORDS),
            };
            (word(masks, key, WORDS), masked)
        })
        .collect()
}

fn meta_entry(masks: &mut Masks, key: &str, value: &Value) -> (String, Value) {
    let masked = match (key, value) {
        ("progressToken", Value::Number(_)) => value.clone(),
        ("io.modelcontextprotocol/logLevel", Value::String(_)) if Level::parse(value).is_some() => value.clone(),
        ("io.modelcontextprotocol/protocolVersion", _) => version(masks, value),
        ("io.modelcontextprotocol/clientInfo", _) => client(masks, value),
        _ => anything(masks, value, WORDS),
    };
    (word(masks, key, WORDS), masked)
}

fn response(masks: &mut Masks, value: &Value) -> Value {
    match value {
        Value::Object(map) => answer(masks, map),
        other => anything(masks, other, WORDS),
    }
}

/// To a question of the server's: what makes it a yes, a no or a message stays.
fn answer(masks: &mut Masks, result: &Map<String, Value>) -> Value {
    let entries = result.iter().map(|(key, value)| {
        let masked = match (key.as_str(), value.as_str()) {
            ("action", Some("accept" | "decline" | "cancel")) | ("role", Some("user" | "assistant")) => value.clone(),
            _ => anything(masks, value, WORDS),
        };
        (word(masks, key, WORDS), masked)
    });
    Value::Object(entries.collect())
}

fn is_prompt(context: &Context, name: &str) -> bool {
    context.toolset.prompts.iter().any(|prompt| prompt.name == name)
}

fn is_prompt_argument(context: &Context, name: &str) -> bool {
    context.toolset.prompts.iter().any(|prompt| prompt.arguments.iter().any(|argument| argument.name == name))
}

fn prompt_arguments(masks: &mut Masks, map: &Map<String, Value>, context: &Context) -> Map<String, Value> {
    map.iter()
        .map(|(key, value)| (if is_prompt_argument(context, key) { key.clone() } else { masks.text(key) }, anything(masks, value, &[])))
        .collect()
}

/// What is to be completed: a prompt by its name, or a resource by its template.
fn referred(masks: &mut Masks, key: &str, value: &Value, context: &Context) -> Value {
    let templates = context.toolset.resources.map(|r| r.templates).unwrap_or_default();
    match (key, value.as_str()) {
        ("type", Some("ref/prompt" | "ref/resource")) => value.clone(),
        ("name", Some(name)) if is_prompt(context, name) => value.clone(),
        ("uri", Some(uri)) if templates.iter().any(|t| t.uri_template == uri) => value.clone(),
        _ => anything(masks, value, WORDS),
    }
}

fn argued(masks: &mut Masks, key: &str, value: &Value, context: &Context) -> Value {
    match (key, value.as_str()) {
        ("name", Some(name)) if is_prompt_argument(context, name) => value.clone(),
        _ => anything(masks, value, WORDS),
    }
}

fn arguments(masks: &mut Masks, declared: &[Arg], map: &Map<String, Value>, context: &Context) -> Map<String, Value> {
    map.iter()
        .map(|(key, value)| match declared.iter().find(|arg| arg.name == key) {
            Some(arg) => (key.clone(), argument(masks, arg, value, context)),
            None => (masks.text(key), anything(masks, value, &[])),
        })
        .collect()
}

fn argument(masks: &mut Masks, arg: &Arg, value: &Value, context: &Context) -> Value {
    match (arg.audit, &arg.kind, value) {
        (_, _, Value::Null | Value::Bool(_)) => value.clone(),
        (Audit::Never, _, Value::String(token)) => match &context.lease {
            Some((real, own)) if real == token => json!(own),
            _ => json!(masks.text(token)),
        },
        (Audit::Plain, Kind::Integer { .. }, Value::Number(_)) => value.clone(),
        (Audit::Plain, Kind::Choice { of, .. }, Value::String(text)) if of.contains(&text.as_str()) => value.clone(),
        (Audit::IfKnown(what), _, Value::String(text)) => json!(if_known(masks, what, text, context)),
        (Audit::IfKnown(what), _, Value::Array(list)) => list
            .iter()
            .map(|item| match item {
                Value::String(text) => json!(if_known(masks, what, text, context)),
                other => anything(masks, other, &[]),
            })
            .collect(),
        (Audit::Fields, Kind::Object { fields } | Kind::ObjectOr { fields, .. }, Value::Object(map)) => {
            Value::Object(arguments(masks, fields, map, context))
        }
        (Audit::Fields, Kind::ObjectOr { words, .. }, Value::String(text)) if words.contains(&text.as_str()) => value.clone(),
        (Audit::KeyOnly, _, Value::Object(map)) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let known = context.knows.knows(Known::KeyNames, key);
                    (if known { key.clone() } else { masks.text(key) }, action(masks, value))
                })
                .collect(),
        ),
        (_, _, other) => anything(masks, other, &[]),
    }
}

fn if_known(masks: &mut Masks, what: Known, text: &str, context: &Context) -> String {
    if context.knows.knows(what, text) {
        return text.to_string();
    }
    match what {
        Known::KeyNames => key(masks, text),
        _ => masks.text(text),
    }
}

/// A combination that types a character stays one that does.
fn key(masks: &mut Masks, text: &str) -> String {
    if chords::parse(text).is_err() {
        return masks.text(text);
    }
    let at = text.char_indices().rev().skip(1).find(|(_, c)| *c == '+').map_or(0, |(at, _)| at + 1);
    let (modifiers, last) = text.split_at(at);
    let mut chars = last.chars();
    let masked = match (chars.next(), chars.next()) {
        (Some(_), None) => masks.text(last),
        _ => "x".into(),
    };
    format!("{modifiers}{masked}")
}

/// Below an action's name: numbers and the form stay, texts don't.
fn action(masks: &mut Masks, value: &Value) -> Value {
    match value {
        Value::Number(_) => value.clone(),
        Value::Array(list) => list.iter().map(|v| action(masks, v)).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (word(masks, k, ACTION_WORDS), action(masks, v))).collect()),
        other => anything(masks, other, ACTION_WORDS),
    }
}

/// Strings masked, numbers zero, and only these words as keys.
fn anything(masks: &mut Masks, value: &Value, words: &[&str]) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(_) => json!(0),
        Value::String(text) => json!(masks.text(text)),
        Value::Array(list) => list.iter().map(|v| anything(masks, v, words)).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (word(masks, k, words), anything(masks, v, words))).collect()),
    }
}

fn word(masks: &mut Masks, key: &str, words: &[&str]) -> String {
    if words.contains(&key) { key.to_string() } else { masks.text(key) }
}

/// A date names a revision, known or not.
fn version(masks: &mut Masks, value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') => value.clone(),
        other => anything(masks, other, &[]),
    }
}

fn client(masks: &mut Masks, info: &Value) -> Value {
    let known = is_known_client(&client_label(Some(info)));
    match info {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| match key.as_str() {
                    "name" | "version" if known && value.is_string() => (key.clone(), value.clone()),
                    _ => (word(masks, key, WORDS), anything(masks, value, WORDS)),
                })
                .collect(),
        ),
        other => anything(masks, other, &[]),
    }
}
