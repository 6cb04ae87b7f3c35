//! `activate_element` and `set_element_text`.

use serde_json::{Value, json};

use super::act::{About, Before, Report, Sent, finish, send};
use super::element_target::named;
use super::errors::{Error, failed};
use super::expect::EXPECT_WINDOW;
use crate::desktop::effect::{Chord, Effect, Modifiers, Reply, SeatRequest};
use crate::desktop::elements::{AccessRequest, ElementNow, Presence, TextSet};
use crate::elements::Known as KnownElement;
use crate::engine::cx::Cx;
use crate::handler;
use crate::tools::args::Args;
use crate::tools::declare::{Arg, Audit, Hints, Known, LeaseNeed, Profile, Tool};
use crate::tools::facts::{Facts, Refused};

const ACT_MS: u64 = 3000;
const TYPE_MS: u64 = 15_000;
const TEXT_BYTES: usize = 64 << 10;
/// What is typed in place of setting, in Unicode scalar values.
const TYPED_MAX: usize = 1000;
/// XKB's keysym of the letter a.
const KEY_A: u32 = 0x61;
const KEY_DELETE: u32 = 0xffff;

pub const ELEMENT: Arg = Arg::text("element", "An element's ref from elements, listed under this lease.", 1, 32, Audit::IfKnown(Known::Element));

pub static ACTIVATE_ELEMENT: Tool = Tool {
    name: "activate_element",
    title: "Activate an element",
    summary: "has an accessible element do its own action, such as pressing a button",
    description: "Has an element do one of the actions that elements showed for it, without pointer or focus. `observed`: present (with states_set and states_cleared), \
        gone, or unknown. present without changes doesn't mean that the app did nothing; look. An element that isn't the listed one any more is refused (element_stale).",
    args: &[
        super::LEASE,
        ELEMENT.required(),
        Arg::text("action", "One of the element's actions.", 1, 200, Audit::IfKnown(Known::Action)).required(),
        EXPECT_WINDOW,
        super::ELEMENT_CHANGES,
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(activate_element),
};

pub static SET_ELEMENT_TEXT: Tool = Tool {
    name: "set_element_text",
    title: "Set an element's text",
    summary: "replaces an editable field's text through the accessibility bus",
    description: "Replaces an editable element's whole text, and reads it back: `observed` is matched (answered at once, so `changes` may not hold what follows), differs or unknown. \
        fallback \"type\": when that didn't do it, the field is focused, its text selected and the new one typed (up to 1000 characters). Password fields are refused.",
    args: &[
        super::LEASE,
        ELEMENT.required(),
        Arg::text("text", "Up to 64 KiB.", 0, TEXT_BYTES, Audit::Length).required(),
        EXPECT_WINDOW,
        Arg::choice("fallback", "", &["none", "type"], "none"),
        super::ELEMENT_CHANGES,
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(set_element_text),
};

async fn activate_element(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let known = named(&cx, &args)?;
    let action = args.text("action").unwrap_or_default().to_string();
    let before = Before::take(&cx).with_elements(&cx, &args, Some(known.window)).await;
    let request = AccessRequest::Activate { element: known.identity.clone(), action };
    let sent = send(&cx, Effect::Access(request), ACT_MS).await?;
    let now = match &sent {
        Sent::Taken(Reply::Element(now)) => Some(now.clone()),
        _ => None,
    };
    let observed = now.as_ref().map_or("unknown", presence);
    let mut report = Report::new(&sent, observed, About::Windows(vec![known.window])).with("element", json!(known.reference));
    if let Some(now) = now.filter(|now| now.presence == Presence::Present) {
        report = report.with("states_set", without(&now.states, &now.before)).with("states_cleared", without(&now.before, &now.states));
    }
    finish(&cx, &args, before, report).await
}

fn presence(now: &ElementNow) -> &'static str {
    match now.presence {
        Presence::Present => "present",
        Presence::Gone => "gone",
        Presence::Unknown => "unknown",
    }
}

fn without(all: &[String], others: &[String]) -> Value {
    all.iter().filter(|word| !others.contains(word)).map(|word| json!(word)).collect()
}

async fn set_element_text(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let text = args.text("text").unwrap_or_default().to_string();
    if text.len() > TEXT_BYTES {
        return Err(Refused::arguments(format!("the text has {} bytes, and at most {TEXT_BYTES} are set", text.len())));
    }
    if text.contains('\0') {
        return Err(Refused::arguments("the text holds the character U+0000, which no field takes"));
    }
    let known = named(&cx, &args)?;
    let by_typing = args.text("fallback") == Some("type");
    let before = Before::take(&cx).with_elements(&cx, &args, Some(known.window)).await;
    let request = AccessRequest::SetText { element: known.identity.clone(), text: text.clone() };
    let sent = send(&cx, Effect::Access(request), ACT_MS).await?;
    let set = match &sent {
        Sent::Taken(Reply::TextSet(set)) => Some(*set),
        _ => None,
    };
    if set == Some(TextSet::NotEditable) && !by_typing {
        return Err(Error::UpstreamError.because("the element takes no text through the accessibility bus; nothing was sent. Give fallback: \"type\", or click it and type_text."));
    }
    let mut report = Report::new(&sent, set.map_or("unknown", told), About::Windows(vec![known.window])).with("element", json!(known.reference));
    // The field itself said so; what the app makes of it (a title, say) comes with the next look.
    report.known = set == Some(TextSet::Matched);
    if by_typing && matches!(set, Some(TextSet::Differs | TextSet::NotEditable)) {
        let typed = type_instead(&cx, &known, &text).await?;
        report.observed = typed.0;
        report = report.with("fallback", json!("type")).with("typed", json!(typed.1));
    }
    finish(&cx, &args, before, report).await
}

fn told(set: TextSet) -> &'static str {
    match set {
        TextSet::Matched => "matched",
        TextSet::Differs => "differs",
        TextSet::Unknown | TextSet::NotEditable => "unknown",
    }
}

