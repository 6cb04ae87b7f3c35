//! The guarded server, as its guard sees it: our parent process, and nothing else that might have its number later.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

#[derive(Debug)]
pub(super) struct Server {
    pid: Option<Pid>,
    pidfd: Option<OwnedFd>,
}

impl Server {
    /// The process that started us. When it has ended meanwhile we have another parent, and it counts as ended.
    pub(super) fn parent(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        // A parent that is still ours now was ours when the pidfd was made, so the number was not used again.
        let ours = pid.is_some() && rustix::process::getppid() == pid;
        Self { pid: pid.filter(|_| ours), pidfd: pidfd.filter(|_| ours) }
    }

    /// Becomes readable when the server has ended.
    pub(super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn ended(&self) -> bool {
        self.ended_within(Duration::ZERO)
    }

    pub(super) fn kill(&self) {
        let result = match (&self.pidfd, self.pid) {
            (Some(pidfd), _) => rustix::process::pidfd_send_signal(pidfd, Signal::KILL),
            // Without pidfds (a kernel before 5.3): still our parent, so still that process.
            (None, Some(pid)) if !self.ended() => rustix::process::kill_process(pid, Signal::KILL),
            (None, _) => Ok(()),
        };
        if let Err(error) = result {
            tracing::warn!(%error, "the hung server could not be killed");
        }
    }

    /// Waits for its end; whether it came in time.
    pub(super) fn ended_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match &self.pidfd {
                Some(pidfd) => {
                    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                    match rustix::event::poll(&mut fds, Some(&timespec(left))) {
                        Ok(count) if count > 0 => return true,
                        Ok(_) if left.is_zero() => return false,
                        _ => {}
                    }
                }
                None if self.pid.is_none() || rustix::process::getppid() != self.pid => return true,
                None => std::thread::sleep(left.min(Duration::from_millis(5))),
            }
            if left.is_zero() {
                return false;
            }
        }
    }
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parent_is_guarded_with_pidfds_and_without() {
        let parent = rustix::process::getppid().unwrap();
        let server = Server::parent(parent.as_raw_nonzero().get() as u32);
        assert!(server.pidfd().is_some() && !server.ended());
        assert!(!server.ended_within(Duration::from_millis(1)));
        let without = Server { pid: Some(parent), pidfd: None };
        assert!(!without.ended_within(Duration::from_millis(1)));

        let stranger = Server::parent(std::process::id());
        assert!(stranger.pidfd().is_none() && stranger.ended());
        // Must do nothing, or this test ends here.
        stranger.kill();
        assert!(Server::parent(u32::MAX).ended() && Server::parent(0).ended());
    }
}
