//! From a pixel of a screenshot to the place the pointer goes to, and the guard that the place still looks the same.

use serde_json::{Value, json};

use super::errors::{Error, failed};
use super::gates;
use crate::desktop::effect::{CompareRequest, Effect, FailureKind, Reply, ScreenRequest};
use crate::desktop::geometry::{Rect, Transform};
use crate::desktop::model::{LogicalOutput, Output, WindowId};
use crate::engine::cx::Cx;
use crate::shots::{Shot, VALID_MS};
use crate::tools::facts::Refused;

/// The patch's side in raw pixels.
const PATCH: u32 = 48;
/// A caret's worth of difference.
const TOLERATED: f64 = 0.02;
/// A pointer's image reaches this far from its hot spot, in logical pixels.
const POINTER_BEFORE: f64 = 8.0;
const POINTER_AFTER: f64 = 32.0;
const COMPARE_MS: u64 = 2000;

/// A place to put the pointer.
#[derive(Clone, Debug)]
pub struct Target {
    pub output: String,
    /// The pixel of the output's raw buffer, and the buffer's size.
    pub raw: (u32, u32),
    pub raw_size: (u32, u32),
    /// In layout coordinates.
    pub logical: (f64, f64),
    pub scale: f64,
    pub transform: Transform,
    /// The screenshot it was aimed in, or
    pub shot: Option<Shot>,
    /// the element, with its window and its place in the layout.
    pub element: Option<(String, WindowId, Rect)>,
}

impl Target {
    pub fn told(&self) -> Value {
        let round = |v: f64| (v * 1000.0).round() / 1000.0;
        json!({"x": round(self.logical.0), "y": round(self.logical.1), "output": self.output})
    }
}

/// The size of the output's raw buffer: its mode.
pub fn raw_size(output: &Output) -> Option<(u32, u32)> {
    output.mode.map(|m| (m.width, m.height)).filter(|(w, h)| *w > 0 && *h > 0)
}

/// The raw pixels that show a rectangle of the layout (within the output), grown to whole pixels.
pub fn raw_region(logical: &LogicalOutput, raw_size: (u32, u32), region: &Rect) -> Rect {
    let (upright_w, upright_h) = logical.transform.upright_size(raw_size);
    let (sx, sy) = (f64::from(upright_w) / f64::from(logical.width), f64::from(upright_h) / f64::from(logical.height));
    let left = f64::from(region.x - logical.x) * sx;
    let top = f64::from(region.y - logical.y) * sy;
    let right = f64::from(region.right() - logical.x) * sx;
    let bottom = f64::from(region.bottom() - logical.y) * sy;
    // A scale that doesn't divide evenly leaves dust behind the point; it isn't a pixel.
    const DUST: f64 = 1e-6;
    let upright = Rect::new(
        (left + DUST).floor() as i32,
        (top + DUST).floor() as i32,
        ((right - DUST).ceil() - (left + DUST).floor()) as i32,
        ((bottom - DUST).ceil() - (top + DUST).floor()) as i32,
    );
    rect_to_raw(logical.transform, &upright, (upright_w, upright_h))
}

fn rect_to_raw(transform: Transform, r: &Rect, (w, h): (u32, u32)) -> Rect {
    let size = (f64::from(w), f64::from(h));
    let (ax, ay) = transform.upright_to_raw((f64::from(r.x), f64::from(r.y)), size);
    let (bx, by) = transform.upright_to_raw((f64::from(r.right()), f64::from(r.bottom())), size);
    Rect::new(ax.min(bx).round() as i32, ay.min(by).round() as i32, (ax - bx).abs().round() as i32, (ay - by).abs().round() as i32)
}

fn rect_to_upright(transform: Transform, r: &Rect, (w, h): (u32, u32)) -> Rect {
    let size = (f64::from(w), f64::from(h));
    let (ax, ay) = transform.raw_to_upright((f64::from(r.x), f64::from(r.y)), size);
    let (bx, by) = transform.raw_to_upright((f64::from(r.right()), f64::from(r.bottom())), size);
    Rect::new(ax.min(bx).round() as i32, ay.min(by).round() as i32, (ax - bx).abs().round() as i32, (ay - by).abs().round() as i32)
}

/// The pure mapping: the centre of an image's pixel, as raw pixel and as point of the layout.
pub fn map_pixel(shot: &Shot, x: u32, y: u32) -> ((u32, u32), (f64, f64)) {
    let upright_size = shot.transform.upright_size(shot.raw_size);
    let upright = rect_to_upright(shot.transform, &shot.raw_rect, upright_size);
    let u = f64::from(upright.x) + (f64::from(x) + 0.5) * f64::from(upright.width) / f64::from(shot.width.max(1));
    let v = f64::from(upright.y) + (f64::from(y) + 0.5) * f64::from(upright.height) / f64::from(shot.height.max(1));
    let (rx, ry) = shot.transform.upright_to_raw((u, v), (f64::from(upright_size.0), f64::from(upright_size.1)));
    let clamp = |v: f64, size: u32| (v.floor().max(0.0) as u32).min(size.saturating_sub(1));
    let raw = (clamp(rx, shot.raw_size.0), clamp(ry, shot.raw_size.1));
    // What is told is where the pointer really goes: the raw pixel's centre.
    let (cu, cv) = shot.transform.raw_to_upright(
        (f64::from(raw.0) + 0.5, f64::from(raw.1) + 0.5),
        (f64::from(upright_size.0), f64::from(upright_size.1)),
    );
    let logical = (
        f64::from(shot.logical.x) + cu * f64::from(shot.logical.width) / f64::from(upright_size.0.max(1)),
        f64::from(shot.logical.y) + cv * f64::from(shot.logical.height) / f64::from(upright_size.1.max(1)),
    );
    (raw, logical)
}

