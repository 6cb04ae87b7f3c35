//! What a toolset may offer beside tools: resources, prompts, completion.

use std::pin::Pin;

use serde_json::{Map, Value};

use super::content::{Block, Contents, Role};
use super::facts::{Facts, Refused};
use crate::engine::cx::Cx;

/// What any handler gives; the method decides which one is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Product {
    Tool(Facts),
    Page(ResourcePage),
    Read(Vec<Contents>),
    Prompt(PromptMessages),
    Completion(Completion),
}

pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Product, Refused>> + Send>>;

/// Resources, read and listed by handlers.
#[derive(Debug)]
pub struct Resources {
    /// From a cursor that an earlier page gave, or from the start.
    pub list: fn(Cx, Option<String>) -> HandlerFuture,
    pub templates: &'static [Template],
    pub read: fn(Cx, String) -> HandlerFuture,
    /// Whether clients may subscribe to single resources.
    pub subscribe: bool,
}

#[derive(Debug)]
pub struct Template {
    /// RFC 6570
    pub uri_template: &'static str,
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub mime: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourcePage {
    /// Each an object with at least `uri` and `name`.
    pub resources: Vec<Value>,
    pub next: Option<String>,
}

#[derive(Debug)]
pub struct Prompt {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub arguments: &'static [PromptArgument],
    pub run: fn(Cx, Map<String, Value>) -> HandlerFuture,
}

#[derive(Debug)]
pub struct PromptArgument {
    pub name: &'static str,
    pub description: &'static str,
    pub required: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptMessages {
    pub description: Option<String>,
    pub messages: Vec<(Role, Block)>,
}

/// Completes an argument of a prompt or a variable of a resource template.
pub type Complete = fn(Cx, CompletionAsk) -> HandlerFuture;

#[derive(Clone, Debug, PartialEq)]
pub struct CompletionAsk {
    pub reference: Reference,
    pub argument: String,
    /// What was typed so far.
    pub value: String,
    /// Arguments that are settled already.
    pub context: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    Prompt(String),
    /// A URI or a URI template.
    Resource(String),
}

/// At most 100 values are sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    pub values: Vec<String>,
    pub total: Option<u64>,
    pub has_more: bool,
}

impl From<Facts> for Product {
    fn from(facts: Facts) -> Self {
        Self::Tool(facts)
    }
}

impl From<ResourcePage> for Product {
    fn from(page: ResourcePage) -> Self {
        Self::Page(page)
    }
}

impl From<Vec<Contents>> for Product {
    fn from(contents: Vec<Contents>) -> Self {
        Self::Read(contents)
    }
}

impl From<PromptMessages> for Product {
    fn from(messages: PromptMessages) -> Self {
        Self::Prompt(messages)
    }
}

impl From<Completion> for Product {
    fn from(completion: Completion) -> Self {
        Self::Completion(completion)
    }
}
