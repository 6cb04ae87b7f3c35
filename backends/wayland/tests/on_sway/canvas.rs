//! A client that fills an output with four coloured quarters and notes what input it gets.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deskhand_core::desktop::geometry::Transform;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wayland_client::protocol::*;
use wayland_client::{Connection, Dispatch, QueueHandle, delegate_noop};
use wayland_protocols_wlr::layer_shell::v1::client::{zwlr_layer_shell_v1, zwlr_layer_surface_v1};

/// Upright: top left, top right, bottom left, bottom right, as RGB.
pub const QUARTERS: [[u8; 3]; 4] = [[200, 0, 0], [0, 200, 0], [0, 0, 200], [200, 200, 200]];

#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    Motion(f64, f64),
    Button(u32, bool),
    Axis(u32, f64, i32),
    Key(u32, bool),
    Modifiers(u32),
}

pub enum Paint {
    /// x, y, width, height in the surface's units, and a grey.
    Rect(i32, i32, i32, i32, u8),
}

pub struct Canvas {
    pub seen: Arc<Mutex<Vec<Seen>>>,
    paint: Sender<Paint>,
    /// As wl_output says it; sway's own names for rotations differ.
    pub transform: Transform,
}

impl Canvas {
    /// Returns once the surface is mapped. `keyboard`: takes the keyboard focus too.
    pub fn open(socket: &Path, output: &str, keyboard: bool) -> Self {
        let (paint, paints) = channel();
        let (mapped, ready) = channel();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (socket, output, notes) = (socket.to_owned(), output.to_owned(), seen.clone());
        std::thread::spawn(move || run(&socket, &output, keyboard, notes, &paints, &mapped));
        let transform = ready
            .recv_timeout(Duration::from_secs(10))
            .expect("the canvas is mapped");
        Self {
            seen,
            paint,
            transform,
        }
    }