/// The screenshot that a call aims in, and the pixel's place; every reason why it can't be aimed at.
pub fn target(cx: &Cx, reference: Option<&str>, x: i64, y: i64) -> Result<Target, Refused> {
    let invalid = |detail: String| Error::RefInvalid.because(format!("{detail}. {}", Error::RefInvalid.remedy()));
    cx.world(|w| {
        let Some(lease) = w.lease.held().map(|l| l.token.clone()) else { return Err(Error::LeaseRequired.plain("No lease is held.")) };
        let shot = match reference {
            Some(reference) => w.shots.find(reference).filter(|s| s.lease.as_deref() == Some(&lease)),
            None => w.shots.newest(&lease),
        };
        let Some(shot) = shot.cloned() else {
            return Err(invalid(match reference {
                Some(reference) => format!("unknown_ref: no screenshot of this lease is named {reference:?}"),
                None => "unknown_ref: no screenshot was taken under this lease yet".into(),
            }));
        };
        if w.now.saturating_sub(shot.taken) > VALID_MS {
            return Err(invalid(format!("expired: {} is {} s old, valid are 60", shot.reference, (w.now - shot.taken) / 1000)));
        }
        let current = w.desktop.output(&shot.output).and_then(|o| Some((o.logical?, raw_size(o)?)));
        if current != Some((shot.logical, shot.raw_size)) {
            return Err(invalid(format!("output_changed: {} was changed or is gone since {}", shot.output, shot.reference)));
        }
        let (Ok(px), Ok(py)) = (u32::try_from(x), u32::try_from(y)) else {
            return Err(invalid(format!("out_of_bounds: ({x}, {y})")));
        };
        if px >= shot.width || py >= shot.height {
            return Err(invalid(format!("out_of_bounds: ({x}, {y}) isn't in {}, which is {}x{}", shot.reference, shot.width, shot.height)));
        }
        let (raw, logical) = map_pixel(&shot, px, py);
        if logical.0 - f64::from(shot.logical.x) < 1.0 && logical.1 - f64::from(shot.logical.y) < 1.0 {
            return Err(Refused::arguments("the outermost pixel of an output's top-left corner is a hot corner of the compositor; aim at least one pixel beside it"));
        }
        gates::point_allowed(w, &shot.output, logical)?;
        Ok(Target {
            output: shot.output.clone(),
            raw,
            raw_size: shot.raw_size,
            logical,
            scale: shot.logical.scale,
            transform: shot.transform,
            shot: Some(shot),
            element: None,
        })
    })
}

/// Captures the patch around the target again and compares it with the screenshot it was seen in. An element was
/// looked at by itself.
pub async fn guard(cx: &Cx, target: &Target) -> Result<(), Refused> {
    let Some(shot) = &target.shot else { return Ok(()) };
    let Some(frame) = shot.frame else {
        return Err(Error::RefInvalid.because(format!(
            "expired: the pixels of {} are no longer kept (a lease keeps its last 4), so the guard can't compare. Take a new screenshot, or give guard: false.",
            shot.reference
        )));
    };
    let now = cx.world(|w| w.shots.pointer.clone()).filter(|(on, _)| *on == target.output).map(|(_, at)| at);
    let masks = [shot.pointer, now].into_iter().flatten().map(|at| pointer_mask(target, at)).collect();
    let request = CompareRequest {
        output: target.output.clone(),
        frame,
        centre: target.raw,
        side: PATCH,
        masks,
        slack: u32::from(target.scale.fract() != 0.0),
    };
    match cx.run(Effect::Screen(ScreenRequest::Compare(request)), COMPARE_MS).await {
        Ok(Reply::Compared { differing }) if differing <= TOLERATED => Ok(()),
        Ok(Reply::Compared { differing }) => Err(changed(cx, shot, differing).await),
        Ok(_) => Err(Error::UpstreamError.because("the comparison gave no answer")),
        Err(failure) if failure.kind == FailureKind::NotFound => {
            Err(Error::RefInvalid.because(format!("expired: {}. {}", failure.detail, Error::RefInvalid.remedy())))
        }
        Err(failure) => Err(failed(cx, &failure)),
    }
}

async fn changed(cx: &Cx, shot: &Shot, differing: f64) -> Refused {
    let detail = format!(
        "{:.0}% of the pixels around the target differ from {}; nothing was sent. {}",
        differing * 100.0,
        shot.reference,
        Error::TargetChanged.remedy()
    );
    let mut refused = Error::TargetChanged.because(detail);
    if let Ok((about, image)) = super::screenshot::fresh(cx, Some(shot.output.clone()), shot.lease.clone()).await
        && let Refused::Named(named) = &mut refused
    {
        named.more.insert("screenshot".into(), Value::Object(about));
        named.image = image;
    }
    refused
}

/// Where our pointer's image may be, whichever way the output is turned.
fn pointer_mask(target: &Target, (x, y): (u32, u32)) -> Rect {
    let size = target.transform.upright_size(target.raw_size);
    let (u, v) = target.transform.raw_to_upright((f64::from(x), f64::from(y)), (f64::from(size.0), f64::from(size.1)));
    let before = (POINTER_BEFORE * target.scale).ceil() as i32;
    let side = ((POINTER_BEFORE + POINTER_AFTER) * target.scale).ceil() as i32;
    let upright = Rect::new(u as i32 - before, v as i32 - before, side, side);
    rect_to_raw(target.transform, &upright, size)
}
