//! Times captures against grim, and typing against wtype, on a running compositor (typing opens a foot window).
//!
//! `cargo run --release -p deskhand-wayland --example bench -- SOCKET OUTPUT`

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{
    CaptureRequest, Failure, FrameId, ImageFormat, Reply, ScreenRequest, SeatRequest,
};
use deskhand_core::desktop::geometry::Transform;
use deskhand_ports::{Fence, PressJournal, Pressed, Screen, Seat, Ticket};
use deskhand_wayland::{WaylandScreen, WaylandSeat};

const ROUNDS: usize = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: bench SOCKET OUTPUT";
    let socket = PathBuf::from(args.next().ok_or(usage)?);
    let output = args.next().ok_or(usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let screen = WaylandScreen::start(socket.clone(), Arc::new(|seen| eprintln!("{seen:?}")))?;
    for (label, format, pause, since) in [
        ("jpeg, one after the other", ImageFormat::Jpeg, 0, None),
        ("jpeg, 100 ms apart", ImageFormat::Jpeg, 100, None),
        (
            "no image (unchanged), 100 ms apart",
            ImageFormat::Jpeg,
            100,
            Some(FrameId(1)),
        ),
        ("png, 100 ms apart", ImageFormat::Png, 100, None),
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
                keep: Some(FrameId(1)),
                unchanged_since: since,
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
        println!(
            "{label}: {} {:?}",
            spread(times.iter().map(|(time, _)| *time)),
            times[0].1
        );
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
    println!(
        "grim png: {}",
        spread(times.collect::<Result<Vec<_>, _>>()?.into_iter())
    );
    typing(&socket, &output, &runtime)
}

struct NoJournal;

impl PressJournal for NoJournal {
    fn pressing(&self, _: Pressed) -> Result<(), Failure> {
        Ok(())
    }

    fn released(&self, _: Pressed) {}
}

fn typing(
    socket: &Path,
    output: &str,
    runtime: &tokio::runtime::Runtime,
) -> Result<(), Box<dyn std::error::Error>> {
    let seat = WaylandSeat::start(
        socket.to_owned(),
        Arc::new(|seen| eprintln!("{seen:?}")),
        Arc::new(NoJournal),
    )?;
    runtime.block_on(seat.request(
        SeatRequest::Open {
            outputs: vec![output.to_owned()],
        },
        ticket(),
    ))?;
    let file = std::env::temp_dir().join(format!("deskhand-bench-{}", std::process::id()));
    let program = |name: &str| {
        let mut command = Command::new(name);
        command
            .env("XDG_RUNTIME_DIR", socket.parent().unwrap_or(socket))
            .env("WAYLAND_DISPLAY", socket);
        command
    };
    let script = format!("stty -icanon -echo; touch {0}; cat > {0}", file.display());
    let mut foot = program("foot")
        .args(["sh", "-c", &script])
        .stderr(Stdio::null())
        .spawn()?;
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    let until = |expected: &str| {
        let limit = Instant::now() + Duration::from_secs(30);
        while read() != expected && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let limit = Instant::now() + Duration::from_secs(20);
    while !file.exists() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    let text: String = (' '..='~').cycle().take(500).collect();
    let mut expected = String::new();
    for (label, text) in [
        ("500 ASCII characters", text.clone()),
        (
            "mixed scripts",
            "héllo Wörld привет 日本 😀 {}[]|~ ?!\"'\\".into(),
        ),
        (
            "300 symbols",
            (0x4e00..0x4e00 + 300).filter_map(char::from_u32).collect(),
        ),
    ] {
        let begun = Instant::now();
        let outcome = runtime.block_on(seat.request(
            SeatRequest::Text {
                text: text.clone(),
                submit: false,
            },
            ticket(),
        ))?;
        let handled = begun.elapsed();
        expected += &text;
        until(&expected);
        let exact = read() == expected;
        println!(
            "{label}: {outcome:?}, handled after {handled:.1?}, read after {:.1?}, exact: {exact}",
            begun.elapsed()
        );
        expected = read();
    }
    let begun = Instant::now();
    program("wtype").arg(&text).status()?;
    let took = begun.elapsed();
    expected += &text;
    until(&expected);
    println!(
        "wtype, 500 ASCII characters: {took:.1?}, exact: {}",
        read() == expected
    );
    foot.kill()?;
    foot.wait()?;
    std::fs::remove_file(&file)?;
    Ok(())
}

fn ticket() -> Ticket {
    let deadline = Instant::now() + Duration::from_secs(10);
    Ticket {
        fence: Fence::default(),
        generation: 0,
        cancelled: Arc::default(),
        deadline,
    }
}

fn spread(times: impl Iterator<Item = Duration>) -> String {
    let mut ms: Vec<f64> = times.map(|time| time.as_secs_f64() * 1000.0).collect();
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms[((ms.len() - 1) as f64 * share) as usize];
    format!(
        "p10 {:.1} p50 {:.1} p90 {:.1} ms",
        at(0.1),
        at(0.5),
        at(0.9)
    )
}
