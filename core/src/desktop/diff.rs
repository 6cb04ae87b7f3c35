//! What differs between two snapshots, so that `patch(a, diff(a, b)) == b`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::{KeyboardLayouts, Output, Window, WindowId, Workspace};
use super::state::Desktop;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    pub to_seq: u64,
    pub outputs: Option<Arc<Vec<Output>>>,
    pub workspaces: MapDelta<Workspace>,
    pub windows: MapDelta<Arc<Window>>,
    pub focused_window: Option<Option<WindowId>>,
    pub overview_open: Option<bool>,
    pub layouts: Option<Arc<KeyboardLayouts>>,
    pub config_failed: Option<bool>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MapDelta<T> {
    /// New or different, whole.
    pub set: BTreeMap<u64, T>,
    pub gone: Vec<u64>,
}

impl<T> Default for MapDelta<T> {
    fn default() -> Self {
        Self { set: BTreeMap::new(), gone: Vec::new() }
    }
}

impl<T> MapDelta<T> {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.gone.is_empty()
    }
}

impl Delta {
    pub fn is_empty(&self) -> bool {
        self.outputs.is_none()
            && self.workspaces.is_empty()
            && self.windows.is_empty()
            && self.focused_window.is_none()
            && self.overview_open.is_none()
            && self.layouts.is_none()
            && self.config_failed.is_none()
    }
}

pub fn diff(a: &Desktop, b: &Desktop) -> Delta {
    fn changed<T: PartialEq + Clone>(a: &T, b: &T) -> Option<T> {
        (a != b).then(|| b.clone())
    }
    Delta {
        to_seq: b.seq,
        outputs: changed(&a.outputs, &b.outputs),
        workspaces: map_diff(&a.workspaces, &b.workspaces),
        windows: map_diff(&a.windows, &b.windows),
        focused_window: changed(&a.focused_window, &b.focused_window),
        overview_open: changed(&a.overview_open, &b.overview_open),
        layouts: changed(&a.layouts, &b.layouts),
        config_failed: changed(&a.config_failed, &b.config_failed),
    }
}

pub fn patch(a: &Desktop, delta: &Delta) -> Desktop {
    Desktop {
        seq: delta.to_seq,
        outputs: delta.outputs.clone().unwrap_or_else(|| a.outputs.clone()),
        workspaces: map_patch(&a.workspaces, &delta.workspaces),
        windows: map_patch(&a.windows, &delta.windows),
        focused_window: delta.focused_window.unwrap_or(a.focused_window),
        overview_open: delta.overview_open.unwrap_or(a.overview_open),
        layouts: delta.layouts.clone().unwrap_or_else(|| a.layouts.clone()),
        config_failed: delta.config_failed.unwrap_or(a.config_failed),
    }
}

fn map_diff<T: PartialEq + Clone>(a: &Arc<BTreeMap<u64, T>>, b: &Arc<BTreeMap<u64, T>>) -> MapDelta<T> {
    if Arc::ptr_eq(a, b) {
        return MapDelta::default();
    }
    MapDelta {
        set: b.iter().filter(|(id, new)| a.get(id) != Some(new)).map(|(id, new)| (*id, new.clone())).collect(),
        gone: a.keys().filter(|id| !b.contains_key(id)).copied().collect(),
    }
}

fn map_patch<T: Clone>(a: &Arc<BTreeMap<u64, T>>, delta: &MapDelta<T>) -> Arc<BTreeMap<u64, T>> {
    if delta.is_empty() {
        return a.clone();
    }
    let mut map = BTreeMap::clone(a);
    for id in &delta.gone {
        map.remove(id);
    }
    map.extend(delta.set.iter().map(|(id, v)| (*id, v.clone())));
    Arc::new(map)
}
