//! One client's connection as others see it: what it is doing since when, and how it is ended from outside.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Milliseconds since the server's start.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now_ms(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

pub(crate) struct Link {
    pub number: u64,
    /// The address it came in on; `None` on a unix socket.
    pub local: Option<IpAddr>,
    clock: Clock,
    phase: AtomicU8,
    since: AtomicU64,
    /// Since when the client takes nothing; 0 when it does.
    stuck_since: AtomicU64,
    ending: AtomicU8,
    body_expired: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Whose request came last.
    principal: Mutex<Option<Arc<str>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between requests.
    Idle,
    /// A part of a head has come.
    Head,
    Body,
    /// A request is served, or its answer is being written.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    No,
    /// After the request under way.
    Soon,
    Now,
}

impl Link {
    pub fn new(number: u64, local: Option<IpAddr>, clock: Clock) -> Self {
        Self {
            number,
            local,
            clock,
            phase: AtomicU8::new(Phase::Idle as u8),
            since: AtomicU64::new(clock.now_ms()),
            stuck_since: AtomicU64::new(0),
            ending: AtomicU8::new(Ending::No as u8),
            body_expired: AtomicBool::new(false),
            waker: Mutex::default(),
            principal: Mutex::default(),
        }
    }

    pub fn phase(&self) -> (Phase, u64) {
        let phase = match self.phase.load(Ordering::Acquire) {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Body,
            _ => Phase::Busy,
        };
        (phase, self.since.load(Ordering::Relaxed))
    }

    pub fn enter(&self, phase: Phase) {
        self.since.store(self.clock.now_ms(), Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Since when there is nothing to do on it.
    pub fn idle_since(&self) -> Option<u64> {
        match self.phase() {
            (Phase::Idle, since) if self.stuck_since().is_none() => Some(since),
            _ => None,
        }
    }

    pub fn stuck_since(&self) -> Option<u64> {
        Some(self.stuck_since.load(Ordering::Relaxed)).filter(|ms| *ms > 0)
    }

    pub fn end(&self, how: Ending) {
        self.end_as(how as u8);
    }

    /// By an `Ending`'s number.
    pub fn end_as(&self, how: u8) {
        self.ending.fetch_max(how, Ordering::AcqRel);
        self.wake();
    }

    pub fn ending(&self) -> Ending {
        match self.ending.load(Ordering::Acquire) {
            0 => Ending::No,
            1 => Ending::Soon,
            _ => Ending::Now,
        }
    }

    /// The body took too long; whoever reads it is woken.
    pub fn expire_body(&self) {
        self.body_expired.store(true, Ordering::Release);
        self.wake();
    }

    pub fn has_body_expired(&self) -> bool {
        self.body_expired.load(Ordering::Acquire)
    }

    /// By the connection's own task, whenever it is polled.
    pub fn register(&self, waker: &Waker) {
        let mut mine = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if mine.as_ref().is_none_or(|w| !w.will_wake(waker)) {
            *mine = Some(waker.clone());
        }
    }

    pub fn set_principal(&self, principal: &Arc<str>) {
        let mut mine = self.principal.lock().unwrap_or_else(PoisonError::into_inner);
        if mine.as_ref().is_none_or(|p| !Arc::ptr_eq(p, principal)) {
            *mine = Some(principal.clone());
        }
    }

    pub fn principal(&self) -> Option<Arc<str>> {
        self.principal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn read_some(&self) {
        if self.phase.load(Ordering::Relaxed) == Phase::Idle as u8 {
            self.enter(Phase::Head);
        }
    }

    fn wrote<T>(&self, result: &Poll<io::Result<T>>) {
        match result {
            Poll::Pending if self.stuck_since.load(Ordering::Relaxed) == 0 => self.stuck_since.store(self.clock.now_ms().max(1), Ordering::Relaxed),
            Poll::Ready(_) if self.stuck_since.load(Ordering::Relaxed) > 0 => {
                self.stuck_since.store(0, Ordering::Relaxed);
                // The end of a long answer is written after its request counts as done.
                self.since.store(self.clock.now_ms(), Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// While it lives a request is under way on the connection.
pub(crate) struct Busy(Arc<Link>);

impl Busy {
    pub fn new(link: Arc<Link>) -> Self {
        link.enter(Phase::Busy);
        Self(link)
    }

    pub fn link(&self) -> &Arc<Link> {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

/// A socket whose link is told what happens on it.
pub(crate) struct Watched {
    pub socket: Socket,
    pub link: Arc<Link>,
}

macro_rules! on_socket {
    ($self:ident, $method:ident ( $($arg:expr),* )) => {
        match &mut $self.socket {
            Socket::Tcp(s) => Pin::new(s).$method($($arg),*),
            Socket::Unix(s) => Pin::new(s).$method($($arg),*),
        }
    };
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = on_socket!(self, poll_read(cx, buf));
        if buf.filled().len() > before {
            self.link.read_some();
        }
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = on_socket!(self, poll_write(cx, buf));
        self.link.wrote(&result);
        result
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let result = on_socket!(self, poll_write_vectored(cx, bufs));
        self.link.wrote(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, poll_shutdown(cx))
    }
}
