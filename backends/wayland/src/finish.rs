//! What is done with a captured frame away from the capture thread: keep, compare, save, encode.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use deskhand_core::desktop::effect::{
    CaptureRequest, Captured, CompareRequest, Failure, FailureKind, Outcome, Reply,
};
use deskhand_core::desktop::geometry::Rect;
use deskhand_ports::Ticket;

use crate::encode::{Finished, Limits, encode, full_png};
use crate::frames::{Frames, RawImage};
use crate::save::save;

/// A channel's noise where the pixels may have been resampled.
const RESAMPLING_TOLERANCE: u8 = 4;

/// Makes a capture's reply from its raw frame.
pub(crate) fn finish_capture(
    request: &CaptureRequest,
    image: RawImage,
    ticket: &Ticket,
    frames: &Mutex<Frames>,
) -> Outcome {
    let image = Arc::new(image);
    let pixels = image.pixels().ok_or_else(unreadable)?;
    let rect = match request.raw_region {
        Some(wanted) => clip(wanted, image.raw_size, &request.output)?,
        None => image.covers,
    };
    if image.covers.intersect(&rect) != Some(rect) {
        return Err(Failure::new(
            FailureKind::Refused,
            "the output changed its size meanwhile; capture it again",
        ));
    }
    let limits = Limits::of(request);
    let (width, height) = limits.fit(
        request
            .transform
            .upright_size((rect.width as u32, rect.height as u32)),
    );
    let unchanged = request.unchanged_since.is_some_and(|since| {
        let before = frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(since);
        before.is_some_and(|before| {
            let same_output = before.output == image.output && before.raw_size == image.raw_size;
            same_output && before.pixels().is_some_and(|old| pixels.equal(&old, rect))
        })
    });
    let write =
        |to| -> Result<PathBuf, Failure> { save(to, &full_png(&pixels, rect, request.transform)?) };
    let (finished, saved): (Option<Finished>, Option<PathBuf>) = std::thread::scope(|scope| {
        let saving = request
            .save
            .as_ref()
            .map(|to| scope.spawn(move || write(to)));
        let finished = if unchanged {
            None
        } else {
            Some(encode(
                &pixels,
                rect,
                request.transform,
                request.format,
                limits,
                ticket,
            ))
        };
        let saved = saving.map(|saving| {
            saving.join().unwrap_or_else(|_| {
                Err(Failure::new(FailureKind::Refused, "writing the PNG failed"))
            })
        });
        Ok::<_, Failure>((finished.transpose()?, saved.transpose()?))
    })?;
    if let Some(id) = request.keep {
        frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keep(id, image.clone());
    }
    let (width, height) = finished
        .as_ref()
        .map_or((width, height), |done| (done.width, done.height));
    Ok(Reply::Captured(Captured {
        raw_size: image.raw_size,
        raw_rect: rect,
        width,
        height,
        image: finished.map(|done| done.image),
        unchanged,
        saved,
    }))
}

/// The square of a comparison, clipped to the output.
pub(crate) fn patch(request: &CompareRequest, (width, height): (u32, u32)) -> Option<Rect> {
    let (x, y) = (i64::from(request.centre.0), i64::from(request.centre.1));
    let side = i64::from(request.side.max(1));
    let (left, top) = (x - side / 2, y - side / 2);
    let clipped = |from: i64, limit: u32| {
        (
            from.clamp(0, limit.into()) as i32,
            (from + side).clamp(0, limit.into()) as i32,
        )
    };
    let ((left, right), (top, bottom)) = (clipped(left, width), clipped(top, height));
    (right > left && bottom > top).then(|| Rect::new(left, top, right - left, bottom - top))
}

/// Compares the fresh pixels around the point with the kept ones.
pub(crate) fn finish_compare(request: &CompareRequest, old: &RawImage, new: &RawImage) -> Outcome {
    let (Some(before), Some(now)) = (old.pixels(), new.pixels()) else {
        return Err(unreadable());
    };
    if old.output != new.output || old.raw_size != new.raw_size {
        return Ok(Reply::Compared { differing: 1.0 });
    }
    let common = patch(request, new.raw_size)
        .and_then(|patch| patch.intersect(&before.covers()))
        .and_then(|patch| patch.intersect(&now.covers()));
    let Some(common) = common else {
        let (x, y) = request.centre;
        return Err(Failure::new(
            FailureKind::NotFound,
            format!("the kept frame doesn't show ({x}, {y})"),
        ));
    };
    let slack = i32::try_from(request.slack.min(8)).unwrap_or(0);
    let tolerance = if slack > 0 { RESAMPLING_TOLERANCE } else { 0 };
    let differing = before.share_differing(&now, common, &request.masks, slack, tolerance);
    Ok(Reply::Compared { differing })
}

/// A wanted rectangle as far as the output has it.
pub(crate) fn clip(
    wanted: Rect,
    (width, height): (u32, u32),
    output: &str,
) -> Result<Rect, Failure> {
    let whole = Rect::new(
        0,
        0,
        i32::try_from(width).unwrap_or(i32::MAX),
        i32::try_from(height).unwrap_or(i32::MAX),
    );
    whole.intersect(&wanted).ok_or_else(|| {
        let detail =
            format!("the region lies outside {output:?}, whose buffer has {width}x{height} pixels");
        Failure::new(FailureKind::NotFound, detail)
    })
}

fn unreadable() -> Failure {
    Failure::new(
        FailureKind::Refused,
        "the compositor's buffer is shorter than it said",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use deskhand_core::desktop::effect::FrameId;

    fn at(x: u32, y: u32, side: u32) -> CompareRequest {
        CompareRequest {
            output: String::new(),
            frame: FrameId(1),
            centre: (x, y),
            side,
            masks: vec![],
            slack: 0,
        }
    }

    #[test]
    fn patches_are_clipped() {
        assert_eq!(
            patch(&at(100, 100, 48), (200, 200)),
            Some(Rect::new(76, 76, 48, 48))
        );
        assert_eq!(
            patch(&at(0, 199, 48), (200, 200)),
            Some(Rect::new(0, 175, 24, 25))
        );
        assert_eq!(patch(&at(5000, 0, 48), (200, 200)), None);
        assert_eq!(patch(&at(u32::MAX, u32::MAX, u32::MAX), (200, 200)), None);
    }

    #[test]
    fn regions_are_clipped_or_refused() {
        assert_eq!(
            clip(Rect::new(-5, -5, 10, 10), (100, 100), "A"),
            Ok(Rect::new(0, 0, 5, 5))
        );
        assert!(clip(Rect::new(100, 0, 10, 10), (100, 100), "A").is_err());
    }
}
