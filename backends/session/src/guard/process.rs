//! What the guard process does: waits for the server's end or an unanswered stop, then releases what was held.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel as mpsc};
use std::time::{Duration, Instant};

use deskhand_ports::Pressed;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::FlockOperation;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::channel::{self, Message, Received};
use super::server::{Server, timespec};
use crate::paths::Paths;
use crate::recovery::{self, Unfinished};
use crate::{files, journal, stop};

/// How long a server may leave the stop flag unanswered.
const STOP_ANSWER: Duration = Duration::from_millis(300);
/// How long a server whose channel closed may take to end by itself.
const END_AFTER_CLOSE: Duration = Duration::from_millis(250);
const END_AFTER_KILL: Duration = Duration::from_secs(5);
/// How much longer the lock of a server that held nothing is kept.
const END_WITH_LEASE: Duration = Duration::from_secs(2);
/// How long releasing may take before it counts as failed.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// How soon a directory that can't be watched is tried again; the flag is looked at as often.
const WATCH_AGAIN: Duration = Duration::from_millis(100);

/// The hidden `guard` subcommand: serves the server that started it and returns when there is nothing left to guard.
///
/// `release` connects to the compositor anew and releases each of these once. The error is for a person who started
/// this by hand, and for what was left to recover.
pub fn run(release: &dyn Fn(&[Pressed]) -> Result<(), String>) -> Result<(), String> {
    // What ends the server's process group or terminal must not end its guard first. Fails when we lead a group already.
    let _ = rustix::process::setsid();
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    let _ = std::env::set_current_dir("/");

    let by_hand = |why: String| format!("the guard is started by a deskhand server, not by hand ({why})");
    let channel = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).map_err(|e| by_hand(e.to_string()))?;
    let mut watch = match hello(&channel).map_err(by_hand)? {
        Some((server_pid, paths, journal_path, journal)) => Watch {
            server: Server::parent(server_pid),
            server_pid,
            channel,
            flag: FlagWatch::new(paths.clone()),
            paths,
            journal,
            journal_path,
            lease: None,
        },
        None => return Ok(()),
    };
    match watch.until_end() {
        // A lock that the server still has stays locked through the server's own open file.
        End::Goodbye => {
            let _ = files::remove(&watch.journal_path);
            Ok(())
        }
        End::ServerGone => watch.take_over(release),
        End::StopUnanswered => {
            watch.server.kill();
            watch.take_over(release)
        }
    }
}

type Hello = (u32, Paths, PathBuf, File);

