//! From raw pixels to an upright, not too large image as base64 text.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use deskhand_core::desktop::effect::{
    CaptureRequest, EncodedImage, Failure, FailureKind, ImageFormat,
};
use deskhand_core::desktop::geometry::{Rect, Transform};
use deskhand_ports::Ticket;
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::jpeg;
use crate::pixels::{Order, Pixels};

const QUALITIES: [u8; 5] = [80, 70, 60, 50, 40];
const PNG_EFFORTS: [png::Compression; 2] = [png::Compression::Fast, png::Compression::Balanced];
/// Below this many pixels a side a smaller image helps nobody.
const SMALLEST_SIDE: u32 = 16;

/// An image's limits, from the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub max_width: u32,
    pub max_side: u32,
    pub max_base64: usize,
}

impl Limits {
    pub fn of(request: &CaptureRequest) -> Self {
        Self {
            max_width: request.max_width,
            max_side: request.max_side,
            max_base64: request.max_base64,
        }
    }

    /// The largest size of the same shape within the limits; never larger than `upright`.
    pub fn fit(&self, (width, height): (u32, u32)) -> (u32, u32) {
        let (w, h) = (f64::from(width.max(1)), f64::from(height.max(1)));
        let by_width = f64::from(self.max_width.min(self.max_side).max(1)) / w;
        let by_height = f64::from(self.max_side.max(1)) / h;
        scaled((width, height), by_width.min(by_height).min(1.0))
    }
}

fn scaled((width, height): (u32, u32), factor: f64) -> (u32, u32) {
    let side = |length: u32| ((f64::from(length) * factor).round() as u32).clamp(1, length.max(1));
    (side(width), side(height))
}

/// A finished image and its size.
pub(crate) struct Finished {
    pub image: EncodedImage,
    pub width: u32,
    pub height: u32,
}

/// Turns the raw rectangle upright, shrinks and encodes it; quality, then size, goes down until it fits.
pub(crate) fn encode(
    pixels: &Pixels<'_>,
    rect: Rect,
    transform: Transform,
    format: ImageFormat,
    limits: Limits,
    ticket: &Ticket,
) -> Result<Finished, Failure> {
    let raw = (rect.width as u32, rect.height as u32);
    let mut size = limits.fit(transform.upright_size(raw));
    loop {
        let upright = Upright::make(pixels, rect, transform, size)?;
        let attempts = match format {
            ImageFormat::Jpeg => QUALITIES.len(),
            ImageFormat::Png => PNG_EFFORTS.len(),
        };
        let mut length = 0;
        for attempt in 0..attempts {
            // Looking needs no lease: the fence is no matter here.
            if ticket.cancelled.load(Ordering::SeqCst) {
                return Err(Failure::new(FailureKind::Fenced, "the call was cancelled"));
            }
            if ticket.expired() {
                return Err(Failure::new(
                    FailureKind::TimedOut,
                    "the image was not ready in time",
                ));
            }
            let file = match format {
                ImageFormat::Jpeg => {
                    jpeg::encode(&upright.data, size, upright.order, QUALITIES[attempt])?
                }
                ImageFormat::Png => png_file(&upright, PNG_EFFORTS[attempt])?,
            };
            length = base64_simd::STANDARD.encoded_length(file.len());
            if length <= limits.max_base64 {
                let base64: Bytes = base64_simd::STANDARD.encode_type::<Vec<u8>>(&file).into();
                return Ok(Finished {
                    image: EncodedImage { format, base64 },
                    width: size.0,
                    height: size.1,
                });
            }
            // Far too large: a step saves little of that, the size has to go down.
            if length / 3 > limits.max_base64 {
                break;
            }
        }
        if size.0.max(size.1) <= SMALLEST_SIDE {
            let detail = format!(
                "no image fits into {} bytes; allow more, or capture a smaller region",
                limits.max_base64
            );
            return Err(Failure::new(FailureKind::Refused, detail));
        }
        let factor = (limits.max_base64 as f64 / length as f64).sqrt() * 0.95;
        let smaller = scaled(size, factor.clamp(0.25, 0.9));
        size = if smaller == size {
            (size.0.div_ceil(2), size.1.div_ceil(2))
        } else {
            smaller
        };
    }
}

