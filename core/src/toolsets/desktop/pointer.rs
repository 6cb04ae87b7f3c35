//! `pointer_move`, `click`, `drag`, `scroll`.

use serde_json::json;

use super::act::{About, Before, Report, finish, refresh_outputs, send};
use super::aim::{Target, guard, target};
use super::element_act::ELEMENT;
use super::element_target;
use super::elements::rect_json;
use super::errors::Error;
use super::expect::{self, EXPECT_WINDOW};
use super::{chords, gates};
use crate::desktop::effect::{Effect, Modifiers, PointerRequest, PointerStep, SeatRequest};
use crate::desktop::model::WindowId;
use crate::engine::cx::Cx;
use crate::handler;
use crate::tools::args::{Args, field_integer};
use crate::tools::declare::{Arg, Audit, Hints, Kind, Known, LeaseNeed, Profile, Tool};
use crate::tools::facts::{Facts, Refused};

const POINTER_MS: u64 = 5000;
/// A drag in this many moves, so that apps see a movement and not a jump.
const DRAG_STEPS: u32 = 16;
const DRAG_STEP_MS: u32 = 8;
/// An app needs a frame to turn a press into a drag's start.
const DRAG_HOLD_MS: u32 = 50;

const X: Arg = Arg::integer("x", "Pixel column in the screenshot.", 0, 65_535).required();
const Y: Arg = Arg::integer("y", "Pixel row in the screenshot.", 0, 65_535).required();
const X_OR_ELEMENT: Arg = Arg::integer("x", "Pixel column in the screenshot; with y, or else element.", 0, 65_535);
const Y_OR_ELEMENT: Arg = Arg::integer("y", "", 0, 65_535);
const REFERENCE: Arg = Arg::text("screenshot_ref", "The screenshot whose pixels are meant; default: the lease's newest. Valid for 60 s.", 1, 64, Audit::IfKnown(Known::Reference));
const GUARD: Arg = Arg::new(
    "guard",
    "Refuse (target_changed) when the pixels around the target no longer look as in the screenshot.",
    Kind::Bool { default: true },
    Audit::Plain,
);
const BUTTON: Arg = Arg::choice("button", "", &["left", "right", "middle", "back", "forward"], "left");
const MODIFIERS: Arg = Arg::new(
    "modifiers",
    "Held meanwhile.",
    Kind::List { of: &Kind::Choice { of: &["ctrl", "shift", "alt", "super"], default: None }, min: 0, max: 4 },
    Audit::IfKnown(Known::KeyNames),
);
const POINT: &[Arg] = &[X, Y];

pub static POINTER_MOVE: Tool = Tool {
    name: "pointer_move",
    title: "Move the pointer",
    summary: "moves the pointer to a pixel or an element",
    description: "Moves the pointer to the centre of a pixel of a screenshot (x, y) or of an element, e.g. to hover. The result gives the point in layout coordinates.",
    args: &[super::LEASE, X_OR_ELEMENT, Y_OR_ELEMENT, REFERENCE, ELEMENT, super::SCREENSHOT_AFTER],
    hints: Hints::Acts,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(pointer_move),
};

