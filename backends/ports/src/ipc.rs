//! Conversations with a compositor over a Unix socket, for the backends that have one.
//!
//! Replies carry no ids in either compositor's protocol: one request is under way at a time, and a connection on which
//! anything went wrong is never used again.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use deskhand_core::desktop::effect::{Failure, FailureKind};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::Ticket;
use crate::peer::IpcSocket;

const READ_SIZE: usize = 256 * 1024;
/// How often a wait looks whether its call was cancelled, and how long an answer may still come after that.
const CANCEL_CHECK: Duration = Duration::from_millis(20);
const CANCEL_GRACE: Duration = Duration::from_millis(200);

/// How messages stand in a stream of bytes.
pub trait Framing: Default + Send {
    type Message: Send;

    /// Takes the first whole message off the buffer; `None` when more bytes are needed.
    fn take(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Self::Message>>;
}

/// One connection.
pub struct Wire<F> {
    stream: UnixStream,
    buffer: BytesMut,
    framing: F,
}

/// How a write failed, and whether anything had gone out by then.
#[derive(Debug)]
pub struct WriteError {
    pub anything_sent: bool,
    pub error: io::Error,
}

impl<F: Framing> Wire<F> {
    /// Connects, and makes sure that the process found before is the one that listens.
    pub async fn connect(socket: &IpcSocket) -> io::Result<Self> {
        let stream = UnixStream::connect(&socket.path).await?;
        match stream.peer_cred()?.pid() {
            Some(pid) if pid == socket.peer.pid => Ok(Self { stream, buffer: BytesMut::new(), framing: F::default() }),
            found => Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("process {} listens there instead of {}", found.unwrap_or_default(), socket.peer.pid),
            )),
        }
    }

    /// Whether the peer is still there and has sent nothing unasked.
    pub fn is_idle(&self) -> bool {
        let peeked = rustix::net::recv(&self.stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        self.buffer.is_empty() && matches!(peeked, Err(Errno::AGAIN))
    }

    /// Writes bytes that the framing's message consists of.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let anything_sent = rest.len() < bytes.len();
            match self.stream.write(rest).await {
                Ok(0) => return Err(WriteError { anything_sent, error: io::ErrorKind::WriteZero.into() }),
                Ok(n) => rest = &rest[n..],
                Err(error) => return Err(WriteError { anything_sent, error }),
            }
        }
        Ok(())
    }

    /// The next message. Nothing is lost when the future is dropped and made again.
    pub async fn read(&mut self) -> io::Result<F::Message> {
        loop {
            if let Some(message) = self.framing.take(&mut self.buffer)? {
                return Ok(message);
            }
            self.buffer.reserve(READ_SIZE);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                let what =
                    if self.buffer.is_empty() { "the connection was closed" } else { "it ended within a message" };
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
            }
        }
    }
}

/// The connection that requests share, kept open between them.
pub struct Requests<F> {
    compositor: &'static str,
    /// Empty while a request uses it.
    slot: Mutex<Option<(IpcSocket, Wire<F>)>>,
}

/// One request's bytes, and whether it acts on the desktop: then the ticket is asked just before the write, and it is
/// never sent twice.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub bytes: &'a [u8],
    pub acts: bool,
}

impl<F: Framing> Requests<F> {
    /// `compositor` is its name, for messages.
    pub fn new(compositor: &'static str) -> Self {
        Self { compositor, slot: Mutex::new(None) }
    }

    /// Sends a request to this socket and gives the reply as `understand` reads it (`None`: it is no such reply).
    pub async fn exchange<T>(
        &self,
        socket: &IpcSocket,
        outgoing: Outgoing<'_>,
        ticket: &Ticket,
        understand: impl Fn(F::Message) -> Option<T>,
    ) -> Result<T, Failure> {
        match self.attempt(socket, outgoing, ticket, &understand).await {
            Err(failure) if failure.kind == FailureKind::Lost && !outgoing.acts && !given_up(ticket) => {
                self.attempt(socket, outgoing, ticket, &understand).await
            }
            outcome => outcome,
        }
    }

