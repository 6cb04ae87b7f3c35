//! Tools, declared once: from one declaration come the schema, the parsing, the hints, the gates' needs and the redaction.

pub mod args;
pub mod content;
pub mod declare;
pub mod facts;
pub mod offers;
pub mod redact;
pub mod schema;
pub mod toolset;
