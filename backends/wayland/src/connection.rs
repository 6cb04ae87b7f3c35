//! One connection to the compositor that never blocks past a deadline, and its keeper that makes it again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use deskhand_ports::peer::Backoff;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
};
use wayland_client::backend::WaylandError;
use wayland_client::{Connection, DispatchError, EventQueue, QueueHandle};

use crate::wire::{Role, Wire};

/// How long a compositor may take to list its globals.
const GREETING: Duration = Duration::from_secs(3);

/// Why a connection ended.
#[derive(Clone, Debug)]
pub(crate) struct LinkDown(pub String);

/// A live connection with its event queue.
pub(crate) struct Link {
    connection: Connection,
    queue: EventQueue<Wire>,
    pub wire: Wire,
    /// The compositor's process id.
    pub peer: i32,
    next_key: u64,
}

impl Link {
    /// Connects without waiting for an answer; the globals come with later steps.
    pub fn open(path: &Path, role: Role) -> Result<Self, LinkDown> {
        let stream = connect_now(path).map_err(|error| {
            LinkDown(format!(
                "can't connect to the compositor at {}: {error}",
                path.display()
            ))
        })?;
        let peer = deskhand_ports::peer::peer_pid(&stream).unwrap_or(0);
        let connection =
            Connection::from_socket(stream).map_err(|error| LinkDown(error.to_string()))?;
        let queue = connection.new_event_queue();
        connection.display().get_registry(&queue.handle(), ());
        Ok(Self {
            connection,
            queue,
            wire: Wire::new(role),
            peer,
            next_key: 0,
        })
    }

    pub fn handle(&self) -> QueueHandle<Wire> {
        self.queue.handle()
    }

    /// A number that this connection hasn't used.
    pub fn fresh_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    /// Asks for a sign that everything sent so far was handled; `is_synced` will say so.
    pub fn sync(&mut self) -> u64 {
        let key = self.fresh_key();
        self.connection.display().sync(&self.queue.handle(), key);
        key
    }

    /// Whether the sign of that `sync` came.
    pub fn is_synced(&self, key: u64) -> bool {
        self.wire.synced_up_to >= key
    }

