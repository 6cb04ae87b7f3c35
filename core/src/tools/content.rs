//! Blocks of content: what tools and prompts show, and what resources hold.

use bytes::Bytes;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    /// `base64` is the standard alphabet with padding: it needs no escaping and is sent without a copy.
    Image { mime: String, base64: Bytes },
    Audio { mime: String, base64: Bytes },
    /// An embedded resource.
    Resource(Contents),
    /// `resource_link`: a resource as `resources/list` shows it.
    Link(Value),
}

/// A resource's contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    pub uri: String,
    pub mime: Option<String>,
    pub body: ContentsBody,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ContentsBody {
    Text(String),
    /// Base64 in the standard alphabet, with padding.
    Blob(Bytes),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}
