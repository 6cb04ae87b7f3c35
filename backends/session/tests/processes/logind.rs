use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use deskhand_core::desktop::event::{CompositorKind, LockState, Observation};
use deskhand_session::{Bus, LockFollower};
use zbus::zvariant::OwnedObjectPath;

use crate::helper::{Seen, block_on, runtime_dir};

const SESSION: &str = "/org/freedesktop/login1/session/_37";

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bus(root: &Path) -> (Process, String) {
    let address = format!("unix:path={}", root.join("bus").display());
    let mut child = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--nopidfile", "--print-address=1", "--address", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("dbus-daemon is needed for this test");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("unix:path="), "{line}");
    (Process(child), address)
}

/// A process that looks like a niri of session 7 in `/proc`.
fn compositor(session: Option<&str>, arguments: &[&str]) -> Process {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "read line", "niri"]).args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::null());
    if let Some(session) = session {
        command.env("XDG_SESSION_ID", session);
    }
    Process(command.spawn().unwrap())
}

struct Manager {
    pid: u32,
}

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Manager {
    fn get_session(&self, id: &str) -> zbus::fdo::Result<OwnedObjectPath> {
        match id {
            "7" => Ok(OwnedObjectPath::try_from(SESSION).unwrap()),
            _ => Err(zbus::fdo::Error::Failed(format!("No session '{id}' known"))),
        }
    }

    #[zbus(name = "GetSessionByPID")]
    fn get_session_by_pid(&self, pid: u32) -> zbus::fdo::Result<OwnedObjectPath> {
        match pid == self.pid {
            true => Ok(OwnedObjectPath::try_from(SESSION).unwrap()),
            false => Err(zbus::fdo::Error::Failed(format!("PID {pid} does not belong to any known session"))),
        }
    }
}

struct LoginSession {
    locked: bool,
}

#[zbus::interface(name = "org.freedesktop.login1.Session")]
impl LoginSession {
    #[zbus(property)]
    fn locked_hint(&self) -> bool {
        self.locked
    }
}

async fn logind(address: &str, pid: u32, locked: bool) -> zbus::Connection {
    zbus::connection::Builder::address(address)
        .unwrap()
        .serve_at("/org/freedesktop/login1", Manager { pid })
        .unwrap()
        .serve_at(SESSION, LoginSession { locked })
        .unwrap()
        .name("org.freedesktop.login1")
        .unwrap()
        .build()
        .await
        .unwrap()
}

async fn set_locked(logind: &zbus::Connection, locked: bool) {
    let session = logind.object_server().interface::<_, LoginSession>(SESSION).await.unwrap();
    let mut interface = session.get_mut().await;
    interface.locked = locked;
    interface.locked_hint_changed(session.signal_emitter()).await.unwrap();
}

fn state(wanted: LockState) -> impl Fn(&Observation) -> Option<String> {
    move |seen| match seen {
        Observation::Lock { state, source } if *state == wanted => Some(source.clone()),
        _ => None,
    }
}

#[test]
fn the_hint_is_followed_through_a_restart_of_logind_and_of_the_bus() {
    let root = runtime_dir();
    let (daemon, address) = bus(root.path());
    let niri = compositor(Some("7"), &["--session"]);
    let pid = niri.0.id();
    block_on(async {
        let login = logind(&address, pid, false).await;
        let seen = Seen::default();
        let _follower = LockFollower::start(Bus::Address(address.clone()), pid, CompositorKind::Niri, seen.observe());
        assert_eq!(seen.wait("unlocked", state(LockState::Unlocked)).await.1, "logind");
        set_locked(&login, true).await;
        assert_eq!(seen.wait("locked", state(LockState::Locked)).await.1, "logind");
        seen.forget();
        set_locked(&login, false).await;
        seen.wait("unlocked", state(LockState::Unlocked)).await;

        seen.forget();
        login.close().await.unwrap();
        seen.wait("unknown", state(LockState::Unknown)).await;
        let login = logind(&address, pid, true).await;
        seen.wait("locked after logind's restart", state(LockState::Locked)).await;

        seen.forget();
        drop(daemon);
        let reason = seen.wait("unknown", state(LockState::Unknown)).await.1;
        assert!(reason.contains("bus"), "{reason}");
        drop(login);
        std::fs::remove_file(root.path().join("bus")).unwrap();
        let (_daemon, address) = bus(root.path());
        let _login = logind(&address, pid, false).await;
        seen.wait("unlocked after the bus's restart", state(LockState::Unlocked)).await;
    });
}

#[test]
fn what_can_not_be_known_is_unknown_with_its_reason() {
    let root = runtime_dir();
    let (_daemon, address) = bus(root.path());
    block_on(async {
        let unknown = async |bus: Bus, pid: u32, kind| {
            let seen = Seen::default();
            let _follower = LockFollower::start(bus, pid, kind, seen.observe());
            seen.wait("unknown", state(LockState::Unknown)).await.1
        };
        let bus = Bus::Address(address.clone());
        let nowhere = Bus::Address(format!("unix:path={}", root.path().join("no-bus").display()));
        let niri = compositor(Some("7"), &["--session"]);
        let reason = unknown(nowhere, niri.0.id(), CompositorKind::Niri).await;
        assert!(reason.contains("system bus can't be reached"), "{reason}");
        let reason = unknown(bus.clone(), niri.0.id(), CompositorKind::Niri).await;
        assert!(reason.contains("logind knows no session"), "{reason}");
        assert!(unknown(bus.clone(), 1, CompositorKind::Sway).await.contains("sway"));

        let by_hand = compositor(Some("7"), &[]);
        let login = logind(&address, by_hand.0.id(), false).await;
        let reason = unknown(bus.clone(), by_hand.0.id(), CompositorKind::Niri).await;
        assert!(reason.contains("--session"), "{reason}");
        let nameless = compositor(None, &["--session"]);
        let reason = unknown(bus.clone(), nameless.0.id(), CompositorKind::Niri).await;
        assert!(reason.contains("no session"), "{reason}");

        // A lock that is told is believed of any.
        set_locked(&login, true).await;
        let seen = Seen::default();
        let _follower = LockFollower::start(bus, by_hand.0.id(), CompositorKind::Niri, seen.observe());
        seen.wait("locked", state(LockState::Locked)).await;
    });
}
