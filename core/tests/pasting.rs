//! A paste, whatever goes wrong in it: what was lent is asked back, and nothing is pressed that shouldn't be.

mod support;

use deskhand_core::desktop::effect::{ClipboardRequest, Effect, Failure, FailureKind, Outcome, PutBack, Reply, SeatRequest};
use deskhand_core::desktop::event::Observation;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Rig, kind_reply};

fn holding() -> Rig {
    let mut rig = Rig::ready();
    rig.open_connection(1);
    rig.initialize(1, "2025-11-25");
    rig.call(1, 1, "acquire_desktop", &json!({}));
    rig.quiesce();
    rig
}

/// Runs one paste; `answer` may replace an effect's outcome.
fn pasted(rig: &mut Rig, arguments: &Value, mut answer: impl FnMut(&Effect) -> Option<Outcome>) -> (Value, Vec<Effect>) {
    rig.call(1, 2, "type_text", arguments);
    let mut effects = Vec::new();
    for _ in 0..100 {
        while let Some((op, effect)) = rig.open.iter().next().map(|(op, effect)| (*op, effect.clone())) {
            let outcome = answer(&effect).unwrap_or_else(|| Ok(kind_reply(&effect)));
            effects.push(effect);
            rig.complete(op, outcome);
        }
        if rig.answer_to(1, 2).is_some() {
            break;
        }
        rig.now = rig.core.poll_timeout().map_or(rig.now, |(at, _)| at.max(rig.now));
        rig.feed(deskhand_core::Input::Tick);
    }
    let text = rig.answer_to(1, 2).expect("an answer")["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (serde_json::from_str(&text).unwrap_or(json!(text)), effects)
}

fn chords(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Seat(SeatRequest::Keys { .. }))).count()
}

#[test]
fn return_follows_only_a_text_that_was_read() {
    for (read, submitted, observed) in [(Some(true), true, "sent"), (Some(false), false, "timeout"), (None, false, "unknown")] {
        let mut rig = holding();
        let (facts, effects) = pasted(&mut rig, &json!({"text": "x", "paste": true, "submit": true}), |effect| {
            matches!(effect, Effect::Clipboard(ClipboardRequest::AwaitReader { .. })).then_some(Ok(Reply::Read(read)))
        });
        assert_eq!((&facts["read"], &facts["submitted"], &facts["observed"]), (&json!(read), &json!(submitted), &json!(observed)), "{facts}");
        assert_eq!(chords(&effects), 1 + usize::from(submitted));
    }
}

#[test]
fn a_copy_meanwhile_is_the_persons() {
    let mut rig = holding();
    let (facts, _) = pasted(&mut rig, &json!({"text": "x", "paste": true}), |effect| match effect {
        Effect::Clipboard(ClipboardRequest::AwaitReader { .. }) => Some(Ok(Reply::Read(Some(false)))),
        Effect::Clipboard(ClipboardRequest::Restore) => Some(Ok(Reply::PutBack(PutBack::Replaced))),
        _ => None,
    });
    assert_eq!((&facts["clipboard"], &facts["observed"]), (&json!("replaced"), &json!("interrupted")), "{facts}");
}

#[test]
fn primary_is_lent_for_shift_insert_alone() {
    for (keys, wanted) in [("ctrl+v", false), ("ctrl+shift+v", false), ("shift+Insert", true)] {
        let mut rig = holding();
        let (_, effects) = pasted(&mut rig, &json!({"text": "x", "paste": true, "paste_keys": keys}), |_| None);
        let lent = effects.iter().find_map(|e| if let Effect::Clipboard(ClipboardRequest::Offer { primary, reader, .. }) = e { Some((*primary, *reader)) } else { None });
        assert_eq!(lent, Some((wanted, Some(1001))), "{keys}");
    }
}

#[test]
fn bounds_of_the_text() {
    let mut rig = holding();
    let (facts, effects) = pasted(&mut rig, &json!({"text": "é".repeat((1 << 19) + 1), "paste": true}), |_| None);
    assert_eq!(facts["error"], "text_too_long");
    assert!(effects.is_empty());
    let (_, effects) = pasted(&mut holding(), &json!({"text": "é".repeat(1 << 19), "paste": true}), |_| None);
    assert_eq!(chords(&effects), 1);
    for text in ["", "a\u{1b}b"] {
        let (refused, effects) = pasted(&mut holding(), &json!({"text": text, "paste": true}), |_| None);
        assert!(refused.as_str().is_some_and(|text| text.starts_with("invalid arguments")), "{refused}");
        assert!(effects.is_empty());
    }
}

proptest! {
    /// Whichever effect fails in whichever way, or the person stops it there: after an offer comes a restore, unless one was
    /// asked for and came back well.
    #[test]
    fn what_was_lent_is_asked_back(at in 0usize..6, kind in 0usize..4, stop in any::<bool>(), submit in any::<bool>()) {
        let kinds = [FailureKind::Lost, FailureKind::TimedOut, FailureKind::Unavailable, FailureKind::Fenced];
        let mut rig = holding();
        rig.call(1, 2, "type_text", &json!({"text": "x", "paste": true, "submit": submit}));
        let (mut number, mut lent) = (0, false);
        for _ in 0..200 {
            while let Some((op, effect)) = rig.open.iter().next().map(|(op, effect)| (*op, effect.clone())) {
                let breaks = number == at;
                number += 1;
                let outcome = if breaks && !stop { Err(Failure::new(kinds[kind], "the test said so")) } else { Ok(kind_reply(&effect)) };
                match &effect {
                    Effect::Clipboard(ClipboardRequest::Offer { .. }) => lent = true,
                    Effect::Clipboard(ClipboardRequest::Restore) => lent = false,
                    Effect::Seat(SeatRequest::Keys { .. }) if number == 1 => panic!("pressed before it was offered"),
                    _ => {}
                }
                if breaks && stop {
                    rig.observe(Observation::Stop { set: true });
                }
                rig.complete(op, outcome);
            }
            if rig.core.is_idle() {
                break;
            }
            rig.now = rig.core.poll_timeout().map_or(rig.now, |(at, _)| at.max(rig.now));
            rig.feed(deskhand_core::Input::Tick);
        }
        prop_assert!(!lent, "the clipboard was not asked back");
        prop_assert!(rig.answer_to(1, 2).is_some());
    }
}
