//! The pointer's aim, buttons, wheel and chords, and what is released.

use std::time::Duration;

use deskhand_core::desktop::effect::{
    Chord, FailureKind, Modifiers, PointerRequest, PointerStep, Reply, SeatRequest,
};
use deskhand_ports::{Pressed, Seat};

use crate::canvas::{Canvas, Seen};
use crate::session::{Session, wait_for};
use crate::{Rig, block_on, ticket_for};

const LEFT: u32 = 0x110;

fn point(output: &str, extent: (u32, u32), steps: Vec<PointerStep>) -> SeatRequest {
    SeatRequest::Pointer(PointerRequest {
        output: output.into(),
        extent,
        steps,
    })
}

fn button(pressed: bool) -> PointerStep {
    PointerStep::Button {
        code: LEFT,
        pressed,
    }
}

/// Waits until the canvas has seen all of these, in this order.
fn wait_seen(canvas: &Canvas, expected: &[Seen]) {
    wait_for(&format!("{expected:?}"), || {
        let seen = canvas.seen.lock().unwrap();
        let mut rest = seen.iter();
        expected
            .iter()
            .all(|wanted| rest.any(|seen| seen == wanted))
    });
}

#[test]
fn the_pointer_lands_on_the_pixel_under_every_transform() {
    for name in [
        "normal",
        "90",
        "180",
        "270",
        "flipped",
        "flipped-90",
        "flipped-180",
        "flipped-270",
    ] {
        for scale in [1.0, 1.5] {
            // A size that the scale divides: sway maps onto whole logical pixels.
            let config = format!("output HEADLESS-1 mode 1200x810 transform {name} scale {scale}");
            let Some(session) = Session::start(&config) else {
                return;
            };
            let rig = Rig::on(&session);
            rig.open();
            let canvas = Canvas::open(&session.socket(), "HEADLESS-1", false);
            let (transform, extent) = (canvas.transform, (1200, 810));
            let (uw, uh) = transform.upright_size(extent);
            for (x, y) in [(2, 3), (1196, 805), (100, 700), (641, 399)] {
                rig.act(point(
                    "HEADLESS-1",
                    extent,
                    vec![PointerStep::Move { x: 640, y: 400 }],
                ))
                .unwrap();
                canvas.take();
                rig.act(point(
                    "HEADLESS-1",
                    extent,
                    vec![PointerStep::Move { x, y }],
                ))
                .unwrap();
                let centre = (f64::from(x) + 0.5, f64::from(y) + 0.5);
                let (ux, uy) = transform.raw_to_upright(centre, (f64::from(uw), f64::from(uh)));
                let expected = (ux / scale, uy / scale);
                let mut last = None;
                wait_for(&format!("{name} {scale} {expected:?}"), || {
                    let found = canvas.take().into_iter().rev().find_map(|seen| match seen {
                        Seen::Motion(x, y) => Some((x, y)),
                        _ => None,
                    });
                    last = found.or(last);
                    last.is_some_and(|(x, y)| {
                        (x - expected.0).abs() < 0.01 && (y - expected.1).abs() < 0.01
                    })
                });
            }
        }
    }
}