    async fn attempt<T>(
        &self,
        socket: &IpcSocket,
        outgoing: Outgoing<'_>,
        ticket: &Ticket,
        understand: impl Fn(F::Message) -> Option<T>,
    ) -> Result<T, Failure> {
        let deadline = Instant::from_std(ticket.deadline);
        let mut slot = timeout_at(deadline, self.slot.lock()).await.map_err(|_| self.busy())?;

        // Taken out while it is used: whatever ends this early, half an exchange is never continued.
        let mut wire = match slot.take() {
            Some((kept_socket, wire)) if kept_socket == *socket && wire.is_idle() => wire,
            _ => self.connect(socket, deadline).await?,
        };
        if outgoing.acts
            && let Err(failure) = ticket.check()
        {
            *slot = Some((socket.clone(), wire));
            return Err(failure);
        }
        self.send(&mut wire, outgoing.bytes, deadline).await?;
        let message = self.receive(&mut wire, ticket, deadline).await?;
        let Some(reply) = understand(message) else {
            return Err(Failure::new(
                FailureKind::Lost,
                format!("{}'s answer is not understood; look at what it did", self.compositor),
            ));
        };
        *slot = Some((socket.clone(), wire));
        Ok(reply)
    }

    async fn connect(&self, socket: &IpcSocket, deadline: Instant) -> Result<Wire<F>, Failure> {
        let why = match timeout_at(deadline, Wire::connect(socket)).await {
            Ok(Ok(wire)) => return Ok(wire),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it did not accept in time".into(),
        };
        Err(Failure::new(
            FailureKind::Unavailable,
            format!(
                "{}'s socket {} can't be reached ({why}), so nothing was sent; is it running?",
                self.compositor,
                socket.path.display()
            ),
        ))
    }

    async fn send(&self, wire: &mut Wire<F>, bytes: &[u8], deadline: Instant) -> Result<(), Failure> {
        match timeout_at(deadline, wire.write(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failed)) if failed.anything_sent => Err(self.lost(&failed.error)),
            Ok(Err(failed)) => Err(Failure::new(
                FailureKind::Unavailable,
                format!("{} closed its socket before anything was sent ({})", self.compositor, failed.error),
            )),
            Err(_) => Err(self.timed_out()),
        }
    }

    async fn receive(&self, wire: &mut Wire<F>, ticket: &Ticket, deadline: Instant) -> Result<F::Message, Failure> {
        let mut cancelled_at: Option<Instant> = None;
        loop {
            match timeout_at(deadline.min(Instant::now() + CANCEL_CHECK), wire.read()).await {
                Ok(Ok(message)) => return Ok(message),
                Ok(Err(error)) => return Err(self.lost(&error)),
                Err(_) if Instant::now() >= deadline => return Err(self.timed_out()),
                Err(_) if ticket.cancelled.load(Ordering::SeqCst) => {
                    if cancelled_at.get_or_insert_with(Instant::now).elapsed() >= CANCEL_GRACE {
                        return Err(Failure::new(
                            FailureKind::Lost,
                            format!("the call was cancelled after its request had gone to {}", self.compositor),
                        ));
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn busy(&self) -> Failure {
        Failure::new(
            FailureKind::Unavailable,
            format!(
                "{0} hasn't answered an earlier request, so this one was not sent; if {0} hangs, restart it",
                self.compositor
            ),
        )
    }

    fn timed_out(&self) -> Failure {
        Failure::new(
            FailureKind::TimedOut,
            format!(
                "{} didn't answer in time and may still do what was asked; if it hangs, restart it",
                self.compositor
            ),
        )
    }

    fn lost(&self, error: &io::Error) -> Failure {
        Failure::new(
            FailureKind::Lost,
            format!(
                "{}'s connection ended before the answer came ({error}); it may or may not have happened",
                self.compositor
            ),
        )
    }
}

fn given_up(ticket: &Ticket) -> bool {
    ticket.expired() || ticket.cancelled.load(Ordering::SeqCst)
}
