//! `tools/list`: one rendering per revision and set of listed tools, made once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::params::Params;
use super::revision::Revision;
use crate::engine::core::Core;
use crate::rpc::body::{Body, value_body};
use crate::rpc::error::RpcError;
use crate::tools::declare::{Hints, Tool};
use crate::tools::facts::Refused;
use crate::tools::schema::{Validator, input_schema};
use crate::tools::toolset::Toolset;

/// Which tools are listed: a bit each, in the toolset's order.
type Listed = u128;

pub(crate) struct Listings {
    toolset: &'static Toolset,
    validators: BTreeMap<&'static str, Validator>,
    rendered: BTreeMap<(Revision, Listed), Body>,
    pub announced: Option<Listed>,
    /// Something was observed that may change the list.
    pub dirty: bool,
}

impl Listings {
    pub fn new(toolset: &'static Toolset) -> Self {
        Self { toolset, validators: BTreeMap::new(), rendered: BTreeMap::new(), announced: None, dirty: true }
    }

    /// Compiled at the tool's first call.
    pub fn validator(&mut self, tool: &'static Tool) -> Result<&Validator, Refused> {
        if !self.validators.contains_key(tool.name) {
            let compiled = Validator::compile(tool).map_err(|e| Refused::Schema(format!("failed to deserialize parameters: {e}")))?;
            self.validators.insert(tool.name, compiled);
        }
        self.validators.get(tool.name).ok_or_else(|| Refused::Schema("failed to deserialize parameters".into()))
    }

    fn render(&mut self, revision: Revision, listed: Listed, meta: Option<Value>) -> Body {
        let toolset = self.toolset;
        self.rendered
            .entry((revision, listed))
            .or_insert_with(|| {
                let tools: Vec<Value> = toolset
                    .tools
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| listed & (1 << i) != 0)
                    .map(|(_, tool)| describe(tool, revision))
                    .collect();
                let mut result = json!({"tools": tools});
                if let Some(meta) = meta {
                    result["resultType"] = json!("complete");
                    result["ttlMs"] = json!(0);
                    result["cacheScope"] = json!("private");
                    result["_meta"] = meta;
                }
                value_body(&result)
            })
            .clone()
    }
}

/// A tool as `tools/list` shows it.
pub fn describe(tool: &Tool, revision: Revision) -> Value {
    let mut shown = json!({"name": tool.name, "description": tool.description, "inputSchema": input_schema(tool)});
    if revision.has_titles() {
        shown["title"] = json!(tool.title);
        if tool.always_load {
            shown["_meta"] = json!({"anthropic/alwaysLoad": true});
        }
    }
    if revision.has_annotations() {
        let mut hints = match tool.hints {
            Hints::ReadOnly => json!({"readOnlyHint": true}),
            Hints::Acts => json!({"readOnlyHint": false, "destructiveHint": false}),
            Hints::Destructive => json!({"readOnlyHint": false, "destructiveHint": true}),
        };
        hints["title"] = json!(tool.title);
        hints["openWorldHint"] = json!(false);
        shown["annotations"] = hints;
    }
    shown
}

impl Core {
    pub(super) fn list_tools(&mut self, params: &Params, revision: Revision) -> Result<Body, RpcError> {
        if params.cursor.as_ref().is_some_and(|c| !c.is_null()) {
            return Err(RpcError::invalid_params("Invalid params: unknown cursor; the list has one page"));
        }
        let listed = self.listed();
        let meta = revision.has_result_type().then(|| self.result_meta(revision));
        Ok(self.listings.render(revision, listed, meta))
    }

    pub(super) fn listed(&self) -> Listed {
        self.look(|w| {
            self.toolset.tools.iter().enumerate().filter(|(_, tool)| (self.toolset.listed)(w, tool)).fold(0, |bits, (i, _)| bits | (1 << i))
        })
    }
}
