//! From a message to its method.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::asking::Capabilities;
use super::connection::Batch;
use super::offering::Level;
use super::params::{Params, client_label, unread};
use super::revision::Revision;
use super::state::Binding;
use crate::engine::caller::Caller;
use crate::engine::call_table::Origin;
use crate::engine::core::Core;
use crate::engine::cx::Reason;
use crate::engine::io::{Conn, Output, Route};
use crate::rpc::body::{Body, error_response, response};
use crate::rpc::error::{RpcError, shortened};
use crate::rpc::id::RequestId;
use crate::rpc::message::{Incoming, Message, read, read_one};

/// Who asks, in terms of the protocol.
pub(crate) struct Who {
    pub revision: Revision,
    pub label: String,
    pub capabilities: Capabilities,
    pub log_level: Option<Level>,
    pub progress_token: Option<Value>,
}

/// Where a request's answer goes.
#[derive(Clone, Copy)]
pub(crate) struct Return {
    pub conn: Conn,
    pub route: Route,
    pub batch: Option<u64>,
}

impl Core {
    pub(crate) fn message(&mut self, conn: Conn, route: Route, bytes: &[u8]) {
        if !self.connections.contains_key(&conn) {
            return;
        }
        match read(bytes) {
            Incoming::Single(message) => self.one(Return { conn, route, batch: None }, message),
            Incoming::Batch(members) => self.batch(conn, route, &members),
        }
    }

    pub(crate) fn too_long(&mut self, conn: Conn, route: Route) {
        let error = RpcError::invalid_request("Invalid Request: the message is longer than this server reads; it was dropped");
        self.put(Output::Send { conn, route, body: error_response(None, &error) });
    }

    fn batch(&mut self, conn: Conn, route: Route, members: &[&RawValue]) {
        let revision = self.connections.get(&conn).and_then(|c| c.legacy.as_ref()).map(|l| l.revision);
        let refused = if !revision.is_some_and(Revision::has_batches) {
            Some("Invalid Request: batches exist in revision 2025-03-26 only, after initialize".to_string())
        } else if members.is_empty() {
            Some("Invalid Request: an empty batch".to_string())
        } else if members.len() > self.limits.batch {
            Some(format!("Invalid Request: a batch of more than {} messages", self.limits.batch))
        } else {
            None
        };
        if let Some(why) = refused {
            // Over HTTP one without requests was accepted already, and nothing waits for an answer.
            if !is_answered(members) {
                return;
            }
            self.put(Output::Send { conn, route, body: error_response(None, &RpcError::invalid_request(why)) });
            return;
        }
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.batches_issued += 1;
        let number = connection.batches_issued;
        // One more than there are, until all are begun: a batch must not close under its own feet.
        connection.batches.insert(number, Batch { route, missing: 1, answers: Vec::new() });
        for member in members {
            let message = read_one(member.get());
            if message.is_answered() && let Some(batch) = self.connections.get_mut(&conn).and_then(|c| c.batches.get_mut(&number)) {
                batch.missing += 1;
            }
            let to = Return { conn, route, batch: Some(number) };
            match message {
                Message::Request { id, method, .. } if method == "initialize" => {
                    self.fail(to, Some(&id), &RpcError::invalid_request("Invalid Request: initialize may not be part of a batch"));
                }
                message => self.one(to, message),
            }
        }
        self.reply(conn, route, Some(number), None);
    }

    fn one(&mut self, to: Return, message: Message) {
        match message {
            Message::Request { id, method, params } => match self.hold(to, &id, &method, params) {
                Ok(true) => {}
                Ok(false) => self.request_and_answer(to, &id, &method, params),
                Err(error) => self.fail(to, Some(&id), &error),
            },
            Message::Notification { method, params } => self.notification(to.conn, &method, params),
            Message::Response { id, outcome } => self.answered(to.conn, &id, outcome),
            Message::InvalidAnswer { .. } => {}
            Message::Invalid { id, error } => self.fail(to, id.as_ref(), &error),
        }
    }

    pub(crate) fn request_and_answer(&mut self, to: Return, id: &RequestId, method: &str, params: Option<&RawValue>) {
        match self.request(to, id, method, params) {
            Ok(Some(result)) => self.succeed(to, id, result),
            Ok(None) => {}
            Err(error) => self.fail(to, Some(id), &error),
        }
    }

    pub(crate) fn succeed(&mut self, to: Return, id: &RequestId, result: Body) {
        self.reply(to.conn, to.route, to.batch, Some(response(id, result)));
    }

    pub(crate) fn fail(&mut self, to: Return, id: Option<&RequestId>, error: &RpcError) {
        self.reply(to.conn, to.route, to.batch, Some(error_response(id, error)));
    }

