//! An input without what it must not tell: titles, what people called things, images, upstream's quotations.

use bytes::Bytes;

use super::mask::{Masks, stand_in};
use super::masked_message::{Context, message};
use crate::desktop::effect::{Copied, Failure, FailureKind, Holder, Outcome, Reply};
use crate::desktop::elements::{ACTIONS, Element, Identity, Listing};
use crate::desktop::event::{AccessState, Availability, CompositorState, DesktopEvent, Observation};
use crate::desktop::model::{Window, Workspace};
use crate::engine::io::Input;
use crate::protocol::connection::is_known_client;

pub(super) fn masked(masks: &mut Masks, input: &Input, context: &Context) -> Input {
    match input {
        Input::Message { conn, route, bytes } => Input::Message { conn: *conn, route: *route, bytes: message(masks, bytes, context) },
        Input::Completed { op, outcome } => Input::Completed { op: *op, outcome: completion(masks, outcome) },
        Input::Observed(observation) => Input::Observed(observed(masks, observation)),
        Input::AuditWritten(result) => Input::AuditWritten(result.clone().map_err(|why| detail(masks, &why))),
        other => other.clone(),
    }
}

fn completion(masks: &mut Masks, outcome: &Outcome) -> Outcome {
    match outcome {
        Ok(Reply::Captured(captured)) => {
            let mut captured = captured.clone();
            if let Some(image) = &mut captured.image {
                image.base64 = Bytes::from(stand_in(&image.base64));
            }
            captured.saved = captured.saved.map(|path| masks.path(&path.to_string_lossy()).into());
            Ok(Reply::Captured(captured))
        }
        Ok(Reply::Copied(Copied::Text(text))) => Ok(Reply::Copied(Copied::Text(masks.text(text)))),
        Ok(Reply::Elements(listing)) => Ok(Reply::Elements(Listing {
            elements: listing.elements.iter().map(|e| element(masks, e)).collect(),
            ..listing.clone()
        })),
        Ok(reply) => Ok(reply.clone()),
        Err(failure) => Err(Failure {
            kind: failure.kind,
            detail: match failure.kind {
                // It names what was to be typed.
                FailureKind::Unmappable => masks.text(&failure.detail),
                _ => detail(masks, &failure.detail),
            },
            typed: failure.typed,
            holder: failure.holder.as_ref().map(|h| holder(masks, h)),
        }),
    }
}

/// Paths and names are the app's own; what is compared stays comparable.
fn element(masks: &mut Masks, element: &Element) -> Element {
    let of = &element.identity;
    Element {
        identity: Identity {
            bus: masks.text(&of.bus),
            path: masks.text(&of.path),
            role: of.role.clone(),
            name: masks.text(&of.name),
            parents: of.parents.iter().map(|parent| masks.text(parent)).collect(),
            row: of.row.as_ref().map(|row| masks.text(row)),
        },
        actions: element.actions.iter().map(|name| if ACTIONS.iter().any(|known| known.eq_ignore_ascii_case(name)) { name.clone() } else { masks.text(name) }).collect(),
        ..element.clone()
    }
}

fn observed(masks: &mut Masks, observation: &Observation) -> Observation {
    match observation {
        Observation::Desktop(event) => Observation::Desktop(desktop(masks, event)),
        Observation::Compositor(state) => Observation::Compositor(match state {
            CompositorState::StreamLost { detail: why } => CompositorState::StreamLost { detail: detail(masks, why) },
            CompositorState::Down { detail: why } => CompositorState::Down { detail: detail(masks, why) },
            other => other.clone(),
        }),
        Observation::StopUnwatched { detail: why } => Observation::StopUnwatched { detail: detail(masks, why) },
        Observation::LeaseLost { detail: why } => Observation::LeaseLost { detail: detail(masks, why) },
        Observation::OtherHolder(Some(other)) => Observation::OtherHolder(Some(holder(masks, other))),
        Observation::Unfinished(Some(what)) => Observation::Unfinished(Some(detail(masks, what))),
        Observation::SessionMatch(Err(why)) => Observation::SessionMatch(Err(detail(masks, why))),
        Observation::Screen(Availability::Down { detail: why }) => Observation::Screen(Availability::Down { detail: detail(masks, why) }),
        Observation::Accessibility(AccessState::Down { detail: why }) => Observation::Accessibility(AccessState::Down { detail: detail(masks, why) }),
        Observation::Seat(Availability::Down { detail: why }) => Observation::Seat(Availability::Down { detail: detail(masks, why) }),
        other => other.clone(),
    }
}

fn desktop(masks: &mut Masks, event: &DesktopEvent) -> DesktopEvent {
    match event {
        DesktopEvent::Windows { windows, focused } => {
            DesktopEvent::Windows { windows: windows.iter().map(|w| window(masks, w)).collect(), focused: *focused }
        }
        DesktopEvent::WindowOpenedOrChanged { window: one, focused } => {
            DesktopEvent::WindowOpenedOrChanged { window: window(masks, one), focused: *focused }
        }
        DesktopEvent::Workspaces(all) => DesktopEvent::Workspaces(
            all.iter().map(|w| Workspace { name: w.name.as_ref().map(|n| masks.text(n)), ..w.clone() }).collect(),
        ),
        DesktopEvent::Unknown(name) => DesktopEvent::Unknown(detail(masks, name)),
        other => other.clone(),
    }
}

fn window(masks: &mut Masks, window: &Window) -> Window {
    Window { title: window.title.as_ref().map(|t| masks.text(t)), ..window.clone() }
}

/// A sentence of a backend's: its own words stay, what it quotes and the paths in it don't.
fn detail(masks: &mut Masks, sentence: &str) -> String {
    let quoted = masks.quoted(sentence);
    let words: Vec<String> = quoted.split(' ').map(|word| if word.contains('/') { masks.path(word) } else { word.to_string() }).collect();
    words.join(" ")
}

fn holder(masks: &mut Masks, holder: &Holder) -> Holder {
    let label = if is_known_client(&holder.label) { holder.label.clone() } else { masks.text(&holder.label) };
    Holder { label, ..holder.clone() }
}