    pub fn paint(&self, what: Paint) {
        self.paint.send(what).unwrap();
    }

    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

struct State {
    compositor: Option<wl_compositor::WlCompositor>,
    shm: Option<wl_shm::WlShm>,
    shell: Option<zwlr_layer_shell_v1::ZwlrLayerShellV1>,
    outputs: Vec<(wl_output::WlOutput, String, Transform)>,
    size: Option<(i32, i32)>,
    framed: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
    axis: (u32, f64, i32),
}

fn run(
    socket: &Path,
    output: &str,
    keyboard: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
    paints: &Receiver<Paint>,
    mapped: &Sender<Transform>,
) {
    let connection = Connection::from_socket(UnixStream::connect(socket).unwrap()).unwrap();
    let mut queue = connection.new_event_queue::<State>();
    let handle = queue.handle();
    connection.display().get_registry(&handle, ());
    let mut state = State {
        compositor: None,
        shm: None,
        shell: None,
        outputs: vec![],
        size: None,
        framed: false,
        seen,
        axis: (0, 0.0, 0),
    };
    queue.roundtrip(&mut state).unwrap();
    queue.roundtrip(&mut state).unwrap();
    let surface = state
        .compositor
        .as_ref()
        .unwrap()
        .create_surface(&handle, ());
    let target = state.outputs.iter().find(|(_, name, _)| name == output);
    let transform = target.map_or(Transform::Normal, |(_, _, transform)| *transform);
    let target = target.map(|(proxy, ..)| proxy.clone());
    let layer = zwlr_layer_shell_v1::Layer::Overlay;
    let shell = state.shell.as_ref().unwrap();
    let layered = shell.get_layer_surface(
        &surface,
        target.as_ref(),
        layer,
        "canvas".into(),
        &handle,
        (),
    );
    layered.set_anchor(zwlr_layer_surface_v1::Anchor::all());
    layered.set_exclusive_zone(-1);
    if keyboard {
        layered.set_keyboard_interactivity(zwlr_layer_surface_v1::KeyboardInteractivity::Exclusive);
    }
    surface.commit();
    while state.size.is_none() {
        queue.blocking_dispatch(&mut state).unwrap();
    }
    let (width, height) = state.size.unwrap();
    let bytes = width * height * 4;
    let file =
        File::from(rustix::fs::memfd_create("canvas", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes as u64).unwrap();
    let mut picture = vec![0u8; bytes as usize];
    for y in 0..height {
        for x in 0..width {
            let [r, g, b] =
                QUARTERS[usize::from(x >= width / 2) + 2 * usize::from(y >= height / 2)];
            let at = (y * width + x) as usize * 4;
            picture[at..at + 4].copy_from_slice(&[b, g, r, 255]);
        }
    }
    file.write_all_at(&picture, 0).unwrap();
    let pool = state
        .shm
        .as_ref()
        .unwrap()
        .create_pool(file.as_fd(), bytes, &handle, ());
    let buffer = pool.create_buffer(
        0,
        width,
        height,
        width * 4,
        wl_shm::Format::Xrgb8888,
        &handle,
        (),
    );
    surface.attach(Some(&buffer), 0, 0);
    surface.damage_buffer(0, 0, width, height);
    surface.frame(&handle, ());
    surface.commit();
    while !state.framed {
        queue.blocking_dispatch(&mut state).unwrap();
    }
    mapped.send(transform).unwrap();
    loop {
        match paints.try_recv() {
            Ok(Paint::Rect(x, y, w, h, grey)) => {
                for row in y..y + h {
                    file.write_all_at(&vec![grey; w as usize * 4], ((row * width + x) * 4) as u64)
                        .unwrap();
                }
                surface.attach(Some(&buffer), 0, 0);
                surface.damage_buffer(x, y, w, h);
                surface.commit();
            }
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
            Err(std::sync::mpsc::TryRecvError::Empty) => {}
        }
        if queue.dispatch_pending(&mut state).is_err() || queue.flush().is_err() {
            return;
        }
        let Some(guard) = queue.prepare_read() else {
            continue;
        };
        let soon = Timespec {
            tv_sec: 0,
            tv_nsec: 5_000_000,
        };
        let fd = guard.connection_fd();
        let readable =
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&soon)).is_ok_and(|ready| ready > 0);
        if readable && guard.read().is_err() {
            return;
        }
    }
}

impl Dispatch<wl_registry::WlRegistry, ()> for State {
    fn event(
        state: &mut Self,
        registry: &wl_registry::WlRegistry,
        event: wl_registry::Event,
        _: &(),
        _: &Connection,
        queue: &QueueHandle<Self>,
    ) {
        let wl_registry::Event::Global {
            name, interface, ..
        } = event
        else {
            return;
        };
        match interface.as_str() {
            "wl_compositor" => state.compositor = Some(registry.bind(name, 4, queue, ())),
            "wl_shm" => state.shm = Some(registry.bind(name, 1, queue, ())),
            "zwlr_layer_shell_v1" => state.shell = Some(registry.bind(name, 1, queue, ())),
            "wl_output" => {
                let proxy = registry.bind(name, 4, queue, state.outputs.len());
                state
                    .outputs
                    .push((proxy, String::new(), Transform::Normal));
            }
            "wl_seat" => {
                registry.bind::<wl_seat::WlSeat, _, _>(name, 5, queue, ());
            }
            _ => {}
        }
    }
}

impl Dispatch<wl_output::WlOutput, usize> for State {
    fn event(
        state: &mut Self,
        _: &wl_output::WlOutput,
        event: wl_output::Event,
        at: &usize,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        match event {
            wl_output::Event::Name { name } => state.outputs[*at].1 = name,
            wl_output::Event::Geometry {
                transform: wayland_client::WEnum::Value(transform),
                ..
            } => {
                state.outputs[*at].2 = Transform::from_wl(transform as u32).unwrap();
            }
            _ => {}
        }
    }
}