    /// A result now, or `None` when it comes later.
    fn request(&mut self, to: Return, id: &RequestId, method: &str, raw: Option<&RawValue>) -> Result<Option<Body>, RpcError> {
        let params = Params::read(raw)?;
        match params.modern()? {
            Some(_) if self.connections.get(&to.conn).is_some_and(|c| !c.carriage.has_modern()) => {
                Err(RpcError::invalid_request("Invalid Request: a request with _meta of this revision doesn't belong to a session; send it without one"))
            }
            None if self.connections.get(&to.conn).is_some_and(|c| !c.carriage.has_legacy()) => {
                Err(RpcError::invalid_params("Invalid params: _meta needs io.modelcontextprotocol/protocolVersion"))
            }
            Some(_) if to.batch.is_some() => Err(RpcError::invalid_request("Invalid Request: a request with _meta of a revision without batches is sent on its own")),
            Some(revision) => self.modern_request(to, id, method, params, revision),
            None => self.legacy_request(to, id, method, params),
        }
    }

    fn modern_request(&mut self, to: Return, id: &RequestId, method: &str, params: Params, revision: Revision) -> Result<Option<Body>, RpcError> {
        let meta = params.meta.as_ref();
        let who = Who {
            revision,
            label: client_label(unread(meta.and_then(|m| m.client_info)).as_ref()),
            capabilities: match meta.and_then(|m| m.client_capabilities).map(RawValue::get) {
                None | Some("{}") => Capabilities::default(),
                Some(_) => Capabilities::read(unread(meta.and_then(|m| m.client_capabilities)).as_ref()),
            },
            log_level: meta.and_then(|m| m.log_level.as_ref()).and_then(Level::parse),
            progress_token: params.progress_token(),
        };
        match method {
            "server/discover" => Ok(Some(self.discover(revision))),
            "tools/list" => self.list_tools(&params, revision).map(Some),
            "tools/call" => self.call_tool(to, id, &params, who).map(|()| None),
            "subscriptions/listen" => self.listen(to, id, &params, revision).map(|()| None),
            _ => self.offered(to, id, method, &params, who),
        }
    }

    fn legacy_request(&mut self, to: Return, id: &RequestId, method: &str, params: Params) -> Result<Option<Body>, RpcError> {
        match method {
            "ping" => return Ok(Some(Body::from(b"{}".to_vec()))),
            "initialize" => return self.initialize(to.conn, &params).map(Some),
            "server/discover" => {
                return Err(RpcError::invalid_params("Invalid params: server/discover needs _meta with io.modelcontextprotocol/protocolVersion"));
            }
            _ => {}
        }
        let Some(legacy) = self.connections.get(&to.conn).and_then(|c| c.legacy.as_ref()) else {
            return Err(RpcError::invalid_request(
                "Invalid Request: the session is not initialized; send initialize first, or name a revision in _meta",
            ));
        };
        let who = Who {
            revision: legacy.revision,
            label: legacy.label.clone(),
            capabilities: legacy.capabilities,
            log_level: Some(legacy.log_level),
            progress_token: params.progress_token(),
        };
        match method {
            "tools/list" => self.list_tools(&params, who.revision).map(Some),
            "tools/call" => self.call_tool(to, id, &params, who).map(|()| None),
            _ => match self.remembered(to.conn, method, &params) {
                Some(result) => result.map(Some),
                None => self.offered(to, id, method, &params, who),
            },
        }
    }

    fn notification(&mut self, conn: Conn, method: &str, raw: Option<&RawValue>) {
        let Ok(params) = Params::read(raw) else { return };
        match method {
            "notifications/initialized" => {
                if let Some(legacy) = self.connections.get_mut(&conn).and_then(|c| c.legacy.as_mut()) {
                    legacy.initialized = true;
                }
            }
            "notifications/cancelled" => {
                let Some(id) = params.request_id.and_then(|raw| RequestId::parse(raw.get())) else { return };
                if let Some(call) = self.calls.find(conn, &id) {
                    self.abandon(call, Reason::Cancelled);
                }
                if let Some(to) = self.startup.cancel(conn, &id) {
                    // Its batch goes without it.
                    self.reply(to.conn, to.route, to.batch, None);
                }
                self.end_subscription(conn, &id);
            }
            _ => {}
        }
    }

