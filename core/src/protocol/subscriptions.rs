//! Telling clients that the list changed: by notification in the legacy era, by `subscriptions/listen` in the modern one.

use serde_json::{Value, json};

use super::dispatch::Return;
use super::params::Params;
use super::revision::Revision;
use crate::engine::core::Core;
use crate::engine::io::{Conn, Output, Route};
use crate::rpc::body::{Body, notification, push_json, push_json_string};
use crate::rpc::error::RpcError;
use crate::rpc::id::RequestId;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
const LIST_CHANGED: &str = "notifications/tools/list_changed";

pub(crate) struct Subscription {
    pub route: Route,
    pub tools: bool,
    pub revision: Revision,
}

impl Core {
    /// Answered by notifications, and by a result only when it ends.
    pub(super) fn listen(&mut self, to: Return, id: &RequestId, params: &Params, revision: Revision) -> Result<(), RpcError> {
        let Some(filter) = params.notifications.as_ref().and_then(Value::as_object) else {
            return Err(RpcError::invalid_params("Invalid params: subscriptions/listen needs notifications, an object"));
        };
        let tools = filter.get("toolsListChanged").and_then(Value::as_bool).unwrap_or(false);
        let bound = self.limits.subscriptions_per_connection;
        if self.is_in_flight(to.conn, id) {
            return Err(RpcError::invalid_request("Invalid Request: a request with this id is still in flight"));
        }
        let Some(connection) = self.connections.get_mut(&to.conn) else { return Ok(()) };
        if connection.subscriptions.len() >= bound {
            return Err(RpcError::invalid_request(format!("Invalid Request: more than {bound} subscriptions; end one first")));
        }
        connection.subscriptions.insert(id.clone(), Subscription { route: to.route, tools, revision });
        // Only what is honoured is acknowledged.
        let honoured = if tools { json!({"toolsListChanged": true}) } else { json!({}) };
        let body = about(id, "notifications/subscriptions/acknowledged", Some(&honoured));
        self.put(Output::Send { conn: to.conn, route: to.route, body });
        Ok(())
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
        let mut sends = Vec::new();
        for (conn, connection) in &self.connections {
            if connection.legacy.as_ref().is_some_and(|l| l.initialized) {
                sends.push((*conn, Route(0), notification(LIST_CHANGED, &Value::Null)));
            }
            for (id, subscription) in connection.subscriptions.iter().filter(|(_, s)| s.tools) {
                sends.push((*conn, subscription.route, about(id, LIST_CHANGED, None)));
            }
        }
        for (conn, route, body) in sends {
            self.put(Output::Send { conn, route, body });
        }
    }
}

/// A notification of a subscription. Its id is written as it came, of whatever size.
fn about(id: &RequestId, method: &str, notifications: Option<&Value>) -> Body {
    let mut out = b"{\"jsonrpc\":\"2.0\",\"method\":".to_vec();
    push_json_string(&mut out, method);
    out.extend_from_slice(b",\"params\":{\"_meta\":{");
    push_subscription_id(&mut out, id);
    out.push(b'}');
    if let Some(notifications) = notifications {
        out.extend_from_slice(b",\"notifications\":");
        push_json(&mut out, notifications);
    }
    out.extend_from_slice(b"}}");
    out.into()
}

fn push_subscription_id(out: &mut Vec<u8>, id: &RequestId) {
    push_json_string(out, SUBSCRIPTION_ID);
    out.push(b':');
    id.write_json(out);
}
