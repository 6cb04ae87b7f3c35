//! The input thread: one request at a time at the virtual keyboard and pointers, on its own connection.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deskhand_core::desktop::effect::{Failure, FailureKind, Outcome, Reply, SeatRequest};
use deskhand_core::desktop::event::{Availability, Observation};
use deskhand_ports::{Observe, PressJournal, Seat, Ticket};

use crate::connection::{Change, Keeper, LinkDown};
use crate::hands::Hands;
use crate::ledger::Ledger;
use crate::mailbox::{Inbox, Mailbox, mailbox};
use crate::pace::Pace;
use crate::release;
use crate::reply::{ReplySlot, fail, outcome_of};
use crate::wire::Role;

/// How soon a cancelled request is noticed while the compositor works.
const CANCEL_SLICE: Duration = Duration::from_millis(10);
/// After a cancellation, how long the compositor may still confirm what was sent.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// At the end, how long the compositor may take to confirm that nothing is down.
const FAREWELL: Duration = Duration::from_millis(200);
/// Chunks that may be on their way without a confirmation.
const MOST_UNCONFIRMED: usize = 8;

pub(crate) enum Command {
    Request {
        request: SeatRequest,
        ticket: Ticket,
        reply: ReplySlot,
    },
    Stop,
}

/// The virtual keyboard and pointers of the compositor behind one Wayland socket.
pub struct WaylandSeat {
    mailbox: Mailbox<Command>,
    requests: Arc<AtomicU64>,
}

impl WaylandSeat {
    /// Starts the input thread and returns at once; the connection's fate comes as [`Observation::Seat`].
    pub fn start(
        socket: PathBuf,
        observe: Observe,
        journal: Arc<dyn PressJournal>,
    ) -> io::Result<Self> {
        let (mailbox, inbox) = mailbox()?;
        let requests = Arc::new(AtomicU64::new(0));
        let input = Input {
            keeper: Keeper::new(socket, Role::Input),
            hands: Hands::new(requests.clone()),
            ledger: Ledger::new(journal),
            requests: requests.clone(),
            waiting: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            pace: Pace::new(Instant::now()),
            peer: 0,
            observe,
        };
        thread::Builder::new()
            .name("deskhand-input".into())
            .spawn(move || input.run(&inbox))?;
        Ok(Self { mailbox, requests })
    }

    /// How many requests were ever written to virtual devices.
    pub fn requests_written(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The same counter, for whoever wants to watch it.
    pub fn request_counter(&self) -> Arc<AtomicU64> {
        self.requests.clone()
    }
}

impl Drop for WaylandSeat {
    fn drop(&mut self) {
        self.mailbox.send(Command::Stop);
    }
}

#[async_trait]
impl Seat for WaylandSeat {
    async fn request(&self, request: SeatRequest, ticket: Ticket) -> Outcome {
        let (reply, outcome) = ReplySlot::new();
        self.mailbox.send(Command::Request {
            request,
            ticket,
            reply,
        });
        outcome_of(outcome, "input").await
    }
}

pub(crate) struct Input {
    keeper: Keeper,
    pub hands: Hands,
    pub ledger: Ledger,
    requests: Arc<AtomicU64>,
    waiting: VecDeque<(SeatRequest, Ticket, ReplySlot)>,
    /// Syncs after chunks that weren't answered yet.
    unconfirmed: VecDeque<u64>,
    pace: Pace,
    /// The process behind the newest connection.
    peer: i32,
    observe: Observe,
}

impl Input {
    fn run(mut self, inbox: &Inbox<Command>) {
        loop {
            inbox.hush();
            while let Some(command) = inbox.next() {
                match command {
                    Command::Request {
                        request,
                        ticket,
                        reply,
                    } => self.waiting.push_back((request, ticket, reply)),
                    Command::Stop => return self.leave(),
                }
            }
            self.serve();
            if let Some(link) = self.keeper.link() {
                let newest = link.wire.synced_up_to;
                self.ledger.confirm_up_to(newest);
                self.unconfirmed.retain(|key| *key > newest);
            }
            let until = self
                .waiting
                .iter()
                .map(|(_, ticket, _)| ticket.deadline)
                .min();
            let slice = Instant::now()
                + if until.is_some() {
                    CANCEL_SLICE
                } else {
                    Duration::from_secs(60)
                };
            match self
                .keeper
                .step(until.map_or(slice, |until| until.min(slice)), inbox.as_fd())
            {
                Some(Change::Up) => self.came_up(),
                Some(Change::Down(detail)) => self.went_down(detail),
                None => {}
            }
        }
    }

