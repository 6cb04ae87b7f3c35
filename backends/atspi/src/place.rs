//! Where elements are in their window: every toolkit counts from somewhere else.

use deskhand_core::desktop::elements::NoBox;
use deskhand_core::desktop::geometry::Rect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolkit {
    Gtk3,
    Gtk4,
    Qt,
    Chromium,
    Gecko,
    Other,
}

impl Toolkit {
    /// From the application's own name and version of its toolkit.
    pub fn of(name: &str, version: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "gtk" if version.starts_with('3') || version.starts_with('2') => Self::Gtk3,
            "gtk" => Self::Gtk4,
            "qt" => Self::Qt,
            "chromium" => Self::Chromium,
            "gecko" => Self::Gecko,
            _ => Self::Other,
        }
    }

    /// Which coordinates to ask for: 0 the screen's, 1 the window's.
    pub fn coordinates(self) -> u32 {
        match self {
            Self::Gecko => 0,
            _ => 1,
        }
    }
}

/// Extents that a toolkit gives to what isn't shown, or to nothing.
pub fn extents((x, y, width, height): (i32, i32, i32, i32)) -> Option<Rect> {
    /// Far beyond any window.
    const FAR: i32 = 1 << 20;
    let sensible = |v: i32| (-FAR..FAR).contains(&v);
    (sensible(x) && sensible(y) && (1..FAR).contains(&width) && (1..FAR).contains(&height)).then(|| Rect::new(x, y, width, height))
}

/// What to add to an element's extents to get its place in the window. `inside` are extents of what the frame holds,
/// nearest first, and `size` is the compositor's for the window.
pub fn offset(toolkit: Toolkit, frame: Option<Rect>, inside: &[Rect], size: (i32, i32)) -> Option<(i32, i32)> {
    let frame = frame?;
    let fills = frame.width == size.0 && frame.height == size.1;
    match toolkit {
        Toolkit::Gtk4 => Some((0, 0)),
        Toolkit::Gecko => Some((-frame.x, -frame.y)),
        _ if fills => Some((-frame.x, -frame.y)),
        // Its coordinates include the shadow that it draws around itself.
        Toolkit::Gtk3 => {
            let wide = || inside.iter().filter(|r| r.width == size.0);
            let left = wide().map(|r| r.x).min()?;
            let top = wide().map(|r| r.y).min()?;
            Some((-left, -top))
        }
        Toolkit::Chromium => inside.iter().find(|r| (r.width, r.height) == size).map(|r| (-r.x, -r.y)),
        // It doesn't count the decorations that it draws itself: as wide on both sides and below.
        Toolkit::Qt => {
            let side = (size.0 - frame.width) / 2;
            let top = size.1 - frame.height - side;
            ((0..=32).contains(&side) && (0..=96).contains(&top)).then_some((side - frame.x, top - frame.y))
        }
        Toolkit::Other => None,
    }
}

/// The element's place in a window of this size.
pub fn place(extents: Rect, offset: Option<(i32, i32)>, size: (i32, i32)) -> Result<Rect, NoBox> {
    let (dx, dy) = offset.ok_or(NoBox::OriginUnknown)?;
    let moved = Rect::new(extents.x + dx, extents.y + dy, extents.width, extents.height);
    moved.intersect(&Rect::new(0, 0, size.0, size.1)).map(|_| moved).ok_or(NoBox::OutsideWindow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: i32, y: i32, width: i32, height: i32) -> Rect {
        Rect::new(x, y, width, height)
    }

    #[test]
    fn each_toolkit_has_its_correction() {
        let size = (600, 400);
        assert_eq!(offset(Toolkit::Gtk4, Some(at(0, 0, 600, 400)), &[], size), Some((0, 0)));
        // A shadow of 26 at the sides and 23 above.
        let own = at(0, 0, 652, 458);
        assert_eq!(offset(Toolkit::Gtk3, Some(own), &[at(26, 69, 600, 354), at(26, 23, 600, 46)], size), Some((-26, -23)));
        assert_eq!(offset(Toolkit::Gtk3, Some(own), &[at(26, 69, 500, 354)], size), None);
        assert_eq!(offset(Toolkit::Gtk3, Some(at(0, 0, 600, 400)), &[], size), Some((0, 0)));
        assert_eq!(offset(Toolkit::Chromium, Some(at(0, 0, 632, 426)), &[at(0, 0, 632, 426), at(16, 10, 600, 400)], size), Some((-16, -10)));
        assert_eq!(offset(Toolkit::Gecko, Some(at(26, 23, 600, 400)), &[], size), Some((-26, -23)));
        assert_eq!(offset(Toolkit::Qt, Some(at(0, 0, 594, 367)), &[], size), Some((3, 30)));
        assert_eq!(offset(Toolkit::Other, Some(at(0, 0, 594, 367)), &[], size), None);
        assert_eq!(offset(Toolkit::Gtk3, None, &[], size), None);
    }

    #[test]
    fn what_is_not_shown_has_no_extents() {
        assert_eq!(extents((i32::MIN, i32::MIN, 1, 1)), None);
        assert_eq!(extents((3, 4, 0, 0)), None);
        assert_eq!(extents((-5, 4, 10, 10)), Some(at(-5, 4, 10, 10)));
        assert_eq!(place(at(-20, 4, 10, 10), Some((0, 0)), (100, 100)), Err(NoBox::OutsideWindow));
        assert_eq!(place(at(5, 5, 10, 10), None, (100, 100)), Err(NoBox::OriginUnknown));
        assert_eq!(place(at(95, 5, 10, 10), Some((1, 1)), (100, 100)), Ok(at(96, 6, 10, 10)));
    }
}
