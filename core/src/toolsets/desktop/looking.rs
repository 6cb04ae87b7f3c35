//! `desktop_state` and `wait_for`.

use serde_json::{Map, Value, json};

use super::act::{REQUEST_MS, attach_image, refresh_outputs};
use super::errors::{Error, abandoned, failed};
use crate::desktop::diff::diff;
use crate::desktop::effect::{CompositorRequest, Effect, Reply, ScreenRequest};
use crate::desktop::event::DesktopEvent;
use crate::desktop::model::WindowId;
use crate::desktop::report;
use crate::desktop::state::Desktop;
use crate::engine::cx::{Cx, Either, select};
use crate::engine::world::{Stream, rfc3339};
use crate::handler;
use crate::tools::args::{Args, field_integer};
use crate::tools::declare::{Arg, Audit, Hints, Kind, Known, LeaseNeed, Profile, Tool};
use crate::tools::facts::{Facts, Refused};

pub static DESKTOP_STATE: Tool = Tool {
    name: "desktop_state",
    title: "Desktop state",
    summary: "windows, workspaces, the focused window, the overview, keyboard layouts, monitors, Noctalia's state",
    description: "One consistent snapshot of windows, workspaces, outputs, keyboard layouts and focus, with `seq`, which grows with every change. \
        Tools take the ids, never indexes. `focused_window` is null when a layer surface, the lock screen or the overview has the keyboard. \
        `position` is null where the compositor doesn't tell it. Titles and app ids are the apps' own text.",
    args: &[Arg::integer("since", "A `seq` seen before: only what changed since comes, or `unchanged`.", 0, crate::tools::args::MAX_ID)],
    hints: Hints::ReadOnly,
    lease: LeaseNeed::No,
    profile: Profile::Observe,
    always_load: true,
    schema: None,
    run: handler!(desktop_state),
};

async fn desktop_state(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let outputs = cx.run(Effect::Compositor(CompositorRequest::Outputs), REQUEST_MS);
    let layers = cx.run(Effect::Compositor(CompositorRequest::Layers), REQUEST_MS);
    match outputs.await {
        Ok(Reply::Outputs(outputs)) => cx.learned(&DesktopEvent::Outputs(outputs)),
        Ok(_) => {}
        Err(failure) => return Err(failed(&cx, &failure)),
    }
    let layers = match layers.await {
        Ok(Reply::Layers(layers)) => Some(layers),
        // Not every compositor tells of layer surfaces.
        _ => None,
    };
    let since = args.integer("since").and_then(|n| u64::try_from(n).ok());
    let mut map = cx.world(|w| {
        let now = &w.desktop;
        match since {
            None => Ok(report::desktop(now)),
            Some(seq) if seq > now.seq => Err(Refused::arguments(format!("since is {seq}, and seq is only {}; it starts anew with the server", now.seq))),
            Some(seq) if seq == now.seq => Ok(unchanged(seq)),
            Some(seq) => Ok(match w.history.at(seq) {
                // Too long ago to tell the difference: all of it, saying so.
                None => {
                    let mut whole = report::desktop(now);
                    whole.insert("since_expired".into(), json!(true));
                    whole
                }
                Some(then) => {
                    let delta = diff(then, now);
                    if delta.is_empty() { unchanged(now.seq) } else { report::delta(now, &delta) }
                }
            }),
        }
    })?;
    let time = cx.world(|w| rfc3339(w.wall_ms()));
    if map.contains_key("outputs") {
        map.insert("outputs_time".into(), json!(time));
    }
    if let Some(layers) = layers.filter(|_| since.is_none()) {
        map.insert("layers".into(), layers);
        map.insert("layers_time".into(), json!(time));
    }
    if let Stream::Lost(why) = cx.world(|w| w.stream.clone()) {
        map.insert("stale".into(), json!(format!("the event stream was lost: {why}")));
    }
    Ok(Facts { data: map, ..Facts::default() })
}

fn unchanged(seq: u64) -> Map<String, Value> {
    Map::from_iter([("seq".to_string(), json!(seq)), ("unchanged".to_string(), json!(true))])
}

const UNTIL: &[Arg] = &[
    Arg::new(
        "window",
        "",
        Kind::Object {
            fields: &[
                Arg::text("app_id", "", 1, 256, Audit::IfKnown(Known::AppId)),
                Arg::text("title", "", 1, 1000, Audit::Length),
            ],
        },
        Audit::Fields,
    ),
    Arg::id("closed", ""),
    Arg::new(
        "title",
        "",
        Kind::Object { fields: &[Arg::id("window_id", "").required(), Arg::text("contains", "", 1, 1000, Audit::Length).required()] },
        Audit::Fields,
    ),
];

pub static WAIT_FOR: Tool = Tool {
    name: "wait_for",
    title: "Wait for something",
    summary: "waits for a window to appear, close or change title, or for the screen to settle",
    description: "Waits until something is so, or at most timeout_ms. Already so: answers at once. `observed` is met, timeout or uncertain (the event stream was lost).",
    args: &[
        super::LEASE,
        Arg::new(
            "until",
            "One of {\"window\": {\"app_id\"?, \"title\"? (contained in it)}}, {\"closed\": window id}, {\"title\": {\"window_id\", \"contains\"}}, or \"screen_stable\".",
            Kind::ObjectOr { fields: UNTIL, words: &["screen_stable"] },
            Audit::Fields,
        )
        .required(),
        Arg::integer("timeout_ms", "", 100, 30_000).or(10_000),
        super::SCREENSHOT_AFTER,
    ],
    hints: Hints::ReadOnly,
    lease: LeaseNeed::No,
    profile: Profile::Observe,
    always_load: false,
    schema: None,
    run: handler!(wait_for),
};

