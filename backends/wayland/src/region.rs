//! Which logical rectangle to ask for so that it covers a raw one exactly.

use deskhand_core::desktop::geometry::{Rect, Transform};

/// A region request, and the raw pixels that it is known to cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub logical: Rect,
    pub covers: Rect,
}

/// `None` when only a full capture is exact (compositors round fractional positions differently) or hardly larger.
pub(crate) fn plan(
    raw: (u32, u32),
    logical: (u32, u32),
    transform: Transform,
    want: Rect,
) -> Option<Region> {
    // Sway 1.7 turns regions of these two the wrong way round, others the right one.
    if matches!(transform, Transform::Rotate90 | Transform::Rotate270) {
        return None;
    }
    let upright = transform.upright_size(raw);
    let scale = f64::from(upright.0) / f64::from(logical.0);
    if scale != f64::from(upright.1) / f64::from(logical.1) {
        return None;
    }
    // Logical multiples of `grid` fall on whole pixels, without any rounding even in single precision.
    let grid = [1.0, 2.0, 4.0, 8.0]
        .into_iter()
        .find(|grid| (scale * grid).fract() == 0.0)?;
    let wanted = turn_rect(want, upright, |point, size| {
        transform.raw_to_upright(point, size)
    });
    let down = |at: i32| ((f64::from(at) / scale / grid).floor() * grid) as i32;
    let up = |at: i32, limit: u32| {
        ((f64::from(at) / scale / grid).ceil() * grid).min(f64::from(limit)) as i32
    };
    let (x, y) = (down(wanted.x), down(wanted.y));
    let (right, bottom) = (
        up(wanted.right(), logical.0),
        up(wanted.bottom(), logical.1),
    );
    let logical = Rect::new(x, y, right - x, bottom - y);
    let pixel = |at: i32| (f64::from(at) * scale) as i32;
    let covered = Rect::new(
        pixel(x),
        pixel(y),
        pixel(logical.width),
        pixel(logical.height),
    );
    let covers = turn_rect(covered, upright, |point, size| {
        transform.upright_to_raw(point, size)
    });
    let small = i64::from(covers.width) * i64::from(covers.height) * 2
        < i64::from(raw.0) * i64::from(raw.1);
    (small && covers.intersect(&want) == Some(want)).then_some(Region { logical, covers })
}

type Point = (f64, f64);

fn turn_rect(rect: Rect, upright: (u32, u32), turn: impl Fn(Point, Point) -> Point) -> Rect {
    let size = (f64::from(upright.0), f64::from(upright.1));
    let a = turn((f64::from(rect.x), f64::from(rect.y)), size);
    let b = turn((f64::from(rect.right()), f64::from(rect.bottom())), size);
    let (x, y) = (a.0.min(b.0) as i32, a.1.min(b.1) as i32);
    Rect::new(x, y, (a.0 - b.0).abs() as i32, (a.1 - b.1).abs() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unscaled_regions_are_exact() {
        let want = Rect::new(100, 50, 48, 48);
        let region = plan((1920, 1080), (1920, 1080), Transform::Normal, want);
        assert_eq!(
            region,
            Some(Region {
                logical: want,
                covers: want
            })
        );
    }

    #[test]
    fn every_transform_covers_what_was_wanted() {
        for transform in Transform::ALL {
            for (raw, scale) in [((1920, 1080), 1), ((3840, 2160), 2)] {
                let (w, h) = transform.upright_size(raw);
                let want = Rect::new(501, 333, 48, 31);
                let Some(region) = plan(raw, (w / scale, h / scale), transform, want) else {
                    assert!(matches!(
                        transform,
                        Transform::Rotate90 | Transform::Rotate270
                    ));
                    continue;
                };
                assert_eq!(region.covers.intersect(&want), Some(want), "{transform:?}");
                let slack = 2 * (scale as i32 - 1);
                assert!(region.covers.width <= 48 + slack && region.covers.height <= 31 + slack);
            }
        }
    }

    #[test]
    fn fractional_scales_stay_on_whole_pixels() {
        let region = plan(
            (1920, 1080),
            (1280, 720),
            Transform::Normal,
            Rect::new(100, 50, 48, 48),
        )
        .unwrap();
        assert_eq!(
            region,
            Region {
                logical: Rect::new(66, 32, 34, 34),
                covers: Rect::new(99, 48, 51, 51)
            }
        );
        assert_eq!(
            plan(
                (1920, 1080),
                (1746, 982),
                Transform::Normal,
                Rect::new(100, 50, 48, 48)
            ),
            None
        );
    }

    #[test]
    fn a_large_region_is_captured_whole() {
        assert_eq!(
            plan(
                (1920, 1080),
                (1920, 1080),
                Transform::Normal,
                Rect::new(0, 0, 1900, 1000)
            ),
            None
        );
    }
}
