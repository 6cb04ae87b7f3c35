//! The outputs as wl_output and xdg-output tell them, coming and going.

use deskhand_core::desktop::geometry::Transform;
use wayland_client::protocol::wl_output::{self, WlOutput};
use wayland_client::protocol::wl_registry::WlRegistry;
use wayland_client::{Connection, Dispatch, Proxy, QueueHandle, WEnum};
use wayland_protocols::xdg::xdg_output::zv1::client::{
    zxdg_output_manager_v1::ZxdgOutputManagerV1,
    zxdg_output_v1::{self, ZxdgOutputV1},
};

use crate::wire::Wire;

/// One output; sizes in pixels of its mode and in logical units.
pub(crate) struct OutputEntry {
    pub global: u32,
    pub proxy: WlOutput,
    extra: Option<ZxdgOutputV1>,
    pub name: Option<String>,
    /// The size of its raw buffer.
    pub mode: Option<(u32, u32)>,
    pub transform: Transform,
    /// Its upright size in the layout.
    pub logical: Option<(u32, u32)>,
}

#[derive(Default)]
pub(crate) struct Outputs {
    entries: Vec<OutputEntry>,
    manager: Option<ZxdgOutputManagerV1>,
}

impl Outputs {
    pub fn find(&self, name: &str) -> Option<&OutputEntry> {
        self.entries
            .iter()
            .find(|entry| entry.name.as_deref() == Some(name))
    }

    pub fn names(&self) -> Vec<String> {
        self.entries
            .iter()
            .filter_map(|entry| entry.name.clone())
            .collect()
    }

    /// For an error: what there is instead of the output that was asked for.
    pub fn describe(&self) -> String {
        let names = self.names();
        if names.is_empty() {
            "there are no outputs now".into()
        } else {
            format!("there are: {}", names.join(", "))
        }
    }

    pub fn bind(
        &mut self,
        registry: &WlRegistry,
        global: u32,
        version: u32,
        queue: &QueueHandle<Wire>,
    ) {
        let proxy: WlOutput = registry.bind(global, version.min(4), queue, global);
        let extra = self
            .manager
            .as_ref()
            .map(|manager| manager.get_xdg_output(&proxy, queue, global));
        self.entries.push(OutputEntry {
            global,
            proxy,
            extra,
            name: None,
            mode: None,
            transform: Transform::Normal,
            logical: None,
        });
    }

    pub fn use_manager(&mut self, manager: ZxdgOutputManagerV1, queue: &QueueHandle<Wire>) {
        for entry in &mut self.entries {
            if entry.extra.is_none() {
                entry.extra = Some(manager.get_xdg_output(&entry.proxy, queue, entry.global));
            }
        }
        self.manager = Some(manager);
    }

    pub fn remove(&mut self, global: u32) {
        let Some(at) = self.entries.iter().position(|entry| entry.global == global) else {
            return;
        };
        let gone = self.entries.remove(at);
        if let Some(extra) = gone.extra {
            extra.destroy();
        }
        if gone.proxy.version() >= 3 {
            gone.proxy.release();
        }
    }

    fn entry(&mut self, global: u32) -> Option<&mut OutputEntry> {
        self.entries.iter_mut().find(|entry| entry.global == global)
    }
}

impl Dispatch<WlOutput, u32> for Wire {
    fn event(
        wire: &mut Self,
        _: &WlOutput,
        event: wl_output::Event,
        global: &u32,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        let Some(entry) = wire.outputs.entry(*global) else {
            return;
        };
        match event {
            wl_output::Event::Name { name } => entry.name = Some(name),
            wl_output::Event::Geometry {
                transform: WEnum::Value(transform),
                ..
            } => {
                entry.transform = Transform::from_wl(transform as u32).unwrap_or_default();
            }
            wl_output::Event::Mode {
                flags: WEnum::Value(flags),
                width,
                height,
                ..
            } if flags.contains(wl_output::Mode::Current) => {
                entry.mode = u32::try_from(width).ok().zip(u32::try_from(height).ok());
            }
            _ => {}
        }
    }
}

impl Dispatch<ZxdgOutputV1, u32> for Wire {
    fn event(
        wire: &mut Self,
        _: &ZxdgOutputV1,
        event: zxdg_output_v1::Event,
        global: &u32,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        let Some(entry) = wire.outputs.entry(*global) else {
            return;
        };
        match event {
            // wl_output's own name is newer and stands before this one.
            zxdg_output_v1::Event::Name { name } if entry.name.is_none() => entry.name = Some(name),
            zxdg_output_v1::Event::LogicalSize { width, height } => {
                entry.logical = u32::try_from(width).ok().zip(u32::try_from(height).ok());
            }
            _ => {}
        }
    }
}
