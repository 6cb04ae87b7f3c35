//! A call's arguments, checked against the declaration, with its defaults.

use serde_json::{Map, Value};

use super::declare::{Arg, Kind, Tool};

/// The largest id: what every JSON reader keeps exactly (2^53 - 1).
pub const MAX_ID: i64 = 9_007_199_254_740_991;

/// Valid by construction: made by the validator only.
#[derive(Clone, Debug)]
pub struct Args {
    tool: &'static Tool,
    map: Map<String, Value>,
}

impl Args {
    pub(super) fn new(tool: &'static Tool, map: Map<String, Value>) -> Self {
        Self { tool, map }
    }

    pub fn tool(&self) -> &'static Tool {
        self.tool
    }

    pub fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    fn declared(&self, name: &str) -> Option<&'static Arg> {
        let arg = self.tool.arg(name);
        debug_assert!(arg.is_some(), "{} declares no argument {name}", self.tool.name);
        arg
    }

    pub fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub fn flag(&self, name: &str) -> bool {
        match (self.map.get(name), self.declared(name).map(|a| &a.kind)) {
            (Some(Value::Bool(given)), _) => *given,
            (_, Some(Kind::Bool { default })) => *default,
            _ => false,
        }
    }

    /// A flag that not every tool has: false where it isn't declared.
    pub fn flag_if_declared(&self, name: &str) -> bool {
        self.tool.arg(name).is_some() && self.flag(name)
    }

    pub fn integer(&self, name: &str) -> Option<i64> {
        let default = match self.declared(name).map(|a| &a.kind) {
            Some(Kind::Integer { default, .. }) => *default,
            _ => None,
        };
        self.map.get(name).and_then(as_integer).or(default)
    }

    pub fn id(&self, name: &str) -> Option<u64> {
        self.integer(name).and_then(|n| u64::try_from(n).ok())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        let default = match self.declared(name).map(|a| &a.kind) {
            Some(Kind::Text { default, .. } | Kind::Choice { default, .. }) => *default,
            _ => None,
        };
        self.map.get(name).and_then(Value::as_str).or(default)
    }

    pub fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.declared(name);
        self.map.get(name).and_then(Value::as_object)
    }

    pub fn value(&self, name: &str) -> Option<&Value> {
        self.declared(name);
        self.map.get(name)
    }

    pub fn texts(&self, name: &str) -> Vec<&str> {
        self.declared(name);
        self.map.get(name).and_then(Value::as_array).map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }
}

/// JSON Schema counts 3.0 as an integer, so does this.
pub fn as_integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= MAX_ID as f64).map(|f| f as i64))
}

/// An integer inside an object argument.
pub fn field_integer(map: &Map<String, Value>, name: &str) -> Option<i64> {
    map.get(name).and_then(as_integer)
}
