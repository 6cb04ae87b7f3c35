//! From a pixel of an image to the raw buffer and the layout: any scale, any turn, any region, and back.

use deskhand_core::desktop::geometry::{Rect, Transform};
use deskhand_core::desktop::model::LogicalOutput;
use deskhand_core::shots::Shot;
use deskhand_core::toolsets::desktop::aim::{map_pixel, raw_region};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Setting {
    logical: LogicalOutput,
    raw: (u32, u32),
    region: Option<Rect>,
    max_width: u32,
    at: (f64, f64),
}

fn setting() -> impl Strategy<Value = Setting> {
    let scale = prop_oneof![Just(1.0), Just(2.0), Just(1.25), Just(1.5), Just(1.75), Just(4.0 / 3.0), 0.5..4.0f64];
    let mode = prop_oneof![Just((1920, 1080)), Just((2560, 1440)), Just((1366, 768)), (64..4000u32, 64..4000u32)];
    let part = || (0.0..1.0f64, 0.0..1.0f64);
    (scale, mode, 0..8usize, (-5000..5000i32, -5000..5000i32), proptest::option::of((part(), part())), 16..3000u32, part()).prop_map(
        |(scale, raw, turn, (x, y), region, max_width, at)| {
            let transform = Transform::ALL[turn];
            let (w, h) = transform.upright_size(raw);
            let (width, height) = ((f64::from(w) / scale).round() as i32, (f64::from(h) / scale).round() as i32);
            let logical = LogicalOutput { x, y, width: width.max(1), height: height.max(1), scale, transform };
            let region = region.map(|((left, top), (right, bottom))| {
                let between = |a: f64, b: f64, len: i32| {
                    let (a, b) = (a.min(b) * f64::from(len), a.max(b) * f64::from(len));
                    let from = (a as i32).min(len - 1);
                    (from, (b as i32 - from).clamp(1, len - from))
                };
                let ((rx, rw), (ry, rh)) = (between(left, right, logical.width), between(top, bottom, logical.height));
                Rect::new(x + rx, y + ry, rw, rh)
            });
            Setting { logical, raw, region, max_width, at }
        },
    )
}

/// The upright rectangle of a raw one.
fn upright(transform: Transform, r: &Rect, raw: (u32, u32)) -> (f64, f64, f64, f64) {
    let (w, h) = transform.upright_size(raw);
    let size = (f64::from(w), f64::from(h));
    let a = transform.raw_to_upright((f64::from(r.x), f64::from(r.y)), size);
    let b = transform.raw_to_upright((f64::from(r.right()), f64::from(r.bottom())), size);
    (a.0.min(b.0), a.1.min(b.1), (a.0 - b.0).abs(), (a.1 - b.1).abs())
}

fn shot(s: &Setting) -> Shot {
    let whole = Rect::new(0, 0, s.raw.0 as i32, s.raw.1 as i32);
    let raw_rect = s.region.as_ref().map_or(whole, |r| raw_region(&s.logical, s.raw, r));
    let (_, _, w, h) = upright(s.logical.transform, &raw_rect, s.raw);
    // As a capture backend scales: never up, the width bounded, the height in proportion.
    let shrink = (f64::from(s.max_width) / w).min(1.0);
    let (width, height) = (((w * shrink).round() as u32).max(1), ((h * shrink).round() as u32).max(1));
    Shot {
        reference: "shot-1".into(),
        lease: None,
        output: "A".into(),
        logical: s.logical,
        transform: s.logical.transform,
        raw_size: s.raw,
        raw_rect,
        width,
        height,
        frame: None,
        taken: 0,
        pointer: None,
        request: String::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pixel_goes_where_it_was_seen(s in setting()) {
        let shot = shot(&s);
        let x = ((s.at.0 * f64::from(shot.width)) as u32).min(shot.width - 1);
        let y = ((s.at.1 * f64::from(shot.height)) as u32).min(shot.height - 1);
        let (raw, logical) = map_pixel(&shot, x, y);

        prop_assert!(shot.raw_rect.contains(raw.0 as i32, raw.1 as i32), "{raw:?} isn't in {:?}", shot.raw_rect);
        let l = &s.logical;
        prop_assert!(logical.0 >= f64::from(l.x) && logical.0 <= f64::from(l.x + l.width), "{logical:?}");
        prop_assert!(logical.1 >= f64::from(l.y) && logical.1 <= f64::from(l.y + l.height), "{logical:?}");

        // Back from the layout to the image.
        let (uw, uh) = l.transform.upright_size(s.raw);
        let u = (logical.0 - f64::from(l.x)) * f64::from(uw) / f64::from(l.width);
        let v = (logical.1 - f64::from(l.y)) * f64::from(uh) / f64::from(l.height);
        let (left, top, w, h) = upright(l.transform, &shot.raw_rect, s.raw);
        let (bx, by) = ((u - left) * f64::from(shot.width) / w, (v - top) * f64::from(shot.height) / h);
        prop_assert!((bx - f64::from(x) - 0.5).abs() <= 0.5 + 1e-6, "x {x} came back as {bx}");
        prop_assert!((by - f64::from(y) - 0.5).abs() <= 0.5 + 1e-6, "y {y} came back as {by}");
    }

    #[test]
    fn a_region_is_covered_and_stays_in_the_buffer(s in setting()) {
        let Some(region) = s.region else { return Ok(()) };
        let raw = raw_region(&s.logical, s.raw, &region);
        prop_assert!(raw.width > 0 && raw.height > 0, "{raw:?}");
        prop_assert!(raw.x >= 0 && raw.y >= 0 && raw.right() <= s.raw.0 as i32 && raw.bottom() <= s.raw.1 as i32, "{raw:?} in {:?}", s.raw);
        let (left, top, w, h) = upright(s.logical.transform, &raw, s.raw);
        let (uw, uh) = s.logical.transform.upright_size(s.raw);
        let (sx, sy) = (f64::from(uw) / f64::from(s.logical.width), f64::from(uh) / f64::from(s.logical.height));
        let (x, y) = (f64::from(region.x - s.logical.x) * sx, f64::from(region.y - s.logical.y) * sy);
        let (right, bottom) = (x + f64::from(region.width) * sx, y + f64::from(region.height) * sy);
        const DUST: f64 = 1e-3;
        prop_assert!(left <= x + DUST && top <= y + DUST && left + w >= right - DUST && top + h >= bottom - DUST);
        prop_assert!(left > x - 1.0 - DUST && top > y - 1.0 - DUST && left + w < right + 1.0 + DUST && top + h < bottom + 1.0 + DUST, "no more than whole pixels need");
    }

    #[test]
    fn turning_there_and_back_is_nothing(turn in 0..8usize, w in 1.0..5000.0f64, h in 1.0..5000.0f64, x in 0.0..1.0f64, y in 0.0..1.0f64) {
        let transform = Transform::ALL[turn];
        let point = (x * w, y * h);
        let back = transform.raw_to_upright(transform.upright_to_raw(point, (w, h)), (w, h));
        prop_assert!((back.0 - point.0).abs() < 1e-6 && (back.1 - point.1).abs() < 1e-6);
    }
}
