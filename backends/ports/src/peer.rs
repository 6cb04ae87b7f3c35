//! Who is behind the session's sockets: which run of which compositor, and whether two sockets are one compositor's.
//!
//! Everything ambient comes in as an [`Environment`], so that a test can name its own.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// What the session's environment variables say; an empty variable counts as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `XDG_RUNTIME_DIR`
    pub runtime_dir: Option<PathBuf>,
    /// `WAYLAND_DISPLAY`: a name in the runtime directory, or an absolute path.
    pub wayland_display: Option<OsString>,
    /// `NIRI_SOCKET`
    pub niri_socket: Option<PathBuf>,
    /// `SWAYSOCK`
    pub sway_socket: Option<PathBuf>,
}

impl Environment {
    /// Takes the variables from `lookup`, e.g. `|name| std::env::var_os(name)`.
    pub fn from_vars(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
        Self {
            runtime_dir: get("XDG_RUNTIME_DIR").map(PathBuf::from),
            wayland_display: get("WAYLAND_DISPLAY"),
            niri_socket: get("NIRI_SOCKET").map(PathBuf::from),
            sway_socket: get("SWAYSOCK").map(PathBuf::from),
        }
    }

    /// The Wayland socket's path, found as libwayland does.
    pub fn wayland_socket(&self) -> Result<PathBuf, String> {
        let Some(display) = &self.wayland_display else {
            let looked_in = self.runtime_dir.as_deref().map_or_else(String::new, |dir| format!(" and {} holds no single compositor's socket", dir.display()));
            return Err(format!("WAYLAND_DISPLAY is not set{looked_in}; start deskhand inside the desktop session, with its XDG_RUNTIME_DIR and WAYLAND_DISPLAY"));
        };
        let display = Path::new(display);
        if display.is_absolute() {
            return Ok(display.to_owned());
        }
        match &self.runtime_dir {
            Some(dir) => Ok(dir.join(display)),
            None => Err("XDG_RUNTIME_DIR is not set; start deskhand inside the desktop session".into()),
        }
    }
}

/// One run of a process: its id alone may be used again, with its start time it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub pid: i32,
    /// In clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

/// The process that listens on a Unix socket. Never waits: a full backlog is an error.
pub fn peer_of(socket: &Path) -> io::Result<Peer> {
    let fd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)?;
    let pid = peer_pid(&fd)?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let start_time = start_time(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has no start time")))?;
    Ok(Peer { pid, start_time })
}

/// The process at the other end of a Unix socket, as this process sees it.
pub fn peer_pid(socket: &impl AsFd) -> io::Result<i32> {
    // Not rustix's: its type can't hold the 0 that the kernel gives for a peer outside this PID namespace.
    match nix::sys::socket::getsockopt(&socket.as_fd(), nix::sys::socket::sockopt::PeerCredentials)?.pid() {
        0 => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "its process is outside this PID namespace; start deskhand outside the container or sandbox",
        )),
        pid => Ok(pid),
    }
}

/// Field 22 of a `/proc/PID/stat` line. The second field, the program's name, may hold spaces and parentheses.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The compositor that serves the session's Wayland display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Display {
    pub socket: PathBuf,
    pub peer: Peer,
    /// `<canonical socket name>.<pid>.<start time>`, fit for a file name: another run of the compositor has another.
    pub instance: String,
}

/// Finds who serves the display; the error is a sentence for a person.
pub fn display(environment: &Environment) -> Result<Display, String> {
    let socket = environment.wayland_socket()?;
    let peer = peer_of(&socket).map_err(|e| {
        format!("the Wayland socket {} can't be reached ({e})", socket.display())
    })?;
    let name = canonical_name(&socket, environment.runtime_dir.as_deref());
    let instance = format!("{name}.{}.{}", peer.pid, peer.start_time);
    Ok(Display { socket, peer, instance })
}

/// The socket's name in the runtime directory; a socket elsewhere has its whole path, escaped.
fn canonical_name(socket: &Path, runtime_dir: Option<&Path>) -> String {
    let socket = fs::canonicalize(socket).unwrap_or_else(|_| socket.to_owned());
    let runtime_dir = runtime_dir.map(|dir| fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()));
    let name = match &runtime_dir {
        Some(dir) => socket.strip_prefix(dir).unwrap_or(&socket),
        None => &socket,
    };
    name.to_string_lossy().replace('%', "%25").replace('/', "%2F")
}

/// How a compositor's IPC socket is recognised.
#[derive(Clone, Copy, Debug)]
pub struct IpcKind {
    /// The compositor's name, for messages.
    pub compositor: &'static str,
    /// The environment variable that names the socket.
    pub variable: &'static str,
    /// What the names of its sockets in the runtime directory begin with; they end in `.sock`.
    pub prefix: &'static str,
}

/// Where a compositor listens, and whether that is the display's compositor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpcSocket {
    pub path: PathBuf,
    pub peer: Peer,
    pub instance: String,
    /// The reason when the display and this socket don't belong to one compositor.
    pub matches: Result<(), String>,
}