enum Until {
    Window { app_id: Option<String>, title: Option<String> },
    Closed(WindowId),
    Title { window: WindowId, contains: String },
    ScreenStable,
}

impl Until {
    fn read(args: &Args) -> Result<Self, Refused> {
        let Some(object) = args.object("until") else { return Ok(Self::ScreenStable) };
        if object.len() != 1 {
            return Err(Refused::arguments("until takes exactly one of window, closed and title"));
        }
        let text = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_str).map(str::to_string);
        let id = |map: &Map<String, Value>, key: &str| field_integer(map, key).and_then(|n| u64::try_from(n).ok());
        if let Some(Value::Object(window)) = object.get("window") {
            let (app_id, title) = (text(window, "app_id"), text(window, "title"));
            if app_id.is_none() && title.is_none() {
                return Err(Refused::arguments("until.window needs app_id or title"));
            }
            return Ok(Self::Window { app_id, title });
        }
        if let Some(Value::Object(title)) = object.get("title")
            && let (Some(window), Some(contains)) = (id(title, "window_id"), text(title, "contains"))
        {
            return Ok(Self::Title { window, contains });
        }
        id(object, "closed").map(Self::Closed).ok_or_else(|| Refused::arguments("until.closed needs a window id"))
    }

    /// The windows that make it so; `None` while it isn't.
    fn met(&self, d: &Desktop) -> Option<Vec<WindowId>> {
        match self {
            Self::Window { app_id, title } => {
                let found: Vec<WindowId> = d
                    .windows
                    .values()
                    .filter(|w| app_id.as_ref().is_none_or(|app| w.app_id.as_ref() == Some(app)))
                    .filter(|w| title.as_ref().is_none_or(|part| w.title.as_ref().is_some_and(|t| t.contains(part.as_str()))))
                    .map(|w| w.id)
                    .collect();
                (!found.is_empty()).then_some(found)
            }
            Self::Closed(id) => d.window(*id).is_none().then(Vec::new),
            Self::Title { window, contains } => d.window(*window)?.title.as_ref()?.contains(contains.as_str()).then(|| vec![*window]),
            Self::ScreenStable => None,
        }
    }
}

async fn wait_for(cx: Cx, args: Args) -> Result<Facts, Refused> {
    let until = Until::read(&args)?;
    let limit = args.integer("timeout_ms").and_then(|n| u64::try_from(n).ok()).unwrap_or(10_000);
    let start = cx.now();
    let (observed, windows) = match &until {
        Until::ScreenStable => (screen_stable(&cx, limit).await?, Vec::new()),
        Until::Title { window, .. } if cx.world(|w| w.desktop.window(*window).is_none()) => {
            return Err(Refused::arguments(format!("no window has the id {window}; desktop_state lists them")));
        }
        _ => wait_until(&cx, &until, start, limit).await?,
    };
    let mut facts = Facts::new(json!({
        "observed": observed,
        "windows": cx.world(|w| windows.iter().filter_map(|id| w.desktop.window(*id).map(|win| report::window(&w.desktop, win))).collect::<Vec<_>>()),
        "waited_ms": cx.now() - start,
    }));
    if observed != "met" && cx.input_ended() {
        facts.data.insert("note".into(), json!("the client's input ended; the wait was cut short"));
    } else if args.flag("screenshot") || observed != "met" {
        attach_image(&cx, &args, &mut facts, None, false).await;
    }
    Ok(facts)
}

async fn wait_until(cx: &Cx, until: &Until, start: u64, limit: u64) -> Result<(&'static str, Vec<WindowId>), Refused> {
    /// Often enough for a progress bar.
    const STEP_MS: u64 = 1000;
    loop {
        let (met, lost, seq) = cx.world(|w| (until.met(&w.desktop), matches!(w.stream, Stream::Lost(_)), w.desktop.seq));
        if let Some(windows) = met.filter(|_| !lost) {
            return Ok(("met", windows));
        }
        if lost {
            return Ok(("uncertain", Vec::new()));
        }
        let waited = cx.now() - start;
        if waited >= limit || cx.input_ended() {
            return Ok(("timeout", Vec::new()));
        }
        let step = STEP_MS.min(limit - waited);
        let cut = match select(cx.changed(seq), select(cx.sleep(step), cx.input_end())).await {
            Either::First(cut) | Either::Second(Either::First(cut) | Either::Second(cut)) => cut,
        };
        cut.map_err(|reason| cx.world(|w| abandoned(w, reason)))?;
        cx.progress((cx.now() - start) as f64, Some(limit as f64), "waiting");
    }
}

async fn screen_stable(cx: &Cx, limit: u64) -> Result<&'static str, Refused> {
    refresh_outputs(cx).await?;
    let Some(output) = cx.world(|w| w.desktop.focused_output().map(|o| o.name.clone())) else {
        return Err(Error::UntestedOutputConfig.plain("No output is on."));
    };
    let request = ScreenRequest::Settle { output, quiet_ms: 100, max_ms: u32::try_from(limit).unwrap_or(30_000) };
    let settle = cx.run(Effect::Screen(request), limit + 1000);
    match select(settle, cx.input_end()).await {
        Either::First(Ok(Reply::Settled { settled: true, .. })) => Ok("met"),
        Either::First(Ok(_)) => Ok("timeout"),
        Either::First(Err(failure)) => Err(failed(cx, &failure)),
        Either::Second(Ok(())) => Ok("timeout"),
        Either::Second(Err(reason)) => Err(cx.world(|w| abandoned(w, reason))),
    }
}
