//! One node of an application's tree.

use deskhand_core::desktop::elements::ROLES;
use tokio::time::Instant;
use zbus::zvariant::OwnedObjectPath;

use crate::calls::{ACCESSIBLE, CallError, Calls, Object};

pub const PASSWORD: u32 = 40;
pub const FRAME: u32 = 23;

/// A longer name is cut: it is told, kept and compared.
const NAME_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub object: Object,
    pub name: String,
    pub role: u32,
    /// Bits by AT-SPI's numbers.
    pub states: u64,
    pub interfaces: Interfaces,
    /// As the toolkit says; -1 when it doesn't.
    pub child_count: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    pub action: bool,
    pub component: bool,
    pub text: bool,
    pub editable: bool,
}

impl Interfaces {
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for name in names {
            match name.rsplit('.').next() {
                Some("Action") => all.action = true,
                Some("Component") => all.component = true,
                Some("Text") => all.text = true,
                Some("EditableText") => all.editable = true,
                _ => {}
            }
        }
        all
    }
}

/// A name as it is kept. GTK 4 calls what has none by its type's name.
pub fn cut(name: &str) -> String {
    let of_type = name.strip_prefix("Gtk").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()) && rest.chars().all(|c| c.is_ascii_alphanumeric()));
    if of_type { String::new() } else { name.chars().take(NAME_MAX).collect() }
}

pub fn state_bits(words: &[u32]) -> u64 {
    words.iter().take(2).enumerate().fold(0, |all, (i, word)| all | u64::from(*word) << (32 * i))
}

pub mod state {
    pub const ACTIVE: u32 = 1;
    pub const CHECKED: u32 = 4;
    pub const EDITABLE: u32 = 7;
    pub const ENABLED: u32 = 8;
    pub const EXPANDABLE: u32 = 9;
    pub const EXPANDED: u32 = 10;
    pub const FOCUSED: u32 = 12;
    pub const MODAL: u32 = 16;
    pub const MULTI_LINE: u32 = 17;
    pub const PRESSED: u32 = 20;
    pub const SELECTED: u32 = 23;
    pub const SENSITIVE: u32 = 24;
    pub const SHOWING: u32 = 25;
    pub const VISIBLE: u32 = 30;
    pub const INDETERMINATE: u32 = 32;
    pub const REQUIRED: u32 = 33;
    pub const INVALID_ENTRY: u32 = 36;
    pub const IS_DEFAULT: u32 = 39;
    pub const VISITED: u32 = 40;
    pub const CHECKABLE: u32 = 41;
    pub const READ_ONLY: u32 = 43;
    pub const DEFUNCT: u32 = 6;
    pub const BUSY: u32 = 3;
}

impl Node {
    pub fn has(&self, state: u32) -> bool {
        has(self.states, state)
    }

    pub fn role_name(&self) -> &'static str {
        role_name(self.role)
    }

    /// Reads one node by itself.
    pub async fn read(calls: &Calls, object: Object, end: Instant) -> Result<Self, CallError> {
        let (name, role, states, interfaces, count) = tokio::join!(
            calls.text_property(&object, ACCESSIBLE, "Name", end),
            calls.ask::<_, u32>(&object, ACCESSIBLE, "GetRole", &(), end),
            calls.ask::<_, Vec<u32>>(&object, ACCESSIBLE, "GetState", &(), end),
            calls.ask::<_, Vec<String>>(&object, ACCESSIBLE, "GetInterfaces", &(), end),
            calls.property(&object, ACCESSIBLE, "ChildCount", end),
        );
        Ok(Self {
            name: cut(&name?),
            role: role?,
            states: state_bits(&states?),
            interfaces: Interfaces::of(interfaces?.iter().map(String::as_str)),
            child_count: i32::try_from(count?).unwrap_or(-1),
            object,
        })
    }
}

pub async fn children(calls: &Calls, object: &Object, end: Instant) -> Result<Vec<Object>, CallError> {
    let found: Vec<(String, OwnedObjectPath)> = calls.ask(object, ACCESSIBLE, "GetChildren", &(), end).await?;
    Ok(found.into_iter().map(|(bus, path)| Object::new(bus, path.as_str())).filter(|o| !is_null(o)).collect())
}

pub fn is_null(object: &Object) -> bool {
    object.bus.is_empty() || object.path == "/org/a11y/atspi/null" || object.path == "/"
}

pub fn has(states: u64, state: u32) -> bool {
    states >> state & 1 == 1
}

pub fn role_name(role: u32) -> &'static str {
    usize::try_from(role).ok().and_then(|role| ROLES.get(role)).copied().unwrap_or("unknown")
}

/// The states that say something, in words. Toolkits differ in what they call enabled and shown.
pub fn words(role: u32, states: u64, shown: bool) -> Vec<String> {
    use state::*;
    let has = |state| has(states, state);
    let mut words = Vec::new();
    let mut say = |says: bool, word: &str| {
        if says {
            words.push(word.to_string());
        }
    };
    say(has(FOCUSED), "focused");
    say(has(ACTIVE) && role == FRAME, "active");
    say(has(CHECKED), "checked");
    say(has(CHECKABLE) && !has(CHECKED), "unchecked");
    say(has(INDETERMINATE), "indeterminate");
    say(has(PRESSED), "pressed");
    say(has(SELECTED), "selected");
    say(has(EXPANDED), "expanded");
    say(has(EXPANDABLE) && !has(EXPANDED), "collapsed");
    say(has(EDITABLE), "editable");
    say(has(READ_ONLY), "read-only");
    say(has(MULTI_LINE), "multi-line");
    say(has(MODAL), "modal");
    say(has(REQUIRED), "required");
    say(has(INVALID_ENTRY), "invalid");
    say(has(IS_DEFAULT), "default");
    say(has(VISITED), "visited");
    say(has(BUSY), "busy");
    say(!has(SENSITIVE) && !has(ENABLED), "disabled");
    say(!shown, "hidden");
    words
}

/// Whether it is an element that somebody could mean: it has a name, or something can be done with it.
pub fn is_meaningful(node: &Node, name: &str) -> bool {
    const CONTAINERS: &[&str] = &[
        "filler", "panel", "unknown", "redundant object", "section", "scroll pane", "viewport", "separator", "split pane", "layered pane", "scroll bar", "root pane",
        "grouping", "invalid", "extended", "internal frame", "glass pane", "static", "page tab list", "tool bar", "menu bar", "table", "list", "tree table", "tree",
        "list box", "application",
    ];
    let role = node.role_name();
    !name.is_empty() || !CONTAINERS.contains(&role) || node.has(state::FOCUSED)
}
