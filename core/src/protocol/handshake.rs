//! `initialize` and `server/discover`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::asking::Capabilities;
use super::connection::Legacy;
use super::offering::Level;
use super::params::{Params, client_label};
use super::revision::Revision;
use crate::engine::core::Core;
use crate::engine::io::Conn;
use crate::rpc::body::{Body, value_body};
use crate::rpc::error::RpcError;
use crate::tools::toolset::Pick;

impl Core {
    pub(super) fn initialize(&mut self, conn: Conn, params: &Params) -> Result<Body, RpcError> {
        let asked = params.protocol_version.as_ref();
        if asked.is_some_and(|v| !v.is_string()) {
            return Err(RpcError::invalid_params("Invalid params: protocolVersion must be a string"));
        }
        let pick = |pick| match pick {
            Pick::Newest => Revision::NEWEST_LEGACY,
            Pick::Oldest => Revision::ALL[0],
        };
        let revision = match asked.and_then(Value::as_str) {
            None => pick(self.toolset.negotiation.absent),
            Some(name) => Revision::parse(name).filter(|r| !r.is_modern()).unwrap_or_else(|| pick(self.toolset.negotiation.unknown)),
        };
        let Some(connection) = self.connections.get_mut(&conn) else {
            return Err(RpcError::invalid_request("Invalid Request: the connection is closed"));
        };
        if connection.legacy.is_some() {
            return Err(RpcError::invalid_request("Invalid Request: the session is initialized already"));
        }
        connection.legacy = Some(Legacy {
            revision,
            label: client_label(params.client_info.as_ref()),
            initialized: false,
            capabilities: Capabilities::read(params.capabilities.as_ref()),
            log_level: Level::Info,
            subscribed: BTreeSet::new(),
        });
        Ok(value_body(&json!({
            "protocolVersion": revision.name(),
            "capabilities": self.capabilities(),
            "serverInfo": self.server_info(revision),
            "instructions": self.toolset.instructions,
        })))
    }

    pub(super) fn discover(&self, revision: Revision) -> Body {
        value_body(&json!({
            "resultType": "complete",
            "supportedVersions": Revision::MODERN.map(Revision::name),
            "capabilities": self.capabilities(),
            "instructions": self.toolset.instructions,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": self.result_meta(revision),
        }))
    }

    fn capabilities(&self) -> Value {
        let mut map: Map<String, Value> = serde_json::from_str(self.toolset.capabilities).unwrap_or_default();
        map.insert("tools".into(), json!({"listChanged": true}));
        if !self.toolset.prompts.is_empty() {
            map.insert("prompts".into(), json!({"listChanged": true}));
        }
        if let Some(resources) = self.toolset.resources {
            map.insert("resources".into(), json!({"listChanged": true, "subscribe": resources.subscribe}));
        }
        if self.toolset.complete.is_some() {
            map.insert("completions".into(), json!({}));
        }
        if self.toolset.logging {
            map.insert("logging".into(), json!({}));
        }
        Value::Object(map)
    }

    pub(super) fn server_info(&self, revision: Revision) -> Value {
        let mut info = json!({"name": "deskhand", "version": self.server_version});
        if revision.has_titles() {
            info["title"] = json!(self.toolset.title);
        }
        if revision.has_server_description() {
            info["description"] = json!(self.toolset.description);
        }
        info
    }

    /// `_meta` of a modern result.
    pub(crate) fn result_meta(&self, revision: Revision) -> Value {
        json!({"io.modelcontextprotocol/serverInfo": self.server_info(revision)})
    }
}
