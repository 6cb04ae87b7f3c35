//! A connection: its era, its calls' routes, its batches and subscriptions.

use std::collections::{BTreeMap, BTreeSet};

use super::asking::Capabilities;
use super::carriage::Carriage;
use super::offering::Level;
use super::revision::Revision;
use crate::engine::core::Core;
use crate::engine::cx::Reason;
use crate::engine::io::{Conn, Output, Route};
use crate::protocol::subscriptions::Subscription;
use crate::rpc::body::{Body, Nature};
use crate::rpc::id::RequestId;

pub(crate) struct Connection {
    pub principal: String,
    pub carriage: Carriage,
    pub legacy: Option<Legacy>,
    pub batches: BTreeMap<u64, Batch>,
    pub batches_issued: u64,
    pub subscriptions: BTreeMap<RequestId, Subscription>,
    /// The client's input is over; answers are still read.
    pub ended: bool,
}

/// What `initialize` settled.
pub(crate) struct Legacy {
    pub revision: Revision,
    pub label: String,
    pub initialized: bool,
    pub capabilities: Capabilities,
    pub log_level: Level,
    /// URIs of resources.
    pub subscribed: BTreeSet<String>,
}

/// Answers to a batch are sent together.
pub(crate) struct Batch {
    pub route: Route,
    pub missing: usize,
    pub answers: Vec<Body>,
}

impl Core {
    pub(crate) fn open_connection(&mut self, conn: Conn, principal: String, carriage: Carriage) {
        if self.connections.len() >= self.limits.connections {
            self.put(Output::Close { conn });
            return;
        }
        let connection =
            Connection { principal, carriage, legacy: None, batches: BTreeMap::new(), batches_issued: 0, subscriptions: BTreeMap::new(), ended: false };
        self.connections.insert(conn, connection);
    }

    /// Whether an answer to a request with this id is still to come.
    pub(crate) fn is_in_flight(&self, conn: Conn, id: &RequestId) -> bool {
        self.calls.find(conn, id).is_some() || self.connections.get(&conn).is_some_and(|c| c.subscriptions.contains_key(id))
    }

    pub(crate) fn input_ended(&mut self, conn: Conn) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.ended = true;
        }
        self.tell_ending(conn);
    }

    /// Nobody reads: calls stop, a session's lease ends.
    pub(crate) fn close_connection(&mut self, conn: Conn) {
        let Some(gone) = self.connections.remove(&conn) else { return };
        self.startup.forget(conn);
        for id in self.calls_of(conn) {
            self.abandon(id, Reason::Cancelled);
        }
        // An exchange has no session: its client's lease goes by its token.
        if gone.legacy.is_some() {
            self.session_ended(conn);
        }
    }

    /// Sends an answer, or puts it to its batch.
    pub(crate) fn reply(&mut self, conn: Conn, route: Route, batch: Option<u64>, body: Option<Body>) {
        let Some(batch) = batch else {
            if let Some(body) = body {
                self.put(Output::Send { conn, route, body });
            }
            return;
        };
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let Some(open) = connection.batches.get_mut(&batch) else { return };
        open.missing = open.missing.saturating_sub(1);
        open.answers.extend(body);
        self.close_batch_if_whole(conn, batch);
    }

    /// After a bug: what a batch has by now is all that it gets.
    pub(crate) fn end_batches(&mut self) {
        let open: Vec<(Conn, u64)> = self.connections.iter().flat_map(|(conn, c)| c.batches.keys().map(|number| (*conn, *number))).collect();
        for (conn, number) in open {
            if let Some(batch) = self.connections.get_mut(&conn).and_then(|c| c.batches.get_mut(&number)) {
                batch.missing = 0;
            }
            self.close_batch_if_whole(conn, number);
        }
    }

    pub(crate) fn close_batch_if_whole(&mut self, conn: Conn, batch: u64) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.batches.get(&batch).is_none_or(|b| b.missing > 0) {
            return;
        }
        let Some(done) = connection.batches.remove(&batch) else { return };
        if done.answers.is_empty() {
            return;
        }
        let mut body = Body::default();
        for (i, answer) in done.answers.into_iter().enumerate() {
            body.push(if i == 0 { &b"["[..] } else { &b","[..] });
            body.append(answer);
        }
        body.push(&b"]"[..]);
        let body = body.with_nature(Nature::Answer { error: None });
        self.put(Output::Send { conn, route: done.route, body });
    }
}

/// Clients whose name the audit log may hold; any other's is its own text.
pub(crate) fn is_known_client(label: &str) -> bool {
    const NAMES: &[&str] = &[
        "claude-code", "claude-ai", "codex", "codex-mcp-client", "mcp-inspector", "inspector-client", "mcp", "cursor-vscode", "Visual Studio Code", "goose",
        "gemini-cli-mcp-client", "zed", "deskhand-try", "deskhand-replay",
    ];
    let name = label.rsplit_once(' ').map_or(label, |(name, _)| name);
    let version = label.rsplit_once(' ').map_or("", |(_, version)| version);
    NAMES.contains(&label) || (NAMES.contains(&name) && version.len() <= 20 && version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}
