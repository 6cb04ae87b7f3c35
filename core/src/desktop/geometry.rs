//! From a pixel of an image to a pixel of the output's raw buffer and to a point of the layout, and back.

use serde::{Deserialize, Serialize};

/// In pixels, or in logical units where said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
}

impl Rect {
    pub fn new(x: i32, y: i32, width: i32, height: i32) -> Self {
        Self { x, y, width, height }
    }

    pub fn right(&self) -> i32 {
        self.x.saturating_add(self.width)
    }

    pub fn bottom(&self) -> i32 {
        self.y.saturating_add(self.height)
    }

    pub fn contains(&self, x: i32, y: i32) -> bool {
        x >= self.x && y >= self.y && x < self.right() && y < self.bottom()
    }

    /// The common part; `None` when there is none.
    pub fn intersect(&self, other: &Rect) -> Option<Rect> {
        let x = self.x.max(other.x);
        let y = self.y.max(other.y);
        let width = self.right().min(other.right()) - x;
        let height = self.bottom().min(other.bottom()) - y;
        (width > 0 && height > 0).then_some(Rect { x, y, width, height })
    }
}

/// wl_output's transform, by its protocol names: how the compositor turned the raw buffer to show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transform {
    #[default]
    #[serde(rename = "normal")]
    Normal,
    #[serde(rename = "90")]
    Rotate90,
    #[serde(rename = "180")]
    Rotate180,
    #[serde(rename = "270")]
    Rotate270,
    #[serde(rename = "flipped")]
    Flipped,
    #[serde(rename = "flipped-90")]
    Flipped90,
    #[serde(rename = "flipped-180")]
    Flipped180,
    #[serde(rename = "flipped-270")]
    Flipped270,
}

impl Transform {
    pub const ALL: [Transform; 8] = [
        Self::Normal,
        Self::Rotate90,
        Self::Rotate180,
        Self::Rotate270,
        Self::Flipped,
        Self::Flipped90,
        Self::Flipped180,
        Self::Flipped270,
    ];

    /// From wl_output.geometry's number.
    pub fn from_wl(value: u32) -> Option<Self> {
        Self::ALL.get(value as usize).copied()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Rotate90 => "90",
            Self::Rotate180 => "180",
            Self::Rotate270 => "270",
            Self::Flipped => "flipped",
            Self::Flipped90 => "flipped-90",
            Self::Flipped180 => "flipped-180",
            Self::Flipped270 => "flipped-270",
        }
    }

    /// Width and height change places.
    pub fn swaps(self) -> bool {
        matches!(self, Self::Rotate90 | Self::Rotate270 | Self::Flipped90 | Self::Flipped270)
    }

    /// The upright size of a raw buffer of this size.
    pub fn upright_size(self, (w, h): (u32, u32)) -> (u32, u32) {
        if self.swaps() { (h, w) } else { (w, h) }
    }

    /// Where the point (x, y) of the upright image, whose size is `upright` (same units), lies in the raw buffer.
    ///
    /// The compositor shows a surface by turning it counter-clockwise into the buffer, so the buffer is the upright
    /// picture flipped (where the name says so) around the vertical axis and then turned counter-clockwise.
    pub fn upright_to_raw(self, (x, y): (f64, f64), (w, h): (f64, f64)) -> (f64, f64) {
        match self {
            Self::Normal => (x, y),
            Self::Rotate90 => (y, w - x),
            Self::Rotate180 => (w - x, h - y),
            Self::Rotate270 => (h - y, x),
            Self::Flipped => (w - x, y),
            Self::Flipped90 => (y, x),
            Self::Flipped180 => (x, h - y),
            Self::Flipped270 => (h - y, w - x),
        }
    }

    /// The inverse of [`upright_to_raw`](Self::upright_to_raw); `upright` is still the upright size.
    pub fn raw_to_upright(self, (x, y): (f64, f64), (w, h): (f64, f64)) -> (f64, f64) {
        match self {
            Self::Normal => (x, y),
            Self::Rotate90 => (w - y, x),
            Self::Rotate180 => (w - x, h - y),
            Self::Rotate270 => (y, h - x),
            Self::Flipped => (w - x, y),
            Self::Flipped90 => (y, x),
            Self::Flipped180 => (x, h - y),
            Self::Flipped270 => (w - y, h - x),
        }
    }
}
