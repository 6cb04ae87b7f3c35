//! Finds the session's compositor and puts driver and backends together around the core.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use deskhand_atspi::AtSpi;
use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_core::desktop::event::{Availability, CompositorInfo, CompositorKind, CompositorState, Observation};
use deskhand_core::policy::Accessibility;
use deskhand_core::toolsets::desktop::DESKTOP;
use deskhand_core::{Config, Input, Limits};
use deskhand_driver::{Audit, Driver, Tap, wall_offset_ms};
use deskhand_niri::Niri;
use deskhand_ports::{Compositor, Observe, PressJournal, Pressed};
use deskhand_session::{AuditFile, Bus, Guard, Session, Variables};
use deskhand_sway::Sway;
use deskhand_wayland::{WaylandClipboard, WaylandScreen, WaylandSeat};
use tokio::sync::mpsc;

use crate::environment::Place;
use crate::effects::Executor;

/// How long the first answers wait for what the accessibility bus says.
const ACCESSIBILITY_WAIT: std::time::Duration = std::time::Duration::from_millis(300);

/// What a server of this process has: keep it for as long as it serves.
pub struct Edges {
    pub driver: Arc<Driver>,
    shared: Arc<Shared>,
}

struct Shared {
    place: Place,
    executor: Arc<Executor>,
    driver: OnceLock<Weak<Driver>>,
    journal: Arc<Journal>,
    found: mpsc::UnboundedSender<CompositorInfo>,
    /// Whether leases may be taken: a process that only looks needs no guard.
    acts: bool,
}

/// The policy's and the audit log's say, and who listens.
pub struct Setting {
    pub audit: bool,
    pub acts: bool,
    pub tap: Option<Box<dyn Tap>>,
}

/// The core's configuration from the environment.
pub fn config(place: &Place) -> Config {
    let (policy, policy_state) = place.policy();
    Config {
        toolset: &DESKTOP,
        server_version: env!("CARGO_PKG_VERSION").to_string(),
        policy,
        policy_state,
        audit_path: Some(place.paths("").audit_log().to_path_buf()),
        wall_offset_ms: wall_offset_ms(),
        limits: Limits::default(),
    }
}

impl Edges {
    /// Inside a tokio runtime. Returns at once; what is found comes as observations.
    pub fn start(place: Place, setting: Setting) -> Self {
        let executor = Executor::new(tokio::runtime::Handle::current());
        let audit = setting.audit.then(|| Arc::new(AuditLog::new(place.paths("").audit_log())));
        let driver = Driver::start(config(&place), executor.clone(), audit.clone().map(|log| log as Arc<dyn Audit>), setting.tap);
        executor.attach(&driver);
        let (found, instances) = mpsc::unbounded_channel();
        // A log that can't be written is known before the first call that would act.
        if let Some(log) = &audit
            && let Err(why) = log.prepare()
        {
            driver.handle(Input::AuditWritten(Err(why)));
        }
        let shared = Arc::new(Shared {
            place,
            executor,
            driver: OnceLock::new(),
            journal: Arc::default(),
            found,
            acts: setting.acts,
        });
        let _ = shared.driver.set(Arc::downgrade(&driver));
        // Off the path to the first answer.
        tokio::spawn(shared.clone().connect(instances));
        Self { driver, shared }
    }

    /// Leases are given back, keys released, the guard told that all is well.
    pub async fn end(self, limit: std::time::Duration) {
        self.driver.handle(Input::Shutdown);
        let quiet = self.driver.wait_until(limit, deskhand_core::Core::is_idle).await;
        if quiet && let Some(guard) = self.shared.journal.guard() {
            guard.goodbye();
        }
    }
}

impl Shared {
    async fn connect(self: Arc<Self>, mut instances: mpsc::UnboundedReceiver<CompositorInfo>) {
        let observe = self.observer();
        let accessibility = self.connect_accessibility(&observe);
        let compositor = self.find_compositor(&observe);
        self.executor.change(|b| b.compositor = Some(compositor));
        match self.place.sockets.wayland_socket() {
            Ok(socket) => self.connect_display(socket, &observe),
            Err(why) => {
                observe(Observation::Screen(Availability::Down { detail: why.clone() }));
                observe(Observation::Seat(Availability::Down { detail: why }));
            }
        }
        // Without the stop flag's state nothing is listed yet: the first list is to have the elements' tools already.
        let _ = tokio::time::timeout(ACCESSIBILITY_WAIT, accessibility.told()).await;
        let mut present: Option<(String, Arc<Session>)> = None;
        while let Some(info) = instances.recv().await {
            if present.as_ref().is_some_and(|(instance, _)| *instance == info.instance) {
                continue;
            }
            let session = Arc::new(self.clone().attach(&info, &observe).await);
            self.executor.change(|b| b.session = Some(session.clone()));
            present = Some((info.instance, session));
        }
    }

    /// The compositor whose process serves the display; niri where none is found yet.
    fn find_compositor(&self, observe: &Observe) -> Arc<dyn Compositor> {
        let sockets = &self.place.sockets;
        let fits = |found: Result<deskhand_ports::peer::IpcSocket, String>| found.is_ok_and(|socket| socket.matches.is_ok());
        let sway = !fits(deskhand_niri::find(sockets))
            && (fits(deskhand_sway::find(sockets)) || (sockets.niri_socket.is_none() && sockets.sway_socket.is_some()));
        if sway {
            Arc::new(Sway::start(sockets.clone(), observe.clone()))
        } else {
            Arc::new(Niri::start(sockets.clone(), observe.clone()))
        }
    }