/// The whole rectangle as a PNG file, upright, at full resolution.
pub(crate) fn full_png(
    pixels: &Pixels<'_>,
    rect: Rect,
    transform: Transform,
) -> Result<Vec<u8>, Failure> {
    let size = transform.upright_size((rect.width as u32, rect.height as u32));
    png_file(
        &Upright::make(pixels, rect, transform, size)?,
        png::Compression::Fast,
    )
}

/// An upright image, four bytes a pixel.
struct Upright<'a> {
    data: std::borrow::Cow<'a, [u8]>,
    size: (u32, u32),
    order: Order,
}

impl<'a> Upright<'a> {
    /// Shrinks first and turns afterwards: there is less to turn.
    fn make(
        pixels: &Pixels<'a>,
        rect: Rect,
        transform: Transform,
        size: (u32, u32),
    ) -> Result<Self, Failure> {
        let raw = (rect.width as u32, rect.height as u32);
        // `swaps` is symmetric, so this is the raw orientation of the upright size.
        let target = transform.upright_size(size);
        let mut data = pixels.packed(rect);
        if target != raw {
            data = shrink(&data, raw, target)?.into();
        }
        if transform != Transform::Normal {
            data = turn(&data, target, transform).into();
        }
        Ok(Self {
            data,
            size,
            order: pixels.order(),
        })
    }
}

fn shrink(data: &[u8], from: (u32, u32), to: (u32, u32)) -> Result<Vec<u8>, Failure> {
    let bug = |error: String| {
        Failure::new(
            FailureKind::Refused,
            format!("the image can't be scaled: {error}"),
        )
    };
    let source = ImageRef::new(from.0, from.1, data, PixelType::U8x4)
        .map_err(|error| bug(error.to_string()))?;
    let mut target = Image::new(to.0, to.1, PixelType::U8x4);
    // Hardly slower than bilinear, and keeps text sharper.
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom))
        .use_alpha(false);
    Resizer::new()
        .resize(&source, &mut target, &options)
        .map_err(|error| bug(error.to_string()))?;
    Ok(target.into_vec())
}

/// `raw` turned upright. Each upright row is a straight walk through the raw pixels.
fn turn(data: &[u8], raw: (u32, u32), transform: Transform) -> Vec<u8> {
    let (width, height) = transform.upright_size(raw);
    let size = (f64::from(width), f64::from(height));
    let at = |x: u32, y: u32| -> isize {
        let (rx, ry) = transform.upright_to_raw((f64::from(x) + 0.5, f64::from(y) + 0.5), size);
        ry.floor() as isize * raw.0 as isize + rx.floor() as isize
    };
    let step = if width > 1 { at(1, 0) - at(0, 0) } else { 0 };
    let (words, _) = data.as_chunks::<4>();
    let mut out = Vec::with_capacity(words.len() * 4);
    for y in 0..height {
        let mut from = at(0, y);
        for _ in 0..width {
            out.extend_from_slice(&words[from as usize]);
            from += step;
        }
    }
    out
}

