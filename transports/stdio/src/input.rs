//! Reading a descriptor without blocking the runtime, and without changing flags that others share.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::readiness;

const CHUNK: usize = 64 << 10;
/// A buffer that one long line made larger is given back after it.
const KEPT: usize = 1 << 20;

pub(crate) enum Reader {
    Pipe(AsyncFd<OwnedFd>),
    Socket(AsyncFd<OwnedFd>),
    /// Files, terminals, another user's pipes: read on a thread of their own.
    Thread(mpsc::Receiver<io::Result<Vec<u8>>>, OwnedFd),
}

impl Reader {
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::Fifo => {
                let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
                match rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
                    Ok(own) => Ok(Self::Pipe(readiness::of(own, Interest::READABLE)?)),
                    Err(_) => Self::on_thread(fd),
                }
            }
            FileType::Socket => Ok(Self::Socket(readiness::of(fd, Interest::READABLE)?)),
            _ => Self::on_thread(fd),
        }
    }

    fn on_thread(fd: OwnedFd) -> io::Result<Self> {
        let (tx, rx) = mpsc::channel(4);
        let watched = fd.try_clone()?;
        std::thread::Builder::new().name("stdin".into()).spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = match rustix::io::read(&fd, &mut chunk) {
                    Err(rustix::io::Errno::INTR) => continue,
                    Ok(n) => {
                        chunk.truncate(n);
                        Ok(chunk)
                    }
                    Err(e) => Err(e.into()),
                };
                let last = !matches!(&read, Ok(chunk) if !chunk.is_empty());
                if tx.blocking_send(read).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(Self::Thread(rx, watched))
    }

    /// Whether the client has ended its input, be some of it still unread. A file doesn't tell.
    pub fn is_at_its_end(&self) -> bool {
        let fd = match self {
            Self::Pipe(fd) | Self::Socket(fd) => fd.get_ref(),
            Self::Thread(_, fd) => fd,
        };
        let mut fds = [PollFd::new(fd, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    /// Appends what came; 0 at the end of input.
    pub async fn read_into(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        if buffer.is_empty() && buffer.capacity() > KEPT {
            *buffer = BytesMut::new();
        }
        match self {
            Self::Thread(rx, _) => match rx.recv().await {
                None => Ok(0),
                Some(chunk) => {
                    let chunk = chunk?;
                    buffer.extend_from_slice(&chunk);
                    Ok(chunk.len())
                }
            },
            Self::Pipe(fd) => read_ready(fd, buffer, |fd, space| rustix::io::read(fd, space)).await,
            Self::Socket(fd) => read_ready(fd, buffer, |fd, space| rustix::net::recv(fd, space, RecvFlags::DONTWAIT).map(|(n, _)| n)).await,
        }
    }
}

async fn read_ready(fd: &AsyncFd<OwnedFd>, buffer: &mut BytesMut, read: impl Fn(&OwnedFd, &mut [u8]) -> rustix::io::Result<usize>) -> io::Result<usize> {
    let start = buffer.len();
    loop {
        let mut ready = fd.readable().await?;
        buffer.resize(start + CHUNK, 0);
        let got = ready.try_io(|fd| read(fd.get_ref(), &mut buffer[start..]).map_err(io::Error::from));
        match got {
            Ok(Ok(n)) => {
                buffer.truncate(start + n);
                return Ok(n);
            }
            Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => buffer.truncate(start),
            Ok(Err(e)) => {
                buffer.truncate(start);
                return Err(e);
            }
            Err(_would_block) => buffer.truncate(start),
        }
    }
}
