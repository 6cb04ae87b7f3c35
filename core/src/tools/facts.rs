//! What a handler returns: facts or a refusal. How either looks on the wire is the renderer's.

use serde_json::{Map, Value};

use super::content::Block;
use crate::desktop::effect::EncodedImage;
use crate::protocol::asking::Ask;
use crate::rpc::error::RpcError;

/// A success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub data: Map<String, Value>,
    pub image: Option<Image>,
    /// Text for the model in place of the data's JSON (a compact listing).
    pub compact: Option<String>,
    /// In place of all the above: the content as it is to be shown, without structure.
    pub blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    pub encoded: EncodedImage,
    /// Before the text, for tools whose point is the image.
    pub first: bool,
}

impl Facts {
    pub fn new(data: Value) -> Self {
        let data = match data {
            Value::Object(map) => map,
            other => Map::from_iter([("value".to_string(), other)]),
        };
        Self { data, ..Self::default() }
    }

    pub fn blocks(blocks: Vec<Block>) -> Self {
        Self { blocks, ..Self::default() }
    }
}

/// Why nothing was done, or why it stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// The arguments don't fit the schema.
    Schema(String),
    /// The arguments don't fit the desktop (an unknown output, an unknown window).
    Arguments(String),
    /// One of the toolset's named errors.
    Named(Box<Named>),
    /// A tool's error of one sentence, without a name.
    Plain(String),
    /// No resource has this URI.
    NotFound(String),
    /// An error of the protocol.
    Rpc(RpcError),
    /// Not refused for good: the client is to answer these first (modern era).
    InputRequired(Vec<(String, Ask)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// A name from the toolset's list.
    pub name: &'static str,
    /// The upstream message and the remedy.
    pub detail: String,
    /// Facts beside the two (how much was typed, who holds the lease).
    pub more: Map<String, Value>,
    pub image: Option<EncodedImage>,
}

impl Refused {
    pub fn named(name: &'static str, detail: impl Into<String>) -> Self {
        Self::Named(Box::new(Named { name, detail: detail.into(), more: Map::new(), image: None }))
    }

    pub fn arguments(detail: impl Into<String>) -> Self {
        Self::Arguments(detail.into())
    }

    pub fn with(mut self, key: &str, value: Value) -> Self {
        if let Self::Named(named) = &mut self {
            named.more.insert(key.to_string(), value);
        }
        self
    }

    /// In one sentence, where there is no room for structure.
    pub fn sentence(&self) -> String {
        match self {
            Self::Schema(text) | Self::Arguments(text) | Self::Plain(text) => text.clone(),
            Self::Named(named) => format!("{}: {}", named.name, named.detail),
            Self::NotFound(uri) => format!("no resource {uri}"),
            Self::Rpc(error) => error.message.clone(),
            Self::InputRequired(_) => "the client must answer first".into(),
        }
    }

    /// The name for the audit log.
    pub fn audit_name(&self) -> &'static str {
        match self {
            Self::Schema(_) | Self::Arguments(_) => "invalid_arguments",
            Self::Named(named) => named.name,
            Self::Plain(_) => "error",
            Self::NotFound(_) => "not_found",
            Self::Rpc(_) => "protocol_error",
            Self::InputRequired(_) => "input_required",
        }
    }
}
