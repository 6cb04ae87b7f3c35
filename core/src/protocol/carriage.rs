//! Where the transports differ by specification, written down once.
//!
//! | | `Stdio` | `Session` | `Exchange` |
//! |---|---|---|---|
//! | one connection is | a process | what `Mcp-Session-Id` names | one POST of the modern era |
//! | eras | both | legacy | modern |
//! | a route is | the one stream | a POST, or 0 for the GET stream | the POST |
//! | what belongs to no request goes to | the stream | the GET stream | nowhere |
//! | a broken stream means | the end of the connection | nothing: it can be resumed | cancellation |
//! | `Closed` comes | at the end of input | with DELETE, idling, the token's removal | with the answer, or the client's end |
//!
//! In all three `Closed` cancels what is in flight, and a session's lease ends with it.

use serde::{Deserialize, Serialize};

use crate::engine::io::Route;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carriage {
    #[default]
    Stdio,
    /// A legacy HTTP session.
    Session,
    /// One POST of the modern era.
    Exchange,
}

impl Carriage {
    pub fn is_stdio(&self) -> bool {
        *self == Self::Stdio
    }

    /// Whether `initialize` and what needs it are served.
    pub fn has_legacy(self) -> bool {
        self != Self::Exchange
    }

    /// Whether requests that name a modern revision are served.
    pub fn has_modern(self) -> bool {
        self != Self::Session
    }

    /// Where a message goes that belongs to no request.
    pub fn unsolicited(self) -> Option<Route> {
        (self != Self::Exchange).then_some(Route(0))
    }
}
