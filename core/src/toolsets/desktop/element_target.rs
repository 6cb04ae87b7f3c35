//! An element as the place that the pointer goes to.

use super::aim::{Target, raw_size};
use super::elements::{access_window, in_layout};
use super::errors::{Error, failed};
use super::{gates, screenshot};
use crate::desktop::effect::{Effect, Reply};
use crate::desktop::elements::{AccessRequest, NoBox};
use crate::desktop::geometry::Rect;
use crate::desktop::model::{Output, Window};
use crate::elements::Known;
use crate::engine::cx::Cx;
use crate::engine::world::World;
use crate::tools::args::Args;
use crate::tools::facts::Refused;

const LOOK_MS: u64 = 2000;

/// The element that a call names, which must have been listed under its lease and may be acted on.
pub fn named(cx: &Cx, args: &Args) -> Result<Known, Refused> {
    let reference = args.text("element").unwrap_or_default();
    let lease = screenshot::lease_of(cx, args);
    cx.world(|w| {
        let Some(known) = w.elements.find(reference).filter(|known| known.lease.is_some() && known.lease == lease).cloned() else {
            return Err(Error::ElementStale.plain("No element of this lease has this ref."));
        };
        let Some(window) = w.desktop.window(known.window) else {
            return Err(Error::ElementStale.plain(&format!("The element's window {} is closed.", known.window)));
        };
        gates::window_allowed(w, Some(window))?;
        if let Some(expected) = args.map().get("expect").and_then(serde_json::Value::as_object).and_then(super::expect::window_id)
            && expected != known.window
        {
            return Err(Error::FocusMismatch.plain(&format!("The element is in window {}, not in {expected}; nothing was sent.", known.window)));
        }
        Ok(known)
    })
}

/// Where the middle of the element's visible part is, if that is known and nothing may cover it.
pub async fn target(cx: &Cx, args: &Args) -> Result<Target, Refused> {
    let known = named(cx, args)?;
    let window = cx.world(|w| access_window(&w.desktop, known.window))?;
    let request = AccessRequest::Look { element: known.identity.clone(), window };
    let now = match cx.run(Effect::Access(request), LOOK_MS).await {
        Ok(Reply::Element(now)) => now,
        Ok(_) => return Err(Error::UpstreamError.because("the accessibility backend didn't tell of the element")),
        Err(failure) => return Err(failed(cx, &failure)),
    };
    cx.world(|w| {
        let Some(window) = w.desktop.window(known.window) else {
            return Err(Error::ElementStale.plain(&format!("The element's window {} is closed.", known.window)));
        };
        let origin = w.desktop.position(window);
        let place = in_layout(&now.place, origin).map_err(|why| Error::ElementUnmappable.plain(&format!("{} Nothing was sent.", sentence(why))))?;
        let centre = visible_centre(&place, window, origin)?;
        uncovered(w, window, centre)?;
        let (output, raw) = on_output(w, window, centre)?;
        gates::point_allowed(w, &output.name, centre)?;
        let (Some(logical), Some(size)) = (output.logical, raw_size(&output)) else {
            return Err(Error::UntestedOutputConfig.plain("The output's geometry isn't known."));
        };
        Ok(Target {
            output: output.name.clone(),
            raw,
            raw_size: size,
            logical: centre,
            scale: logical.scale,
            transform: logical.transform,
            shot: None,
            element: Some((known.reference.clone(), known.window, place)),
        })
    })
}

fn sentence(why: NoBox) -> &'static str {
    match why {
        NoBox::NotShown => "The element isn't shown now; scroll to it or open what holds it.",
        NoBox::NoComponent | NoBox::NotTold => "The app doesn't tell where the element is.",
        NoBox::OriginUnknown => "Where the app's coordinates begin in its window can't be told.",
        NoBox::OutsideWindow => "The element lies outside of its window.",
        NoBox::WindowPositionUnknown => "The compositor doesn't tell where the element's window is.",
    }
}

fn visible_centre(place: &Rect, window: &Window, origin: Option<(f64, f64)>) -> Result<(f64, f64), Refused> {
    let (x, y) = origin.unwrap_or_default();
    let (width, height) = window.layout.window_size;
    let shown = place.intersect(&Rect::new(x.round() as i32, y.round() as i32, width, height));
    let Some(shown) = shown else { return Err(Error::ElementUnmappable.plain(sentence(NoBox::OutsideWindow))) };
    Ok((f64::from(shown.x) + f64::from(shown.width) / 2.0, f64::from(shown.y) + f64::from(shown.height) / 2.0))
}

/// Another window at this point may be in front, unless this one has the focus and is of the upper layer.
fn uncovered(w: &World, window: &Window, (x, y): (f64, f64)) -> Result<(), Refused> {
    let d = &w.desktop;
    let workspace = window.workspace_id.and_then(|id| d.workspaces.get(&id));
    if !workspace.is_some_and(|ws| ws.active) {
        return Err(Error::ElementUnmappable.plain(&format!("The element's window {} isn't on a visible workspace; focus it first.", window.id)));
    }
    let output = workspace.and_then(|ws| ws.output.as_deref()).unwrap_or_default();
    let focused = d.focused_window == Some(window.id);
    let covers = |other: &&Window| {
        let (width, height) = other.layout.window_size;
        let there = d.position(other).is_some_and(|(left, top)| x >= left && y >= top && x < left + f64::from(width) && y < top + f64::from(height));
        // Tiled windows without a place are beneath floating ones.
        let maybe = d.position(other).is_none() && !window.floating && !focused;
        other.id != window.id && (there || maybe) && !(focused && (window.floating || !other.floating))
    };
    match d.visible_windows(output).find(covers) {
        None => Ok(()),
        Some(other) => Err(Error::ElementUnmappable.plain(&format!("Window {} may cover the element; focus window {} first, or move the other away. Nothing was sent.", other.id, window.id))),
    }
}

fn on_output(w: &World, window: &Window, (x, y): (f64, f64)) -> Result<(Output, (u32, u32)), Refused> {
    let holds = |o: &&Output| o.logical.is_some_and(|l| Rect::new(l.x, l.y, l.width, l.height).contains(x.floor() as i32, y.floor() as i32));
    let Some(output) = w.desktop.outputs.iter().find(holds) else {
        return Err(Error::ElementUnmappable.plain(&format!("The element of window {} is on no output.", window.id)));
    };
    let (Some(logical), Some(size)) = (output.logical, raw_size(output)) else {
        return Err(Error::UntestedOutputConfig.plain("The output's geometry isn't known."));
    };
    let (within_x, within_y) = (x - f64::from(logical.x), y - f64::from(logical.y));
    if within_x < 1.0 && within_y < 1.0 {
        return Err(Error::ElementUnmappable.plain("The element is at an output's top-left corner, a hot corner of the compositor."));
    }
    let (upright_w, upright_h) = logical.transform.upright_size(size);
    let upright = (f64::from(upright_w), f64::from(upright_h));
    let at = (within_x * upright.0 / f64::from(logical.width.max(1)), within_y * upright.1 / f64::from(logical.height.max(1)));
    let (rx, ry) = logical.transform.upright_to_raw(at, upright);
    let clamp = |v: f64, size: u32| (v.floor().max(0.0) as u32).min(size.saturating_sub(1));
    Ok((output.clone(), (clamp(rx, size.0), clamp(ry, size.1))))
}