    fn call_tool(&mut self, to: Return, id: &RequestId, params: &Params, who: Who) -> Result<(), RpcError> {
        let Some(name) = params.name.as_deref() else {
            return Err(RpcError::invalid_params("Invalid params: tools/call needs the tool's name"));
        };
        let found = self.toolset.find(name).filter(|(tool, _)| self.look(|w| (self.toolset.listed)(w, tool)));
        let Some((tool, retired)) = found else {
            return Err(RpcError::invalid_params(format!("Unknown tool: {}", shortened(name))));
        };
        if self.is_in_flight(to.conn, id) {
            return Err(RpcError::invalid_request("Invalid Request: a request with this id is still in flight"));
        }
        let mut arguments = match params.arguments.map(RawValue::get) {
            None | Some("{}") => None,
            Some(raw) => Some(
                serde_json::from_str::<Value>(raw).map_err(|e| RpcError::invalid_params(format!("Invalid params: arguments: {e}")))?,
            ),
        };
        if let Some(retired) = retired {
            arguments = Some(with_retired(arguments, retired.arguments));
        }
        let none = json!({});
        let binding = self.binding(&who, params, "tools/call", tool.name, arguments.as_ref().unwrap_or(&none));
        let mut caller = self.caller(to.conn, who);
        let mut origin = Origin { binding, ..Origin::new(id.clone(), to, Some(tool)) };
        let args = match self.listings.validator(tool).and_then(|v| v.check(arguments)) {
            Ok(args) => args,
            Err(refused) => {
                self.answer(&caller, &origin, Map::new(), Err(refused));
                return Ok(());
            }
        };
        if self.is_busy(&caller) {
            self.answer(&caller, &origin, Map::new(), Err((self.toolset.busy)()));
            return Ok(());
        }
        if !self.passes_gate(&caller, &args, &mut origin) {
            return Ok(());
        }
        self.take_given(&mut caller, params, origin.binding.as_ref())?;
        self.start_call(caller, args, origin);
        Ok(())
    }

    pub(super) fn caller(&self, conn: Conn, who: Who) -> Caller {
        let principal = self.connections.get(&conn).map(|c| c.principal.clone()).unwrap_or_default();
        let Who { revision, label, capabilities, log_level, progress_token } = who;
        Caller { conn, principal, label, revision, progress_token, capabilities, log_level, given: None }
    }

    pub(super) fn is_busy(&self, caller: &Caller) -> bool {
        let limits = &self.limits;
        let all = self.calls.len();
        all >= limits.calls
            || self.calls.of(caller.conn) >= limits.calls_per_connection
            || (all >= limits.calls_per_principal && self.calls.of_principal(&caller.principal) >= limits.calls_per_principal)
    }

    /// What a later retry of this request must match; only where the client could be asked something.
    pub(super) fn binding(&self, who: &Who, params: &Params, method: &str, subject: &str, arguments: &Value) -> Option<Binding> {
        let may_ask = who.revision.is_modern() && !who.capabilities.is_empty();
        let is_retry = params.request_state.is_some() || params.input_responses.is_some();
        (who.revision.is_modern() && (may_ask || is_retry)).then(|| super::state::binding(method, subject, arguments))
    }

    /// Takes what a retry brings. What came before is in the state, so it must be ours. It is used up by this: what
    /// refuses a request that may be sent again as it is (a bound, a gate) comes before.
    pub(super) fn take_given(&mut self, caller: &mut Caller, params: &Params, binding: Option<&Binding>) -> Result<(), RpcError> {
        let Some(binding) = binding else { return Ok(()) };
        let responses = match &params.input_responses {
            None => None,
            Some(Value::Object(responses)) => Some(responses.clone()),
            Some(_) => return Err(RpcError::invalid_params("Invalid params: inputResponses must be an object")),
        };
        let mut given = match &params.request_state {
            None => Map::new(),
            Some(Value::String(state)) => self
                .states
                .open(self.now, &caller.principal, binding, state)
                .map_err(|why| RpcError::invalid_params(format!("Invalid params: requestState is refused: {why}; send the request anew without it")))?,
            Some(_) => return Err(RpcError::invalid_params("Invalid params: requestState must be a string")),
        };
        given.extend(responses.unwrap_or_default());
        caller.given = (!given.is_empty()).then(|| Arc::new(given));
        Ok(())
    }
}

/// Whether something in a batch, or a batch without anything, is to be answered.
pub(super) fn is_answered(members: &[&RawValue]) -> bool {
    members.is_empty() || members.iter().any(|member| read_one(member.get()).is_answered())
}

fn with_retired(arguments: Option<Value>, extra: &str) -> Value {
    let mut map = match arguments {
        None => serde_json::Map::new(),
        Some(Value::Object(map)) => map,
        Some(other) => return other,
    };
    if let Ok(Value::Object(extra)) = serde_json::from_str(extra) {
        for (key, value) in extra {
            map.entry(key).or_insert(value);
        }
    }
    Value::Object(map)
}
