//! From a declaration to its JSON Schema (2020-12) and to a compiled validator.

use serde_json::{Map, Value, json};

use super::args::Args;
use super::declare::{Arg, Kind, Tool};
use super::facts::Refused;
use crate::rpc::error::shortened;

/// The tool's `inputSchema`.
pub fn input_schema(tool: &Tool) -> Value {
    tool.schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| object_schema(tool.args))
}

fn object_schema(args: &[Arg]) -> Value {
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    if !args.is_empty() {
        let properties: Map<String, Value> = args.iter().map(|a| (a.name.to_string(), property(a))).collect();
        schema.insert("properties".into(), Value::Object(properties));
        let required: Vec<&str> = args.iter().filter(|a| a.required).map(|a| a.name).collect();
        if !required.is_empty() {
            schema.insert("required".into(), json!(required));
        }
    }
    schema.insert("additionalProperties".into(), json!(false));
    Value::Object(schema)
}

fn property(arg: &Arg) -> Value {
    let mut schema = kind_schema(&arg.kind);
    if let Value::Object(map) = &mut schema
        && !arg.about.is_empty()
    {
        map.insert("description".into(), json!(arg.about));
    }
    schema
}

fn kind_schema(kind: &Kind) -> Value {
    let with_default = |mut schema: Value, default: Option<Value>| {
        if let (Value::Object(map), Some(default)) = (&mut schema, default) {
            map.insert("default".into(), default);
        }
        schema
    };
    match kind {
        Kind::Bool { default } => json!({"type": "boolean", "default": default}),
        Kind::Integer { min, max, default } => {
            let mut schema = json!({"type": "integer", "minimum": min});
            // Ids reach up to what JSON readers keep exactly; saying so to every model is noise.
            if *max != super::args::MAX_ID {
                schema["maximum"] = json!(max);
            }
            with_default(schema, default.map(|d| json!(d)))
        }
        Kind::Text { min, max, default } => {
            let mut schema = json!({"type": "string"});
            if *min > 0 {
                schema["minLength"] = json!(min);
            }
            schema["maxLength"] = json!(max);
            with_default(schema, default.map(|d| json!(d)))
        }
        Kind::Choice { of, default } => with_default(json!({"type": "string", "enum": of}), default.map(|d| json!(d))),
        Kind::List { of, min, max } => json!({"type": "array", "items": kind_schema(of), "minItems": min, "maxItems": max}),
        Kind::Object { fields } => object_schema(fields),
        Kind::AnyObject => json!({"type": "object", "minProperties": 1, "maxProperties": 1}),
        // A union confuses several clients: the schema leaves the type open, the text and the parser say the rest.
        Kind::ObjectOr { .. } => json!({}),
    }
}

/// A property that a header mirrors on HTTP (`x-mcp-header`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// What follows `Mcp-Param-`.
    pub header: String,
    /// The chain of properties that leads to it.
    pub path: Vec<String>,
}

/// Of a hand-written schema.
pub fn mirrored_headers(schema: &str) -> Vec<Mirrored> {
    fn walk(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirrored>) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        for (name, property) in properties {
            path.push(name.clone());
            if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str) {
                found.push(Mirrored { header: header.to_string(), path: path.clone() });
            }
            walk(property, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    if schema.contains("x-mcp-header") {
        walk(&serde_json::from_str(schema).unwrap_or_default(), &mut Vec::new(), &mut found);
    }
    found
}

/// Checks arguments and turns them into [`Args`].
pub struct Validator {
    tool: &'static Tool,
    compiled: jsonschema::Validator,
}

impl Validator {
    /// The declaration is ours, so a schema that doesn't compile is a bug of ours, told as an error.
    pub fn compile(tool: &'static Tool) -> Result<Self, String> {
        let schema = input_schema(tool);
        let compiled = jsonschema::draft202012::new(&schema).map_err(|e| e.to_string())?;
        Ok(Self { tool, compiled })
    }

    /// Drops nulls given for optional arguments, then checks. The error never repeats a value.
    pub fn check(&self, arguments: Option<Value>) -> Result<Args, Refused> {
        let mut map = match arguments {
            None => Map::new(),
            Some(Value::Object(map)) => map,
            Some(_) => return Err(mismatch("arguments must be an object")),
        };
        if !map.is_empty() {
            drop_nulls(self.tool.args, &mut map);
        }
        if let Some(unknown) = map.keys().find(|key| self.tool.schema.is_none() && self.tool.arg(key).is_none()) {
            let known: Vec<&str> = self.tool.args.iter().map(|a| a.name).collect();
            let takes = if known.is_empty() { "no arguments".to_string() } else { known.join(", ") };
            return Err(mismatch(&format!("unknown argument {:?}; {} takes {takes}", shortened(unknown), self.tool.name)));
        }
        let value = Value::Object(map);
        if let Some(error) = self.compiled.iter_errors(&value).next() {
            let place = error.instance_path().to_string();
            let told = error.masked_with("the value").to_string();
            return Err(mismatch(&if place.is_empty() { told } else { format!("{told} at {place}") }));
        }
        let Value::Object(map) = value else { return Err(mismatch("arguments must be an object")) };
        check_unions(self.tool.args, &map)?;
        Ok(Args::new(self.tool, map))
    }
}

fn mismatch(detail: &str) -> Refused {
    Refused::Schema(format!("failed to deserialize parameters: {detail}"))
}

fn drop_nulls(args: &[Arg], map: &mut Map<String, Value>) {
    for arg in args {
        if !arg.required && map.get(arg.name).is_some_and(Value::is_null) {
            map.remove(arg.name);
        }
        if let (Kind::Object { fields } | Kind::ObjectOr { fields, .. }, Some(Value::Object(inner))) = (&arg.kind, map.get_mut(arg.name)) {
            drop_nulls(fields, inner);
        }
    }
}

fn check_unions(args: &[Arg], map: &Map<String, Value>) -> Result<(), Refused> {
    for arg in args {
        let Kind::ObjectOr { fields, words } = &arg.kind else { continue };
        let fine = match map.get(arg.name) {
            None => true,
            Some(Value::String(word)) => words.contains(&word.as_str()),
            Some(value @ Value::Object(inner)) => {
                !inner.is_empty() && jsonschema::draft202012::new(&object_schema(fields)).is_ok_and(|v| v.is_valid(value))
            }
            Some(_) => false,
        };
        if !fine {
            let keys: Vec<&str> = fields.iter().map(|f| f.name).collect();
            return Err(mismatch(&format!("{} must be an object with {} or one of the words {}", arg.name, keys.join(" or "), words.join(", "))));
        }
    }
    Ok(())
}
