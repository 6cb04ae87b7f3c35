//! Captures, comparisons and settling.

use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{
    CaptureRequest, Captured, CompareRequest, FailureKind, FrameId, ImageFormat, Reply, SaveTo,
    ScreenRequest,
};
use deskhand_core::desktop::event::{Availability, Observation};
use deskhand_core::desktop::geometry::{Rect, Transform};
use deskhand_ports::Screen;

use crate::canvas::{Canvas, Paint, QUARTERS};
use crate::session::{Session, wait_for};
use crate::{Rig, block_on, ticket_for};

fn capture() -> CaptureRequest {
    CaptureRequest {
        output: "HEADLESS-1".into(),
        raw_region: None,
        transform: Transform::Normal,
        max_width: 8192,
        max_side: 8192,
        max_base64: 50_000_000,
        format: ImageFormat::Png,
        keep: None,
        unchanged_since: None,
        save: None,
    }
}

fn captured(rig: &Rig, request: CaptureRequest) -> Captured {
    match rig.look(ScreenRequest::Capture(request)) {
        Ok(Reply::Captured(captured)) => captured,
        other => panic!("{other:?}"),
    }
}

/// Width, height and RGB bytes.
fn decode(captured: &Captured) -> (u32, u32, Vec<u8>) {
    let file = base64_simd::STANDARD
        .decode_to_vec(&captured.image.as_ref().unwrap().base64)
        .unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(file))
        .read_info()
        .unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut rgb).unwrap();
    (info.width, info.height, rgb)
}

fn pixel(picture: &(u32, u32, Vec<u8>), x: u32, y: u32) -> [u8; 3] {
    let at = (y * picture.0 + x) as usize * 3;
    picture.2[at..at + 3].try_into().unwrap()
}

#[test]
fn every_transform_comes_out_upright_and_regions_are_exact() {
    let mut seen = std::collections::BTreeSet::new();
    let names = [
        "normal",
        "90",
        "180",
        "270",
        "flipped",
        "flipped-90",
        "flipped-180",
        "flipped-270",
    ];
    for name in names {
        for scale in ["1", "2", "1.5"] {
            let Some(session) =
                Session::start(&format!("output HEADLESS-1 transform {name} scale {scale}"))
            else {
                return;
            };
            let canvas = Canvas::open(&session.socket(), "HEADLESS-1", false);
            let transform = canvas.transform;
            seen.insert(transform.name());
            let rig = Rig::on(&session);
            let whole = captured(
                &rig,
                CaptureRequest {
                    transform,
                    ..capture()
                },
            );
            assert_eq!(whole.raw_size, (1280, 800));
            let upright = transform.upright_size(whole.raw_size);
            assert_eq!((whole.width, whole.height), upright);
            let picture = decode(&whole);
            for (at, expected) in QUARTERS.iter().enumerate() {
                let x = upright.0 / 4 + (at as u32 % 2) * upright.0 / 2;
                let y = upright.1 / 4 + (at as u32 / 2) * upright.1 / 2;
                assert_eq!(
                    pixel(&picture, x, y),
                    *expected,
                    "{name} {scale} quarter {at}"
                );
            }
            // Around the middle, where all four meet: a pixel off would show.
            let raw_region = Rect::new(640 - 30, 400 - 21, 77, 43);
            let part = captured(
                &rig,
                CaptureRequest {
                    transform,
                    raw_region: Some(raw_region),
                    ..capture()
                },
            );
            assert_eq!(part.raw_rect, raw_region);
            let part_picture = decode(&part);
            let corner = |x: f64, y: f64| {
                transform.raw_to_upright((x, y), (f64::from(upright.0), f64::from(upright.1)))
            };
            let (a, b) = (corner(610.0, 379.0), corner(687.0, 422.0));
            let (left, top) = (a.0.min(b.0) as u32, a.1.min(b.1) as u32);
            for y in 0..part.height {
                for x in 0..part.width {
                    assert_eq!(
                        pixel(&part_picture, x, y),
                        pixel(&picture, left + x, top + y),
                        "{name} {scale} {x},{y}"
                    );
                }
            }
        }
    }
    assert_eq!(seen.len(), 8, "all transforms of wl_output were tried");
}

#[test]
fn captures_shrink_save_and_know_that_nothing_changed() {
    let Some(session) = Session::start("") else {
        return;
    };
    let canvas = Canvas::open(&session.socket(), "HEADLESS-1", false);
    let rig = Rig::on(&session);
    let dir = tempfile::tempdir().unwrap();
    let save = Some(SaveTo {
        directory: dir.path().into(),
        name: "a.png".into(),
    });
    let small = CaptureRequest {
        max_width: 640,
        format: ImageFormat::Jpeg,
        keep: Some(FrameId(1)),
        save,
        ..capture()
    };
    let first = captured(&rig, small.clone());
    assert_eq!((first.width, first.height), (640, 400));
    let file = std::fs::File::open(first.saved.unwrap()).unwrap();
    let saved = png::Decoder::new(std::io::BufReader::new(file))
        .read_info()
        .unwrap();
    assert_eq!((saved.info().width, saved.info().height), (1280, 800));
    let again = rig.look(ScreenRequest::Capture(small)).unwrap_err();
    assert_eq!(again.kind, FailureKind::Refused);
    let same = CaptureRequest {
        unchanged_since: Some(FrameId(1)),
        ..capture()
    };
    let second = captured(&rig, same.clone());
    assert!(second.unchanged && second.image.is_none());
    canvas.paint(Paint::Rect(700, 500, 1, 1, 10));
    wait_for("the changed pixel", || {
        !captured(&rig, same.clone()).unchanged
    });
    rig.look(ScreenRequest::Forget(vec![FrameId(1)])).unwrap();
    assert!(!captured(&rig, same).unchanged);
    let unknown = CaptureRequest {
        output: "DP-9".into(),
        ..capture()
    };
    let error = rig.look(ScreenRequest::Capture(unknown)).unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
    assert!(error.detail.contains("HEADLESS-1"), "{}", error.detail);
}