impl Dispatch<zwlr_layer_surface_v1::ZwlrLayerSurfaceV1, ()> for State {
    fn event(
        state: &mut Self,
        proxy: &zwlr_layer_surface_v1::ZwlrLayerSurfaceV1,
        event: zwlr_layer_surface_v1::Event,
        _: &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        if let zwlr_layer_surface_v1::Event::Configure {
            serial,
            width,
            height,
        } = event
        {
            proxy.ack_configure(serial);
            state.size = Some((width as i32, height as i32));
        }
    }
}

impl Dispatch<wl_callback::WlCallback, ()> for State {
    fn event(
        state: &mut Self,
        _: &wl_callback::WlCallback,
        _: wl_callback::Event,
        _: &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        state.framed = true;
    }
}

impl Dispatch<wl_seat::WlSeat, ()> for State {
    fn event(
        _: &mut Self,
        seat: &wl_seat::WlSeat,
        event: wl_seat::Event,
        _: &(),
        _: &Connection,
        queue: &QueueHandle<Self>,
    ) {
        let wl_seat::Event::Capabilities {
            capabilities: wayland_client::WEnum::Value(capabilities),
        } = event
        else {
            return;
        };
        if capabilities.contains(wl_seat::Capability::Pointer) {
            seat.get_pointer(queue, ());
        }
        if capabilities.contains(wl_seat::Capability::Keyboard) {
            seat.get_keyboard(queue, ());
        }
    }
}

impl Dispatch<wl_pointer::WlPointer, ()> for State {
    fn event(
        state: &mut Self,
        _: &wl_pointer::WlPointer,
        event: wl_pointer::Event,
        _: &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        use wayland_client::WEnum::Value;
        let mut seen = state.seen.lock().unwrap();
        match event {
            wl_pointer::Event::Enter {
                surface_x: x,
                surface_y: y,
                ..
            }
            | wl_pointer::Event::Motion {
                surface_x: x,
                surface_y: y,
                ..
            } => seen.push(Seen::Motion(x, y)),
            wl_pointer::Event::Button {
                button,
                state: Value(pressed),
                ..
            } => {
                seen.push(Seen::Button(
                    button,
                    pressed == wl_pointer::ButtonState::Pressed,
                ));
            }
            wl_pointer::Event::AxisDiscrete { discrete, .. } => state.axis.2 = discrete,
            wl_pointer::Event::Axis {
                axis: Value(axis),
                value,
                ..
            } => (state.axis.0, state.axis.1) = (axis as u32, value),
            wl_pointer::Event::Frame if state.axis.1 != 0.0 => {
                let (axis, value, discrete) = std::mem::take(&mut state.axis);
                seen.push(Seen::Axis(axis, value, discrete));
            }
            _ => {}
        }
    }
}

impl Dispatch<wl_keyboard::WlKeyboard, ()> for State {
    fn event(
        state: &mut Self,
        _: &wl_keyboard::WlKeyboard,
        event: wl_keyboard::Event,
        _: &(),
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
        use wayland_client::WEnum::Value;
        let mut seen = state.seen.lock().unwrap();
        match event {
            wl_keyboard::Event::Key {
                key,
                state: Value(pressed),
                ..
            } => {
                seen.push(Seen::Key(key, pressed == wl_keyboard::KeyState::Pressed));
            }
            wl_keyboard::Event::Modifiers { mods_depressed, .. } => {
                seen.push(Seen::Modifiers(mods_depressed))
            }
            _ => {}
        }
    }
}

delegate_noop!(State: ignore wl_shm::WlShm);
delegate_noop!(State: ignore wl_buffer::WlBuffer);
delegate_noop!(State: ignore wl_surface::WlSurface);
delegate_noop!(State: wl_compositor::WlCompositor);
delegate_noop!(State: wl_shm_pool::WlShmPool);
delegate_noop!(State: zwlr_layer_shell_v1::ZwlrLayerShellV1);
