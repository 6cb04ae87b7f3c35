//! The capture thread: all requests at the screen, side by side on one connection.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deskhand_core::desktop::effect::{Failure, FailureKind, Outcome, Reply, ScreenRequest};
use deskhand_core::desktop::event::{Availability, Observation};
use deskhand_core::desktop::geometry::Rect;
use deskhand_ports::{Observe, Screen, Ticket};

use crate::connection::{Change, Keeper, Link};
use crate::finish::{clip, finish_capture, finish_compare, patch};
use crate::frames::{Frames, RawImage};
use crate::grab::{GrabError, Grabs};
use crate::mailbox::{Inbox, Mailbox, mailbox};
use crate::reply::{ReplySlot, fail, outcome_of};
use crate::settle::{Settle, cant_copy};
use crate::shm::Slot;
use crate::wire::Role;

/// How soon a cancelled request is noticed.
const CANCEL_SLICE: Duration = Duration::from_millis(20);
const MOST_TRIES: u32 = 3;

pub(crate) enum Command {
    Request {
        request: ScreenRequest,
        ticket: Ticket,
        reply: ReplySlot,
    },
    Returned(Slot),
    Stop,
}

impl From<Slot> for Command {
    fn from(slot: Slot) -> Self {
        Self::Returned(slot)
    }
}

/// Captures, compares and watches the screen of the compositor behind one Wayland socket.
pub struct WaylandScreen {
    mailbox: Mailbox<Command>,
}

impl WaylandScreen {
    /// Starts the capture thread and returns at once; the connection's fate comes as [`Observation::Screen`].
    pub fn start(socket: PathBuf, observe: Observe) -> io::Result<Self> {
        let (mailbox, inbox) = mailbox()?;
        let (work, jobs) = channel::<Work>();
        // Lower than the capture thread in nothing but its duty: it may be busy for tens of milliseconds.
        thread::Builder::new()
            .name("deskhand-image".into())
            .spawn(move || {
                for work in jobs {
                    // A bug in one image must not end all later ones; its reply says that it was lost.
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                }
            })?;
        let capture = Capture {
            keeper: Keeper::new(socket, Role::Capture),
            grabs: Grabs::new(mailbox.clone()),
            jobs: Vec::new(),
            frames: Arc::default(),
            work,
            observe,
        };
        thread::Builder::new()
            .name("deskhand-capture".into())
            .spawn(move || capture.run(&inbox))?;
        Ok(Self { mailbox })
    }
}

impl Drop for WaylandScreen {
    fn drop(&mut self) {
        self.mailbox.send(Command::Stop);
    }
}

#[async_trait]
impl Screen for WaylandScreen {
    async fn request(&self, request: ScreenRequest, ticket: Ticket) -> Outcome {
        let (reply, outcome) = ReplySlot::new();
        self.mailbox.send(Command::Request {
            request,
            ticket,
            reply,
        });
        outcome_of(outcome, "capture").await
    }
}

type Work = Box<dyn FnOnce() + Send>;

struct Job {
    request: ScreenRequest,
    ticket: Ticket,
    reply: ReplySlot,
    stage: Stage,
}

enum Stage {
    /// The connection isn't greeted yet.
    Waiting,
    Grabbing {
        key: u64,
        want: Option<Rect>,
        tries: u32,
    },
    Settling(Box<Settle>),
    /// With the image thread, which replies.
    Finishing,
}

struct Capture {
    keeper: Keeper,
    grabs: Grabs,
    jobs: Vec<Job>,
    frames: Arc<Mutex<Frames>>,
    work: Sender<Work>,
    observe: Observe,
}

impl Capture {
    fn run(mut self, inbox: &Inbox<Command>) {
        loop {
            inbox.hush();
            while let Some(command) = inbox.next() {
                match command {
                    Command::Request {
                        request,
                        ticket,
                        reply,
                    } => {
                        self.jobs.push(Job {
                            request,
                            ticket,
                            reply,
                            stage: Stage::Waiting,
                        });
                    }
                    Command::Returned(slot) => self.grabs.give_back(slot),
                    Command::Stop => return,
                }
            }
            self.advance_jobs();
            let until = self.wake_at();
            match self.keeper.step(until, inbox.as_fd()) {
                Some(Change::Up) => (self.observe)(Observation::Screen(Availability::Up)),
                Some(Change::Down(detail)) => self.lost(detail),
                None => {}
            }
        }
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let mut at = now
            + if self.jobs.is_empty() {
                Duration::from_secs(60)
            } else {
                CANCEL_SLICE
            };
        for job in &self.jobs {
            at = at.min(job.ticket.deadline);
            if let Stage::Settling(settle) = &job.stage {
                at = at.min(settle.wake_at());
            }
        }
        at
    }

    fn lost(&mut self, detail: String) {
        self.grabs.lose();
        for job in std::mem::take(&mut self.jobs) {
            match job.stage {
                Stage::Finishing => self.jobs.push(job),
                Stage::Waiting => job
                    .reply
                    .send(fail(FailureKind::Unavailable, detail.clone())),
                Stage::Grabbing { .. } | Stage::Settling(_) => {
                    job.reply.send(fail(FailureKind::Lost, detail.clone()))
                }
            }
        }
        tracing::debug!(detail, "capture connection down");
        (self.observe)(Observation::Screen(Availability::Down { detail }));
    }

    fn advance_jobs(&mut self) {
        if let Some(link) = self.keeper.link() {
            self.grabs.advance(link);
        }
        for mut job in std::mem::take(&mut self.jobs) {
            match self.advance(&mut job) {
                None => self.jobs.push(job),
                Some(outcome) => {
                    job.reply.send(outcome);
                    self.abandon(&mut job);
                }
            }
        }
        // Requests for buffers' copies, made above, are flushed by the step that follows.
    }