fn png_file(image: &Upright<'_>, compression: png::Compression) -> Result<Vec<u8>, Failure> {
    let bug = |error: png::EncodingError| {
        Failure::new(
            FailureKind::Refused,
            format!("the PNG can't be made: {error}"),
        )
    };
    let (words, _) = image.data.as_chunks::<4>();
    let rgb: Vec<u8> = match image.order {
        Order::Bgra => words.iter().flat_map(|[b, g, r, _]| [*r, *g, *b]).collect(),
        Order::Rgba => words.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect(),
    };
    let mut file = Vec::with_capacity(rgb.len() / 4);
    let mut encoder = png::Encoder::new(&mut file, image.size.0, image.size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(compression);
    let mut writer = encoder.write_header().map_err(bug)?;
    writer.write_image_data(&rgb).map_err(bug)?;
    writer.finish().map_err(bug)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn ticket() -> Ticket {
        Ticket {
            fence: Default::default(),
            generation: 0,
            cancelled: Arc::default(),
            deadline: Instant::now() + Duration::from_secs(60),
        }
    }

    fn noise(width: u32, height: u32) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..width * height * 4).map(|_| next()).collect()
    }

    fn pixels(data: &[u8], width: i32, height: i32) -> Pixels<'_> {
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
    fn sizes_keep_the_shape_and_never_grow() {
        let limits = Limits {
            max_width: 1280,
            max_side: 2000,
            max_base64: 1,
        };
        assert_eq!(limits.fit((1920, 1080)), (1280, 720));
        assert_eq!(limits.fit((640, 480)), (640, 480));
        assert_eq!(limits.fit((1080, 5000)), (432, 2000));
        assert_eq!(limits.fit((1, 100_000)), (1, 2000));
        assert_eq!(
            Limits {
                max_width: 0,
                ..limits
            }
            .fit((100, 100)),
            (1, 1)
        );
    }

    #[test]
    fn turning_agrees_with_the_geometry_for_every_transform() {
        let (w, h) = (5u32, 3u32);
        let data: Vec<u8> = (0..w * h).flat_map(|at| [at as u8, 0, 0, 0]).collect();
        for transform in Transform::ALL {
            let (uw, uh) = transform.upright_size((w, h));
            let turned = turn(&data, (w, h), transform);
            for y in 0..uh {
                for x in 0..uw {
                    let point = (f64::from(x) + 0.5, f64::from(y) + 0.5);
                    let (rx, ry) = transform.upright_to_raw(point, (f64::from(uw), f64::from(uh)));
                    let expected = ry as u32 * w + rx as u32;
                    assert_eq!(
                        u32::from(turned[(y * uw + x) as usize * 4]),
                        expected,
                        "{transform:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn images_fit_into_their_bytes() {
        let data = noise(400, 300);
        let pixels = pixels(&data, 400, 300);
        for format in [ImageFormat::Jpeg, ImageFormat::Png] {
            let limits = Limits {
                max_width: 4000,
                max_side: 4000,
                max_base64: 20_000,
            };
            let done = encode(
                &pixels,
                pixels.covers(),
                Transform::Rotate90,
                format,
                limits,
                &ticket(),
            )
            .unwrap();
            assert!(done.image.base64.len() <= 20_000 && done.image.base64.len() > 4_000);
            assert!(done.width < done.height && done.height <= 400);
        }
        let none = Limits {
            max_width: 400,
            max_side: 400,
            max_base64: 10,
        };
        let error = encode(
            &pixels,
            pixels.covers(),
            Transform::Normal,
            ImageFormat::Png,
            none,
            &ticket(),
        );
        assert_eq!(
            error.err().map(|failure| failure.kind),
            Some(FailureKind::Refused)
        );
    }

    #[test]
    fn a_png_holds_the_exact_colours() {
        let data = noise(7, 5);
        let file = full_png(
            &pixels(&data, 7, 5),
            Rect::new(2, 1, 4, 3),
            Transform::Normal,
        )
        .unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file))
            .read_info()
            .unwrap();
        let mut out = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut out).unwrap();
        assert_eq!((info.width, info.height), (4, 3));
        let at = (7 + 2) * 4;
        assert_eq!(out[..3], [data[at + 2], data[at + 1], data[at]]);
    }

    #[test]
    fn a_cancelled_capture_makes_no_image() {
        let data = noise(7, 5);
        let pixels = pixels(&data, 7, 5);
        let ticket = ticket();
        ticket
            .cancelled
            .store(true, std::sync::atomic::Ordering::SeqCst);
        let limits = Limits {
            max_width: 4000,
            max_side: 4000,
            max_base64: 20_000,
        };
        let error = encode(
            &pixels,
            pixels.covers(),
            Transform::Normal,
            ImageFormat::Jpeg,
            limits,
            &ticket,
        );
        assert_eq!(
            error.err().map(|failure| failure.kind),
            Some(FailureKind::Fenced)
        );
    }
}
