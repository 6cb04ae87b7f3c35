//! The desktop's parts and how each takes an event. Nothing that a compositor says is an error here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::DesktopEvent;
use super::model::{KeyboardLayouts, Output, Place, Window, WindowId, Workspace, WorkspaceId};

/// A snapshot: cheap to clone, copied on write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desktop {
    /// Grows by one with every event that changed something; starts at 0, empty.
    pub seq: u64,
    pub outputs: Arc<Vec<Output>>,
    pub workspaces: Arc<BTreeMap<WorkspaceId, Workspace>>,
    pub windows: Arc<BTreeMap<WindowId, Arc<Window>>>,
    pub focused_window: Option<WindowId>,
    pub overview_open: bool,
    pub layouts: Arc<KeyboardLayouts>,
    /// The compositor's last reading of its configuration failed.
    pub config_failed: bool,
}

impl Desktop {
    /// Takes an event; true when anything changed.
    pub fn apply(&mut self, event: &DesktopEvent) -> bool {
        let before = Desktop { seq: 0, ..self.clone() };
        self.take(event);
        let changed = Desktop { seq: 0, ..self.clone() } != before;
        if changed {
            self.seq += 1;
        }
        changed
    }

    fn take(&mut self, event: &DesktopEvent) {
        match event {
            DesktopEvent::Workspaces(all) => {
                self.workspaces = Arc::new(all.iter().map(|w| (w.id, w.clone())).collect());
            }
            DesktopEvent::Windows { windows, focused } => {
                let old = self.windows.clone();
                // An unchanged window keeps its allocation, so that comparing snapshots stays cheap.
                let keep = |w: &Window| match old.get(&w.id) {
                    Some(known) if **known == *w => known.clone(),
                    _ => Arc::new(w.clone()),
                };
                self.windows = Arc::new(windows.iter().map(|w| (w.id, keep(w))).collect());
                self.focused_window = *focused;
            }
            DesktopEvent::WindowOpenedOrChanged { window, focused } => {
                if *focused {
                    self.focused_window = Some(window.id);
                } else if self.focused_window == Some(window.id) {
                    self.focused_window = None;
                }
                if self.windows.get(&window.id).is_none_or(|known| **known != *window) {
                    Arc::make_mut(&mut self.windows).insert(window.id, Arc::new(window.clone()));
                }
            }
            DesktopEvent::WindowClosed(id) => {
                if self.windows.contains_key(id) {
                    Arc::make_mut(&mut self.windows).remove(id);
                }
                if self.focused_window == Some(*id) {
                    self.focused_window = None;
                }
                if self.workspaces.values().any(|w| w.active_window == Some(*id)) {
                    for workspace in Arc::make_mut(&mut self.workspaces).values_mut() {
                        if workspace.active_window == Some(*id) {
                            workspace.active_window = None;
                        }
                    }
                }
            }
            DesktopEvent::FocusChanged(id) => self.focused_window = *id,
            DesktopEvent::LayoutsChanged(changes) => {
                for (id, layout) in changes {
                    self.change_window(*id, |w| w.layout = *layout);
                }
            }
            DesktopEvent::WindowUrgency { id, urgent } => self.change_window(*id, |w| w.urgent = *urgent),
            DesktopEvent::WorkspaceUrgency { id, urgent } => {
                if let Some(w) = Arc::make_mut(&mut self.workspaces).get_mut(id) {
                    w.urgent = *urgent;
                }
            }
            DesktopEvent::WorkspaceActivated { id, focused } => self.activate(*id, *focused),
            DesktopEvent::WorkspaceActiveWindow { id, window } => {
                if let Some(w) = Arc::make_mut(&mut self.workspaces).get_mut(id) {
                    w.active_window = *window;
                }
            }
            DesktopEvent::KeyboardLayouts(layouts) => self.layouts = Arc::new(layouts.clone()),
            DesktopEvent::KeyboardLayoutSwitched(index) => Arc::make_mut(&mut self.layouts).current = *index,
            DesktopEvent::Overview { open } => self.overview_open = *open,
            DesktopEvent::Outputs(outputs) => self.outputs = Arc::new(outputs.clone()),
            DesktopEvent::ConfigLoaded { failed } => self.config_failed = *failed,
            DesktopEvent::Unknown(_) => {}
        }
    }

    fn change_window(&mut self, id: WindowId, change: impl FnOnce(&mut Window)) {
        if let Some(window) = Arc::make_mut(&mut self.windows).get_mut(&id) {
            change(Arc::make_mut(window));
        }
    }

    fn activate(&mut self, id: WorkspaceId, focused: bool) {
        let Some(output) = self.workspaces.get(&id).map(|w| w.output.clone()) else { return };
        for workspace in Arc::make_mut(&mut self.workspaces).values_mut() {
            if workspace.output == output {
                workspace.active = workspace.id == id;
            }
            if focused {
                workspace.focused = workspace.id == id;
            }
        }
    }

    pub fn window(&self, id: WindowId) -> Option<&Window> {
        self.windows.get(&id).map(Arc::as_ref)
    }

    pub fn output(&self, name: &str) -> Option<&Output> {
        self.outputs.iter().find(|o| o.name == name)
    }

    pub fn focused_workspace(&self) -> Option<&Workspace> {
        self.workspaces.values().find(|w| w.focused)
    }

    /// The output of the focused workspace, else the only one there is.
    pub fn focused_output(&self) -> Option<&Output> {
        match self.focused_workspace().and_then(|w| w.output.as_deref()).and_then(|name| self.output(name)) {
            Some(output) => Some(output),
            None => self.outputs.iter().find(|o| o.logical.is_some()),
        }
    }

    /// Where the window's content begins, in layout coordinates; `None` where the compositor doesn't say.
    pub fn position(&self, window: &Window) -> Option<(f64, f64)> {
        match window.layout.place {
            Place::Unknown => None,
            Place::InLayout(x, y) => Some((x, y)),
            Place::OnOutput(x, y) => {
                let workspace = self.workspaces.get(&window.workspace_id?)?;
                let logical = self.output(workspace.output.as_deref()?)?.logical?;
                Some((f64::from(logical.x) + x, f64::from(logical.y) + y))
            }
        }
    }

    /// The windows of the workspaces that are visible on this output.
    pub fn visible_windows<'a>(&'a self, output: &'a str) -> impl Iterator<Item = &'a Window> {
        self.windows.values().map(Arc::as_ref).filter(move |w| {
            w.workspace_id
                .and_then(|id| self.workspaces.get(&id))
                // A window between workspaces may be anywhere.
                .is_none_or(|ws| ws.active && ws.output.as_deref() == Some(output))
        })
    }
}
