//! What a tool is: plain constant data and one handler.

use super::args::Args;
use super::offers::HandlerFuture;
use crate::engine::cx::Cx;

pub type Handler = fn(Cx, Args) -> HandlerFuture;

/// Lets a declaration name an `async fn(Cx, _) -> Result<_, Refused>` whose success is one of [`Product`]'s kinds.
///
/// [`Product`]: super::offers::Product
#[macro_export]
macro_rules! handler {
    ($f:path) => {
        |cx, asked| ::std::boxed::Box::pin(async move { $f(cx, asked).await.map($crate::tools::offers::Product::from) })
    };
}

#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    /// Shown to the model.
    pub description: &'static str,
    /// One line for people's tables.
    pub summary: &'static str,
    pub args: &'static [Arg],
    /// An `inputSchema` in JSON that [`Kind`]s can't say, in place of the one made from `args`. Then arguments come as
    /// they are, without defaults, and the audit log holds none of them.
    pub schema: Option<&'static str>,
    pub hints: Hints,
    pub lease: LeaseNeed,
    pub profile: Profile,
    /// `_meta["anthropic/alwaysLoad"]`: clients that load tools by search load this one up front.
    pub always_load: bool,
    pub run: Handler,
}

/// MCP's annotations; `openWorldHint` is false for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hints {
    ReadOnly,
    Acts,
    Destructive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseNeed {
    /// Looks only; runs beside the lane.
    No,
    Takes,
    GivesUp,
    Needed,
    /// Needs the lease, and yet only looks (a clipboard).
    NeededToLook,
}

impl LeaseNeed {
    /// Whether the call stands in the lane, where one runs at a time.
    pub fn on_lane(self) -> bool {
        !matches!(self, Self::No | Self::NeededToLook)
    }

    pub fn table_word(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Takes => "takes it",
            Self::GivesUp => "gives it up",
            Self::Needed | Self::NeededToLook => "yes",
        }
    }
}

/// The smallest profile that lists the tool, in this order: `observe` lists the fewest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    Observe,
    Act,
    Full,
}

impl Profile {
    pub fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Act => "act",
            Self::Full => "full",
        }
    }
}

#[derive(Debug)]
pub struct Arg {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: Kind,
    pub required: bool,
    pub audit: Audit,
}

#[derive(Debug)]
pub enum Kind {
    Bool { default: bool },
    /// Both ends included.
    Integer { min: i64, max: i64, default: Option<i64> },
    /// Lengths in Unicode scalar values.
    Text { min: usize, max: usize, default: Option<&'static str> },
    Choice { of: &'static [&'static str], default: Option<&'static str> },
    List { of: &'static Kind, min: usize, max: usize },
    Object { fields: &'static [Arg] },
    /// An object whose keys this side doesn't fix.
    AnyObject,
    /// An object as described, or one of these strings.
    ObjectOr { fields: &'static [Arg], words: &'static [&'static str] },
}

/// Whether the audit log may hold the argument's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    /// Numbers, booleans and choices from a fixed list.
    Plain,
    /// A string written only when it names something the server knows, else its length.
    IfKnown(Known),
    /// Its length only.
    Length,
    /// Nothing at all (a lease token).
    Never,
    /// Each field by its own declaration.
    Fields,
    /// An object's single key if the server knows it; never what is below it.
    KeyOnly,
}

/// What a string may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Output,
    Preset,
    Reference,
    AppId,
    KeyNames,
    /// An element's reference, or a listing's.
    Element,
    /// A role of elements, by its standard name.
    Role,
    /// An action of elements that toolkits call so.
    Action,
}

impl Tool {
    pub fn arg(&self, name: &str) -> Option<&'static Arg> {
        self.args.iter().find(|a| a.name == name)
    }
}

/// Short forms for declaring arguments.
impl Arg {
    pub const fn new(name: &'static str, about: &'static str, kind: Kind, audit: Audit) -> Self {
        Self { name, about, kind, required: false, audit }
    }

    pub const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Kind::Bool { default: false }, Audit::Plain)
    }

    pub const fn integer(name: &'static str, about: &'static str, min: i64, max: i64) -> Self {
        Self::new(name, about, Kind::Integer { min, max, default: None }, Audit::Plain)
    }

    /// A window's or workspace's id.
    pub const fn id(name: &'static str, about: &'static str) -> Self {
        Self::integer(name, about, 0, super::args::MAX_ID)
    }

    pub const fn text(name: &'static str, about: &'static str, min: usize, max: usize, audit: Audit) -> Self {
        Self::new(name, about, Kind::Text { min, max, default: None }, audit)
    }

    pub const fn choice(name: &'static str, about: &'static str, of: &'static [&'static str], default: &'static str) -> Self {
        Self::new(name, about, Kind::Choice { of, default: Some(default) }, Audit::Plain)
    }

    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// For an integer: what it is when it isn't given.
    pub const fn or(mut self, value: i64) -> Self {
        if let Kind::Integer { min, max, .. } = self.kind {
            self.kind = Kind::Integer { min, max, default: Some(value) };
        }
        self
    }
}
