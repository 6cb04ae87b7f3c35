//! Who calls.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::io::Conn;
use crate::protocol::asking::Capabilities;
use crate::protocol::offering::Level;
use crate::protocol::revision::Revision;

#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    pub conn: Conn,
    /// Whom the transport admitted: leases and limits are per principal.
    pub principal: String,
    /// What the client calls itself; its own words.
    pub label: String,
    pub revision: Revision,
    /// `progressToken`, as it came.
    pub progress_token: Option<Value>,
    pub capabilities: Capabilities,
    /// The least severe log message that the client wants; `None` for none.
    pub log_level: Option<Level>,
    /// Modern era: what the client answered to questions of this request, by key.
    pub given: Option<Arc<Map<String, Value>>>,
}

impl Caller {
    /// A legacy session may leave `lease` out: its own is meant.
    pub fn session(&self) -> Option<Conn> {
        (!self.revision.is_modern()).then_some(self.conn)
    }
}
