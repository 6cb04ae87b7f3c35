//! Raw pixels as the compositor wrote them, and comparisons of them.

use deskhand_core::desktop::geometry::Rect;
use wayland_client::WEnum;
use wayland_client::protocol::wl_shm;

/// The order of the four bytes of a pixel in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    Bgra,
    Rgba,
}

impl Order {
    /// The order of a wl_shm format, and whether this crate reads that format.
    pub fn of(format: WEnum<wl_shm::Format>) -> Option<Self> {
        match format {
            WEnum::Value(wl_shm::Format::Argb8888 | wl_shm::Format::Xrgb8888) => Some(Self::Bgra),
            WEnum::Value(wl_shm::Format::Abgr8888 | wl_shm::Format::Xbgr8888) => Some(Self::Rgba),
            _ => None,
        }
    }

    fn rgb(self, pixel: &[u8]) -> [u8; 3] {
        match self {
            Self::Bgra => [pixel[2], pixel[1], pixel[0]],
            Self::Rgba => [pixel[0], pixel[1], pixel[2]],
        }
    }
}

/// Rows of 4-byte pixels that cover a rectangle of an output's raw buffer.
#[derive(Clone, Copy)]
pub(crate) struct Pixels<'a> {
    data: &'a [u8],
    stride: usize,
    order: Order,
    /// In raw pixels of the output.
    covers: Rect,
    /// The first row in memory is the lowest one.
    y_invert: bool,
}

impl<'a> Pixels<'a> {
    /// `None` when the data is too short for the rectangle.
    pub fn new(
        data: &'a [u8],
        stride: usize,
        order: Order,
        covers: Rect,
        y_invert: bool,
    ) -> Option<Self> {
        let (width, height) = (
            usize::try_from(covers.width).ok()?,
            usize::try_from(covers.height).ok()?,
        );
        let enough = width * 4 <= stride && stride.checked_mul(height)? <= data.len();
        (enough && width > 0 && height > 0).then_some(Self {
            data,
            stride,
            order,
            covers,
            y_invert,
        })
    }

    pub fn order(&self) -> Order {
        self.order
    }

    pub fn covers(&self) -> Rect {
        self.covers
    }

