//! Who calls.

use serde_json::Value;

use super::io::Conn;
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
}

impl Caller {
    /// A legacy session may leave `lease` out: its own is meant.
    pub fn session(&self) -> Option<Conn> {
        (!self.revision.is_modern()).then_some(self.conn)
    }
}
