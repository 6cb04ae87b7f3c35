//! Resources, prompts, completion and log levels: what a toolset may offer beside tools.

use serde_json::{Map, Value, json};

use super::dispatch::{Return, Who};
use super::params::Params;
use super::state::Binding;
use crate::engine::call_table::Origin;
use crate::engine::core::Core;
use crate::engine::cx::Cx;
use crate::engine::io::Conn;
use crate::rpc::body::{Body, value_body};
use crate::rpc::error::{RpcError, shortened};
use crate::rpc::id::RequestId;
use crate::tools::offers::{CompletionAsk, HandlerFuture, Prompt, Reference, Resources};

/// How severe a log message is, the least severe first (RFC 5424).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// A list that clients can be told the change of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    Tools,
    Resources,
    Prompts,
}

impl ListKind {
    /// Its key in the filter of `subscriptions/listen`.
    pub(crate) fn filter(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Resources => "resourcesListChanged",
            Self::Prompts => "promptsListChanged",
        }
    }

    pub(crate) fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
        }
    }
}

impl Level {
    pub fn parse(value: &Value) -> Option<Self> {
        // Serde would take an object of one member for a variant too.
        serde_json::from_value(value.clone()).ok().filter(|_| value.is_string())
    }
}

/// A URI longer than this names nothing here.
pub(super) const URI_LIMIT: usize = 8 << 10;

impl Core {
    /// The methods of both eras that only some toolsets have. `Ok(None)`: the answer comes later.
    pub(super) fn offered(&mut self, to: Return, id: &RequestId, method: &str, params: &Params, who: Who) -> Result<Option<Body>, RpcError> {
        let toolset = self.toolset;
        match (method, toolset.resources, toolset.complete) {
            ("resources/list", Some(resources), _) => {
                let cursor = match &params.cursor {
                    None | Some(Value::Null) => None,
                    Some(Value::String(cursor)) => Some(cursor.clone()),
                    Some(_) => return Err(RpcError::invalid_params("Invalid params: cursor must be a string")),
                };
                self.start_offer(to, id, who, params, None, |cx| (resources.list)(cx, cursor))
            }
            ("resources/templates/list", Some(resources), _) => self.list_templates(params, &who, resources).map(Some),
            ("resources/read", Some(resources), _) => {
                let uri = uri_of(params, method)?;
                let binding = self.binding(&who, params, method, &uri, &Value::Null);
                self.start_offer(to, id, who, params, binding, |cx| (resources.read)(cx, uri))
            }
            ("prompts/list", ..) if !toolset.prompts.is_empty() => self.list_prompts(params, &who).map(Some),
            ("prompts/get", ..) if !toolset.prompts.is_empty() => {
                let (prompt, arguments) = self.find_prompt(params)?;
                let binding = self.binding(&who, params, method, prompt.name, &Value::Object(arguments.clone()));
                self.start_offer(to, id, who, params, binding, |cx| (prompt.run)(cx, arguments))
            }
            ("completion/complete", _, Some(complete)) => {
                let ask = completion_ask(params)?;
                self.start_offer(to, id, who, params, None, |cx| complete(cx, ask))
            }
            _ => Err(RpcError::method_not_found(method)),
        }
    }

    /// What only the legacy era has, where a connection remembers.
    pub(super) fn remembered(&mut self, conn: Conn, method: &str, params: &Params) -> Option<Result<Body, RpcError>> {
        let done = || Ok(Body::from(b"{}".to_vec()));
        match method {
            "logging/setLevel" if self.toolset.logging => {
                let level = params.level.as_ref().and_then(Level::parse);
                let legacy = self.connections.get_mut(&conn).and_then(|c| c.legacy.as_mut());
                Some(match (level, legacy) {
                    (Some(level), Some(legacy)) => {
                        legacy.log_level = level;
                        done()
                    }
                    _ => Err(RpcError::invalid_params("Invalid params: level must be debug, info, notice, warning, error, critical, alert or emergency")),
                })
            }
            "resources/subscribe" | "resources/unsubscribe" if self.toolset.resources.is_some_and(|r| r.subscribe) => Some(uri_of(params, method).and_then(|uri| {
                let bound = self.limits.subscribed_resources;
                let Some(legacy) = self.connections.get_mut(&conn).and_then(|c| c.legacy.as_mut()) else { return done() };
                if method == "resources/unsubscribe" {
                    legacy.subscribed.remove(&uri);
                } else if legacy.subscribed.len() >= bound && !legacy.subscribed.contains(&uri) {
                    return Err(RpcError::invalid_request(format!("Invalid Request: more than {bound} resources; unsubscribe from one first")));
                } else {
                    legacy.subscribed.insert(uri);
                }
                done()
            })),
            _ => None,
        }
    }

