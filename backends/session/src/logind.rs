//! Whether the compositor's own session is locked, as logind's `LockedHint` says.

use std::convert::Infallible;
use std::fs;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use deskhand_core::desktop::event::{CompositorKind, LockState, Observation};
use deskhand_ports::Observe;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zbus::export::futures_core::Stream;
use zbus::zvariant::{OwnedObjectPath, OwnedValue};
use zbus::{Connection, MatchRule, MessageStream, message};

const LOGIN: &str = "org.freedesktop.login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const SESSION: &str = "org.freedesktop.login1.Session";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const CALL_LIMIT: Duration = Duration::from_secs(5);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Which bus logind is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bus {
    System,
    /// A D-Bus address, e.g. of a private bus.
    Address(String),
}

/// Follows the lock state until it is dropped.
pub struct LockFollower {
    task: JoinHandle<()>,
}

impl LockFollower {
    /// Returns at once; connecting happens in the runtime. What can't be known is `Unknown`, with the reason as source.
    pub fn start(bus: Bus, compositor_pid: u32, kind: CompositorKind, observe: Observe) -> Self {
        Self { task: tokio::spawn(follow(bus, compositor_pid, kind, Reporter { observe, last: None })) }
    }
}

impl Drop for LockFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reporter {
    observe: Observe,
    last: Option<(LockState, String)>,
}

impl Reporter {
    fn report(&mut self, state: LockState, source: impl Into<String>) {
        let now = (state, source.into());
        if self.last.as_ref() != Some(&now) {
            self.last = Some(now.clone());
            (self.observe)(Observation::Lock { state: now.0, source: now.1 });
        }
    }
}

async fn follow(bus: Bus, pid: u32, kind: CompositorKind, mut reporter: Reporter) {
    if kind == CompositorKind::Sway {
        reporter.report(LockState::Unknown, "sway doesn't tell logind whether it is locked");
        return;
    }
    let mut retry = FIRST_RETRY;
    loop {
        let mut known = false;
        let Err(why) = connected(&bus, pid, &mut reporter, &mut known).await;
        reporter.report(LockState::Unknown, why);
        if known {
            retry = FIRST_RETRY;
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(LONGEST_RETRY);
    }
}

/// Follows the session until something fails; the error is the reason for not knowing.
async fn connected(bus: &Bus, pid: u32, reporter: &mut Reporter, known: &mut bool) -> Result<Infallible, String> {
    let connection = connect(bus).await?;
    loop {
        let mut owner = subscribe(&connection, owner_changes()).await?;
        let trust = Trust::in_process(pid);
        let session = find_session(&connection, pid, &trust).await?;
        let mut removed = subscribe(&connection, session_removals()).await?;
        let mut changed = subscribe(&connection, property_changes(&session)).await?;
        loop {
            // Signals only say when to ask: anybody on the bus could send one.
            let locked = locked_hint(&connection, &session).await?;
            *known = true;
            match (locked, &trust.unlocked) {
                (true, _) => reporter.report(LockState::Locked, "logind"),
                (false, Ok(())) => reporter.report(LockState::Unlocked, "logind"),
                (false, Err(why)) => reporter.report(LockState::Unknown, why.clone()),
            }
            match next([&mut changed, &mut removed, &mut owner]).await {
                Some(0) => {}
                Some(_) => break,
                None => return Err("the connection to the system bus was lost; it is being made again".into()),
            }
        }
    }
}

async fn connect(bus: &Bus) -> Result<Connection, String> {
    let builder = match bus {
        Bus::System => zbus::connection::Builder::system(),
        Bus::Address(address) => zbus::connection::Builder::address(address.as_str()),
    };
    let unreachable = |e: zbus::Error| format!("the system bus can't be reached ({e}), so logind can't be asked");
    let connecting = builder.map_err(unreachable)?.method_timeout(CALL_LIMIT).build();
    match timeout(CALL_LIMIT, connecting).await {
        Ok(connection) => connection.map_err(unreachable),
        Err(_) => Err("the system bus doesn't answer, so logind can't be asked".into()),
    }
}

/// What the compositor's process says about its reports to logind. niri reports only when it is the session's own
/// (`--session`), to the session that its `XDG_SESSION_ID` names; otherwise the hint says "unlocked" for ever.
struct Trust {
    session_id: Option<String>,
    unlocked: Result<(), String>,
}

impl Trust {
    fn in_process(pid: u32) -> Self {
        let strings = |file: &str| {
            let text = fs::read(format!("/proc/{pid}/{file}")).ok()?;
            Some(
                text.split(|byte| *byte == 0)
                    .map(|part| String::from_utf8_lossy(part).into_owned())
                    .collect::<Vec<_>>(),
            )
        };
        match (strings("environ"), strings("cmdline")) {
            (Some(environment), Some(arguments)) => Self::of(&environment, &arguments),
            _ => Self {
                session_id: None,
                unlocked: Err(format!(
                    "the compositor's process {pid} can't be examined, so logind's hint can't be trusted"
                )),
            },
        }
    }

    fn of(environment: &[String], arguments: &[String]) -> Self {
        let session_id =
            environment.iter().find_map(|variable| variable.strip_prefix("XDG_SESSION_ID=")).map(str::to_owned);
        let unlocked = if !arguments.iter().any(|argument| argument == "--session") {
            Err("niri was not started as a session (niri --session, e.g. by niri-session), so it doesn't tell logind \
                 whether it is locked"
                .into())
        } else if session_id.is_none() {
            Err("niri was started without XDG_SESSION_ID, so it doesn't tell logind whether it is locked".into())
        } else {
            Ok(())
        };
        Self { session_id, unlocked }
    }
}

/// The session that the compositor reports to, else the one that its process is in.
async fn find_session(connection: &Connection, pid: u32, trust: &Trust) -> Result<OwnedObjectPath, String> {
    let result = match &trust.session_id {
        Some(id) => call(connection, "/org/freedesktop/login1", MANAGER, "GetSession", &(id,)).await,
        None => call(connection, "/org/freedesktop/login1", MANAGER, "GetSessionByPID", &(pid,)).await,
    };
    let reply = result.map_err(|e| format!("logind knows no session of the compositor's process {pid} ({e})"))?;
    reply.body().deserialize().map_err(|e| format!("logind's answer is not understood ({e})"))
}

async fn locked_hint(connection: &Connection, session: &OwnedObjectPath) -> Result<bool, String> {
    let reply = call(connection, session.as_str(), PROPERTIES, "Get", &(SESSION, "LockedHint"))
        .await
        .map_err(|e| format!("logind doesn't say whether the session is locked ({e})"))?;
    let value: OwnedValue =
        reply.body().deserialize().map_err(|e| format!("logind's answer is not understood ({e})"))?;
    bool::try_from(value).map_err(|e| format!("logind's answer is not understood ({e})"))
}

async fn call<B>(
    connection: &Connection,
    path: &str,
    interface: &str,
    method: &str,
    body: &B,
) -> zbus::Result<zbus::Message>
where
    B: serde::Serialize + zbus::zvariant::DynamicType + Sync,
{
    connection.call_method(Some(LOGIN), path, Some(interface), method, body).await
}

async fn subscribe(connection: &Connection, rule: zbus::Result<MatchRule<'static>>) -> Result<MessageStream, String> {
    let subscribed = match rule {
        Ok(rule) => MessageStream::for_match_rule(rule, connection, Some(16)).await,
        Err(e) => Err(e),
    };
    subscribed.map_err(|e| format!("logind's changes can't be followed ({e})"))
}

fn signal() -> zbus::match_rule::Builder<'static> {
    MatchRule::builder().msg_type(message::Type::Signal)
}