#[test]
fn buttons_wheel_and_chords_arrive_and_are_released_once() {
    let Some(session) = Session::start("") else {
        return;
    };
    let rig = Rig::on(&session);
    rig.open();
    rig.open();
    let canvas = Canvas::open(&session.socket(), "HEADLESS-1", true);
    let extent = (1280, 800);
    let steps = vec![
        PointerStep::Move { x: 50, y: 60 },
        button(true),
        button(false),
        PointerStep::Pause { ms: 5 },
        PointerStep::Wheel { x: -1, y: 2 },
    ];
    assert_eq!(rig.act(point("HEADLESS-1", extent, steps)), Ok(Reply::Done));
    let axis = |axis, value, discrete| Seen::Axis(axis, value, discrete);
    let wheel = [axis(0, 15.0, 1), axis(0, 15.0, 1), axis(1, -15.0, -1)];
    wait_seen(
        &canvas,
        &[
            Seen::Motion(50.5, 60.5),
            Seen::Button(LEFT, true),
            Seen::Button(LEFT, false),
        ],
    );
    wait_seen(&canvas, &wheel);
    assert_eq!(rig.log.down(), []);

    canvas.take();
    let modifiers = Modifiers {
        ctrl: true,
        shift: true,
        ..Modifiers::default()
    };
    let chords = vec![
        Chord {
            modifiers,
            keysym: Some('t' as u32),
        },
        Chord {
            modifiers: Modifiers::default(),
            keysym: Some(0xff1b),
        },
    ];
    rig.act(SeatRequest::Keys { chords }).unwrap();
    let key = |code, pressed| Seen::Key(code, pressed);
    wait_seen(
        &canvas,
        &[
            key(29, true),
            Seen::Modifiers(4),
            key(42, true),
            Seen::Modifiers(5),
            key(20, true),
            key(20, false),
        ],
    );
    wait_seen(
        &canvas,
        &[
            key(42, false),
            key(29, false),
            Seen::Modifiers(0),
            key(1, true),
            key(1, false),
        ],
    );
    assert_eq!(rig.log.down(), []);

    canvas.take();
    let held = Modifiers {
        alt: true,
        ..Modifiers::default()
    };
    rig.act(point(
        "HEADLESS-1",
        extent,
        vec![PointerStep::Modifiers { held }, button(true)],
    ))
    .unwrap();
    wait_seen(
        &canvas,
        &[key(56, true), Seen::Modifiers(8), Seen::Button(LEFT, true)],
    );
    assert_eq!(rig.log.down().len(), 3);
    for _ in 0..2 {
        rig.act(SeatRequest::Release).unwrap();
    }
    rig.act(SeatRequest::Open { outputs: vec![] }).unwrap();
    rig.act(point(
        "HEADLESS-1",
        extent,
        vec![PointerStep::Move { x: 3, y: 3 }],
    ))
    .unwrap();
    // The last thing sent: nothing more can come.
    wait_seen(&canvas, &[Seen::Motion(3.5, 3.5)]);
    rig.act(SeatRequest::Close).unwrap();
    let seen = canvas.take();
    assert_eq!(
        seen.iter()
            .filter(|seen| **seen == Seen::Button(LEFT, false))
            .count(),
        1,
        "{seen:?}"
    );
    assert_eq!(
        seen.iter().filter(|seen| **seen == key(56, false)).count(),
        1,
        "{seen:?}"
    );
    assert_eq!(rig.log.down(), []);
}

#[test]
fn unknown_outputs_and_outside_points_send_nothing() {
    let Some(session) = Session::start("") else {
        return;
    };
    let rig = Rig::on(&session);
    rig.open();
    let before = rig.seat.requests_written();
    let error = rig
        .act(point("DP-9", (10, 10), vec![button(true)]))
        .unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
    let error = rig
        .act(point(
            "HEADLESS-1",
            (10, 10),
            vec![PointerStep::Move { x: 10, y: 0 }],
        ))
        .unwrap_err();
    assert_eq!(error.kind, FailureKind::Refused);
    assert_eq!(rig.seat.requests_written(), before);
}

#[test]
fn an_output_that_appears_later_can_be_aimed_at() {
    let Some(session) = Session::start("") else {
        return;
    };
    let rig = Rig::on(&session);
    rig.act(SeatRequest::Open {
        outputs: vec!["HEADLESS-1".into(), "HEADLESS-3".into()],
    })
    .unwrap();
    session.swaymsg(&["create_output"]);
    let to = || {
        rig.act(point(
            "HEADLESS-3",
            (100, 100),
            vec![PointerStep::Move { x: 5, y: 5 }],
        ))
    };
    wait_for("the new output", || to() == Ok(Reply::Done));
}

