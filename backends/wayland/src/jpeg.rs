//! JPEG files from 4-byte pixels.

use deskhand_core::desktop::effect::{Failure, FailureKind};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use crate::pixels::Order;

/// A baseline JPEG of tightly packed rows.
pub(crate) fn encode(
    data: &[u8],
    (width, height): (u32, u32),
    order: Order,
    quality: u8,
) -> Result<Vec<u8>, Failure> {
    let bug = |detail: String| {
        Failure::new(
            FailureKind::Refused,
            format!("the JPEG can't be made: {detail}"),
        )
    };
    let side = |length: u32| {
        u16::try_from(length).map_err(|_| bug("a side is longer than 65535 pixels".into()))
    };
    let colours = match order {
        Order::Bgra => ColorType::Bgra,
        Order::Rgba => ColorType::Rgba,
    };
    let mut file = Vec::with_capacity(data.len() / 8);
    let mut encoder = Encoder::new(&mut file, quality);
    // Full colour resolution: coloured text stays readable, for 7% more bytes.
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    encoder
        .encode(data, side(width)?, side(height)?, colours)
        .map_err(|error| bug(error.to_string()))?;
    Ok(file)
}