    fn serve(&mut self) {
        while let Some((request, ticket, reply)) = self.waiting.pop_front() {
            if reply.is_done() && !matches!(request, SeatRequest::Close | SeatRequest::Release) {
                continue;
            }
            if self.keeper.link().is_none() {
                match self.without_link(&request, &ticket) {
                    Some(outcome) => reply.send(outcome),
                    None => {
                        self.waiting.push_front((request, ticket, reply));
                        return;
                    }
                }
                continue;
            }
            let outcome = self.perform(request, &ticket);
            reply.send(outcome);
        }
    }

    /// The outcome while there is no connection, or `None` while one is being made.
    fn without_link(&mut self, request: &SeatRequest, ticket: &Ticket) -> Option<Outcome> {
        let releases = matches!(request, SeatRequest::Close | SeatRequest::Release);
        if releases && self.ledger.stranded().is_empty() {
            return Some(Ok(Reply::Done));
        }
        if let (false, Err(failure)) = (releases, ticket.check()) {
            return Some(Err(failure));
        }
        if ticket.expired() {
            return Some(fail(
                FailureKind::TimedOut,
                "the compositor didn't answer in time; nothing was sent",
            ));
        }
        let detail = self.keeper.down_reason()?;
        let detail = match releases {
            true => format!(
                "{detail}; what is pressed will be released once the compositor answers again"
            ),
            false => detail.to_owned(),
        };
        Some(fail(FailureKind::Unavailable, detail))
    }

    fn perform(&mut self, request: SeatRequest, ticket: &Ticket) -> Outcome {
        match request {
            SeatRequest::Open { outputs } => self.open(&outputs, ticket),
            SeatRequest::Release => self.release(ticket, false),
            SeatRequest::Close => self.release(ticket, true),
            SeatRequest::Pointer(request) => self.point(&request, ticket),
            SeatRequest::Keys { chords } => self.press_chords(&chords, ticket),
            SeatRequest::Text { text, submit } => self.type_text(&text, submit, ticket),
        }
    }

    fn open(&mut self, outputs: &[String], ticket: &Ticket) -> Outcome {
        self.gate(ticket)?;
        self.make_keyboard()?;
        for output in outputs {
            // One that isn't there yet gets its pointer when it is aimed at.
            match self.make_pointer(output) {
                Err(failure) if failure.kind == FailureKind::NotFound => {}
                other => other?,
            }
        }
        self.confirm_all(ticket)?;
        Ok(Reply::Done)
    }

    /// Needs no fence: letting go is always right.
    fn release(&mut self, ticket: &Ticket, close: bool) -> Outcome {
        if self.hands.nothing_down() && (!close || self.hands.nothing_made()) {
            return Ok(Reply::Done);
        }
        self.let_go_of_all();
        if close {
            self.hands.destroy();
        }
        self.flush(ticket)?;
        self.confirm_all(ticket)?;
        Ok(Reply::Done)
    }

    /// Queues the release of everything that is down.
    pub fn let_go_of_all(&mut self) {
        for what in self.hands.release_all() {
            self.ledger.releasing(what);
        }
    }

    pub fn make_keyboard(&mut self) -> Result<(), Failure> {
        let Some(link) = self.keeper.link() else {
            return Err(gone());
        };
        self.hands.make_keyboard(link)
    }

    pub fn make_pointer(&mut self, output: &str) -> Result<(), Failure> {
        let Some(link) = self.keeper.link() else {
            return Err(gone());
        };
        self.hands.make_pointer(link, output)
    }

    /// Asked right before anything is queued: whether the operation may still touch the desktop.
    pub fn gate(&self, ticket: &Ticket) -> Result<(), Failure> {
        ticket.check()?;
        if ticket.expired() {
            return Err(Failure::new(
                FailureKind::TimedOut,
                "the time was over before everything was sent",
            ));
        }
        Ok(())
    }

    /// Hands everything queued to the kernel. What is queued was allowed by `gate` and goes out in one write.
    pub fn flush(&mut self, ticket: &Ticket) -> Result<(), Failure> {
        loop {
            let Some(link) = self.keeper.link() else {
                return Err(gone());
            };
            match link.flush() {
                Ok(true) => return Ok(()),
                Ok(false) if ticket.expired() => {
                    // What is still queued here must not go out later, when it may no longer be allowed.
                    let failure = no_answer();
                    self.lost(failure.detail.clone());
                    return Err(failure);
                }
                Ok(false) => self.step(ticket.deadline)?,
                Err(LinkDown(detail)) => return Err(self.lost(detail)),
            }
        }
    }

    /// Sends a chunk, and waits when too many are on their way.
    pub fn send_chunk(&mut self, ticket: &Ticket) -> Result<(), Failure> {
        self.send_sync()?;
        self.flush(ticket)?;
        while self.unconfirmed.len() > MOST_UNCONFIRMED {
            self.await_next(ticket)?;
        }
        Ok(())
    }

