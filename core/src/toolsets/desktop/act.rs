//! What every action shares: sending, collecting what changed, telling interruptions, bringing an image.

use serde_json::{Map, Value, json};

use super::element_changes::Watched;
use super::errors::{abandoned, failed};
use super::screenshot;
use crate::desktop::changes::changes;
use crate::desktop::effect::{CompositorRequest, Effect, FailureKind, Reply, ScreenRequest};
use crate::desktop::event::DesktopEvent;
use crate::desktop::model::WindowId;
use crate::desktop::state::Desktop;
use crate::engine::cx::{Cx, Either, select};
use crate::engine::world::Stream;
use crate::tools::args::Args;
use crate::tools::declare::LeaseNeed;
use crate::tools::facts::{Facts, Image, Refused};

/// The event stream is done with an action when it was quiet for this long,
const QUIET_MS: u64 = 50;
/// and is listened to for at most this long.
const COLLECT_MS: u64 = 500;
/// A compositor's answer to a request.
pub const REQUEST_MS: u64 = 3000;
/// `screenshot: true` waits for the screen to be quiet for this long, at most that long.
const SETTLE_QUIET_MS: u32 = 100;
const SETTLE_MAX_MS: u32 = 1500;

/// The desktop as it was before the action.
pub struct Before {
    pub desktop: Desktop,
    user_inputs: u64,
    elements: Option<Watched>,
}

impl Before {
    pub fn take(cx: &Cx) -> Self {
        cx.world(|w| Self { desktop: Desktop::clone(&w.desktop), user_inputs: w.user_inputs, elements: None })
    }

    /// Notes this window's elements, if the call wants to know what becomes of them.
    pub async fn with_elements(mut self, cx: &Cx, args: &Args, window: Option<WindowId>) -> Self {
        if args.flag_if_declared("element_changes") {
            self.elements = Some(Watched::begin(cx, args, window).await);
        }
        self
    }
}

/// Which windows the action was about: focus moving to any other is somebody else's doing.
pub enum About {
    Windows(Vec<WindowId>),
    /// What the pointer does on this output may focus any window there.
    Output(String),
    /// Arranging: focus may go anywhere.
    Anything,
}

pub struct Report {
    /// Taken by the peer; `None`: it went out and the reply was lost.
    pub accepted: Option<bool>,
    pub observed: &'static str,
    pub about: About,
    pub more: Map<String, Value>,
    /// The output that an image would show.
    pub output: Option<String>,
    /// What the action did is known without waiting for the compositor.
    pub known: bool,
}

impl Report {
    pub fn new(sent: &Sent, observed: &'static str, about: About) -> Self {
        let accepted = match sent {
            Sent::Taken(_) => Some(true),
            Sent::Uncertain(_) => None,
        };
        let mut more = Map::new();
        if let Sent::Uncertain(why) = sent {
            more.insert("note".into(), json!(why));
        }
        Self { accepted, observed: if accepted.is_none() { "uncertain" } else { observed }, about, more, output: None, known: false }
    }

    pub fn nothing_sent(observed: &'static str) -> Self {
        Self { accepted: Some(false), observed, about: About::Anything, more: Map::new(), output: None, known: false }
    }

    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.more.insert(key.to_string(), value);
        self
    }
}

/// An effect that was put out.
pub enum Sent {
    Taken(Reply),
    /// It went out, and what became of it isn't known.
    Uncertain(String),
}

/// Sends an acting effect. Only what is certain not to have happened is an error.
pub async fn send(cx: &Cx, effect: Effect, timeout_ms: u64) -> Result<Sent, Refused> {
    match cx.run(effect, timeout_ms).await {
        Ok(reply) => Ok(Sent::Taken(reply)),
        Err(failure) => {
            if cx.abandoned().is_some() {
                let mut refused = failed(cx, &failure);
                if let Some(typed) = failure.typed {
                    refused = refused.with("typed", json!(typed));
                }
                return Err(refused);
            }
            match failure.kind {
                FailureKind::TimedOut | FailureKind::Lost | FailureKind::Abandoned => Ok(Sent::Uncertain(failure.detail)),
                _ => {
                    let refused = failed(cx, &failure);
                    Err(match failure.typed {
                        Some(typed) => refused.with("typed", json!(typed)),
                        None => refused,
                    })
                }
            }
        }
    }
}

pub async fn compositor(cx: &Cx, request: CompositorRequest) -> Result<Sent, Refused> {
    send(cx, Effect::Compositor(request), REQUEST_MS).await
}

