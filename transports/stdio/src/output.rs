//! The queue of answers and its way out. Bounded by the reader's pace: past a bound the input isn't read.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use deskhand_core::Route;
use deskhand_core::rpc::body::Body;
use deskhand_driver::Sink;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::readiness;

/// With more than this unwritten, nothing more is read.
const FULL: usize = 4 << 20;
const SLICES: usize = 64;
/// Small answers are gathered into one piece up to this size.
const GATHER: usize = 32 << 10;

pub(crate) struct Writer {
    queue: Mutex<Queue>,
    queued: AtomicUsize,
    /// Nobody reads any more.
    broken: Arc<AtomicBool>,
    way: Way,
    /// Something was queued, or the queue moved.
    pending: Notify,
    moved: Arc<Notify>,
}

#[derive(Default)]
struct Queue {
    segments: VecDeque<Bytes>,
    gathered: Vec<u8>,
}

enum Way {
    Pipe(AsyncFd<OwnedFd>),
    Socket(AsyncFd<OwnedFd>),
    /// Files and terminals: written by a thread that is told through this.
    Thread(std::sync::mpsc::Sender<Bytes>, Arc<AtomicUsize>),
}

impl Writer {
    pub fn new(fd: OwnedFd) -> io::Result<Arc<Self>> {
        let (broken, moved) = (Arc::<AtomicBool>::default(), Arc::<Notify>::default());
        let by_thread = |fd| thread(fd, broken.clone(), moved.clone());
        let way = match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::Fifo => {
                let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
                match rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
                    Ok(own) => Way::Pipe(readiness::of(own, Interest::WRITABLE)?),
                    Err(_) => by_thread(fd)?,
                }
            }
            FileType::Socket => Way::Socket(readiness::of(fd, Interest::WRITABLE)?),
            _ => by_thread(fd)?,
        };
        Ok(Arc::new(Self {
            queue: Mutex::default(),
            queued: AtomicUsize::new(0),
            broken,
            way,
            pending: Notify::new(),
            moved,
        }))
    }

    pub fn is_full(&self) -> bool {
        self.unwritten() > FULL
    }

    pub fn unwritten(&self) -> usize {
        let written_later = match &self.way {
            Way::Thread(_, left) => left.load(Ordering::Acquire),
            _ => 0,
        };
        self.queued.load(Ordering::Acquire) + written_later
    }

    /// False once nobody reads any more.
    pub fn is_read(&self) -> bool {
        !self.is_broken()
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// The client doesn't read: nothing more is written.
    pub fn give_up(&self) {
        self.broken.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }

    /// Waits until nobody reads any more.
    pub async fn broken(&self) {
        loop {
            let moved = self.moved.notified();
            if self.is_broken() {
                return;
            }
            moved.await;
        }
    }

    /// Waits until the queue moved, at most for `limit`; returns at once when it isn't full.
    pub async fn moved(&self, limit: Duration) {
        let moved = self.moved.notified();
        if self.is_full() && self.is_read() {
            let _ = tokio::time::timeout(limit, moved).await;
        }
    }

    /// Waits until all is written, at most for `limit`.
    pub async fn drained(&self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        while self.unwritten() > 0 && !self.is_broken() && tokio::time::Instant::now() < end {
            self.flush();
            let moved = self.moved.notified();
            let _ = tokio::time::timeout(Duration::from_millis(5), moved).await;
        }
    }

    /// Writes what the descriptor takes now.
    pub fn flush(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.seal();
        while !queue.segments.is_empty() {
            match self.write(&mut queue) {
                Ok(0) => break,
                Ok(n) => {
                    queue.advance(n);
                    self.queued.fetch_sub(n, Ordering::AcqRel);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    queue.segments.clear();
                    self.queued.store(0, Ordering::Release);
                    self.broken.store(true, Ordering::Release);
                }
            }
        }
        self.moved.notify_waiters();
    }

    fn write(&self, queue: &mut Queue) -> io::Result<usize> {
        if let Way::Thread(tx, left) = &self.way {
            let Some(segment) = queue.segments.front().cloned() else { return Ok(0) };
            let len = segment.len();
            left.fetch_add(len, Ordering::AcqRel);
            tx.send(segment).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            return Ok(len);
        }
        let slices: Vec<IoSlice> = queue.segments.iter().take(SLICES).map(|s| IoSlice::new(s)).collect();
        match &self.way {
            Way::Pipe(fd) => Ok(rustix::io::writev(fd.get_ref(), &slices)?),
            Way::Socket(fd) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                Ok(rustix::net::sendmsg(fd.get_ref(), &slices, &mut SendAncillaryBuffer::default(), flags)?)
            }
            Way::Thread(..) => Ok(0),
        }
    }

    /// Writes what others queue, whenever the descriptor takes it.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.pending.notified().await;
            self.flush();
            while self.queued.load(Ordering::Acquire) > 0 && !self.is_broken() {
                let (Way::Pipe(fd) | Way::Socket(fd)) = &self.way else { break };
                match fd.writable().await {
                    Ok(mut ready) => {
                        let before = self.queued.load(Ordering::Acquire);
                        self.flush();
                        if self.queued.load(Ordering::Acquire) >= before && before > 0 {
                            ready.clear_ready();
                        }
                    }
                    Err(_) => return,
                }
            }
        }
    }
}

impl Queue {
    fn seal(&mut self) {
        if !self.gathered.is_empty() {
            self.segments.push_back(Bytes::from(std::mem::take(&mut self.gathered)));
        }
    }

    fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let Some(first) = self.segments.front_mut() else { return };
            if first.len() > n {
                first.advance(n);
                return;
            }
            n -= first.len();
            self.segments.pop_front();
        }
    }
}

impl Sink for Writer {
    fn send(&self, _: Route, body: Body) {
        if self.is_broken() {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.queued.fetch_add(body.len() + 1, Ordering::AcqRel);
        for segment in body.segments() {
            if segment.len() < GATHER {
                queue.gathered.extend_from_slice(segment);
            } else {
                queue.seal();
                queue.segments.push_back(segment.clone());
            }
        }
        queue.gathered.push(b'\n');
        if queue.gathered.len() > GATHER {
            queue.seal();
        }
        drop(queue);
        self.pending.notify_one();
    }

    fn close(&self) {
        self.give_up();
    }
}

fn thread(fd: OwnedFd, broken: Arc<AtomicBool>, moved: Arc<Notify>) -> io::Result<Way> {
    let (tx, rx) = std::sync::mpsc::channel::<Bytes>();
    let left = Arc::new(AtomicUsize::new(0));
    let shared = left.clone();
    std::thread::Builder::new().name("stdout".into()).spawn(move || {
        while let Ok(segment) = rx.recv() {
            let mut rest = &segment[..];
            while !rest.is_empty() {
                match rustix::io::write(&fd, rest) {
                    Ok(n) => rest = &rest[n..],
                    Err(rustix::io::Errno::INTR) => {}
                    // A terminal shared with a client that set it not to block.
                    Err(rustix::io::Errno::AGAIN) => std::thread::sleep(Duration::from_millis(5)),
                    Err(_) => {
                        broken.store(true, Ordering::Release);
                        moved.notify_waiters();
                        return;
                    }
                }
            }
            shared.fetch_sub(segment.len(), Ordering::AcqRel);
            moved.notify_waiters();
        }
    })?;
    Ok(Way::Thread(tx, left))
}
