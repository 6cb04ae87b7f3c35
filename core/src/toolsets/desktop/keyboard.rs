//! `key` and `type_text`.

use serde_json::json;

use super::act::{About, Before, REQUEST_MS, Report, Sent, finish, send};
use super::{chords, clipboard};
use super::errors::{Error, failed};
use super::expect::{self, EXPECT_FOCUS};
use crate::desktop::effect::{Chord, CompositorRequest, Effect, Reply, SeatRequest};
use crate::desktop::event::CompositorKind;
use crate::engine::cx::Cx;
use crate::handler;
use crate::tools::args::Args;
use crate::tools::declare::{Arg, Audit, Hints, Kind, Known, LeaseNeed, Profile, Tool};
use crate::tools::facts::{Facts, Refused};

const KEYS_MS: u64 = 5000;
const TEXT_MS: u64 = 15_000;
/// Unicode scalar values.
const TYPED_MAX: usize = 1000;
const TEXT_MAX: usize = 1 << 20;

pub static KEY: Tool = Tool {
    name: "key",
    title: "Press keys",
    summary: "presses up to 16 key combinations",
    description: "Presses key combinations one after the other, such as ctrl+shift+t, Return, alt+F4, Left. They go to the focused window. \
        All are read before any is pressed. No `changes` doesn't mean that the app did nothing.",
    args: &[
        super::LEASE,
        Arg::new(
            "keys",
            "Modifiers (ctrl, shift, alt, super) and an XKB keysym name or one character, joined by +.",
            Kind::List { of: &Kind::Text { min: 1, max: 64, default: None }, min: 1, max: 16 },
            Audit::IfKnown(Known::KeyNames),
        )
        .required(),
        EXPECT_FOCUS,
        super::ELEMENT_CHANGES,
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(key),
};

pub static TYPE_TEXT: Tool = Tool {
    name: "type_text",
    title: "Type text",
    summary: "types up to 1000 characters, optionally pressing Enter; or pastes up to 1 MiB and restores the clipboard",
    description: "Types text into the focused window, any language, whatever the keyboard layout; newline and tab are their keys. At most 1000 characters a call; `paste` for more. \
        Stopped midway, `typed` says how far it came. No `changes` doesn't mean that the app did nothing.",
    args: &[
        super::LEASE,
        Arg::text("text", "", 0, TEXT_MAX, Audit::Length).required(),
        EXPECT_FOCUS,
        Arg::flag("submit", "Press Return afterwards; after a paste only when it was read."),
        clipboard::PASTE,
        clipboard::PASTE_KEYS,
        super::ELEMENT_CHANGES,
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(type_text),
};

async fn key(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let names = args.texts("keys");
    let chords: Vec<Chord> = names.iter().map(|name| chords::parse(name)).collect::<Result<_, _>>().map_err(Refused::Arguments)?;
    refuse_binds(&cx, &chords).await?;
    let focused = expect::focus(&cx, &args)?;
    let before = Before::take(&cx).with_elements(&cx, &args, focused).await;
    let release = cx.defer(Effect::Seat(SeatRequest::Release));
    let sent = send(&cx, Effect::Seat(SeatRequest::Keys { chords }), KEYS_MS).await?;
    if matches!(sent, Sent::Taken(_)) {
        cx.disarm(release);
    }
    let pressed = if matches!(sent, Sent::Taken(_)) { json!(names) } else { serde_json::Value::Null };
    let report = Report::new(&sent, "sent", About::Windows(focused.into_iter().collect())).with("pressed", pressed);
    finish(&cx, &args, before, report).await
}

/// Where virtual keys trigger the compositor's own binds, those are `unrestricted`'s.
pub(super) async fn refuse_binds(cx: &Cx, chords: &[Chord]) -> Result<(), Refused> {
    let (sway, unrestricted) = cx.world(|w| (w.compositor.as_ref().is_ok_and(|c| c.kind == CompositorKind::Sway), w.policy.unrestricted));
    if !sway || unrestricted {
        return Ok(());
    }
    if chords.iter().any(|c| c.modifiers.super_) {
        return Err(Error::UnrestrictedRequired.plain("Combinations with super belong to the compositor; nothing was pressed."));
    }
    let binds = match cx.run(Effect::Compositor(CompositorRequest::Binds), REQUEST_MS).await {
        Ok(Reply::Binds(binds)) => binds,
        Ok(_) => Vec::new(),
        Err(failure) => return Err(failed(cx, &failure)),
    };
    let bound: Vec<String> = binds.iter().filter_map(|b| chords::parse(b).ok()).map(|c| chords::normal(&c)).collect();
    match chords.iter().map(chords::normal).find(|name| bound.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Error::UnrestrictedRequired.plain(&format!("{name} is bound in the compositor's configuration; nothing was pressed."))),
    }
}

async fn type_text(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let text = args.text("text").unwrap_or_default().to_string();
    let submit = args.flag("submit");
    let characters = text.chars().count();
    if characters == 0 && !submit {
        return Err(Refused::arguments("text is empty"));
    }
    if let Some(control) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(Refused::arguments(format!("the text holds the control character U+{:04X}; only newline and tab can be sent", u32::from(control))));
    }
    if args.flag("paste") {
        return clipboard::paste(cx, args, text, submit).await;
    }
    if characters > TYPED_MAX {
        return Err(Error::TextTooLong.plain(&format!("The text has {characters} characters, and at most {TYPED_MAX} are typed in a call; nothing was pressed.")));
    }
    let focused = expect::focus(&cx, &args)?;
    let before = Before::take(&cx).with_elements(&cx, &args, focused).await;
    let release = cx.defer(Effect::Seat(SeatRequest::Release));
    let sent = send(&cx, Effect::Seat(SeatRequest::Text { text, submit }), TEXT_MS).await?;
    let typed = match &sent {
        Sent::Taken(Reply::Typed { characters }) => Some(*characters),
        Sent::Taken(_) => Some(characters),
        Sent::Uncertain(_) => None,
    };
    if typed.is_some() {
        cx.disarm(release);
    }
    let report = Report::new(&sent, "sent", About::Windows(focused.into_iter().collect()))
        .with("typed", json!(typed))
        .with("submitted", json!(typed.map(|_| submit)));
    finish(&cx, &args, before, report).await
}