#[test]
fn a_hanging_compositor_times_out_and_typing_says_how_far_it_came() {
    let Some(session) = Session::start("") else {
        return;
    };
    let rig = Rig::on(&session);
    rig.open();
    rustix::process::kill_process(session.pid(), rustix::process::Signal::STOP).unwrap();
    let request = SeatRequest::Text {
        text: "x".repeat(1000),
        submit: false,
    };
    let error = block_on(
        rig.seat
            .request(request, ticket_for(Duration::from_millis(200))),
    )
    .unwrap_err();
    assert_eq!(error.kind, FailureKind::TimedOut);
    assert!(
        error.typed.is_some_and(|typed| (1..1000).contains(&typed)),
        "{error:?}"
    );
    assert!(
        rig.log.down().contains(&Pressed::Key(45)),
        "what may be down stays journaled"
    );
    rustix::process::kill_process(session.pid(), rustix::process::Signal::CONT).unwrap();
    rig.act(SeatRequest::Close).unwrap();
    assert_eq!(rig.log.down(), []);
}

#[test]
fn what_a_dead_process_held_is_released_by_another() {
    let Some(session) = Session::start("") else {
        return;
    };
    let canvas_rig = Rig::on(&session);
    canvas_rig.open();
    let canvas = Canvas::open(&session.socket(), "HEADLESS-1", true);
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "input::hold_and_wait",
            "--ignored",
            "--nocapture",
        ])
        .env("DESKHAND_HOLD_ON", session.socket())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_seen(
        &canvas,
        &[
            Seen::Key(29, true),
            Seen::Modifiers(4),
            Seen::Button(LEFT, true),
        ],
    );
    child.kill().unwrap();
    child.wait().unwrap();
    canvas.take();
    let held = [
        Pressed::Key(29),
        Pressed::Modifiers(4),
        Pressed::Button(LEFT),
    ];
    deskhand_wayland::release_pressed(&session.socket(), &held).unwrap();
    wait_seen(&canvas, &[Seen::Button(LEFT, false)]);
    // The next click and key are plain ones again.
    canvas_rig
        .act(SeatRequest::Keys {
            chords: vec![Chord {
                modifiers: Modifiers::default(),
                keysym: Some('a' as u32),
            }],
        })
        .unwrap();
    let click = vec![
        PointerStep::Move { x: 9, y: 9 },
        button(true),
        button(false),
    ];
    canvas_rig
        .act(point("HEADLESS-1", (1280, 800), click))
        .unwrap();
    wait_seen(
        &canvas,
        &[
            Seen::Key(30, true),
            Seen::Key(30, false),
            Seen::Button(LEFT, true),
            Seen::Button(LEFT, false),
        ],
    );
    let modifiers = canvas.take().into_iter().rev().find_map(|seen| match seen {
        Seen::Modifiers(mask) => Some(mask),
        _ => None,
    });
    assert_eq!(modifiers.unwrap_or(0), 0);
}

/// The process that the test above kills.
#[test]
#[ignore = "run by what_a_dead_process_held_is_released_by_another"]
fn hold_and_wait() {
    let Some(socket) = std::env::var_os("DESKHAND_HOLD_ON") else {
        return;
    };
    let journal = std::sync::Arc::new(crate::Log::default());
    let seat =
        deskhand_wayland::WaylandSeat::start(socket.into(), std::sync::Arc::new(|_| {}), journal)
            .unwrap();
    let held = Modifiers {
        ctrl: true,
        ..Modifiers::default()
    };
    let steps = vec![
        PointerStep::Move { x: 20, y: 20 },
        PointerStep::Modifiers { held },
        button(true),
        PointerStep::Pause { ms: 60_000 },
    ];
    let _ = block_on(seat.request(
        point("HEADLESS-1", (1280, 800), steps),
        ticket_for(Duration::from_secs(60)),
    ));
}
