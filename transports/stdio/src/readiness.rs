//! Waiting in the runtime for a descriptor of ours.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Must be called in a tokio runtime.
// Deprecated because a type could change or close its descriptor behind the runtime's back, which an `OwnedFd` can't.
#[allow(deprecated)]
pub(crate) fn of(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}
