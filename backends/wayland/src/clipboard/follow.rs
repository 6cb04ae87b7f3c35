//! The thread that follows the clipboard: what is copied, and since when.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use deskhand_core::desktop::effect::{Copied, Failure, FailureKind};
use tokio::sync::oneshot;

use super::types::{PASSWORD_HINT, text_type};
use crate::connection::{Change, Keeper};
use crate::mailbox::Inbox;
use crate::release::roundtrip;
use crate::wire::Role;

/// How long the compositor may take to tell of a selection that was set before.
const SETTLING: Duration = Duration::from_millis(500);

/// What a look at the clipboard leads to.
pub(super) enum Found {
    Answer(Copied),
    /// Its owner writes into these.
    Text { hint: Option<OwnedFd>, text: OwnedFd, mime: String },
}

pub(super) enum Command {
    Read { within: Duration, deadline: Instant, reply: oneshot::Sender<Result<Found, Failure>> },
    /// From now on the clipboard is lent to a paste: what it held keeps its age.
    Lend,
    /// It holds what it held before, or, `replaced`, somebody's newer copy.
    Back { replaced: bool },
    Stop,
}

pub(super) struct Follower {
    keeper: Keeper,
    waiting: VecDeque<(Duration, Instant, oneshot::Sender<Result<Found, Failure>>)>,
    /// Why there is no clipboard though there is a compositor.
    missing: Option<String>,
    /// The age of what the clipboard held when it was lent.
    lent: Option<Option<Instant>>,
}

impl Follower {
    pub fn new(socket: PathBuf) -> Self {
        Self { keeper: Keeper::new(socket, Role::Clipboard), waiting: VecDeque::new(), missing: None, lent: None }
    }

    pub fn run(mut self, inbox: &Inbox<Command>) {
        loop {
            inbox.hush();
            while let Some(command) = inbox.next() {
                match command {
                    Command::Read { within, deadline, reply } => self.waiting.push_back((within, deadline, reply)),
                    Command::Lend => self.lent = self.keeper.link().map(|link| link.wire.control.clipboard.since),
                    Command::Back { replaced } => self.back(replaced),
                    Command::Stop => return,
                }
            }
            self.serve();
            let until = self.waiting.iter().map(|(_, deadline, _)| *deadline).min();
            let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(60));
            if let Some(Change::Up) = self.keeper.step(until, inbox.as_fd()) {
                self.came_up();
            }
        }
    }

    fn came_up(&mut self) {
        self.lent = None;
        let Some(link) = self.keeper.link() else { return };
        let queue = link.handle();
        self.missing = link.wire.control.start(link.wire.seat.as_ref(), &queue).err();
        // What is there already is of an unknown age.
        match roundtrip(link, Instant::now() + SETTLING) {
            Ok(()) => link.wire.control.settled = true,
            Err(detail) => drop(self.keeper.lose(detail)),
        }
    }

    fn back(&mut self, replaced: bool) {
        let (Some(since), Some(link)) = (self.lent.take(), self.keeper.link()) else { return };
        // The selection that was put back is told by now, and with the next sync has come.
        if !replaced && roundtrip(link, Instant::now() + SETTLING).is_ok() {
            link.wire.control.clipboard.since = since;
        }
    }

    fn serve(&mut self) {
        while let Some((within, deadline, reply)) = self.waiting.pop_front() {
            let unavailable = |detail: String| Err(Failure::new(FailureKind::Unavailable, detail));
            let answer = match (self.keeper.down_reason(), &self.missing) {
                (Some(why), _) => unavailable(why.to_owned()),
                (None, Some(why)) => unavailable(why.clone()),
                (None, None) => match self.look(within) {
                    Some(answer) => answer,
                    None if Instant::now() < deadline => {
                        self.waiting.push_front((within, deadline, reply));
                        return;
                    }
                    None => Err(Failure::new(FailureKind::TimedOut, "the compositor doesn't answer; it may hang")),
                },
            };
            let _ = reply.send(answer);
        }
    }

    /// `None` while the connection is being made.
    fn look(&mut self, within: Duration) -> Option<Result<Found, Failure>> {
        let link = self.keeper.link()?;
        let selection = &link.wire.control.clipboard;
        if selection.offer().is_none() {
            return Some(Ok(Found::Answer(Copied::NothingCopied)));
        }
        if selection.since.is_none_or(|since| since.elapsed() > within) {
            return Some(Ok(Found::Answer(Copied::BeforeLease)));
        }
        let Some(mime) = text_type(&selection.types).map(str::to_owned) else {
            return Some(Ok(Found::Answer(Copied::NotText)));
        };
        let hinted = selection.types.iter().any(|one| one == PASSWORD_HINT);
        let wanted: Vec<&str> = hinted.then_some(PASSWORD_HINT).into_iter().chain([mime.as_str()]).collect();
        let mut ends = match selection.receive(&wanted) {
            Ok(ends) => ends,
            Err(error) => return Some(Err(Failure::new(FailureKind::Refused, format!("no pipe can be made: {error}")))),
        };
        if let Err(down) = link.flush() {
            return Some(Err(Failure::new(FailureKind::Unavailable, down.0)));
        }
        let text = ends.pop()?;
        Some(Ok(Found::Text { hint: ends.pop(), text, mime }))
    }
}