fn owner_changes() -> zbus::Result<MatchRule<'static>> {
    let rule =
        signal().sender("org.freedesktop.DBus")?.interface("org.freedesktop.DBus")?.member("NameOwnerChanged")?;
    Ok(rule.arg(0, LOGIN)?.build())
}

fn session_removals() -> zbus::Result<MatchRule<'static>> {
    Ok(signal().path("/org/freedesktop/login1")?.interface(MANAGER)?.member("SessionRemoved")?.build())
}

fn property_changes(session: &OwnedObjectPath) -> zbus::Result<MatchRule<'static>> {
    let rule = signal().path(session.clone().into_inner())?.interface(PROPERTIES)?.member("PropertiesChanged")?;
    Ok(rule.arg(0, SESSION)?.build())
}

/// Waits for a message on any of the streams and says on which; `None` when one has ended.
async fn next<const N: usize>(mut streams: [&mut MessageStream; N]) -> Option<usize> {
    poll_fn(|context| {
        for (number, stream) in streams.iter_mut().enumerate() {
            match Pin::new(&mut **stream).poll_next(context) {
                Poll::Ready(Some(Ok(_))) => return Poll::Ready(Some(number)),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(None),
                Poll::Pending => {}
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn unlocked_is_believed_only_of_a_niri_that_reports() {
        let session = strings(&["A=1", "XDG_SESSION_ID=7"]);
        let trust = Trust::of(&session, &strings(&["/usr/bin/niri", "--session"]));
        assert_eq!((trust.session_id.as_deref(), trust.unlocked), (Some("7"), Ok(())));
        assert!(Trust::of(&session, &strings(&["niri"])).unlocked.unwrap_err().contains("--session"));
        let trust = Trust::of(&strings(&["A=1"]), &strings(&["niri", "--session"]));
        assert!(trust.unlocked.unwrap_err().contains("XDG_SESSION_ID"));
    }
}