/// Finds the IPC socket of the display's compositor: the one that `named` says if its peer is the display's, else one
/// in the runtime directory whose peer is; else the named one, as a mismatch.
pub fn find_ipc(environment: &Environment, named: Option<&Path>, kind: IpcKind) -> Result<IpcSocket, String> {
    let display = display(environment);
    let named_peer = named.map(|path| (path, peer_of(path)));

    if let Ok(display) = &display {
        let matching = |path: &Path| IpcSocket {
            path: path.to_owned(),
            peer: display.peer,
            instance: display.instance.clone(),
            matches: Ok(()),
        };
        if let Some((path, Ok(peer))) = &named_peer
            && *peer == display.peer
        {
            return Ok(matching(path));
        }
        let found =
            candidates(environment, kind).into_iter().find(|path| peer_of(path).is_ok_and(|p| p == display.peer));
        if let Some(path) = found {
            return Ok(matching(&path));
        }
    }

    match (named_peer, display) {
        (Some((path, Ok(peer))), display) => Ok(IpcSocket {
            path: path.to_owned(),
            peer,
            instance: match &display {
                Ok(display) => display.instance.clone(),
                Err(_) => format!(
                    "{}.{}.{}",
                    canonical_name(path, environment.runtime_dir.as_deref()),
                    peer.pid,
                    peer.start_time
                ),
            },
            matches: Err(mismatch(path, peer, display, kind)),
        }),
        (_, Err(reason)) => Err(reason),
        (Some((path, Err(e))), Ok(display)) => Err(format!(
            "{} names {}, which can't be reached ({e}), and no other {} socket in the runtime directory belongs to \
             process {}, which serves the Wayland display",
            kind.variable,
            path.display(),
            kind.compositor,
            display.peer.pid
        )),
        (None, Ok(display)) => Err(format!(
            "no {} socket belongs to process {}, which serves the Wayland display {}; is the compositor {}?",
            kind.compositor,
            display.peer.pid,
            display.socket.display(),
            kind.compositor
        )),
    }
}

fn mismatch(path: &Path, peer: Peer, display: Result<Display, String>, kind: IpcKind) -> String {
    match display {
        Ok(display) => format!(
            "{}={} belongs to process {}, but the Wayland display {} is served by process {}; start deskhand with the \
             variables of one session",
            kind.variable,
            path.display(),
            peer.pid,
            display.socket.display(),
            display.peer.pid
        ),
        Err(reason) => format!(
            "whether {}={} and the Wayland display belong together can't be told: {reason}",
            kind.variable,
            path.display()
        ),
    }
}

fn candidates(environment: &Environment, kind: IpcKind) -> Vec<PathBuf> {
    let Some(entries) = environment.runtime_dir.as_ref().and_then(|dir| fs::read_dir(dir).ok()) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(kind.prefix) && name.ends_with(".sock")
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

impl fmt::Display for IpcSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.path.display(), self.peer.pid)
    }
}

/// How long to wait before each next attempt: doubles from 50 ms to 2 s.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);

    pub fn next_delay(&mut self) -> Duration {
        let delay = Self::FIRST.saturating_mul(1 << self.attempts.min(10)).min(Self::LONGEST);
        self.attempts = self.attempts.saturating_add(1);
        delay
    }

    /// It worked: the next failure starts from the shortest delay.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const NIRI: IpcKind = IpcKind { compositor: "niri", variable: "NIRI_SOCKET", prefix: "niri." };

    fn environment(dir: &Path) -> Environment {
        Environment {
            runtime_dir: Some(dir.to_owned()),
            wayland_display: Some("wayland-7".into()),
            ..Environment::default()
        }
    }

    #[test]
    fn start_time_survives_odd_program_names() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20";
        assert_eq!(start_time(stat), Some(987654));
        assert_eq!(start_time("42 (short) S 1"), None);
        assert_eq!(start_time(""), None);
    }

    #[test]
    fn a_listener_of_this_process_is_known_by_id_and_start() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(dir.path().join("wayland-7")).unwrap();
        let display = display(&environment(dir.path())).unwrap();
        assert_eq!(display.peer.pid, std::process::id() as i32);
        assert_eq!(display.instance, format!("wayland-7.{}.{}", display.peer.pid, display.peer.start_time));
    }

    #[test]
    fn the_name_is_canonical() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(dir.path().join("wayland-7")).unwrap();
        let by_name = environment(dir.path());
        let by_path =
            Environment { wayland_display: Some(dir.path().join("./wayland-7").into_os_string()), ..by_name.clone() };
        assert_eq!(display(&by_name).unwrap().instance, display(&by_path).unwrap().instance);
        let elsewhere = Environment { runtime_dir: Some("/nonexistent".into()), ..by_path };
        let name = display(&elsewhere).unwrap().instance;
        assert!(name.starts_with("%2F") && !name.contains('/'), "{name}");
    }

    #[test]
    fn the_socket_is_found_again_when_the_variable_is_stale() {
        let dir = tempfile::tempdir().unwrap();
        let _display = UnixListener::bind(dir.path().join("wayland-7")).unwrap();
        let _stale = UnixListener::bind(dir.path().join("niri.wayland-7.1.sock")).map(drop);
        let new = dir.path().join("niri.wayland-7.2.sock");
        let _ipc = UnixListener::bind(&new).unwrap();
        let found = find_ipc(&environment(dir.path()), Some(&dir.path().join("niri.wayland-7.1.sock")), NIRI).unwrap();
        assert_eq!((found.path, found.matches), (new, Ok(())));
    }

    #[test]
    fn without_a_display_the_named_socket_is_a_mismatch() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("niri.wayland-7.1.sock");
        let _ipc = UnixListener::bind(&path).unwrap();
        let found = find_ipc(&environment(dir.path()), Some(&path), NIRI).unwrap();
        assert!(found.matches.unwrap_err().contains("can't be told"));
        assert!(find_ipc(&environment(dir.path()), None, NIRI).unwrap_err().contains("wayland-7"));
    }

    #[test]
    fn nothing_set_is_a_sentence() {
        let error = find_ipc(&Environment::default(), None, NIRI).unwrap_err();
        assert!(error.contains("WAYLAND_DISPLAY is not set"));
    }

    #[test]
    fn backoff_doubles_to_its_bound() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> = (0..8).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        backoff.reset();
        assert_eq!(backoff.next_delay().as_millis(), 50);
    }
}