    /// Starts a handler that isn't a tool's: beside the lane, without gate and audit.
    fn start_offer(
        &mut self,
        to: Return,
        id: &RequestId,
        who: Who,
        params: &Params,
        binding: Option<Binding>,
        run: impl FnOnce(Cx) -> HandlerFuture,
    ) -> Result<Option<Body>, RpcError> {
        if self.is_in_flight(to.conn, id) {
            return Err(RpcError::invalid_request("Invalid Request: a request with this id is still in flight"));
        }
        let mut caller = self.caller(to.conn, who);
        if self.is_busy(&caller) {
            return Err(RpcError::invalid_request("Invalid Request: too many requests are in flight; wait for answers before sending more"));
        }
        self.take_given(&mut caller, params, binding.as_ref())?;
        let origin = Origin { binding, ..Origin::new(id.clone(), to, None) };
        self.start_beside(caller, origin, run);
        Ok(None)
    }

    fn list_prompts(&self, params: &Params, who: &Who) -> Result<Body, RpcError> {
        no_cursor(params)?;
        let prompts: Vec<Value> = self.toolset.prompts.iter().map(|prompt| describe_prompt(prompt, who)).collect();
        Ok(self.cacheable(json!({"prompts": prompts}), who))
    }

    fn list_templates(&self, params: &Params, who: &Who, resources: &Resources) -> Result<Body, RpcError> {
        no_cursor(params)?;
        let templates: Vec<Value> = resources
            .templates
            .iter()
            .map(|template| {
                let mut shown = json!({"uriTemplate": template.uri_template, "name": template.name, "description": template.description, "mimeType": template.mime});
                if who.revision.has_titles() {
                    shown["title"] = json!(template.title);
                }
                shown
            })
            .collect();
        Ok(self.cacheable(json!({"resourceTemplates": templates}), who))
    }

    fn find_prompt(&self, params: &Params) -> Result<(&'static Prompt, Map<String, Value>), RpcError> {
        let Some(name) = params.name.as_deref() else {
            return Err(RpcError::invalid_params("Invalid params: prompts/get needs the prompt's name"));
        };
        let Some(prompt) = self.toolset.prompts.iter().copied().find(|p| p.name == name) else {
            return Err(RpcError::invalid_params(format!("Unknown prompt: {}", shortened(name))));
        };
        let arguments = match params.arguments {
            None => Map::new(),
            Some(raw) => serde_json::from_str::<Map<String, Value>>(raw.get()).map_err(|_| RpcError::invalid_params("Invalid params: arguments must be an object"))?,
        };
        if let Some(missing) = prompt.arguments.iter().find(|a| a.required && !arguments.contains_key(a.name)) {
            return Err(RpcError::invalid_params(format!("Invalid params: the prompt {} needs the argument {}", prompt.name, missing.name)));
        }
        if arguments.values().any(|value| !value.is_string()) {
            return Err(RpcError::invalid_params("Invalid params: a prompt's arguments are strings"));
        }
        Ok((prompt, arguments))
    }

    /// A list's result, with what the modern era adds to one that may be cached. Ours may not.
    pub(super) fn cacheable(&self, mut result: Value, who: &Who) -> Body {
        if who.revision.has_result_type() {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
            result["_meta"] = self.result_meta(who.revision);
        }
        value_body(&result)
    }
}

fn describe_prompt(prompt: &Prompt, who: &Who) -> Value {
    let arguments: Vec<Value> =
        prompt.arguments.iter().map(|a| json!({"name": a.name, "description": a.description, "required": a.required})).collect();
    let mut shown = json!({"name": prompt.name, "description": prompt.description, "arguments": arguments});
    if who.revision.has_titles() {
        shown["title"] = json!(prompt.title);
    }
    shown
}

fn no_cursor(params: &Params) -> Result<(), RpcError> {
    match &params.cursor {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(RpcError::invalid_params("Invalid params: unknown cursor; the list has one page")),
    }
}

fn uri_of(params: &Params, method: &str) -> Result<String, RpcError> {
    match &params.uri {
        Some(Value::String(uri)) if uri.len() <= URI_LIMIT => Ok(uri.clone()),
        Some(Value::String(_)) => Err(RpcError::invalid_params(format!("Invalid params: a uri of more than {URI_LIMIT} bytes"))),
        _ => Err(RpcError::invalid_params(format!("Invalid params: {method} needs a uri, a string"))),
    }
}

fn completion_ask(params: &Params) -> Result<CompletionAsk, RpcError> {
    let invalid = |what: &str| RpcError::invalid_params(format!("Invalid params: completion/complete needs {what}"));
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_string);
    let reference = params.reference.as_ref().ok_or_else(|| invalid("ref"))?;
    let reference = match reference.get("type").and_then(Value::as_str) {
        Some("ref/prompt") => text(reference, "name").map(Reference::Prompt),
        Some("ref/resource") => text(reference, "uri").map(Reference::Resource),
        _ => None,
    };
    let argument = params.argument.as_ref().ok_or_else(|| invalid("argument"))?;
    let settled = params.context.as_ref().and_then(|c| c.get("arguments")).and_then(Value::as_object);
    Ok(CompletionAsk {
        reference: reference.ok_or_else(|| invalid("a ref of type ref/prompt with a name, or ref/resource with a uri"))?,
        argument: text(argument, "name").ok_or_else(|| invalid("argument.name"))?,
        value: text(argument, "value").ok_or_else(|| invalid("argument.value"))?,
        context: settled.cloned().unwrap_or_default(),
    })
}
