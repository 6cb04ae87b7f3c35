//! JSON-RPC 2.0: envelopes in, bodies out. Knows no method and no tool.

pub mod body;
pub mod error;
pub mod id;
pub mod lines;
pub mod message;
