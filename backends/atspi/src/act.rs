//! What is done to an element: its action, its text, the focus.

use std::time::Duration;

use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_core::desktop::elements::{ElementNow, Identity, NoBox, Presence, TextSet};
use deskhand_ports::Ticket;
use tokio::time::{Instant, sleep, timeout_at};

use crate::calls::{ACCESSIBLE, ACTION, COMPONENT, CallError, Calls, EDITABLE_TEXT, Object, TEXT};
use crate::node::{has, state, state_bits, words};
use crate::verify::verify;

/// GTK 4 acts up to 250 ms after it was asked.
const ACT_LIMIT: Duration = Duration::from_millis(300);
/// After the last event that followed the action.
const QUIET: Duration = Duration::from_millis(40);
const STATE_EVERY: Duration = Duration::from_millis(25);
const READ_BACK: &[u64] = &[0, 2, 5, 10, 20, 40, 80, 160];

pub async fn activate(calls: &Calls, element: &Identity, action: &str, ticket: &Ticket, end: Instant) -> Result<ElementNow, Failure> {
    let now = verify(calls, element, end).await?;
    now.not_secret()?;
    let object = &now.node.object;
    let names = if now.node.interfaces.action { actions(calls, object, end).await.map_err(|e| e.failure())? } else { Vec::new() };
    let index = names
        .iter()
        .position(|name| name == action)
        .or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(action)))
        .ok_or_else(|| Failure::new(FailureKind::NotFound, format!("the element has no such action; it has {}", listed(&names))))?;
    let index = i32::try_from(index).unwrap_or(i32::MAX);

    let rule = format!("type='signal',sender='{}',interface='org.a11y.atspi.Event.Object'", object.bus);
    let mut signals = calls.signals();
    let matched = calls.daemon::<_, ()>("AddMatch", &rule.as_str(), end).await.is_ok();
    let outcome = match ticket.check() {
        Ok(()) => calls.ask::<_, bool>(object, ACTION, "DoAction", &index, end).await.map_err(|e| e.acted()),
        Err(fenced) => Err(fenced),
    };
    if outcome == Ok(true) {
        settle(calls, object, now.node.states, &mut signals).await;
    }
    if matched {
        let _ = calls.daemon::<_, ()>("RemoveMatch", &rule.as_str(), Instant::now() + Duration::from_millis(200)).await;
    }
    if !outcome? {
        return Err(Failure::new(FailureKind::Refused, "the application declined the action"));
    }
    Ok(after(calls, object, now.node.role, now.node.states).await)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// Until the action shows: the element's states changed, or events came and ended.
async fn settle(calls: &Calls, object: &Object, before: u64, signals: &mut tokio::sync::broadcast::Receiver<String>) {
    let end = Instant::now() + ACT_LIMIT;
    let mut last_event: Option<Instant> = None;
    let mut next_look = Instant::now();
    loop {
        let now = Instant::now();
        if now >= end || last_event.is_some_and(|at| now >= at + QUIET) {
            return;
        }
        if now >= next_look {
            match states(calls, object, end).await {
                Ok(states) if states == before => {}
                _ => return,
            }
            next_look = Instant::now() + STATE_EVERY;
        }
        let until = last_event.map_or(next_look, |at| at + QUIET).min(next_look).min(end);
        match timeout_at(until, signals.recv()).await {
            Ok(Ok(sender)) if sender == object.bus => last_event = Some(Instant::now()),
            Ok(Err(tokio::sync::broadcast::error::RecvError::Closed)) => return,
            _ => {}
        }
    }
}

async fn states(calls: &Calls, object: &Object, end: Instant) -> Result<u64, CallError> {
    calls.ask::<_, Vec<u32>>(object, ACCESSIBLE, "GetState", &(), end).await.map(|words| state_bits(&words))
}

async fn after(calls: &Calls, object: &Object, role: u32, before: u64) -> ElementNow {
    let end = Instant::now() + Duration::from_millis(500);
    let told = |states: u64| words(role, states, has(states, state::SHOWING) || has(states, state::VISIBLE));
    let (presence, states) = match states(calls, object, end).await {
        Ok(states) if !has(states, state::DEFUNCT) => (Presence::Present, told(states)),
        Ok(_) | Err(CallError::Said(_)) => (Presence::Gone, Vec::new()),
        Err(_) => (Presence::Unknown, Vec::new()),
    };
    ElementNow { presence, before: told(before), states, place: Err(NoBox::NotTold) }
}

pub async fn actions(calls: &Calls, object: &Object, end: Instant) -> Result<Vec<String>, CallError> {
    let all: Vec<(String, String, String)> = calls.ask(object, ACTION, "GetActions", &(), end).await?;
    Ok(all.into_iter().map(|(name, _, _)| name).collect())
}

pub async fn set_text(calls: &Calls, element: &Identity, text: &str, ticket: &Ticket, end: Instant) -> Result<TextSet, Failure> {
    let now = verify(calls, element, end).await?;
    now.not_secret()?;
    if !now.node.interfaces.editable {
        return Ok(TextSet::NotEditable);
    }
    ticket.check()?;
    // Its own word says little: Firefox claims success and does nothing.
    calls.ask::<_, bool>(&now.node.object, EDITABLE_TEXT, "SetTextContents", &text, end).await.map_err(|e| e.acted())?;
    Ok(read_back(calls, &now.node.object, text, end).await)
}

pub async fn compare(calls: &Calls, element: &Identity, text: &str, end: Instant) -> Result<TextSet, Failure> {
    let object = Object::new(element.bus.clone(), element.path.clone());
    Ok(read_back(calls, &object, text, end).await)
}

async fn read_back(calls: &Calls, object: &Object, text: &str, end: Instant) -> TextSet {
    let length = i32::try_from(text.chars().count()).unwrap_or(i32::MAX);
    let whole = (0i32, length);
    let mut seen = TextSet::Unknown;
    for wait in READ_BACK {
        if *wait > 0 {
            sleep(Duration::from_millis(*wait)).await;
        }
        // GTK 4 gives nothing for the end that stands for all, so the length is asked for, too.
        let (count, now) = tokio::join!(
            calls.property(object, TEXT, "CharacterCount", end),
            calls.ask::<_, String>(object, TEXT, "GetText", &whole, end),
        );
        seen = match (count.ok().and_then(|count| i32::try_from(count).ok()), now) {
            (Some(count), Ok(now)) if count == length && now == text => return TextSet::Matched,
            (Some(_), Ok(_)) => TextSet::Differs,
            (Some(0), Err(CallError::Said(_))) if length == 0 => return TextSet::Matched,
            _ => return seen,
        };
    }
    seen
}

/// Gives it the keyboard within its window.
pub async fn focus(calls: &Calls, element: &Identity, ticket: &Ticket, end: Instant) -> Result<ElementNow, Failure> {
    let now = verify(calls, element, end).await?;
    now.not_secret()?;
    ticket.check()?;
    let object = &now.node.object;
    if !now.node.has(state::FOCUSED) {
        if now.node.interfaces.component {
            let _ = calls.ask::<_, bool>(object, COMPONENT, "GrabFocus", &(), end).await;
        }
        for wait in READ_BACK {
            sleep(Duration::from_millis(*wait)).await;
            if states(calls, object, end).await.is_ok_and(|states| has(states, state::FOCUSED)) {
                break;
            }
        }
    }
    Ok(after(calls, object, now.node.role, now.node.states).await)
}
