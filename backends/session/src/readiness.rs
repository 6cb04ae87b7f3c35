//! Waiting in the runtime for a file of ours to become readable.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Must be called in a tokio runtime.
// Deprecated because a type could change or close its file behind the runtime's back, which an `OwnedFd` can't.
#[allow(deprecated)]
pub(crate) fn of(file: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(file)
}
