//! What a trace has for backends: observations and completions in order, and the effects that were started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deskhand_core::desktop::effect::{ClipboardRequest, Effect, Outcome, SessionRequest};
use deskhand_core::desktop::event::Observation;
use deskhand_core::tools::toolset::Toolset;
use deskhand_core::trace::Trace;
use deskhand_core::{Input, Op, Output};
use deskhand_ports::Observe;

use crate::player::Player;

/// A trace, read for playing.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) parts: Vec<Part>,
    /// In the order of their starts.
    pub(crate) effects: Vec<(Op, Effect)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// After the part before, in the trace.
    pub gap: Duration,
    pub what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Observe(Observation),
    Complete(Op, Outcome),
}

impl Script {
    /// From a trace's text; `lookup` finds a toolset by its name. The effects are those that its inputs cause now.
    pub fn read(text: &str, lookup: impl Fn(&str) -> Option<&'static Toolset>) -> Result<Self, String> {
        let trace = Trace::parse(text).map_err(|e| e.to_string())?;
        let mut effects = BTreeMap::new();
        let mut order = Vec::new();
        let mut parts = Vec::new();
        let mut last = trace.header.now;
        trace
            .run(lookup, |step, outputs, _| {
                let gap = Duration::from_millis(step.at.saturating_sub(last));
                let what = match &step.input {
                    Input::Observed(observation) => Some(What::Observe(observation.clone())),
                    // A completion of what was never started is the trace's own mistake.
                    Input::Completed { op, outcome } if effects.contains_key(op) => Some(What::Complete(*op, outcome.clone())),
                    _ => None,
                };
                if let Some(what) = what {
                    parts.push(Part { gap, what });
                    last = step.at;
                }
                for output in outputs {
                    if let Output::Start { op, effect, .. } = output {
                        effects.insert(*op, effect.clone());
                        order.push((*op, effect.clone()));
                    }
                }
                Ok(())
            })
            .map_err(|e| e.to_string())?;
        Ok(Self { parts, effects: order })
    }

    /// Begins to play, inside a tokio runtime. Gaps between parts are as recorded, and at most `longest_gap`.
    pub fn play(self, observe: Observe, longest_gap: Duration) -> Arc<Player> {
        Player::start(self, observe, longest_gap)
    }
}

/// Alike but for when it is: a lock is written with the time of its taking.
pub(crate) fn alike(a: &Effect, b: &Effect) -> bool {
    match (a, b) {
        (Effect::Session(SessionRequest::Lock { label: a, .. }), Effect::Session(SessionRequest::Lock { label: b, .. })) => a == b,
        // How long ago the lease began is the clock's to say.
        (Effect::Clipboard(ClipboardRequest::Read { max_bytes: a, .. }), Effect::Clipboard(ClipboardRequest::Read { max_bytes: b, .. })) => a == b,
        _ => a == b,
    }
}
