//! The sockets to serve on: bound here, or handed over by systemd.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use deskhand_http::Listener;
use listenfd::ListenFd;
use rustix::fs::Mode;

use crate::cli::Serve;
use crate::commands::Failed;

const DEFAULT: &str = "127.0.0.1:7333";

pub struct Listening {
    pub listeners: Vec<Listener>,
    /// Sockets of ours, which are removed with this.
    pub files: Vec<SocketFile>,
}

/// Removes the socket when dropped, unless another has taken its place.
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Listening {
    /// Where a client finds the server, a line each.
    pub fn places(&self) -> Vec<String> {
        self.listeners.iter().filter_map(|listener| match listener {
            Listener::Tcp(tcp) => tcp.local_addr().ok().map(|at| format!("http://{at}/mcp")),
            Listener::Unix(unix) => unix.local_addr().ok().and_then(|at| at.as_pathname().map(|p| format!("unix:{}", p.display()))),
        })
        .collect()
    }

    /// An address that isn't this machine's alone.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.listeners.iter().find_map(|listener| match listener {
            Listener::Tcp(tcp) => tcp.local_addr().ok().filter(|at| !at.ip().is_loopback()),
            Listener::Unix(_) => None,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|m| m.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub fn open(options: &Serve) -> Result<Listening, Failed> {
    let mut listening = Listening { listeners: handed_over()?, files: Vec::new() };
    if let Some(path) = &options.unix {
        let (listener, file) = unix(path)?;
        listening.listeners.push(Listener::Unix(listener));
        listening.files.push(file);
    }
    let addr = match &options.addr {
        Some(addr) => Some(addr.as_str()),
        None if listening.listeners.is_empty() => Some(DEFAULT),
        None => None,
    };
    if let Some(addr) = addr {
        listening.listeners.push(Listener::Tcp(tcp(addr)?));
    }
    Ok(listening)
}

/// What systemd's socket activation passes.
fn handed_over() -> Result<Vec<Listener>, Failed> {
    let mut from = ListenFd::from_env();
    let mut listeners = Vec::new();
    for at in 0..from.len() {
        if let Ok(Some(tcp)) = from.take_tcp_listener(at) {
            listeners.push(Listener::Tcp(tcp));
        } else if let Ok(Some(unix)) = from.take_unix_listener(at) {
            listeners.push(Listener::Unix(unix));
        } else {
            return Err(Failed::Usage(format!("socket {at} that was handed over is neither a TCP nor a Unix stream socket; mend the .socket unit")));
        }
    }
    Ok(listeners)
}

fn tcp(addr: &str) -> Result<TcpListener, Failed> {
    let addr: SocketAddr = addr.parse().map_err(|_| Failed::Usage(format!("{addr:?} isn't an address and a port; one looks like {DEFAULT} or [::1]:7333")))?;
    TcpListener::bind(addr).map_err(|e| {
        let remedy = match e.kind() {
            ErrorKind::AddrInUse => "; another server has it (perhaps another deskhand): end that one or give another --addr",
            ErrorKind::PermissionDenied => "; ports below 1024 are the system's: give another --addr",
            _ => "",
        };
        Failed::Not(format!("{addr} can't be listened on: {e}{remedy}"))
    })
}

/// Nobody but the owner may connect, at no moment.
fn unix(path: &Path) -> Result<(UnixListener, SocketFile), Failed> {
    let failed = |e: std::io::Error| Failed::File(format!("{} can't be listened on: {e}", path.display()));
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(Failed::File(format!("{} is there already and no socket; give another --unix", path.display())));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(Failed::Not(format!("another server listens on {}; end that one or give another --unix", path.display())));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    // No other thread runs yet, so the mask is nobody else's.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(failed)?;
    let inode = fs::symlink_metadata(path).map_err(failed)?.ino();
    Ok((listener, SocketFile { path: path.to_owned(), inode }))
}
