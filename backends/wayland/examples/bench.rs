//! Times captures against grim on a running compositor.
//!
//! `cargo run --release -p deskhand-wayland --example bench -- SOCKET OUTPUT [WIDTH HEIGHT]`

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{CaptureRequest, ImageFormat, Reply, ScreenRequest};
use deskhand_core::desktop::geometry::Transform;
use deskhand_ports::{Fence, Screen, Ticket};
use deskhand_wayland::WaylandScreen;

const ROUNDS: usize = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: bench SOCKET OUTPUT";
    let socket = PathBuf::from(args.next().ok_or(usage)?);
    let output = args.next().ok_or(usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let screen = WaylandScreen::start(socket.clone(), Arc::new(|seen| eprintln!("{seen:?}")))?;
    for (label, format, pause) in [
        ("jpeg, one after the other", ImageFormat::Jpeg, 0),
        ("jpeg, 100 ms apart", ImageFormat::Jpeg, 100),
        ("png, 100 ms apart", ImageFormat::Png, 100),
    ] {
        let times = (0..ROUNDS).map(|_| {
            std::thread::sleep(Duration::from_millis(pause));
            let begun = Instant::now();
            let request = ScreenRequest::Capture(CaptureRequest {
                output: output.clone(),
                raw_region: None,
                transform: Transform::Normal,
                max_width: 1280,
                max_side: 2000,
                max_base64: 1_000_000,
                format,
                keep: None,
                unchanged_since: None,
                save: None,
            });
            match runtime.block_on(screen.request(request, ticket())) {
                Ok(Reply::Captured(captured)) => {
                    let size = captured.image.map_or(0, |image| image.base64.len());
                    Ok((begun.elapsed(), (captured.width, captured.height, size)))
                }
                other => Err(format!("{other:?}")),
            }
        });
        let times: Vec<_> = times.collect::<Result<_, _>>()?;
        println!("{label}: {} {:?}", spread(times.iter().map(|(time, _)| *time)), times[0].1);
    }
    let times = (0..ROUNDS / 2).map(|_| {
        let begun = Instant::now();
        let status = Command::new("grim")
            .args(["-o", &output, "-"])
            .env("XDG_RUNTIME_DIR", socket.parent().unwrap_or(&socket))
            .env("WAYLAND_DISPLAY", &socket)
            .stdout(Stdio::null())
            .status();
        status.map(|_| begun.elapsed())
    });
    println!("grim png: {}", spread(times.collect::<Result<Vec<_>, _>>()?.into_iter()));
    Ok(())
}

fn ticket() -> Ticket {
    let deadline = Instant::now() + Duration::from_secs(10);
    Ticket { fence: Fence::default(), generation: 0, cancelled: Arc::default(), deadline }
}

fn spread(times: impl Iterator<Item = Duration>) -> String {
    let mut ms: Vec<f64> = times.map(|time| time.as_secs_f64() * 1000.0).collect();
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms[((ms.len() - 1) as f64 * share) as usize];
    format!("p10 {:.1} p50 {:.1} p90 {:.1} ms", at(0.1), at(0.5), at(0.9))
}
