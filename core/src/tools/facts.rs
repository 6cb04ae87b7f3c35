//! What a handler returns: facts or a refusal. How either looks on the wire is the renderer's.

use serde_json::{Map, Value};

use crate::desktop::effect::EncodedImage;

/// A success.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub data: Map<String, Value>,
    pub image: Option<Image>,
    /// Text for the model in place of the data's JSON (a compact listing).
    pub compact: Option<String>,
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

    /// The name for the audit log.
    pub fn audit_name(&self) -> &'static str {
        match self {
            Self::Schema(_) | Self::Arguments(_) => "invalid_arguments",
            Self::Named(named) => named.name,
        }
    }
}
