//! Writes a trace of a running core: masked inputs, and the outputs that they cause in a core of the recorder's own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::entry::{parse_input, print_input, print_output};
use super::header::{FORMAT, Header, Matching, REVISION, Setup};
use super::mask::Masks;
use super::masked_input::masked;
use super::masked_message::Context;
use crate::engine::core::{Config, Core};
use crate::engine::io::Input;
use crate::engine::world::World;
use crate::lease::rules::State;
use crate::policy::{Policy, PolicyState};
use crate::time::Time;

/// Of the recorder's own core: nothing that a running server's names come from.
const SEED: [u8; 32] = [7; 32];

/// Gets each line without its end.
pub type Write = Box<dyn FnMut(&str) + Send>;

pub struct Recorder {
    shadow: Option<Core>,
    masks: Masks,
    write: Write,
}

impl Recorder {
    /// `now` is what the recorded core is made with, and `config` its configuration. Writes the header at once.
    pub fn new(config: &Config, now: Time, mut write: Write) -> Result<Self, String> {
        let mut masks = Masks::default();
        let header = Header {
            deskhand_trace: FORMAT,
            revision: REVISION,
            about: None,
            matching: Matching::Exact,
            extra: true,
            seed: super::entry::to_hex(&SEED),
            now,
            config: setup(&mut masks, config)?,
        };
        let line = serde_json::to_string(&header).map_err(|e| e.to_string())?;
        // From the line itself: what replays it knows nothing else.
        let header: Header = serde_json::from_str(&line).map_err(|e| e.to_string())?;
        let toolset = config.toolset;
        let shadow = header.core(|name| (name == toolset.name).then_some(toolset))?;
        write(&line);
        Ok(Self { shadow: Some(shadow), masks, write })
    }

    /// An input that the recorded core, `real`, is about to be given.
    pub fn input(&mut self, now: Time, input: &Input, real: &Core) {
        let Some(mut shadow) = self.shadow.take() else { return };
        let masked = self.masked(input, real, &shadow);
        let line = match print_input(now, &masked) {
            Ok(line) => line,
            Err(why) => return self.stop(&why),
        };
        (self.write)(&line);
        let fed = match parse_input(&line) {
            Ok(fed) => fed,
            Err(why) => return self.stop(&why),
        };
        // The line that shows a bug is written by now; the recorded server must live on.
        let outputs = catch_unwind(AssertUnwindSafe(|| {
            shadow.handle_input(now, fed);
            let outputs: Vec<String> = std::iter::from_fn(|| shadow.poll_output()).filter_map(|o| print_output(&o).ok()).collect();
            (shadow, outputs)
        }));
        let Ok((shadow, outputs)) = outputs else { return };
        for line in outputs {
            (self.write)(&line);
        }
        self.shadow = Some(shadow);
    }

    /// What can't be written ends the recording, and what was written until then replays.
    fn stop(&mut self, _: &str) {
        self.shadow = None;
    }

    fn masked(&mut self, input: &Input, real: &Core, shadow: &Core) -> Input {
        let lease = real.look(token).zip(shadow.look(token));
        let masks = &mut self.masks;
        real.look(|w| {
            let knows = (real.toolset.knows)(w);
            masked(masks, input, &Context { toolset: real.toolset, knows: knows.as_ref(), lease })
        })
    }
}

fn token(w: &World) -> Option<String> {
    match &w.lease.state {
        State::Held(lease) | State::Acquiring(lease) => Some(lease.token.clone()),
        State::Free | State::Releasing => None,
    }
}

/// The configuration without programs' arguments, environments and the names of folders.
fn setup(masks: &mut Masks, config: &Config) -> Result<Setup, String> {
    let mut policy: Policy = config.policy.clone();
    policy.captures = None;
    policy.capture_dir = policy.capture_dir.map(|dir| masks.path(&dir.to_string_lossy()).into());
    for preset in &mut policy.presets {
        for argument in preset.argv.iter_mut().skip(1) {
            *argument = masks.text(argument);
        }
        for value in preset.env.values_mut() {
            *value = masks.text(value);
        }
    }
    let missing = config.policy_state == PolicyState::Missing && policy == (Policy { unrestricted: policy.unrestricted, ..Policy::default() });
    Ok(Setup {
        toolset: config.toolset.name.to_string(),
        server_version: config.server_version.clone(),
        unrestricted: missing && policy.unrestricted,
        policy: (!missing).then(|| serde_json::to_value(&policy)).transpose().map_err(|e| e.to_string())?,
        policy_invalid: match &config.policy_state {
            PolicyState::Invalid(why) => Some(masks.quoted(why)),
            _ => None,
        },
        audit_path: config.audit_path.as_ref().map(|path| masks.path(&path.to_string_lossy()).into()),
        wall_offset_ms: config.wall_offset_ms,
        limits: Some(config.limits),
    })
}