/// `None`: the server ended before it said anything.
fn hello(channel: &OwnedFd) -> Result<Option<Hello>, String> {
    rustix::net::sockopt::socket_type(channel).map_err(|e| e.to_string())?;
    let mut fds = [PollFd::new(channel, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&timespec(HELLO_LIMIT))))
        .map_err(|e| e.to_string())?;
    match channel::receive(channel).map_err(|e| e.to_string())? {
        Received::Message(Message::Hello { server_pid, paths, journal }, Some(file)) => {
            Ok(Some((server_pid, *paths, journal, file.into())))
        }
        Received::End => Ok(None),
        Received::Empty => Err("nothing came on its input".into()),
        Received::Message(..) => Err("its input says something else".into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Goodbye,
    ServerGone,
    StopUnanswered,
}

struct Watch {
    server: Server,
    server_pid: u32,
    channel: OwnedFd,
    flag: FlagWatch,
    paths: Paths,
    journal: File,
    journal_path: PathBuf,
    lease: Option<OwnedFd>,
}

impl Watch {
    fn until_end(&mut self) -> End {
        let mut answered = false;
        let mut deadline: Option<Instant> = None;
        loop {
            // First what the server said, then the flag: an answer that has come is to a stop that can be seen.
            let mut answers = false;
            let mut end = None;
            loop {
                match channel::receive(&self.channel) {
                    Ok(Received::Message(Message::Lease, file)) => self.lease = file,
                    Ok(Received::Message(Message::LeaseGone, _)) => self.lease = None,
                    Ok(Received::Message(Message::StopAcknowledged, _)) => answers = true,
                    Ok(Received::Message(Message::Goodbye, _)) => end = Some(End::Goodbye),
                    Ok(Received::Message(Message::Hello { .. }, _)) => {}
                    Ok(Received::Empty) => break,
                    Ok(Received::End) | Err(_) => {
                        end = end.or(Some(End::ServerGone));
                        break;
                    }
                }
            }
            if let Some(end) = end {
                return end;
            }
            if self.server.ended() {
                return End::ServerGone;
            }
            let (set, cleared_meanwhile) = self.flag.look();
            if cleared_meanwhile {
                answered = false;
                deadline = None;
            }
            answered = set && (answered || answers);
            deadline = match set && !answered && self.at_stake() {
                true => deadline.or_else(|| Some(Instant::now() + STOP_ANSWER)),
                false => None,
            };
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return End::StopUnanswered;
            }
            self.sleep(deadline);
        }
    }

    /// A server without the lease and with nothing pressed, such as one that is only starting, has nothing to stop.
    fn at_stake(&self) -> bool {
        self.lease.is_some() || journal::read(&self.journal).map_or(true, |held| !held.is_empty())
    }

    fn sleep(&self, deadline: Option<Instant>) {
        let until_deadline = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let until_look = (!self.flag.watching()).then_some(WATCH_AGAIN);
        let limit = until_deadline.into_iter().chain(until_look).min().map(timespec);
        let mut fds = vec![PollFd::new(&self.channel, PollFlags::IN)];
        if let Some(inotify) = &self.flag.inotify {
            fds.push(PollFd::new(inotify, PollFlags::IN));
        }
        let pidfd = self.server.pidfd();
        if let Some(pidfd) = &pidfd {
            fds.push(PollFd::new(pidfd, PollFlags::IN));
        }
        // A signal or a failure only means looking again.
        if rustix::event::poll(&mut fds, limit.as_ref()).is_err_and(|e| e != Errno::INTR) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The server is dead or dying: waits for its end, releases what it held, and leaves the rest to `recover`.
    fn take_over(self, release: &dyn Fn(&[Pressed]) -> Result<(), String>) -> Result<(), String> {
        let nothing_held = journal::read(&self.journal).is_ok_and(|held| held.is_empty());
        let ended = match nothing_held {
            // It may have dropped its side only, and lives on; then it must not hold anybody up.
            true => self.lease.is_none() || self.server.ended_within(END_WITH_LEASE),
            // One that lives on with its devices could press again, and on sway nobody else can release what it holds.
            false => {
                self.server.ended_within(END_AFTER_CLOSE) || {
                    self.server.kill();
                    self.server.ended_within(END_AFTER_KILL)
                }
            }
        };
        let held = match journal::read(&self.journal) {
            Ok(held) => held,
            Err(e) => return self.finish(Vec::new(), Err(format!("its journal can't be read: {e}"))),
        };
        if held.is_empty() {
            return self.finish(held, Ok(()));
        }
        let (done, watchdog) = mpsc();
        let record = Unfinished::now(
            self.server_pid,
            held.clone(),
            format!("the compositor did not answer within {} seconds", RELEASE_LIMIT.as_secs()),
        );
        self.start_watchdog(watchdog, record);
        let released =
            catch_unwind(AssertUnwindSafe(|| release(&held))).unwrap_or_else(|_| Err("the guard failed".into()));
        let _ = done.send(());
        let outcome = match released {
            Ok(()) if !ended => Err("the server did not end, and may press them again".into()),
            other => other,
        };
        self.finish(held, outcome)
    }

    /// Ends this process when releasing takes too long.
    fn start_watchdog(&self, done: Receiver<()>, record: Unfinished) {
        let (paths, journal, lease) = (self.paths.clone(), self.journal_path.clone(), self.lease.is_some());
        let started = std::thread::Builder::new().name("watchdog".into()).spawn(move || {
            if done.recv_timeout(RELEASE_LIMIT) == Err(RecvTimeoutError::Timeout) {
                if recovery::leave(&paths, record).is_ok() {
                    let _ = files::remove(&journal);
                }
                if lease {
                    let _ = files::remove(&paths.holder_file());
                }
                std::process::exit(1);
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "releasing is not timed");
        }
    }

    fn finish(self, held: Vec<Pressed>, outcome: Result<(), String>) -> Result<(), String> {
        let outcome = outcome.or_else(|why| {
            // The journal stays when the record can't be written: the next server finds it orphaned.
            recovery::leave(&self.paths, Unfinished::now(self.server_pid, held, why.clone()))
                .map_err(|also| format!("{why}; {also}"))?;
            let _ = files::remove(&self.journal_path);
            Err(why)
        });
        if outcome.is_ok() {
            let _ = files::remove(&self.journal_path);
        }
        self.give_back();
        outcome
    }

    fn give_back(self) {
        if let Some(lease) = self.lease {
            let _ = files::remove(&self.paths.holder_file());
            let _ = rustix::fs::flock(&lease, FlockOperation::Unlock);
        }
    }
}

/// The stop flag, seen through inotify; looked at often when its directory can't be watched.
struct FlagWatch {
    paths: Paths,
    inotify: Option<OwnedFd>,
}

impl FlagWatch {
    fn new(paths: Paths) -> Self {
        Self { paths, inotify: None }
    }

    fn watching(&self) -> bool {
        self.inotify.is_some()
    }

    /// Whether it is set, and whether it was clear at some time since the last look.
    fn look(&mut self) -> (bool, bool) {
        let cleared = match &self.inotify {
            Some(_) => self.read_events(),
            None => {
                self.inotify = self.watch().ok();
                false
            }
        };
        let set = stop::is_set(&self.paths.stop_flag());
        (set, cleared || !set)
    }

    fn watch(&self) -> rustix::io::Result<OwnedFd> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let events = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&inotify, self.paths.shared(), events)?;
        Ok(inotify)
    }

    fn read_events(&mut self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let mut cleared = false;
        let mut lost = false;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let gone = ReadFlags::DELETE | ReadFlags::MOVED_FROM;
                    if event.events().intersects(gone)
                        && event.file_name().is_some_and(|name| name.to_bytes() == b"stop")
                    {
                        cleared = true;
                    }
                    let broken =
                        ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
                    lost |= event.events().intersects(broken);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    lost = true;
                    break;
                }
            }
        }
        if lost {
            self.inotify = None;
        }
        cleared
    }
}