/// Focus, select all, type, read back. Gives what was seen, and how many characters went out.
async fn type_instead(cx: &Cx, known: &KnownElement, text: &str) -> Result<(&'static str, usize), Refused> {
    let characters = text.chars().count();
    if characters > TYPED_MAX {
        return Err(Error::TextTooLong.plain(&format!("Setting the text didn't do it, and it has {characters} characters, of which at most {TYPED_MAX} are typed.")));
    }
    if let Some(control) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(Error::UnmappableText.plain(&format!("Setting the text didn't do it, and U+{:04X} can't be typed.", u32::from(control))));
    }
    let focused = cx.world(|w| w.desktop.focused_window);
    if focused != Some(known.window) {
        return Err(Error::FocusMismatch.plain(&format!("Setting the text didn't do it, and typing needs window {} to have the keyboard.", known.window)));
    }
    match cx.run(Effect::Access(AccessRequest::Focus { element: known.identity.clone() }), ACT_MS).await {
        Ok(Reply::Element(now)) if now.states.iter().any(|state| state == "focused") => {}
        Ok(_) => return Err(Error::UpstreamError.because("Setting the text didn't do it, and the element didn't take the keyboard; click it and type_text.")),
        Err(failure) => return Err(failed(cx, &failure)),
    }
    let release = cx.defer(Effect::Seat(SeatRequest::Release));
    let select = Chord { modifiers: Modifiers { ctrl: true, ..Modifiers::default() }, keysym: Some(KEY_A) };
    let mut chords = vec![select];
    if text.is_empty() {
        chords.push(Chord { modifiers: Modifiers::default(), keysym: Some(KEY_DELETE) });
    }
    let sent = send(cx, Effect::Seat(SeatRequest::Keys { chords }), TYPE_MS).await?;
    let mut sure = matches!(sent, Sent::Taken(_));
    if sure && !text.is_empty() {
        let sent = send(cx, Effect::Seat(SeatRequest::Text { text: text.to_string(), submit: false }), TYPE_MS).await?;
        sure = matches!(sent, Sent::Taken(_));
    }
    if !sure {
        return Ok(("uncertain", 0));
    }
    cx.disarm(release);
    let compare = AccessRequest::CompareText { element: known.identity.clone(), text: text.to_string() };
    let seen = match cx.run(Effect::Access(compare), ACT_MS).await {
        Ok(Reply::TextSet(set)) => told(set),
        _ => "unknown",
    };
    Ok((seen, characters))
}