#[test]
fn a_patch_is_compared_with_the_kept_frame() {
    let Some(session) = Session::start("") else {
        return;
    };
    let canvas = Canvas::open(&session.socket(), "HEADLESS-1", false);
    let rig = Rig::on(&session);
    captured(
        &rig,
        CaptureRequest {
            keep: Some(FrameId(7)),
            ..capture()
        },
    );
    let compare = |masks: Vec<Rect>| {
        let (output, frame) = ("HEADLESS-1".into(), FrameId(7));
        let request = CompareRequest {
            output,
            frame,
            centre: (640, 400),
            side: 48,
            masks,
            slack: 0,
        };
        match rig.look(ScreenRequest::Compare(request)) {
            Ok(Reply::Compared { differing }) => differing,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(compare(vec![]), 0.0);
    canvas.paint(Paint::Rect(640, 390, 12, 24, 99));
    wait_for("the painted patch", || {
        (compare(vec![]) - 12.0 * 24.0 / (48.0 * 48.0)).abs() < 1e-9
    });
    assert_eq!(compare(vec![Rect::new(640, 390, 12, 24)]), 0.0);
    canvas.paint(Paint::Rect(200, 200, 100, 100, 99));
    assert!(
        (compare(vec![]) - 0.125).abs() < 1e-9,
        "what is outside of the patch doesn't count"
    );
}

#[test]
fn settling_waits_for_quiet_but_not_for_a_caret() {
    let Some(session) = Session::start("") else {
        return;
    };
    let canvas = Canvas::open(&session.socket(), "HEADLESS-1", false);
    let rig = Rig::on(&session);
    let settle = |quiet_ms, max_ms| {
        let request = ScreenRequest::Settle {
            output: "HEADLESS-1".into(),
            quiet_ms,
            max_ms,
        };
        match rig.look(request) {
            Ok(Reply::Settled { settled, waited_ms }) => (settled, waited_ms),
            other => panic!("{other:?}"),
        }
    };
    let (settled, waited) = settle(100, 5000);
    assert!(settled && (100..1500).contains(&waited), "{waited}");
    let blink = |width: i32, height: i32, rounds: u8, canvas: &Canvas| {
        for round in 0..rounds {
            canvas.paint(Paint::Rect(300, 300, width, height, round * 16));
            std::thread::sleep(Duration::from_millis(40));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| blink(2, 20, 15, &canvas));
        let (settled, waited) = settle(200, 3000);
        assert!(settled && waited < 500, "a caret kept it waiting: {waited}");
    });
    std::thread::scope(|scope| {
        scope.spawn(|| blink(60, 60, 12, &canvas));
        let (settled, waited) = settle(200, 5000);
        assert!(settled && waited >= 480, "it didn't wait: {waited}");
    });
    std::thread::scope(|scope| {
        scope.spawn(|| blink(60, 60, 12, &canvas));
        let (settled, waited) = settle(200, 300);
        assert!(!settled && (300..500).contains(&waited), "{waited}");
    });
}

#[test]
fn a_hang_times_out_and_a_restart_comes_up_again() {
    let Some(mut session) = Session::start("") else {
        return;
    };
    let rig = Rig::on(&session);
    captured(&rig, capture());
    rustix::process::kill_process(session.pid(), rustix::process::Signal::STOP).unwrap();
    let begun = Instant::now();
    let request = ScreenRequest::Capture(capture());
    let outcome = block_on(
        rig.screen
            .request(request, ticket_for(Duration::from_millis(300))),
    );
    assert_eq!(outcome.unwrap_err().kind, FailureKind::TimedOut);
    assert!(begun.elapsed() < Duration::from_millis(900));
    rustix::process::kill_process(session.pid(), rustix::process::Signal::CONT).unwrap();
    captured(&rig, capture());
    session.restart();
    let ups = || {
        rig.observed
            .lock()
            .unwrap()
            .iter()
            .filter(|seen| **seen == Observation::Screen(Availability::Up))
            .count()
    };
    wait_for("the new compositor", || ups() == 2);
    captured(&rig, capture());
    let observed = rig.observed.lock().unwrap();
    assert!(
        observed
            .iter()
            .any(|seen| matches!(seen, Observation::Screen(Availability::Down { .. })))
    );
}

#[test]
fn without_a_compositor_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let screen = deskhand_wayland::WaylandScreen::start(
        dir.path().join("wayland-7"),
        std::sync::Arc::new(|_| {}),
    )
    .unwrap();
    let outcome = block_on(screen.request(
        ScreenRequest::Capture(capture()),
        ticket_for(Duration::from_secs(5)),
    ));
    assert_eq!(outcome.unwrap_err().kind, FailureKind::Unavailable);
}
