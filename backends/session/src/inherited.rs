//! Open files that whoever started us left open: they must not go on to what we start.

use std::fs;
use std::os::fd::BorrowedFd;

use rustix::io::FdFlags;

/// Marks every open file but the three standard ones as closed on exec. A client that waits for the end of a pipe it
/// left open in us would otherwise wait for a launched program, or for the guard.
pub(crate) fn close_on_exec() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let open = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in open.filter(|number| *number > 2) {
        mark(number);
    }
}

#[allow(unsafe_code)]
fn mark(number: i32) {
    // SAFETY: only F_GETFD and F_SETFD are done with it, which own nothing and close nothing. When another thread closed
    // it meanwhile they fail, or mark a newer file, and every file of ours is marked anyway.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    if let Ok(flags) = rustix::io::fcntl_getfd(file) {
        let _ = rustix::io::fcntl_setfd(file, flags | FdFlags::CLOEXEC);
    }
}
