//! What of a call's arguments the audit log may hold, from the declaration alone.

use serde_json::{Map, Value, json};

use super::args::Args;
use super::declare::{Arg, Audit, Kind, Known};

/// Answers whether a string names something the server knows.
pub trait Knows {
    fn knows(&self, what: Known, text: &str) -> bool;
}

pub fn redacted(args: &Args, known: &dyn Knows) -> Value {
    Value::Object(fields(args.tool().args, args.map(), known))
}

fn fields(declared: &[Arg], map: &Map<String, Value>, known: &dyn Knows) -> Map<String, Value> {
    declared
        .iter()
        .filter_map(|arg| map.get(arg.name).map(|value| (arg, value)))
        .filter_map(|(arg, value)| one(arg, value, known).map(|v| (arg.name.to_string(), v)))
        .collect()
}

fn one(arg: &Arg, value: &Value, known: &dyn Knows) -> Option<Value> {
    match arg.audit {
        Audit::Never => None,
        Audit::Length => Some(length(value)),
        Audit::Plain => Some(match value {
            // A choice was checked against its list; any other string is not plain, whatever the declaration says.
            Value::String(_) if !matches!(arg.kind, Kind::Choice { .. }) => length(value),
            Value::Array(_) | Value::Object(_) => length(value),
            plain => plain.clone(),
        }),
        Audit::IfKnown(what) => Some(match value {
            Value::String(text) if known.knows(what, text) => value.clone(),
            Value::Array(list) => Value::Array(
                list.iter().map(|v| if v.as_str().is_some_and(|t| known.knows(what, t)) { v.clone() } else { length(v) }).collect(),
            ),
            other => length(other),
        }),
        Audit::Fields => Some(match (&arg.kind, value) {
            (Kind::Object { fields: inner } | Kind::ObjectOr { fields: inner, .. }, Value::Object(map)) => {
                Value::Object(fields(inner, map, known))
            }
            // One of the declaration's own words.
            (Kind::ObjectOr { .. }, Value::String(_)) => value.clone(),
            (_, other) => length(other),
        }),
        Audit::KeyOnly => Some(match value.as_object().and_then(|m| m.keys().next()) {
            Some(key) if known.knows(Known::KeyNames, key) => json!(key),
            _ => length(value),
        }),
    }
}

fn length(value: &Value) -> Value {
    match value {
        Value::String(text) => json!({"string": text.chars().count()}),
        Value::Array(list) => json!({"list": list.len()}),
        Value::Object(map) => json!({"object": map.len()}),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("boolean"),
        Value::Null => Value::Null,
    }
}