pub static CLICK: Tool = Tool {
    name: "click",
    title: "Click",
    summary: "clicks a pixel or an element",
    description: "Clicks the centre of a pixel of a screenshot (x, y) or of an element. Before anything is sent, the place is compared with the screenshot: \
        if it changed, target_changed comes with a fresh image; an element is looked at again: element_stale if it is another one now. `observed: sent` means that the compositor handled it; no `changes` doesn't mean that the app did nothing.",
    args: &[
        super::LEASE,
        X_OR_ELEMENT,
        Y_OR_ELEMENT,
        REFERENCE,
        ELEMENT,
        BUTTON,
        Arg::integer("count", "2 is a double click.", 1, 3).or(1),
        MODIFIERS,
        EXPECT_WINDOW,
        GUARD,
        super::ELEMENT_CHANGES,
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(click),
};

pub static DRAG: Tool = Tool {
    name: "drag",
    title: "Drag",
    summary: "drags from one point to another",
    description: "Presses a button at one pixel of a screenshot, moves to another, and lets go. The start is compared with the screenshot first.",
    args: &[
        super::LEASE,
        Arg::new("from", "", Kind::Object { fields: POINT }, Audit::Fields).required(),
        Arg::new("to", "", Kind::Object { fields: POINT }, Audit::Fields).required(),
        REFERENCE,
        BUTTON,
        MODIFIERS,
        GUARD,
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Destructive,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(drag),
};

pub static SCROLL: Tool = Tool {
    name: "scroll",
    title: "Scroll",
    summary: "turns the wheel at a pixel",
    description: "Moves the pointer to a pixel of a screenshot and turns the wheel there, positive down and right. No `changes` doesn't mean that the app did nothing.",
    args: &[
        super::LEASE,
        X,
        Y,
        REFERENCE,
        Arg::integer("notches_y", "", -10, 10).or(0),
        Arg::integer("notches_x", "", -10, 10).or(0),
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::Acts,
    lease: LeaseNeed::Needed,
    profile: Profile::Act,
    always_load: false,
    schema: None,
    run: handler!(scroll),
};

async fn aimed(cx: &Cx, args: &Args) -> Result<Target, Refused> {
    refresh_outputs(cx).await?;
    target(cx, args.text("screenshot_ref"), args.integer("x").unwrap_or(-1), args.integer("y").unwrap_or(-1))
}

/// A pixel, or an element.
async fn aimed_at_either(cx: &Cx, args: &Args) -> Result<Target, Refused> {
    match (args.has("element"), args.has("x") && args.has("y")) {
        (false, true) => aimed(cx, args).await,
        (true, false) if !args.has("x") && !args.has("y") && !args.has("screenshot_ref") => {
            refresh_outputs(cx).await?;
            element_target::target(cx, args).await
        }
        _ => Err(Refused::Schema("failed to deserialize parameters: give either x and y (pixels of a screenshot) or element".into())),
    }
}

async fn pointer_move(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let at = aimed_at_either(&cx, &args).await?;
    perform(&cx, &args, &at, vec![step_to(&at)], Vec::new()).await
}

async fn click(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let at = aimed_at_either(&cx, &args).await?;
    let expected = args.object("expect").and_then(expect::window_id);
    check_expected(&cx, expected, &at)?;
    if args.flag("guard") {
        guard(&cx, &at).await?;
    }
    let code = button_code(args.text("button"));
    let mut steps = vec![step_to(&at), PointerStep::Pause { ms: 0 }];
    for _ in 0..args.integer("count").unwrap_or(1) {
        steps.push(PointerStep::Button { code, pressed: true });
        steps.push(PointerStep::Button { code, pressed: false });
    }
    perform(&cx, &args, &at, holding(&args, steps), expected.into_iter().collect()).await
}

async fn drag(cx: Cx, args: Args) -> Result<Facts, Refused> {
    refresh_outputs(&cx).await?;
    let end = |name: &str| -> Result<Target, Refused> {
        let point = args.object(name).cloned().unwrap_or_default();
        let field = |key| field_integer(&point, key).unwrap_or(-1);
        target(&cx, args.text("screenshot_ref"), field("x"), field("y"))
    };
    let (from, to) = (end("from")?, end("to")?);
    if args.flag("guard") {
        guard(&cx, &from).await?;
    }
    let code = button_code(args.text("button"));
    let mut steps = vec![
        step_to(&from),
        PointerStep::Pause { ms: 0 },
        PointerStep::Button { code, pressed: true },
        PointerStep::Pause { ms: DRAG_HOLD_MS },
    ];
    for i in 1..=DRAG_STEPS {
        let between = |a: u32, b: u32| {
            let (a, b) = (i64::from(a), i64::from(b));
            u32::try_from(a + (b - a) * i64::from(i) / i64::from(DRAG_STEPS)).unwrap_or_default()
        };
        steps.push(PointerStep::Move { x: between(from.raw.0, to.raw.0), y: between(from.raw.1, to.raw.1) });
        steps.push(PointerStep::Pause { ms: DRAG_STEP_MS });
    }
    steps.push(PointerStep::Pause { ms: DRAG_HOLD_MS });
    steps.push(PointerStep::Button { code, pressed: false });
    let from_told = from.told();
    perform(&cx, &args, &to, holding(&args, steps), Vec::new()).await.map(|mut facts| {
        facts.data.insert("from".into(), from_told);
        facts
    })
}

async fn scroll(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let at = aimed(&cx, &args).await?;
    let notches = |name| args.integer(name).and_then(|n| i32::try_from(n).ok()).unwrap_or_default();
    let (x, y) = (notches("notches_x"), notches("notches_y"));
    if x == 0 && y == 0 {
        return Err(Refused::arguments("give notches_y or notches_x"));
    }
    perform(&cx, &args, &at, vec![step_to(&at), PointerStep::Pause { ms: 0 }, PointerStep::Wheel { x, y }], Vec::new()).await
}

fn step_to(at: &Target) -> PointerStep {
    PointerStep::Move { x: at.raw.0, y: at.raw.1 }
}

/// The steps with the modifiers held around them.
fn holding(args: &Args, steps: Vec<PointerStep>) -> Vec<PointerStep> {
    let held = chords::modifiers(&args.texts("modifiers"));
    if !held.any() {
        return steps;
    }
    let mut all = vec![PointerStep::Modifiers { held }];
    all.extend(steps);
    all.push(PointerStep::Modifiers { held: Modifiers::default() });
    all
}

async fn perform(cx: &Cx, args: &Args, at: &Target, steps: Vec<PointerStep>, expected: Vec<WindowId>) -> Result<Facts, Refused> {
    let concerned = at.element.as_ref().map(|(_, window, _)| *window).or(expected.first().copied());
    let before = Before::take(cx).with_elements(cx, args, concerned).await;
    let release = cx.defer(Effect::Seat(SeatRequest::Release));
    // From the first motion on the pointer may be anywhere on the way.
    cx.world(|w| w.shots.pointer = Some((at.output.clone(), at.raw)));
    let request = PointerRequest { output: at.output.clone(), extent: at.raw_size, steps };
    let sent = send(cx, Effect::Seat(SeatRequest::Pointer(request)), POINTER_MS).await?;
    if matches!(sent, super::act::Sent::Taken(_)) {
        cx.disarm(release);
    }
    let about = if let Some((_, window, _)) = &at.element {
        About::Windows(vec![*window])
    } else if expected.is_empty() { About::Output(at.output.clone()) } else { About::Windows(expected) };
    let mut report = Report::new(&sent, "sent", about).with("point", at.told());
    if let Some(shot) = &at.shot {
        report = report.with("screenshot_ref", json!(shot.reference));
    }
    if let Some((element, _, place)) = &at.element {
        report = report.with("element", json!(element)).with("box", rect_json(place));
    }
    report.output = Some(at.output.clone());
    finish(cx, args, before, report).await
}

/// The window that must be at the target: by its place where that is known, else by its having the focus.
fn check_expected(cx: &Cx, expected: Option<WindowId>, at: &Target) -> Result<(), Refused> {
    let Some(id) = expected else { return Ok(()) };
    cx.world(|w| {
        let Some(window) = w.desktop.window(id) else {
            return Err(Refused::arguments(format!("no window has the id {id}; desktop_state lists them")));
        };
        gates::window_allowed(w, Some(window))?;
        let there = match w.desktop.position(window) {
            Some((x, y)) => {
                let (width, height) = window.layout.window_size;
                let inside = |v: f64, from: f64, len: i32| v >= from && v < from + f64::from(len);
                inside(at.logical.0, x, width) && inside(at.logical.1, y, height) && w.desktop.visible_windows(&at.output).any(|v| v.id == id)
            }
            None => w.desktop.focused_window == Some(id),
        };
        if there { Ok(()) } else { Err(Error::FocusMismatch.plain(&format!("Window {id} isn't at the target; nothing was sent."))) }
    })
}

/// Linux's button codes.
fn button_code(name: Option<&str>) -> u32 {
    match name {
        Some("right") => 0x111,
        Some("middle") => 0x112,
        Some("back") => 0x116,
        Some("forward") => 0x115,
        _ => 0x110,
    }
}