    /// Waits until the compositor has handled everything.
    pub fn confirm_all(&mut self, ticket: &Ticket) -> Result<(), Failure> {
        self.send_sync()?;
        self.flush(ticket)?;
        while !self.unconfirmed.is_empty() {
            self.await_next(ticket)?;
        }
        Ok(())
    }

    /// Waits until so many more characters may go out, and counts them as sent.
    pub fn keep_pace(&mut self, characters: usize, ticket: &Ticket) -> Result<(), Failure> {
        let due = self.pace.due(Instant::now(), characters);
        self.pause_until(due, ticket)?;
        self.pace.spend(Instant::now(), characters);
        Ok(())
    }

    /// Waits so long, unless the operation must end.
    pub fn pause(&mut self, ms: u32, ticket: &Ticket) -> Result<(), Failure> {
        self.pause_until(Instant::now() + Duration::from_millis(ms.into()), ticket)
    }

    fn pause_until(&mut self, until: Instant, ticket: &Ticket) -> Result<(), Failure> {
        while Instant::now() < until {
            self.gate(ticket)?;
            self.step(
                until
                    .min(Instant::now() + CANCEL_SLICE)
                    .min(ticket.deadline),
            )?;
        }
        self.gate(ticket)
    }

    fn send_sync(&mut self) -> Result<(), Failure> {
        let Some(link) = self.keeper.link() else {
            return Err(gone());
        };
        let key = link.sync();
        self.ledger.synced(key);
        self.unconfirmed.push_back(key);
        Ok(())
    }

    fn await_next(&mut self, ticket: &Ticket) -> Result<(), Failure> {
        let Some(key) = self.unconfirmed.front().copied() else {
            return Ok(());
        };
        let mut limit = ticket.deadline;
        loop {
            let Some(link) = self.keeper.link() else {
                return Err(gone());
            };
            if link.is_synced(key) {
                self.unconfirmed.pop_front();
                self.ledger.confirm_up_to(key);
                return Ok(());
            }
            let now = Instant::now();
            if now >= limit {
                return Err(no_answer());
            }
            if limit == ticket.deadline && ticket.cancelled.load(Ordering::SeqCst) {
                limit = limit.min(now + LAST_WORDS);
            }
            self.step(limit.min(now + CANCEL_SLICE))?;
        }
    }

    fn step(&mut self, until: Instant) -> Result<(), Failure> {
        let Some(link) = self.keeper.link() else {
            return Err(gone());
        };
        match link.step(until, None) {
            Ok(()) => Ok(()),
            Err(LinkDown(detail)) => Err(self.lost(detail)),
        }
    }

    /// The connection broke under an operation.
    fn lost(&mut self, detail: String) -> Failure {
        if let Change::Down(detail) = self.keeper.lose(detail.clone()) {
            self.went_down(detail);
        }
        Failure::new(FailureKind::Lost, detail)
    }

    fn went_down(&mut self, detail: String) {
        self.hands = Hands::new(self.requests.clone());
        self.unconfirmed.clear();
        self.ledger.stranded();
        tracing::debug!(detail, "input connection down");
        (self.observe)(Observation::Seat(Availability::Down { detail }));
    }

    fn came_up(&mut self) {
        let stranded = self.ledger.stranded();
        if let Some(link) = self.keeper.link() {
            // Another run of the compositor knows nothing of what was pressed in the last one.
            let same = std::mem::replace(&mut self.peer, link.peer) == link.peer;
            if !stranded.is_empty()
                && same
                && let Err(detail) =
                    release::unstick(link, &stranded, Instant::now() + release::PATIENCE)
            {
                tracing::warn!(detail, "what was pressed could not be released");
                if let Change::Down(detail) = self.keeper.lose(detail) {
                    self.went_down(detail);
                }
                return;
            }
        }
        self.ledger.all_released();
        (self.observe)(Observation::Seat(Availability::Up));
    }

    /// The program ends or drops the seat: nothing stays down. What can't be confirmed is left to the guard.
    fn leave(mut self) {
        self.hands.release_all();
        self.hands.destroy();
        let Some(link) = self.keeper.link() else {
            return;
        };
        if release::roundtrip(link, Instant::now() + FAREWELL).is_ok() {
            self.ledger.all_released();
        }
    }
}

fn gone() -> Failure {
    Failure::new(
        FailureKind::Lost,
        "the connection to the compositor was lost",
    )
}

fn no_answer() -> Failure {
    Failure::new(
        FailureKind::TimedOut,
        "the compositor did not confirm the input in time; it may hang, and may still act on it",
    )
}