    /// Uses the accessibility bus of the session whose message bus the environment names.
    fn connect_accessibility(&self, observe: &Observe) -> Arc<AtSpi> {
        // Who only looks switches nothing on.
        let enable = self.acts && self.place.policy().0.accessibility == Accessibility::Enable;
        let accessibility = Arc::new(AtSpi::start(self.place.session_bus(), enable, observe.clone()));
        self.executor.change(|b| b.access = Some(accessibility.clone()));
        accessibility
    }

    fn connect_display(&self, socket: PathBuf, observe: &Observe) {
        let down = |e: std::io::Error| Availability::Down { detail: format!("a thread couldn't be started: {e}") };
        match WaylandScreen::start(socket.clone(), observe.clone()) {
            Ok(screen) => self.executor.change(|b| b.screen = Some(Arc::new(screen))),
            Err(e) => observe(Observation::Screen(down(e))),
        }
        match WaylandClipboard::start(socket.clone(), "/proc/self/exe".into()) {
            Ok(clipboard) => self.executor.change(|b| b.clipboard = Some(Arc::new(clipboard))),
            Err(error) => tracing::error!(%error, "the clipboard can't be followed"),
        }
        match WaylandSeat::start(socket, observe.clone(), self.journal.clone()) {
            Ok(seat) => self.executor.change(|b| b.seat = Some(Arc::new(seat))),
            Err(e) => observe(Observation::Seat(down(e))),
        }
    }

    /// The machine-wide side of this run of the compositor: lock, stop flag, guard, lock state.
    async fn attach(self: Arc<Self>, info: &CompositorInfo, observe: &Observe) -> Session {
        let paths = self.place.paths(&info.instance);
        let guard = if self.acts { self.start_guard(&paths).await } else { None };
        if let Some(old) = self.journal.replace(guard.clone()) {
            old.goodbye();
        }
        let environment: Variables = std::env::vars_os().collect();
        let session = Session::start(paths, observe.clone(), guard, environment);
        if let Ok(display) = deskhand_ports::peer::display(&self.place.sockets)
            && let Ok(pid) = u32::try_from(display.peer.pid)
        {
            session.follow_lock(Bus::System, pid, info.kind);
        }
        session
    }

    async fn start_guard(&self, paths: &deskhand_session::Paths) -> Option<Arc<Guard>> {
        let socket = self.place.sockets.wayland_socket().ok()?;
        let paths = paths.clone();
        let started = tokio::task::spawn_blocking(move || {
            let args = ["guard".as_ref(), "--socket".as_ref(), socket.as_os_str()];
            Guard::spawn(Path::new("/proc/self/exe"), &args, &paths)
        });
        match started.await {
            Ok(Ok(guard)) => Some(Arc::new(guard)),
            Ok(Err(failure)) => {
                tracing::error!(%failure, "there is no guard; nothing will be pressed");
                None
            }
            Err(e) => {
                tracing::error!(error = %e, "there is no guard; nothing will be pressed");
                None
            }
        }
    }

    fn observer(self: &Arc<Self>) -> Observe {
        let shared = self.clone();
        Arc::new(move |observation| {
            let Some(driver) = shared.driver.get().and_then(Weak::upgrade) else { return };
            let stopped = matches!(observation, Observation::Stop { set: true } | Observation::StopUnwatched { .. });
            let up = match &observation {
                Observation::Compositor(CompositorState::Up(info)) => Some(info.clone()),
                _ => None,
            };
            driver.handle(Input::Observed(observation));
            if let Some(info) = up {
                let _ = shared.found.send(info);
            }
            if stopped && let Some(guard) = shared.journal.guard() {
                guard.stop_acknowledged();
            }
        })
    }
}

/// The present run's guard; without one nothing may be pressed.
#[derive(Default)]
struct Journal(Mutex<Option<Arc<Guard>>>);

impl Journal {
    fn guard(&self) -> Option<Arc<Guard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, guard: Option<Arc<Guard>>) -> Option<Arc<Guard>> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), guard)
    }
}

impl PressJournal for Journal {
    fn pressing(&self, what: Pressed) -> Result<(), Failure> {
        match self.guard() {
            Some(guard) => guard.pressing(what),
            None => Err(Failure::new(
                FailureKind::Unavailable,
                "the guard process that would release held keys isn't there, so nothing is pressed; see the server's log on stderr",
            )),
        }
    }

    fn released(&self, what: Pressed) {
        if let Some(guard) = self.guard() {
            guard.released(what);
        }
    }
}

/// Opened at the start, or else at the first line for which it can be.
struct AuditLog {
    path: PathBuf,
    file: Mutex<Option<AuditFile>>,
}

impl AuditLog {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: Mutex::new(None) }
    }

    /// Opens it before the first line.
    fn prepare(&self) -> Result<(), String> {
        let opened = AuditFile::open(&self.path)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }
}

impl Audit for AuditLog {
    fn write(&self, line: &serde_json::Value) -> Result<(), String> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = Some(AuditFile::open(&self.path)?);
        }
        match file.as_mut() {
            Some(open) => open.append(&line.to_string()),
            None => Ok(()),
        }
    }
}

/// Which compositor the environment leads to, for `doctor`.
pub fn compositor_kind(place: &Place) -> Option<CompositorKind> {
    if deskhand_niri::find(&place.sockets).is_ok() {
        Some(CompositorKind::Niri)
    } else if deskhand_sway::find(&place.sockets).is_ok() {
        Some(CompositorKind::Sway)
    } else {
        None
    }
}