/// The outputs as they are now: they have no events of their own.
pub async fn refresh_outputs(cx: &Cx) -> Result<(), Refused> {
    match cx.run(Effect::Compositor(CompositorRequest::Outputs), REQUEST_MS).await {
        Ok(Reply::Outputs(outputs)) => {
            cx.learned(&DesktopEvent::Outputs(outputs));
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(failure) => Err(failed(cx, &failure)),
    }
}

/// Waits until `done` holds of the desktop; false when the time is over first.
pub async fn until(cx: &Cx, limit_ms: u64, done: impl Fn(&Desktop) -> bool) -> Result<bool, Refused> {
    let end = cx.now() + limit_ms;
    loop {
        let (holds, seq) = cx.world(|w| (done(&w.desktop), w.desktop.seq));
        if holds {
            return Ok(true);
        }
        let now = cx.now();
        if now >= end || cx.world(|w| matches!(w.stream, Stream::Lost(_))) {
            return Ok(false);
        }
        let waited = match select(cx.changed(seq), cx.sleep(end - now)).await {
            Either::First(waited) | Either::Second(waited) => waited,
        };
        waited.map_err(|reason| cx.world(|w| abandoned(w, reason)))?;
    }
}

/// Until the event stream is quiet.
async fn collect(cx: &Cx) {
    let end = cx.now() + COLLECT_MS;
    loop {
        let now = cx.now();
        if now >= end {
            return;
        }
        let seq = cx.world(|w| w.desktop.seq);
        match select(cx.changed(seq), cx.sleep(QUIET_MS.min(end - now))).await {
            Either::First(Ok(())) => {}
            Either::First(Err(_)) | Either::Second(_) => return,
        }
    }
}

/// The action's result: what was seen to change, who interrupted, and an image where one is due.
pub async fn finish(cx: &Cx, args: &Args, before: Before, mut report: Report) -> Result<Facts, Refused> {
    let sent = report.accepted != Some(false);
    if sent && !(report.known && before.elements.is_none()) {
        collect(cx).await;
    }
    let (after, lost, user_input) = cx.world(|w| {
        (Desktop::clone(&w.desktop), matches!(w.stream, Stream::Lost(_)), w.user_inputs != before.user_inputs)
    });
    let mut changed = if sent { changes(&before.desktop, &after) } else { None };
    if sent && lost {
        report.observed = "uncertain";
    } else if sent && report.accepted.is_some() && (user_input || focus_was_taken(&before.desktop, &after, &report.about)) {
        report.observed = "interrupted";
    }
    let element_changes = match (&before.elements, sent) {
        (Some(watched), true) => Some(watched.end(cx).await),
        _ => None,
    };
    let mut data = Map::new();
    data.insert("accepted".into(), json!(report.accepted));
    data.insert("observed".into(), json!(report.observed));
    if user_input {
        data.insert("user_input".into(), json!(true));
    }
    data.extend(std::mem::take(&mut report.more));
    match element_changes {
        Some(Ok(Some(of))) => {
            changed.get_or_insert_default().insert("elements".into(), of);
        }
        Some(Err(why)) => {
            data.insert("no_element_changes".into(), json!(why));
        }
        Some(Ok(None)) | None => {}
    }
    if let Some(changed) = changed {
        data.insert("changes".into(), Value::Object(changed));
    }
    let mut facts = Facts { data, ..Facts::default() };
    let in_doubt = matches!(report.observed, "timeout" | "pending" | "ambiguous" | "none" | "unknown" | "interrupted" | "uncertain");
    let asked = args.flag_if_declared("screenshot");
    if in_doubt || asked {
        attach_image(cx, args, &mut facts, report.output, asked && !in_doubt).await;
    }
    Ok(facts)
}

/// Puts a fresh image beside the facts, or the reason why there is none.
pub async fn attach_image(cx: &Cx, args: &Args, facts: &mut Facts, output: Option<String>, settle: bool) {
    let lease = screenshot::lease_of(cx, args);
    // Who only looks may ask for an image without a lease, as with screenshot itself.
    let asked_without = args.tool().lease == LeaseNeed::No && args.flag_if_declared("screenshot");
    if lease.is_none() && !asked_without {
        facts.data.insert("no_screenshot".into(), json!("lease_required: an image in doubt comes to the lease's holder only"));
        return;
    }
    let output = output.or_else(|| cx.world(|w| w.desktop.focused_output().map(|o| o.name.clone())));
    let mut settled = None;
    if settle && let Some(output) = output.clone() {
        let request = ScreenRequest::Settle { output, quiet_ms: SETTLE_QUIET_MS, max_ms: SETTLE_MAX_MS };
        settled = match cx.run(Effect::Screen(request), u64::from(SETTLE_MAX_MS) + 500).await {
            Ok(Reply::Settled { settled, .. }) => Some(settled),
            _ => Some(false),
        };
    }
    match screenshot::fresh(cx, output, lease).await {
        Ok((mut about, encoded)) => {
            if let Some(settled) = settled {
                about.insert("settled".into(), json!(settled));
            }
            facts.data.insert("screenshot".into(), Value::Object(about));
            facts.image = encoded.map(|encoded| Image { encoded, first: false });
        }
        Err(refused) => {
            facts.data.insert("no_screenshot".into(), json!(refused.sentence()));
        }
    }
}

/// Whether focus moved to a window that the action wasn't about.
fn focus_was_taken(before: &Desktop, after: &Desktop, about: &About) -> bool {
    let Some(now) = after.focused_window else { return false };
    if before.focused_window == Some(now) || !before.windows.contains_key(&now) {
        // Unmoved, or on a window that opened meanwhile, which is what actions do.
        return false;
    }
    // The focus of a window that closed has to go somewhere.
    if before.focused_window.is_some_and(|old| !after.windows.contains_key(&old)) {
        return false;
    }
    match about {
        About::Anything => false,
        About::Windows(ids) => !ids.contains(&now) && !same_app(after, ids, now),
        About::Output(name) => !after.visible_windows(name).any(|w| w.id == now),
    }
}

/// A dialog of the same process is still what the action was about.
fn same_app(d: &Desktop, ids: &[WindowId], other: WindowId) -> bool {
    let pid = d.window(other).and_then(|w| w.pid);
    pid.is_some() && ids.iter().any(|id| d.window(*id).is_some_and(|w| w.pid == pid))
}
