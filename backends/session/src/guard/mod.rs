//! The guard: our own program, started again, that releases what a dead or hung server held.

mod channel;
mod process;
mod server;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{Failure, FailureKind};
use deskhand_ports::{PressJournal, Pressed};

use self::channel::Message;
pub use self::process::run;
use crate::inherited;
use crate::journal::Journal;
use crate::paths::Paths;

/// A guard that lived this long was sound: its successor is started at once.
const SOUND: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The server's side of the guard. A guard that dies is replaced; while there is none nothing may be pressed.
///
/// Dropping it without [`goodbye`](Self::goodbye) is to the guard as if the server died.
#[derive(Debug)]
pub struct Guard {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    exe: PathBuf,
    args: Vec<OsString>,
    paths: Paths,
    journal: Journal,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` while there is no guard.
    channel: Option<OwnedFd>,
    pid: Option<u32>,
    /// The lease's lock, shared with the guard while it is held.
    lease: Option<OwnedFd>,
    closing: bool,
}

impl Guard {
    /// Starts `exe args...`, which must call [`run`]. Pass `/proc/self/exe`: that is this very program even after an
    /// upgrade replaced its file. Doesn't wait for the guard to come up: what is sent to it is not lost meanwhile.
    pub fn spawn<A: AsRef<OsStr>>(exe: &Path, args: &[A], paths: &Paths) -> Result<Self, Failure> {
        let unavailable = |detail| Failure::new(FailureKind::Unavailable, detail);
        paths.prepare().map_err(unavailable)?;
        inherited::close_on_exec();
        let journal = Journal::create(paths).map_err(|e| {
            unavailable(format!(
                "the journal in {} can't be made: {}",
                paths.instance().display(),
                crate::files::with_remedy(&e)
            ))
        })?;
        let inner = Arc::new(Inner {
            exe: exe.to_owned(),
            args: args.iter().map(|arg| arg.as_ref().to_owned()).collect(),
            paths: paths.clone(),
            journal,
            state: Mutex::default(),
        });
        let child =
            inner.start().map_err(|e| unavailable(format!("the guard {} can't be started: {e}", exe.display())))?;
        let watched = Arc::downgrade(&inner);
        std::thread::Builder::new()
            .name("guard".into())
            .spawn(move || watch_over(child, &watched))
            .map_err(|e| unavailable(format!("the guard can't be watched: {e}")))?;
        Ok(Self { inner })
    }

    /// The core has handled a stop: the guard needn't kill this server. Due within 300 ms of the stop while the lease is
    /// held or something is pressed.
    pub fn stop_acknowledged(&self) {
        let state = self.inner.lock();
        if let Some(channel) = &state.channel
            && let Err(error) = channel::send(channel, &Message::StopAcknowledged, None)
        {
            tracing::warn!(%error, "the guard could not be told that the stop was handled");
        }
    }

    /// The server ends in good order, with nothing pressed and the lease given back: the guard ends too and releases
    /// nothing.
    pub fn goodbye(&self) {
        let mut state = self.inner.lock();
        state.closing = true;
        state.lease = None;
        if let Some(channel) = state.channel.take() {
            let _ = channel::send(&channel, &Message::Goodbye, None);
        }
    }

    /// The guard's process id; `None` while there is none.
    pub fn pid(&self) -> Option<u32> {
        let state = self.inner.lock();
        state.channel.as_ref().and(state.pid)
    }

    /// Whether a guard is there; the reason when not.
    pub fn check(&self) -> Result<(), Failure> {
        self.inner.lock().check()
    }

    /// From now on the guard holds the lock too, so that nobody gets it before it has released what we held.
    pub(crate) fn share_lease(&self, lock: &OwnedFd) -> Result<(), Failure> {
        let mut state = self.inner.lock();
        state.check()?;
        let shared = lock.try_clone().map_err(|e| lost(&e.to_string()))?;
        if let Some(channel) = &state.channel {
            channel::send(channel, &Message::Lease, Some(shared.as_fd())).map_err(|e| lost(&e.to_string()))?;
        }
        state.lease = Some(shared);
        Ok(())
    }

    pub(crate) fn lease_gone(&self) {
        let mut state = self.inner.lock();
        state.lease = None;
        if let Some(channel) = &state.channel {
            let _ = channel::send(channel, &Message::LeaseGone, None);
        }
    }
}

impl PressJournal for Guard {
    fn pressing(&self, what: Pressed) -> Result<(), Failure> {
        self.inner.lock().check()?;
        self.inner.journal.pressing(what).map_err(|e| {
            Failure::new(
                FailureKind::Unavailable,
                format!("the guard's journal can't be written ({e}); nothing was pressed"),
            )
        })
    }

    fn released(&self, what: Pressed) {
        if let Err(error) = self.inner.journal.released(what) {
            tracing::warn!(%error, "a release could not be noted in the guard's journal");
        }
    }
}

impl State {
    fn check(&mut self) -> Result<(), Failure> {
        if self.channel.as_ref().is_some_and(channel::hung_up) {
            self.channel = None;
        }
        match &self.channel {
            Some(_) => Ok(()),
            None => Err(lost("it ended")),
        }
    }
}

fn lost(why: &str) -> Failure {
    Failure::new(
        FailureKind::Unavailable,
        format!(
            "the guard process is not there ({why}), so nothing may be pressed; it is being started again, try again in a moment"
        ),
    )
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> io::Result<Child> {
        let mut state = self.lock();
        if state.closing {
            return Err(io::Error::other("the server is ending"));
        }
        let (ours, theirs) = channel::pair()?;
        let hello = Message::Hello {
            server_pid: std::process::id(),
            paths: Box::new(self.paths.clone()),
            journal: self.journal.path().to_owned(),
        };
        channel::send(&ours, &hello, Some(self.journal.file().as_fd()))?;
        if let Some(lease) = &state.lease {
            channel::send(&ours, &Message::Lease, Some(lease.as_fd()))?;
        }
        // Nothing of the server's but the channel: an MCP client waits for the end of the server's output.
        let child = Command::new(&self.exe)
            .args(&self.args)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        state.channel = Some(ours);
        state.pid = Some(child.id());
        Ok(child)
    }
}

/// Takes away guards that ended and starts their successors, until the server says goodbye or drops its side.
fn watch_over(mut child: Child, inner: &Weak<Inner>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        let ended = child.wait();
        if started.elapsed() >= SOUND {
            pause = FIRST_PAUSE;
        }
        loop {
            {
                let Some(inner) = inner.upgrade() else { return };
                let mut state = inner.lock();
                state.channel = None;
                if state.closing {
                    return;
                }
            }
            tracing::warn!(?ended, "the guard ended; it is started again");
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            let Some(inner) = inner.upgrade() else { return };
            match inner.start() {
                Ok(started) => {
                    child = started;
                    break;
                }
                Err(error) => tracing::warn!(%error, "the guard could not be started again"),
            }
        }
    }
}