    /// The bytes of one row of `rect`, `y` in raw pixels of the output; the rectangle must be covered.
    pub fn row(&self, rect: Rect, y: i32) -> &'a [u8] {
        let line = (y - self.covers.y) as usize;
        let line = if self.y_invert {
            self.covers.height as usize - 1 - line
        } else {
            line
        };
        let start = line * self.stride + (rect.x - self.covers.x) as usize * 4;
        &self.data[start..start + rect.width as usize * 4]
    }

    /// `rect` as rows without gaps, borrowed where they lie so already.
    pub fn packed(&self, rect: Rect) -> std::borrow::Cow<'a, [u8]> {
        let whole_rows = rect.x == self.covers.x && rect.width == self.covers.width;
        if whole_rows && !self.y_invert && self.stride == rect.width as usize * 4 {
            let start = (rect.y - self.covers.y) as usize * self.stride;
            return std::borrow::Cow::Borrowed(
                &self.data[start..start + rect.height as usize * self.stride],
            );
        }
        let mut packed = Vec::with_capacity(rect.width as usize * rect.height as usize * 4);
        for y in rect.y..rect.bottom() {
            packed.extend_from_slice(self.row(rect, y));
        }
        std::borrow::Cow::Owned(packed)
    }

    /// Whether both show the same colours in `rect`; false when one doesn't cover it.
    pub fn equal(&self, other: &Pixels<'_>, rect: Rect) -> bool {
        let covered = self.covers.intersect(&rect) == Some(rect)
            && other.covers.intersect(&rect) == Some(rect);
        covered && (rect.y..rect.bottom()).all(|y| self.row_difference(other, rect, y).is_none())
    }

    /// The first and last differing x of a row, relative to `rect`.
    fn row_difference(&self, other: &Pixels<'_>, rect: Rect, y: i32) -> Option<(i32, i32)> {
        let (ours, theirs) = (self.row(rect, y), other.row(rect, y));
        if self.order == other.order && ours == theirs {
            return None;
        }
        let differs = |x: &i32| {
            let at = *x as usize * 4;
            self.order.rgb(&ours[at..at + 4]) != other.order.rgb(&theirs[at..at + 4])
        };
        let first = (0..rect.width).find(differs)?;
        let last = (0..rect.width).rev().find(differs)?;
        Some((first, last))
    }

    /// The smallest rectangle around the differing pixels within `rect`, clipped to what both cover. Stops early,
    /// with what it has found, once its area is over `enough` pixels.
    pub fn difference(&self, other: &Pixels<'_>, rect: Rect, enough: i64) -> Option<Rect> {
        let rect = rect.intersect(&self.covers)?.intersect(&other.covers)?;
        let mut found: Option<Rect> = None;
        for y in rect.y..rect.bottom() {
            let Some((first, last)) = self.row_difference(other, rect, y) else {
                continue;
            };
            let line = Rect::new(rect.x + first, y, last - first + 1, 1);
            let all = found.map_or(line, |so_far| crate::wire::union(so_far, line));
            found = Some(all);
            if i64::from(all.width) * i64::from(all.height) > enough {
                break;
            }
        }
        found
    }

    /// The share of pixels of `patch` outside `masks` that differ by more than `tolerance` in a channel, at the best
    /// shift of up to `slack` pixels of `other` against `self`. Both must cover the patch.
    pub fn share_differing(
        &self,
        other: &Pixels<'_>,
        patch: Rect,
        masks: &[Rect],
        slack: i32,
        tolerance: u8,
    ) -> f64 {
        let mut shifts: Vec<(i32, i32)> = (-slack..=slack)
            .flat_map(|dy| (-slack..=slack).map(move |dx| (dx, dy)))
            .collect();
        shifts.sort_by_key(|(dx, dy)| dx.abs() + dy.abs());
        let mut best = 1.0f64;
        for shift in shifts {
            best = best.min(self.share_at(other, patch, masks, shift, tolerance));
            if best == 0.0 {
                break;
            }
        }
        best
    }

    fn share_at(
        &self,
        other: &Pixels<'_>,
        patch: Rect,
        masks: &[Rect],
        (dx, dy): (i32, i32),
        tolerance: u8,
    ) -> f64 {
        let (mut counted, mut differing) = (0u64, 0u64);
        for y in patch.y..patch.bottom() {
            if y + dy < patch.y || y + dy >= patch.bottom() {
                continue;
            }
            let (ours, theirs) = (self.row(patch, y), other.row(patch, y + dy));
            for x in patch.x..patch.right() {
                let shifted = x + dx;
                let masked = |mask: &Rect| mask.contains(x, y) || mask.contains(shifted, y + dy);
                if shifted < patch.x || shifted >= patch.right() || masks.iter().any(masked) {
                    continue;
                }
                let (a, b) = ((x - patch.x) as usize * 4, (shifted - patch.x) as usize * 4);
                let (a, b) = (
                    self.order.rgb(&ours[a..a + 4]),
                    other.order.rgb(&theirs[b..b + 4]),
                );
                counted += 1;
                differing += u64::from(a.iter().zip(b).any(|(a, b)| a.abs_diff(b) > tolerance));
            }
        }
        if counted == 0 {
            0.0
        } else {
            differing as f64 / counted as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: i32, height: i32, colour: impl Fn(i32, i32) -> u8) -> Vec<u8> {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        pixels
            .flat_map(|(x, y)| [colour(x, y), 7, 9, (x * y) as u8])
            .collect()
    }

    fn of(data: &[u8], width: i32, height: i32) -> Pixels<'_> {
        Pixels::new(
            data,
            width as usize * 4,
            Order::Bgra,
            Rect::new(0, 0, width, height),
            false,
        )
        .unwrap()
    }

    #[test]
    fn the_padding_byte_does_not_count() {
        let a = picture(8, 8, |x, _| x as u8);
        let mut b = a.clone();
        b[3] = 200;
        assert!(of(&a, 8, 8).equal(&of(&b, 8, 8), Rect::new(0, 0, 8, 8)));
        b[0] = 200;
        assert!(!of(&a, 8, 8).equal(&of(&b, 8, 8), Rect::new(0, 0, 8, 8)));
    }

    #[test]
    fn what_is_not_covered_is_not_equal() {
        let a = picture(8, 8, |x, _| x as u8);
        assert!(!of(&a, 8, 8).equal(&of(&a, 8, 8), Rect::new(4, 4, 8, 8)));
    }

    #[test]
    fn difference_is_the_bounding_box() {
        let a = picture(20, 20, |_, _| 0);
        let b = picture(20, 20, |x, y| {
            u8::from((5..7).contains(&x) && (3..9).contains(&y))
        });
        let found = of(&a, 20, 20).difference(&of(&b, 20, 20), Rect::new(0, 0, 99, 99), 1000);
        assert_eq!(found, Some(Rect::new(5, 3, 2, 6)));
        assert_eq!(
            of(&a, 20, 20).difference(&of(&a, 20, 20), Rect::new(0, 0, 20, 20), 1000),
            None
        );
    }

    #[test]
    fn rows_of_an_inverted_buffer_come_from_below() {
        let a = picture(4, 4, |_, y| y as u8);
        let rect = Rect::new(10, 20, 4, 4);
        let pixels = Pixels::new(&a, 16, Order::Bgra, rect, true).unwrap();
        assert_eq!(pixels.row(rect, 20)[0], 3);
        assert_eq!(pixels.row(Rect::new(11, 20, 2, 2), 23).len(), 8);
        assert_eq!(pixels.packed(rect)[0], 3);
    }

    #[test]
    fn a_shift_is_found_only_with_slack() {
        let a = picture(48, 48, |x, y| ((x * 7) ^ (y * 13)) as u8);
        let b = picture(48, 48, |x, y| (((x + 1) * 7) ^ (y * 13)) as u8);
        let (a, b) = (of(&a, 48, 48), of(&b, 48, 48));
        let patch = Rect::new(0, 0, 48, 48);
        assert!(a.share_differing(&b, patch, &[], 0, 0) > 0.5);
        assert_eq!(a.share_differing(&b, patch, &[], 1, 0), 0.0);
    }

    #[test]
    fn masked_pixels_do_not_count() {
        let a = picture(10, 10, |_, _| 0);
        let b = picture(10, 10, |x, _| u8::from(x < 5));
        let (a, b) = (of(&a, 10, 10), of(&b, 10, 10));
        let patch = Rect::new(0, 0, 10, 10);
        assert_eq!(a.share_differing(&b, patch, &[], 0, 0), 0.5);
        assert_eq!(
            a.share_differing(&b, patch, &[Rect::new(0, 0, 5, 10)], 0, 0),
            0.0
        );
    }

    #[test]
    fn short_data_is_refused() {
        assert!(Pixels::new(&[0; 15], 8, Order::Rgba, Rect::new(0, 0, 2, 2), false).is_none());
        assert!(Pixels::new(&[0; 16], 4, Order::Rgba, Rect::new(0, 0, 2, 2), false).is_none());
    }
}
