//! `element_changes`: what became of a window's elements during an action.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::elements::{access_window, everything, list, readable};
use super::screenshot;
use crate::desktop::elements::Identity;
use crate::desktop::model::WindowId;
use crate::engine::cx::Cx;
use crate::tools::args::Args;
use crate::tools::facts::Refused;

/// GTK 4 acts up to 250 ms after it was asked.
const LOOKS: u32 = 3;
const BETWEEN_MS: u64 = 120;
/// So many of each kind are told; the rest is counted.
const SHOWN: usize = 20;

/// A window's elements before the action, or why they aren't known.
pub struct Watched {
    window: WindowId,
    lease: Option<String>,
    before: Result<Seen, String>,
}

type Seen = BTreeMap<Identity, Vec<String>>;

impl Watched {
    pub async fn begin(cx: &Cx, args: &Args, window: Option<WindowId>) -> Self {
        let lease = screenshot::lease_of(cx, args);
        let Some(window) = window else {
            return Self { window: 0, lease, before: Err("which window the action is about isn't known; give expect or an element".into()) };
        };
        Self { window, lease, before: seen(cx, window).await.map_err(|refused| refused.sentence()) }
    }

    /// `added`, `removed` and `changed`; `None` when nothing was seen to change.
    pub async fn end(&self, cx: &Cx) -> Result<Option<Value>, String> {
        let before = self.before.as_ref().map_err(Clone::clone)?;
        for look in 0..LOOKS {
            if look > 0 && cx.sleep(BETWEEN_MS).await.is_err() {
                break;
            }
            if cx.world(|w| w.desktop.window(self.window).is_none()) {
                return Err("the window closed".into());
            }
            let after = seen(cx, self.window).await.map_err(|refused| refused.sentence())?;
            if after != *before {
                return Ok(Some(self.told(cx, before, &after)));
            }
        }
        Ok(None)
    }

    fn told(&self, cx: &Cx, before: &Seen, after: &Seen) -> Value {
        let one = |identity: &Identity| {
            let reference = cx.world(|w| w.elements.name(self.lease.as_deref(), self.window, identity));
            json!({"ref": reference, "role": identity.role, "name": identity.name.chars().take(160).collect::<String>()})
        };
        let added: Vec<Value> = after.keys().filter(|id| !before.contains_key(id)).map(one).collect();
        let removed: Vec<Value> = before.keys().filter(|id| !after.contains_key(id)).map(one).collect();
        let changed: Vec<Value> = after
            .iter()
            .filter_map(|(id, states)| before.get(id).filter(|old| *old != states).map(|old| (id, states, old)))
            .map(|(id, states, old)| {
                let mut told = one(id);
                told["states_set"] = states.iter().filter(|s| !old.contains(s)).map(|s| json!(s)).collect();
                told["states_cleared"] = old.iter().filter(|s| !states.contains(s)).map(|s| json!(s)).collect();
                told
            })
            .collect();
        let mut map = Map::new();
        let mut more = 0;
        for (key, mut list) in [("added", added), ("removed", removed), ("changed", changed)] {
            more += list.len().saturating_sub(SHOWN);
            list.truncate(SHOWN);
            map.insert(key.into(), Value::Array(list));
        }
        if more > 0 {
            map.insert("more".into(), json!(more));
        }
        Value::Object(map)
    }
}

async fn seen(cx: &Cx, window: WindowId) -> Result<Seen, Refused> {
    let of = cx.world(|w| readable(w, window).and_then(|()| access_window(&w.desktop, window)))?;
    let listing = list(cx, everything(of)).await?;
    Ok(listing.elements.into_iter().map(|e| (e.identity, e.states)).collect())
}
