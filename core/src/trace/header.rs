//! The first line: what a core must be made of to give the same outputs again.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::core::{Config, Core, Limits};
use crate::policy::{self, Policy, PolicyState};
use crate::time::Time;
use crate::tools::toolset::Toolset;

/// What a reader must know to read the file at all.
pub const FORMAT: u32 = 1;
/// Raised with every addition that older readers may ignore.
pub const REVISION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The format.
    pub deskhand_trace: u32,
    pub revision: u32,
    /// For a person: what the trace shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    #[serde(default, rename = "match", skip_serializing_if = "Matching::is_exact")]
    pub matching: Matching,
    /// Subset only: whether outputs that no line mentions are allowed.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub extra: bool,
    /// 32 bytes in hexadecimal: of this trace, never a running server's.
    pub seed: String,
    /// When the core was made, on the clock of `at`.
    #[serde(default)]
    pub now: Time,
    pub config: Setup,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    #[default]
    Exact,
    Subset,
}

impl Matching {
    fn is_exact(&self) -> bool {
        *self == Self::Exact
    }
}

/// A core's configuration, as far as it can be written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The toolset's name.
    pub toolset: String,
    pub server_version: String,
    /// The policy file's text, or the policy as an object; absent: there is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Value>,
    /// Why the policy file was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_invalid: Option<String>,
    /// The environment's say, for a policy given as text or absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrestricted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_path: Option<PathBuf>,
    /// Wall time minus the core's, in milliseconds since 1970.
    #[serde(default)]
    pub wall_offset_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Header {
    /// A fresh core; `lookup` finds a toolset by its name.
    pub fn core(&self, lookup: impl Fn(&str) -> Option<&'static Toolset>) -> Result<Core, String> {
        let config = self.config.config(lookup)?;
        Ok(Core::new(config, seed(&self.seed)?, self.now))
    }
}

impl Setup {
    fn config(&self, lookup: impl Fn(&str) -> Option<&'static Toolset>) -> Result<Config, String> {
        let toolset = lookup(&self.toolset).ok_or_else(|| format!("no toolset is named {:?}", self.toolset))?;
        let (policy, policy_state) = self.policy()?;
        Ok(Config {
            toolset,
            server_version: self.server_version.clone(),
            policy,
            policy_state,
            audit_path: self.audit_path.clone(),
            wall_offset_ms: self.wall_offset_ms,
            limits: self.limits.unwrap_or_default(),
        })
    }

    fn policy(&self) -> Result<(Policy, PolicyState), String> {
        let (policy, state) = match &self.policy {
            None => policy::read(None, self.unrestricted),
            Some(Value::String(text)) => policy::read(Some(text), self.unrestricted),
            Some(object) => {
                let policy = Policy::deserialize(object).map_err(|e| format!("the header's policy: {e}"))?;
                (policy, PolicyState::Loaded)
            }
        };
        Ok(match &self.policy_invalid {
            Some(why) => (policy, PolicyState::Invalid(why.clone())),
            None => (policy, state),
        })
    }
}

fn seed(hex: &str) -> Result<[u8; 32], String> {
    let wrong = || "seed must be 64 hexadecimal digits".to_string();
    let bytes = super::entry::from_hex(hex).ok_or_else(wrong)?;
    bytes.try_into().map_err(|_| wrong())
}