    /// Sends what is queued and handles what comes in, until something came, `wake` rings, or `until`.
    pub fn step(&mut self, until: Instant, wake: Option<BorrowedFd<'_>>) -> Result<(), LinkDown> {
        if self.dispatch()? > 0 {
            self.flush()?;
            return Ok(());
        }
        let all_sent = self.flush()?;
        let Some(guard) = self.queue.prepare_read() else {
            return Ok(());
        };
        let wanted = if all_sent {
            PollFlags::IN
        } else {
            PollFlags::IN | PollFlags::OUT
        };
        let readable = {
            let fd = guard.connection_fd();
            let mut fds = vec![PollFd::new(&fd, wanted)];
            if let Some(wake) = &wake {
                fds.push(PollFd::new(wake, PollFlags::IN));
            }
            wait(&mut fds, until).map_err(|error| LinkDown(error.to_string()))?;
            fds[0]
                .revents()
                .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
        };
        if readable {
            match guard.read() {
                Ok(_) => {}
                Err(WaylandError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(self.describe(&error.to_string())),
            }
        } else {
            drop(guard);
        }
        self.dispatch()?;
        Ok(())
    }

    fn dispatch(&mut self) -> Result<usize, LinkDown> {
        match self.queue.dispatch_pending(&mut self.wire) {
            Ok(count) => Ok(count),
            Err(DispatchError::Backend(error)) => Err(self.describe(&error.to_string())),
            Err(error) => Err(LinkDown(error.to_string())),
        }
    }

    /// Whether everything queued is with the kernel now.
    pub fn flush(&self) -> Result<bool, LinkDown> {
        match self.connection.flush() {
            Ok(()) => Ok(true),
            Err(WaylandError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.describe(&error.to_string())),
        }
    }

    fn describe(&self, error: &str) -> LinkDown {
        match self.connection.protocol_error() {
            Some(protocol) => LinkDown(format!(
                "the compositor ended the connection: {} (error {} on {})",
                protocol.message, protocol.code, protocol.object_interface
            )),
            None => LinkDown(format!(
                "the connection to the compositor was lost: {error}"
            )),
        }
    }
}

fn connect_now(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    // Non-blocking: a compositor that hangs with a full backlog must not hang us.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&fd, &address)?;
    Ok(UnixStream::from(fd))
}

/// Polls until a descriptor is ready or the time is there; an interruption counts as a wake-up.
fn wait(fds: &mut [PollFd<'_>], until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec {
        tv_sec: left.as_secs().min(3600) as i64,
        tv_nsec: left.subsec_nanos().into(),
    };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the keeper's owner must know.
pub(crate) enum Change {
    Up,
    Down(String),
}

enum Phase {
    /// `detail` is `None` before the first attempt.
    Down {
        retry_at: Instant,
        detail: Option<String>,
    },
    /// Two syncs: the globals, then what the outputs bound by them say.
    Greeting {
        link: Link,
        key: u64,
        second: bool,
        until: Instant,
    },
    Up(Link),
}

/// Keeps one connection up: greets, notices the loss, tries again with growing pauses.
pub(crate) struct Keeper {
    path: PathBuf,
    role: Role,
    phase: Phase,
    backoff: Backoff,
    told_down: bool,
}

impl Keeper {
    pub fn new(path: PathBuf, role: Role) -> Self {
        let phase = Phase::Down {
            retry_at: Instant::now(),
            detail: None,
        };
        Self {
            path,
            role,
            phase,
            backoff: Backoff::default(),
            told_down: false,
        }
    }

    /// The connection, once it is greeted.
    pub fn link(&mut self) -> Option<&mut Link> {
        match &mut self.phase {
            Phase::Up(link) => Some(link),
            _ => None,
        }
    }

    /// Why there is no connection; `None` while it is up or being made.
    pub fn down_reason(&self) -> Option<&str> {
        match &self.phase {
            Phase::Down { detail, .. } => detail.as_deref(),
            _ => None,
        }
    }

    /// The connection is of no use any more.
    pub fn lose(&mut self, detail: String) -> Change {
        self.phase = Phase::Down {
            retry_at: Instant::now() + self.backoff.next_delay(),
            detail: Some(detail.clone()),
        };
        self.told_down = true;
        Change::Down(detail)
    }

    /// Waits for events, `wake` or `until`, and moves the connection's life on.
    pub fn step(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Option<Change> {
        match &mut self.phase {
            Phase::Up(link) => match link.step(until, Some(wake)) {
                Ok(()) => None,
                Err(LinkDown(detail)) => Some(self.lose(detail)),
            },
            Phase::Down { retry_at, .. } => {
                let retry_at = *retry_at;
                if Instant::now() < retry_at {
                    let fd = wake.as_fd();
                    let _ = wait(&mut [PollFd::new(&fd, PollFlags::IN)], until.min(retry_at));
                    return None;
                }
                self.reconnect()
            }
            Phase::Greeting { .. } => self.greet(until, wake),
        }
    }

    fn reconnect(&mut self) -> Option<Change> {
        match Link::open(&self.path, self.role) {
            Ok(mut link) => {
                let key = link.sync();
                self.phase = Phase::Greeting {
                    link,
                    key,
                    second: false,
                    until: Instant::now() + GREETING,
                };
                None
            }
            Err(LinkDown(detail)) => self.tell_down(detail),
        }
    }

    fn greet(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Option<Change> {
        let Phase::Greeting {
            link,
            key,
            second,
            until: limit,
        } = &mut self.phase
        else {
            return None;
        };
        if let Err(LinkDown(detail)) = link.step(until.min(*limit), Some(wake)) {
            return self.tell_down(detail);
        }
        if link.is_synced(*key) {
            if !*second {
                (*key, *second) = (link.sync(), true);
                return None;
            }
            let down = Phase::Down {
                retry_at: Instant::now(),
                detail: None,
            };
            if let Phase::Greeting { link, .. } = std::mem::replace(&mut self.phase, down) {
                self.phase = Phase::Up(link);
            }
            self.backoff.reset();
            self.told_down = false;
            return Some(Change::Up);
        }
        if Instant::now() >= *limit {
            return self.tell_down("the compositor doesn't answer; it may hang".into());
        }
        None
    }

    /// Says it once per outage.
    fn tell_down(&mut self, detail: String) -> Option<Change> {
        let told = self.told_down;
        let change = self.lose(detail);
        (!told).then_some(change)
    }
}