    /// The job's outcome, or `None` while it goes on (or another thread will reply).
    fn advance(&mut self, job: &mut Job) -> Option<Outcome> {
        if job.reply.is_done() {
            return Some(Ok(Reply::Done));
        }
        if job.ticket.cancelled.load(Ordering::SeqCst) {
            return Some(fail(FailureKind::Fenced, "the call was cancelled"));
        }
        if job.ticket.expired() {
            return Some(fail(
                FailureKind::TimedOut,
                "the compositor sent no picture in time; it may hang",
            ));
        }
        if let ScreenRequest::Forget(ids) = &job.request {
            self.frames
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .forget(ids);
            return Some(Ok(Reply::Done));
        }
        match &mut job.stage {
            Stage::Finishing => None,
            Stage::Waiting => match self.keeper.link() {
                Some(link) => match begin(&mut self.grabs, link, &self.frames, &job.request) {
                    Ok(stage) => {
                        job.stage = stage;
                        None
                    }
                    Err(failure) => Some(Err(failure)),
                },
                None => self
                    .keeper
                    .down_reason()
                    .map(|detail| fail(FailureKind::Unavailable, detail)),
            },
            Stage::Settling(settle) => settle.advance(&mut self.grabs, self.keeper.link()?),
            Stage::Grabbing { key, want, tries } => {
                let link = self.keeper.link()?;
                match self.grabs.take(link, *key)? {
                    Ok(grabbed) => self.finish(job, grabbed.image),
                    Err(GrabError::Final(failure)) => Some(Err(failure)),
                    Err(GrabError::Failed) if *tries >= MOST_TRIES => {
                        let output = output_of(&job.request);
                        Some(fail(FailureKind::Refused, cant_copy(output)))
                    }
                    Err(error) => {
                        if matches!(error, GrabError::Region) {
                            *want = None;
                        }
                        *tries += 1;
                        match self
                            .grabs
                            .start(link, output_of(&job.request), *want, false)
                        {
                            Ok(fresh) => {
                                *key = fresh;
                                None
                            }
                            Err(failure) => Some(Err(failure)),
                        }
                    }
                }
            }
        }
    }

    /// Hands the frame to the image thread.
    fn finish(&mut self, job: &mut Job, image: RawImage) -> Option<Outcome> {
        let (frames, ticket, reply) = (self.frames.clone(), job.ticket.clone(), job.reply.clone());
        let work: Work = match &job.request {
            ScreenRequest::Capture(request) => {
                let request = request.clone();
                Box::new(move || reply.send(finish_capture(&request, image, &ticket, &frames)))
            }
            ScreenRequest::Compare(request) => {
                let kept = frames
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get(request.frame);
                let Some(kept) = kept else {
                    return Some(Err(not_kept()));
                };
                let request = request.clone();
                Box::new(move || reply.send(finish_compare(&request, &kept, &image)))
            }
            ScreenRequest::Settle { .. } | ScreenRequest::Forget(_) => {
                return Some(Ok(Reply::Done));
            }
        };
        job.stage = Stage::Finishing;
        match self.work.send(work) {
            Ok(()) => None,
            Err(_) => Some(fail(
                FailureKind::Refused,
                "the image thread ended; restart deskhand",
            )),
        }
    }

    fn abandon(&mut self, job: &mut Job) {
        let Some(link) = self.keeper.link() else {
            return;
        };
        let usable = match &mut job.stage {
            Stage::Grabbing { key, .. } => self.grabs.abandon(link, *key),
            Stage::Settling(settle) => settle.abandon(&mut self.grabs, link),
            Stage::Waiting | Stage::Finishing => true,
        };
        if !usable
            && let Change::Down(detail) = self
                .keeper
                .lose("the compositor doesn't answer; it may hang".into())
        {
            self.lost(detail);
        }
    }
}

fn begin(
    grabs: &mut Grabs,
    link: &mut Link,
    frames: &Mutex<Frames>,
    request: &ScreenRequest,
) -> Result<Stage, Failure> {
    let want = match request {
        ScreenRequest::Capture(capture) => {
            let size = link
                .wire
                .outputs
                .find(&capture.output)
                .and_then(|entry| entry.mode);
            match (capture.raw_region, size) {
                (Some(region), Some(size)) => Some(clip(region, size, &capture.output)?),
                _ => None,
            }
        }
        ScreenRequest::Compare(compare) => {
            let kept = frames
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(compare.frame)
                .ok_or_else(not_kept)?;
            patch(compare, kept.raw_size)
        }
        ScreenRequest::Settle {
            output,
            quiet_ms,
            max_ms,
        } => {
            return Ok(Stage::Settling(Box::new(Settle::new(
                output.clone(),
                *quiet_ms,
                *max_ms,
            ))));
        }
        ScreenRequest::Forget(_) => None,
    };
    let key = grabs.start(link, output_of(request), want, false)?;
    Ok(Stage::Grabbing {
        key,
        want,
        tries: 1,
    })
}

fn output_of(request: &ScreenRequest) -> &str {
    match request {
        ScreenRequest::Capture(request) => &request.output,
        ScreenRequest::Compare(request) => &request.output,
        ScreenRequest::Settle { output, .. } => output,
        ScreenRequest::Forget(_) => "",
    }
}

fn not_kept() -> Failure {
    Failure::new(
        FailureKind::NotFound,
        "that screenshot's pixels are no longer kept; take a fresh one",
    )
}
