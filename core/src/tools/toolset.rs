//! A toolset: a list of tools and its manners, declared.

use serde_json::{Map, Value};

use super::args::Args;
use super::declare::{Known, Tool};
use super::facts::Refused;
use super::offers::{Complete, Prompt, Resources};
use super::redact::Knows;
use crate::engine::caller::Caller;
use crate::engine::cx::Reason;
use crate::engine::world::World;

pub struct Toolset {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// Told to the model at the handshake.
    pub instructions: &'static str,
    pub tools: &'static [&'static Tool],
    pub prompts: &'static [&'static Prompt],
    pub resources: Option<&'static Resources>,
    pub complete: Option<Complete>,
    /// Whether handlers send log messages to clients that asked for them.
    pub logging: bool,
    /// `capabilities` beside those that follow from the above, as JSON text of an object; `{}` when there are none.
    pub capabilities: &'static str,
    /// Keys that every `tools/call` result carries in `_meta`, as JSON text of an object.
    pub result_meta: Option<&'static str>,
    pub negotiation: Negotiation,
    pub retired: &'static [Retired],
    /// Whether the outside was looked at; until then (for a bounded time) lists and calls wait.
    pub ready: fn(&World) -> bool,
    /// Whether the tool is listed now. Evaluated live.
    pub listed: fn(&World, &Tool) -> bool,
    /// Stands before every call; a refusal means that nothing was done.
    pub gate: fn(&World, &Caller, &Tool, &Args) -> Result<(), Refused>,
    /// The answer past the bound on calls in flight.
    pub busy: fn() -> Refused,
    /// When a call must stop: what to tell (the reason is the engine's).
    pub abandoned: fn(&World, Reason) -> Refused,
    pub refusals: &'static [Refusal],
    pub style: Style,
    /// Whether calls are written to the audit log.
    pub audited: bool,
    /// For the audit log: which strings name something known.
    pub knows: fn(&World) -> Box<dyn Knows + '_>,
    /// For the audit log: what of a success's data may be written.
    pub audit_outcome: fn(&Map<String, Value>) -> Map<String, Value>,
}

/// One named error: why it comes, what to do, and from which tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub name: &'static str,
    pub cause: &'static str,
    pub remedy: &'static str,
    pub tools: &'static str,
}

/// A name that is not listed and still resolves.
#[derive(Debug)]
pub struct Retired {
    pub name: &'static str,
    pub tool: &'static str,
    /// Arguments that it stands for, as JSON text of an object.
    pub arguments: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub refusal: RefusalStyle,
    pub image_with_structured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalStyle {
    /// `isError: true`, text and structure.
    Error,
    /// `isError: false`, text with a next action.
    Steering,
}

/// Which revision answers an `initialize` that names none, or one that isn't known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiation {
    pub absent: Pick,
    pub unknown: Pick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    Newest,
    Oldest,
}

/// Nothing is known to a toolset that audits nothing.
struct Nothing;

impl Knows for Nothing {
    fn knows(&self, _: Known, _: &str) -> bool {
        false
    }
}

impl Toolset {
    /// The manners of a toolset that has none of its own: what to fill up a declaration from.
    pub const BARE: Self = Self {
        name: "bare",
        title: "",
        description: "",
        instructions: "",
        tools: &[],
        prompts: &[],
        resources: None,
        complete: None,
        logging: false,
        capabilities: "{}",
        result_meta: None,
        negotiation: Negotiation { absent: Pick::Newest, unknown: Pick::Newest },
        retired: &[],
        ready: |_| true,
        listed: |_, _| true,
        gate: |_, _, _, _| Ok(()),
        busy: || Refused::Plain("Too many calls are in flight; wait for answers before sending more.".into()),
        abandoned: |_, reason| {
            Refused::Plain(match reason {
                Reason::Cancelled => "The call was cancelled.".into(),
                Reason::ShuttingDown => "The server is ending.".into(),
                _ => "The call had to stop.".into(),
            })
        },
        refusals: &[],
        style: Style { refusal: RefusalStyle::Error, image_with_structured: false },
        audited: false,
        knows: |_| Box::new(Nothing),
        audit_outcome: |_| Map::new(),
    };

    /// Also by a retired name, whose arguments are then added.
    pub fn find(&self, name: &str) -> Option<(&'static Tool, Option<&'static Retired>)>
    where
        Self: 'static,
    {
        let by_name = |n: &str| self.tools.iter().copied().find(|t| t.name == n);
        by_name(name).map(|t| (t, None)).or_else(|| {
            let retired = static_slice(self.retired).iter().find(|r| r.name == name)?;
            by_name(retired.tool).map(|t| (t, Some(retired)))
        })
    }
}

fn static_slice(retired: &'static [Retired]) -> &'static [Retired] {
    retired
}
