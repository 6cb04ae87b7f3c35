//! Follows the shared directory and the instance's: the stop flag, the lock file, other holders, unfinished input.
//!
//! Events only say when to look; what is reported is what is there then.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deskhand_core::desktop::effect::Holder;
use deskhand_core::desktop::event::Observation;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::session::Shared;
use crate::{journal, lease, readiness, recovery, stop};

/// A lock's release comes moments after the event of its file's closing.
const LOOK_AGAIN: Duration = Duration::from_millis(30);
/// Whether the directories are still those that are watched: a parent may have been renamed.
const CHECK_PLACE: Duration = Duration::from_secs(5);
/// Directories that vanish as soon as they are made must not keep us busy.
const AFTER_BREAK: Duration = Duration::from_millis(5);
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Runs until it is aborted.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let mut reported = Reported::default();
    let mut retry = FIRST_RETRY;
    loop {
        match Watcher::new(&shared) {
            Ok(watcher) => {
                retry = FIRST_RETRY;
                watcher.until_broken(&shared, &mut reported).await;
                tokio::time::sleep(AFTER_BREAK).await;
            }
            Err(why) => {
                tracing::warn!(%why, "the stop flag can't be watched");
                reported.unwatched(&shared, why);
                reported.lease(&shared);
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(LONGEST_RETRY);
            }
        }
    }
}

struct Watcher {
    inotify: AsyncFd<OwnedFd>,
    places: [(u64, u64); 2],
}

impl Watcher {
    fn new(shared: &Shared) -> Result<Self, String> {
        shared.paths.prepare()?;
        let failed = |e: std::io::Error| format!("inotify: {e}; raise fs.inotify.max_user_instances");
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let events = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        for directory in [shared.paths.shared(), shared.paths.instance()] {
            inotify::add_watch(&inotify, directory, events).map_err(|e| failed(e.into()))?;
        }
        let places = places(shared).ok_or("its directory vanished")?;
        Ok(Self { inotify: readiness::of(inotify).map_err(failed)?, places })
    }

    async fn until_broken(&self, shared: &Shared, reported: &mut Reported) {
        let mut again: Option<Instant> = None;
        let mut check_place = Instant::now() + CHECK_PLACE;
        loop {
            reported.look(shared);
            let next = again.map_or(check_place, |again| again.min(check_place));
            tokio::select! {
                ready = self.inotify.readable() => match ready {
                    Ok(mut ready) => {
                        ready.clear_ready();
                        let drained = drain(self.inotify.get_ref());
                        if drained.resumed {
                            // Also when it is set again by now: the guard waits for an answer to each stop.
                            reported.stop(shared, false);
                        }
                        if drained.broken {
                            return;
                        }
                        again = Some(Instant::now() + LOOK_AGAIN);
                    }
                    Err(_) => return,
                },
                () = sleep_until(next) => {
                    again = again.filter(|again| *again > Instant::now());
                    if Instant::now() >= check_place {
                        check_place = Instant::now() + CHECK_PLACE;
                        if places(shared) != Some(self.places) {
                            return;
                        }
                    }
                }
            }
        }
    }
}

fn places(shared: &Shared) -> Option<[(u64, u64); 2]> {
    let place = |path: &Path| fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    Some([place(&shared.paths.shared())?, place(&shared.paths.instance())?])
}

#[derive(Default)]
struct Drained {
    /// The stop flag was removed at some time since the last look.
    resumed: bool,
    /// A watched directory is gone.
    broken: bool,
}

/// Takes all events.
fn drain(inotify: &OwnedFd) -> Drained {
    let mut drained = Drained::default();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    loop {
        match reader.next() {
            Ok(event) => {
                let gone = ReadFlags::DELETE | ReadFlags::MOVED_FROM;
                let broken = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
                drained.broken |= event.events().intersects(broken);
                drained.resumed |=
                    event.events().intersects(gone) && event.file_name().is_some_and(|name| name.to_bytes() == b"stop");
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return drained,
            Err(_) => return Drained { broken: true, ..drained },
        }
    }
}

/// What was said last: only changes are said.
#[derive(Default)]
struct Reported {
    stop: Option<bool>,
    unwatched: Option<String>,
    other: Option<Option<Holder>>,
    unfinished: Option<Option<String>>,
}

impl Reported {
    fn look(&mut self, shared: &Shared) {
        self.stop(shared, stop::is_set(&shared.paths.stop_flag()));
        self.lease(shared);
        journal::adopt_orphans(&shared.paths);
        let unfinished = recovery::unfinished(&shared.paths).map(|unfinished| unfinished.to_string());
        if self.unfinished.as_ref() != Some(&unfinished) {
            self.unfinished = Some(unfinished.clone());
            (shared.observe)(Observation::Unfinished(unfinished));
        }
    }

    fn stop(&mut self, shared: &Shared, set: bool) {
        if self.stop != Some(set) {
            self.stop = Some(set);
            self.unwatched = None;
            (shared.observe)(Observation::Stop { set });
        }
    }

    /// Nobody could stop us: that counts as stopped.
    fn unwatched(&mut self, shared: &Shared, why: String) {
        self.stop = None;
        if self.unwatched.as_ref() != Some(&why) {
            self.unwatched = Some(why.clone());
            (shared.observe)(Observation::StopUnwatched { detail: why });
        }
    }

    fn lease(&mut self, shared: &Shared) {
        if let Some(detail) = shared.check_lease() {
            (shared.observe)(Observation::LeaseLost { detail });
        }
        let other = match shared.holds_lease() {
            true => None,
            false => lease::current_holder(&shared.paths),
        };
        if self.other.as_ref() != Some(&other) {
            self.other = Some(other.clone());
            (shared.observe)(Observation::OtherHolder(other));
        }
    }
}
