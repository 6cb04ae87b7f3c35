//! This test program started again as a server or as its guard, and waiting with a deadline.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use deskhand_core::desktop::effect::{Outcome, Reply, SessionRequest};
use deskhand_core::desktop::event::Observation;
use deskhand_ports::{Fence, Observe, PressJournal, Pressed, Session as _, Ticket};
use deskhand_session::{Guard, Paths, Session, guard};
use tempfile::TempDir;

const MODE: &str = "DESKHAND_TEST_MODE";
const DIRECTORY: &str = "DESKHAND_TEST_DIRECTORY";
const RELEASE: &str = "DESKHAND_TEST_RELEASE";
pub const LONG: Duration = Duration::from_secs(20);

pub fn paths(root: &Path) -> Paths {
    Paths::new(root, &root.join("state"), &root.join("config"), "wayland-1.42.1000")
}

/// In memory, as a session's runtime directory is: a busy disk holds up a process's end for seconds.
pub fn runtime_dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn ticket() -> Ticket {
    Ticket {
        fence: Fence::default(),
        generation: 0,
        cancelled: Arc::new(AtomicBool::new(false)),
        deadline: Instant::now() + LONG,
    }
}

pub async fn take(session: &Session, label: &str) -> Outcome {
    session.request(SessionRequest::Lock { label: label.into(), since_wall_ms: 1234 }, ticket()).await
}

pub async fn give_back(session: &Session) {
    assert_eq!(session.request(SessionRequest::Unlock, ticket()).await, Ok(Reply::Done));
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Everything observed, with its time.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<(Instant, Observation)>>>);

impl Seen {
    pub fn observe(&self) -> Observe {
        let seen = self.clone();
        Arc::new(move |observation| seen.0.lock().unwrap().push((Instant::now(), observation)))
    }

    pub fn all(&self) -> Vec<Observation> {
        self.0.lock().unwrap().iter().map(|(_, observation)| observation.clone()).collect()
    }

    pub fn forget(&self) {
        self.0.lock().unwrap().clear();
    }

    /// The first observation that `wanted` takes, waiting for it in the runtime.
    pub async fn wait<T>(&self, what: &str, wanted: impl Fn(&Observation) -> Option<T>) -> (Instant, T) {
        let deadline = Instant::now() + LONG;
        loop {
            let found = self.0.lock().unwrap().iter().find_map(|(at, seen)| wanted(seen).map(|found| (*at, found)));
            if let Some(found) = found {
                return found;
            }
            assert!(Instant::now() < deadline, "never saw {what}: {:?}", self.all());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "in vain waited for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Gone, or a zombie that only waits to be taken away.
pub fn ended(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

pub fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// A server in a process of its own, which has the lease and holds a key, a modifier and a button.
pub struct Server {
    pub child: Child,
    root: PathBuf,
}

impl Server {
    pub fn start(root: &Path, mode: &str, release: &str) -> Self {
        let _ = fs::remove_file(root.join("ready"));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["helper::server_process", "--exact", "--nocapture"])
            .env(MODE, mode)
            .env(DIRECTORY, root)
            .env(RELEASE, release)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let server = Self { child, root: root.to_owned() };
        wait_until("the server", || root.join("ready").exists());
        server
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn guard_pid(&self) -> u32 {
        fs::read_to_string(self.root.join("ready")).unwrap().parse().unwrap()
    }

    /// What the guard released and when, in nanoseconds since 1970.
    pub fn released(&self) -> Option<(u128, String)> {
        let text = fs::read_to_string(self.root.join("released")).ok()?;
        let (at, what) = text.split_once(' ')?;
        Some((at.parse().ok()?, what.to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub const HELD: &str = "[Key(30), Modifiers(4), Button(272)]";

#[test]
fn server_process() {
    let (Ok(mode), Ok(root)) = (std::env::var(MODE), std::env::var(DIRECTORY)) else { return };
    let root = PathBuf::from(root);
    let paths = paths(&root);
    block_on(async {
        let guarded = mode != "unguarded";
        let guard = guarded.then(|| {
            let args = ["helper::guard_process", "--exact", "--nocapture"];
            Arc::new(Guard::spawn(Path::new("/proc/self/exe"), &args, &paths).unwrap())
        });
        let seen = Seen::default();
        let session = Session::start(paths, seen.observe(), guard.clone(), Vec::new());
        let idle = mode == "idle";
        if !idle {
            assert_eq!(take(&session, "helper").await, Ok(Reply::Done));
        }
        if let Some(guard) = guard.as_ref().filter(|_| !idle) {
            for what in [Pressed::Key(30), Pressed::Key(31), Pressed::Modifiers(4), Pressed::Button(0x110)] {
                guard.pressing(what).unwrap();
            }
            guard.released(Pressed::Key(31));
        }
        let guard_pid = guard.as_ref().and_then(|guard| guard.pid()).unwrap_or(0);
        fs::write(root.join("ready.new"), guard_pid.to_string()).unwrap();
        fs::rename(root.join("ready.new"), root.join("ready")).unwrap();
        match (mode.as_str(), guard) {
            ("hang" | "idle", _) => loop {
                std::thread::park();
            },
            ("answer", Some(guard)) => loop {
                seen.wait("a stop", |seen| (*seen == Observation::Stop { set: true }).then_some(())).await;
                guard.stop_acknowledged();
                seen.forget();
            },
            ("goodbye", Some(guard)) => {
                give_back(&session).await;
                guard.goodbye();
            }
            ("drop", guard) => {
                drop((session, guard));
                tokio::time::sleep(LONG).await;
            }
            ("exit", _) => std::process::exit(0),
            _ => std::future::pending().await,
        }
    });
}

#[test]
fn guard_process() {
    let (Ok(release), Ok(root)) = (std::env::var(RELEASE), std::env::var(DIRECTORY)) else { return };
    let root = PathBuf::from(root);
    let result = guard::run(&|held| {
        let at = now_ns();
        fs::write(root.join("released.new"), format!("{at} {held:?}")).map_err(|e| e.to_string())?;
        fs::rename(root.join("released.new"), root.join("released")).map_err(|e| e.to_string())?;
        match release.as_str() {
            "fail" => Err("the display is gone".into()),
            "slow" => {
                std::thread::sleep(Duration::from_secs(1));
                Ok(())
            }
            "hang" => loop {
                std::thread::park();
            },
            "panic" => panic!("on purpose"),
            _ => Ok(()),
        }
    });
    // Not by panicking: the exit code is the program's to choose.
    if let Err(why) = result {
        let _ = fs::write(root.join("guard-error"), why);
    }
}
