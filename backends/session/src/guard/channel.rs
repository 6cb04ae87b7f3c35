//! Between a server and its guard: a socket pair of whole messages, on which open files travel too.
//!
//! Its end of file is how the guard learns of the server's death, and its hang-up how the server learns of the guard's.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use serde::{Deserialize, Serialize};

use crate::paths::Paths;

const LARGEST: usize = 64 << 10;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The first one; the journal's file comes with it.
    Hello {
        server_pid: u32,
        paths: Box<Paths>,
        journal: PathBuf,
    },
    /// The lease's lock was taken; its file comes with it.
    Lease,
    LeaseGone,
    StopAcknowledged,
    /// The server ends in good order, with nothing pressed.
    Goodbye,
}

#[derive(Debug)]
pub(crate) enum Received {
    Message(Message, Option<OwnedFd>),
    /// Nothing for now.
    Empty,
    /// The other end is gone.
    End,
}

/// Both ends, closed on exec.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Never waits: a guard so far behind that the socket is full counts as gone.
pub(crate) fn send(channel: &OwnedFd, message: &Message, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(io::Error::other)?;
    if text.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("no room for the open file"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(channel, &[IoSlice::new(&text)], &mut control, flags))?;
    Ok(())
}

/// Never waits.
pub(crate) fn receive(channel: &OwnedFd) -> io::Result<Received> {
    let mut text = vec![0; LARGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(channel, &mut [IoSliceMut::new(&mut text)], &mut control, flags) {
            // The reset comes before what is still queued.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            Err(Errno::AGAIN) => return Ok(Received::Empty),
            other => break other?,
        }
    };
    let file = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .last();
    if received.bytes == 0 {
        return Ok(Received::End);
    }
    let message = serde_json::from_slice(&text[..received.bytes]).map_err(io::Error::other)?;
    Ok(Received::Message(message, file))
}

/// Whether the other end is closed.
pub(crate) fn hung_up(channel: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&channel, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&now))) {
        Ok(_) => fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    #[test]
    fn messages_and_files_arrive_whole_even_after_the_sender_is_gone() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f"), "here").unwrap();
        let (ours, theirs) = pair().unwrap();
        assert!(matches!(receive(&theirs).unwrap(), Received::Empty));
        let file = File::open(root.path().join("f")).unwrap();
        send(&ours, &Message::StopAcknowledged, None).unwrap();
        send(&ours, &Message::Lease, Some(file.as_fd())).unwrap();
        assert!(!hung_up(&theirs));
        drop((ours, file));
        assert!(matches!(receive(&theirs).unwrap(), Received::Message(Message::StopAcknowledged, None)));
        let Received::Message(Message::Lease, Some(file)) = receive(&theirs).unwrap() else { panic!("no file came") };
        let mut text = String::new();
        File::from(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "here");
        assert!(matches!(receive(&theirs).unwrap(), Received::End));
        assert!(hung_up(&theirs));
        assert!(send(&theirs, &Message::Goodbye, None).is_err());
    }
}
