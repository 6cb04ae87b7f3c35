//! Telling clients that the list changed: by notification in the legacy era, by `subscriptions/listen` in the modern one.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::connection::Legacy;
use super::dispatch::Return;
use super::offering::{ListKind, URI_LIMIT};
use super::params::Params;
use super::revision::Revision;
use crate::engine::core::Core;
use crate::engine::io::{Conn, Output, Route};
use crate::rpc::body::{Body, notification, push_json, push_json_string};
use crate::rpc::error::RpcError;
use crate::rpc::id::RequestId;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

pub(crate) struct Subscription {
    pub route: Route,
    pub revision: Revision,
    kinds: Vec<ListKind>,
    /// Of resources.
    uris: BTreeSet<String>,
}

impl Core {
    /// Answered by notifications, and by a result only when it ends.
    pub(super) fn listen(&mut self, to: Return, id: &RequestId, params: &Params, revision: Revision) -> Result<(), RpcError> {
        let Some(filter) = params.notifications.as_ref().and_then(Value::as_object) else {
            return Err(RpcError::invalid_params("Invalid params: subscriptions/listen needs notifications, an object"));
        };
        let (kinds, uris) = self.honoured(filter)?;
        let bound = self.limits.subscriptions_per_connection;
        if self.is_in_flight(to.conn, id) {
            return Err(RpcError::invalid_request("Invalid Request: a request with this id is still in flight"));
        }
        let Some(connection) = self.connections.get_mut(&to.conn) else { return Ok(()) };
        if connection.subscriptions.len() >= bound {
            return Err(RpcError::invalid_request(format!("Invalid Request: more than {bound} subscriptions; end one first")));
        }
        // Only what is honoured is acknowledged.
        let mut honoured: Map<String, Value> = kinds.iter().map(|kind| (kind.filter().to_string(), json!(true))).collect();
        if !uris.is_empty() {
            honoured.insert("resourceSubscriptions".into(), json!(uris));
        }
        connection.subscriptions.insert(id.clone(), Subscription { route: to.route, revision, kinds, uris });
        let body = about(id, "notifications/subscriptions/acknowledged", &[("notifications", &Value::Object(honoured))]);
        self.put(Output::Send { conn: to.conn, route: to.route, body });
        Ok(())
    }

    /// What of a filter this toolset can tell.
    fn honoured(&self, filter: &Map<String, Value>) -> Result<(Vec<ListKind>, BTreeSet<String>), RpcError> {
        let asked = |kind: ListKind| filter.get(kind.filter()).and_then(Value::as_bool).unwrap_or(false);
        let has = |kind| match kind {
            ListKind::Tools => true,
            ListKind::Prompts => !self.toolset.prompts.is_empty(),
            ListKind::Resources => self.toolset.resources.is_some(),
        };
        let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources].into_iter().filter(|kind| asked(*kind) && has(*kind)).collect();
        let uris: BTreeSet<String> = match filter.get("resourceSubscriptions") {
            Some(Value::Array(uris)) if self.toolset.resources.is_some_and(|r| r.subscribe) => {
                uris.iter().filter_map(Value::as_str).filter(|uri| uri.len() <= URI_LIMIT).map(str::to_string).collect()
            }
            _ => BTreeSet::new(),
        };
        let bound = self.limits.subscribed_resources;
        if uris.len() > bound {
            return Err(RpcError::invalid_params(format!("Invalid params: more than {bound} resourceSubscriptions")));
        }
        Ok((kinds, uris))
    }

    /// The client cancelled it: no answer follows.
    pub(super) fn end_subscription(&mut self, conn: Conn, id: &RequestId) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.subscriptions.remove(id);
        }
    }

    /// The server ends them: each gets its result.
    pub(crate) fn end_all_subscriptions(&mut self, conn: Conn) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        for (id, subscription) in std::mem::take(&mut connection.subscriptions) {
            let mut result = b"{\"_meta\":{".to_vec();
            if let Value::Object(meta) = self.result_meta(subscription.revision) {
                for (key, value) in &meta {
                    push_json_string(&mut result, key);
                    result.push(b':');
                    push_json(&mut result, value);
                    result.push(b',');
                }
            }
            push_subscription_id(&mut result, &id);
            result.extend_from_slice(b"},\"resultType\":\"complete\"}");
            let to = Return { conn, route: subscription.route, batch: None };
            self.succeed(to, &id, result.into());
        }
    }

    pub(crate) fn announce_list_changes(&mut self) {
        // Lists wait for the start's end, so nobody has seen one that could have changed.
        if self.startup.is_under_way() || !std::mem::take(&mut self.listings.dirty) {
            return;
        }
        let listed = self.listed();
        let before = self.listings.announced.replace(listed);
        if before.is_none_or(|before| before == listed) {
            return;
        }
        self.announce(ListKind::Tools);
    }

    pub(crate) fn announce(&mut self, kind: ListKind) {
        let method = kind.notification();
        self.tell(
            |legacy| legacy.initialized.then(|| notification(method, &Value::Null)),
            |id, subscription| subscription.kinds.contains(&kind).then(|| about(id, method, &[])),
        );
    }

    pub(crate) fn announce_resource(&mut self, uri: &str) {
        const METHOD: &str = "notifications/resources/updated";
        self.tell(
            |legacy| legacy.subscribed.contains(uri).then(|| notification(METHOD, &json!({"uri": uri}))),
            |id, subscription| subscription.uris.contains(uri).then(|| about(id, METHOD, &[("uri", &json!(uri))])),
        );
    }

    fn tell(&mut self, legacy: impl Fn(&Legacy) -> Option<Body>, modern: impl Fn(&RequestId, &Subscription) -> Option<Body>) {
        let mut sends = Vec::new();
        for (conn, connection) in &self.connections {
            if let (Some(session), Some(route)) = (&connection.legacy, connection.carriage.unsolicited()) {
                sends.extend(legacy(session).map(|body| (*conn, route, body)));
            }
            for (id, subscription) in &connection.subscriptions {
                sends.extend(modern(id, subscription).map(|body| (*conn, subscription.route, body)));
            }
        }
        for (conn, route, body) in sends {
            self.put(Output::Send { conn, route, body });
        }
    }
}

/// A notification of a subscription. Its id is written as it came, of whatever size.
fn about(id: &RequestId, method: &str, params: &[(&str, &Value)]) -> Body {
    let mut out = b"{\"jsonrpc\":\"2.0\",\"method\":".to_vec();
    push_json_string(&mut out, method);
    out.extend_from_slice(b",\"params\":{\"_meta\":{");
    push_subscription_id(&mut out, id);
    out.push(b'}');
    for (key, value) in params {
        out.push(b',');
        push_json_string(&mut out, key);
        out.push(b':');
        push_json(&mut out, value);
    }
    out.extend_from_slice(b"}}");
    out.into()
}

fn push_subscription_id(out: &mut Vec<u8>, id: &RequestId) {
    push_json_string(out, SUBSCRIPTION_ID);
    out.push(b':');
    id.write_json(out);
}
