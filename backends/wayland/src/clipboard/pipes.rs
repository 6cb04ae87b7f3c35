//! What goes through a selection's pipes, within bounds of size and time.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const PART: usize = 64 << 10;
/// How soon a waiting thread notices that it is no longer wanted.
const SLICE: Duration = Duration::from_millis(100);

/// Why not all was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    TooLarge,
    TooSlow,
    Failed,
}

/// Reads all the pipes (non-blocking ones) to their ends: at most `limit` bytes in sum, and until the deadline.
pub(crate) fn drain(pipes: Vec<OwnedFd>, limit: usize, deadline: Instant) -> Result<Vec<Vec<u8>>, Unread> {
    let mut contents = vec![Vec::new(); pipes.len()];
    let mut open: Vec<(usize, OwnedFd)> = pipes.into_iter().enumerate().collect();
    let mut left = limit;
    let mut buffer = vec![0; PART];
    while !open.is_empty() {
        let mut at = 0;
        while at < open.len() {
            let (number, pipe) = &open[at];
            match rustix::io::read(pipe, &mut buffer[..]) {
                Ok(0) => drop(open.swap_remove(at)),
                Ok(count) => {
                    left = left.checked_sub(count).ok_or(Unread::TooLarge)?;
                    contents[*number].extend_from_slice(&buffer[..count]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => at += 1,
                Err(_) => return Err(Unread::Failed),
            }
            if Instant::now() >= deadline {
                return Err(Unread::TooSlow);
            }
        }
        let mut fds: Vec<PollFd<'_>> = open.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
        if !fds.is_empty() {
            wait(&mut fds, deadline)?;
        }
    }
    Ok(contents)
}

/// Writes all of it for a reader that may take its time, until the deadline; whether the reader took all.
pub(crate) fn serve(pipe: &OwnedFd, content: &[u8], deadline: Instant) -> bool {
    if rustix::io::ioctl_fionbio(pipe, true).is_err() {
        return false;
    }
    // Fewer turns of writer and reader; refused where the user's pipes are used up.
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, content.len().clamp(PART, 1 << 20));
    let mut rest = content;
    while !rest.is_empty() {
        match rustix::io::write(pipe, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if wait(&mut [PollFd::new(pipe, PollFlags::OUT)], deadline).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    emptied(pipe, deadline)
}

/// Waits until what was written has been read: a full pipe's worth in the kernel is not yet with the reader.
fn emptied(pipe: &OwnedFd, deadline: Instant) -> bool {
    loop {
        match rustix::io::ioctl_fionread(pipe) {
            Ok(0) => return true,
            Ok(_) => {}
            // Not a pipe; then what was written is all that can be known.
            Err(_) => return true,
        }
        let mut fds = [PollFd::new(pipe, PollFlags::empty())];
        let soon = Instant::now() + Duration::from_millis(2);
        if wait(&mut fds, soon).is_ok() && fds[0].revents().contains(PollFlags::ERR) {
            // The reader went away: with all of it or not.
            return rustix::io::ioctl_fionread(pipe).is_ok_and(|left| left == 0);
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
}

/// Until one is ready or it is time to look again; an error when the deadline has passed.
fn wait(fds: &mut [PollFd<'_>], deadline: Instant) -> Result<(), Unread> {
    let left = deadline.saturating_duration_since(Instant::now()).min(SLICE);
    if left.is_zero() {
        return Err(Unread::TooSlow);
    }
    let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as _ };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(_) => Err(Unread::Failed),
    }
}

/// Which process reads what is written into this pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The one that was meant, or one that it started.
    Meant,
    /// Another one, such as a clipboard manager.
    Other,
    Unknown,
}

/// Looks among the open files of the process that is meant, then of all others. `ourselves` are those that hold the
/// pipe's writing end.
pub(crate) fn reader(pipe: impl AsFd, meant: Option<i32>, ourselves: &[i32]) -> Reader {
    let Some(meant) = meant else { return Reader::Unknown };
    let Ok(stat) = rustix::fs::fstat(pipe) else { return Reader::Unknown };
    let name = format!("pipe:[{}]", stat.st_ino);
    if holds(meant, &name) {
        return Reader::Meant;
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut others = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).filter(|pid| !ourselves.contains(pid));
    match others.find(|pid| holds(*pid, &name)) {
        Some(pid) if descends(pid, meant) => Reader::Meant,
        Some(_) => Reader::Other,
        None => Reader::Unknown,
    }
}

fn holds(pid: i32, name: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == name)
}

fn descends(mut pid: i32, from: i32) -> bool {
    for _ in 0..64 {
        let Some(parent) = parent(pid) else { return false };
        if parent == from {
            return true;
        }
        pid = parent;
    }
    false
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (OwnedFd, OwnedFd) {
        let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        rustix::io::ioctl_fionbio(&reading, true).unwrap();
        (reading, writing)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn what_is_served_is_read_whole() {
        let content: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
        let (pipes, writers): (Vec<_>, Vec<_>) = (0..3).map(|_| pipe()).unzip();
        let threads: Vec<_> = writers
            .into_iter()
            .map(|writer| {
                let content = content.clone();
                std::thread::spawn(move || serve(&writer, &content, soon()))
            })
            .collect();
        let read = drain(pipes, 1 << 20, soon()).unwrap();
        assert!(read.iter().all(|one| *one == content));
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    }

    #[test]
    fn bounds_hold() {
        let (reading, writing) = pipe();
        let writer = std::thread::spawn(move || serve(&writing, &[7; 200_000], soon()));
        assert_eq!(drain(vec![reading], 100_000, soon()), Err(Unread::TooLarge));
        assert!(!writer.join().unwrap(), "the reader went away");
        let (reading, writing) = pipe();
        assert_eq!(drain(vec![reading], 10, Instant::now() + Duration::from_millis(30)), Err(Unread::TooSlow));
        drop(writing);
        let (reading, writing) = pipe();
        assert!(!serve(&writing, b"not yet read", Instant::now() + Duration::from_millis(30)));
        drop(reading);
    }

    #[test]
    fn the_reader_is_known_by_its_open_files() {
        let us = std::process::id() as i32;
        let (reading, writing) = pipe();
        assert_eq!(reader(&writing, Some(us), &[]), Reader::Meant);
        assert_eq!(reader(&writing, None, &[]), Reader::Unknown);
        assert_eq!(reader(&writing, Some(1), &[us]), Reader::Unknown);
        let mut child = std::process::Command::new("sleep").arg("60").stdin(reading).spawn().unwrap();
        let pid = child.id() as i32;
        assert_eq!(reader(&writing, Some(pid), &[us]), Reader::Meant);
        assert_eq!(reader(&writing, Some(us), &[us]), Reader::Meant, "a child of the meant one");
        assert_eq!(reader(&writing, Some(i32::MAX), &[us]), Reader::Other);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
