//! The clipboard: reading it, and lending it to a text that is pasted.
//!
//! A selection lives no longer than its owner, so whoever pastes must save what is copied, offer the text, and afterwards
//! own the saved data until somebody copies anew, even when the server has ended, or was killed in the middle. All of
//! that is done by one process that is made for one paste, the [caretaker](care): our own program, started again.
//!
//! 1. The caretaker saves every offered type, and says so. Nothing has changed yet.
//! 2. When the server's permission still holds, the caretaker offers the text, marked as a password.
//! 3. The server presses the keys; the caretaker says when the text was read, and by whom.
//! 4. The caretaker offers what it saved, and lives on as its owner until the next copy, as `wl-copy` does.
//!
//! The server's death, at any moment, is the end of file on the caretaker's socket, and means step 4 at once: what is
//! saved is never in one process alone that still has to hand it over. It isn't the guard's work, for a guard that
//! serves pipes of other programs could be late in releasing keys, and must end with its server, which the owner of a
//! selection must not.
//!
//! Whose copy is it? A selection that replaces ours is the person's and stays, unless it holds our own text: then a
//! clipboard manager took the text over, and it is put away as ours would be. Whose reading counts? The pipe that a reader
//! made is among the open files of its process: a clipboard manager's doesn't count when the pasting window's process is
//! known.
//!
//! How old is what is copied? A [follower](follow) of the selections, always connected, notes when each came. What was
//! there before it, and what is put back after a paste, are as old as they were.

mod caretaker;
mod control;
mod follow;
mod lend;
mod pipes;
mod process;
mod types;
mod words;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deskhand_core::desktop::effect::{ClipboardRequest, Copied, Failure, FailureKind, Outcome, PutBack, Reply};
use deskhand_ports::{Clipboard, Ticket};
use tokio::sync::oneshot;

pub(crate) use self::control::{Control, INTERFACES};
use self::follow::{Command, Follower, Found};
use self::lend::Lent;
use self::pipes::{Unread, drain};
pub use self::process::care;
use self::types::{decode, is_secret};
use crate::mailbox::{Mailbox, mailbox};
use crate::reply::fail;

/// How long the owner of what is copied may take to hand it over.
const OWNER: Duration = Duration::from_secs(2);

/// The clipboard of the compositor behind one Wayland socket.
pub struct WaylandClipboard {
    socket: PathBuf,
    program: PathBuf,
    follower: Mailbox<Command>,
    /// The paste under way.
    lent: Arc<tokio::sync::Mutex<Option<Lent>>>,
}

impl WaylandClipboard {
    /// Starts to follow the clipboard and returns at once. `program clipboard --socket SOCKET` must call [`care`].
    pub fn start(socket: PathBuf, program: PathBuf) -> io::Result<Self> {
        let (follower, inbox) = mailbox()?;
        let following = Follower::new(socket.clone());
        thread::Builder::new().name("deskhand-clipboard".into()).spawn(move || following.run(&inbox))?;
        Ok(Self { socket, program, follower, lent: Arc::default() })
    }

    async fn read(&self, within_ms: u64, max_bytes: usize, ticket: &Ticket) -> Outcome {
        ticket.check()?;
        let (reply, found) = oneshot::channel();
        self.follower.send(Command::Read { within: Duration::from_millis(within_ms), deadline: ticket.deadline, reply });
        let Ok(found) = found.await else { return fail(FailureKind::Lost, "the clipboard thread ended; restart deskhand") };
        let (hint, text, mime) = match found? {
            Found::Answer(answer) => return Ok(Reply::Copied(answer)),
            Found::Text { hint, text, mime } => (hint, text, mime),
        };
        let deadline = ticket.deadline.min(Instant::now() + OWNER);
        let read = tokio::task::spawn_blocking(move || {
            if let Some(hint) = hint
                && is_secret(&drain(vec![hint], 1024, deadline)?.concat())
            {
                return Ok(Copied::Secret);
            }
            Ok(decode(&mime, drain(vec![text], max_bytes, deadline)?.concat()).map_or(Copied::NotText, Copied::Text))
        });
        match read.await {
            Ok(Ok(copied)) => Ok(Reply::Copied(copied)),
            Ok(Err(Unread::TooLarge)) => Ok(Reply::Copied(Copied::TooLarge)),
            Ok(Err(Unread::TooSlow)) => fail(FailureKind::TimedOut, "the app that owns the clipboard didn't hand its content over in time"),
            Ok(Err(Unread::Failed)) | Err(_) => fail(FailureKind::Refused, "the clipboard's content could not be read"),
        }
    }

    async fn offer(&self, text: String, primary: bool, reader: Option<i32>, ticket: &Ticket) -> Outcome {
        let mut lent = self.lent.lock().await;
        if let Some(earlier) = lent.take() {
            self.end(earlier).await?;
        }
        ticket.check()?;
        self.follower.send(Command::Lend);
        let task = words::Task { text_bytes: text.len(), primary, reader };
        match Lent::start(&self.program, &self.socket, &task, text, ticket).await {
            Ok(now) => {
                *lent = Some(now);
                Ok(Reply::Done)
            }
            Err(failure) => {
                // Dropping it made the caretaker put back what it may have replaced.
                self.follower.send(Command::Back { replaced: false });
                Err(failure)
            }
        }
    }

    async fn end(&self, lent: Lent) -> Result<Reply, Failure> {
        let ended = lent.put_back().await;
        let replaced = matches!(ended, Ok(PutBack::Replaced));
        self.follower.send(Command::Back { replaced });
        ended.map(Reply::PutBack)
    }
}

impl Drop for WaylandClipboard {
    fn drop(&mut self) {
        self.follower.send(Command::Stop);
    }
}

#[async_trait]
impl Clipboard for WaylandClipboard {
    async fn request(&self, request: ClipboardRequest, ticket: Ticket) -> Outcome {
        match request {
            ClipboardRequest::Read { within_ms, max_bytes } => self.read(within_ms, max_bytes, &ticket).await,
            ClipboardRequest::Offer { text, primary, reader } => self.offer(text, primary, reader, &ticket).await,
            ClipboardRequest::AwaitReader { max_ms } => match &mut *self.lent.lock().await {
                Some(lent) => lent.await_reader(max_ms, &ticket).await,
                None => fail(FailureKind::NotFound, "nothing is offered"),
            },
            ClipboardRequest::Restore => match self.lent.lock().await.take() {
                Some(lent) => self.end(lent).await,
                None => Ok(Reply::Done),
            },
        }
    }
}
