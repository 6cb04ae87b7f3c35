//! Commands into a thread that otherwise waits on file descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

/// The sending side: each command also makes the inbox's descriptor readable.
pub(crate) struct Mailbox<T> {
    sender: Sender<T>,
    bell: Arc<OwnedFd>,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            bell: self.bell.clone(),
        }
    }
}

impl<T> Mailbox<T> {
    /// False when the thread has ended; the command is lost.
    pub fn send(&self, command: T) -> bool {
        let sent = self.sender.send(command).is_ok();
        // A full counter means that it is already ringing.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        sent
    }
}

/// The receiving side.
pub(crate) struct Inbox<T> {
    receiver: Receiver<T>,
    bell: Arc<OwnedFd>,
}

impl<T> Inbox<T> {
    pub fn next(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }

    /// Stops the ringing; call before taking the commands out.
    pub fn hush(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

pub(crate) fn mailbox<T>() -> io::Result<(Mailbox<T>, Inbox<T>)> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    Ok((
        Mailbox {
            sender,
            bell: bell.clone(),
        },
        Inbox { receiver, bell },
    ))
}
