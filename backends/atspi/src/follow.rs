//! Finds the accessibility bus through the session's, and follows whether it is there.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deskhand_core::desktop::event::{AccessState, Observation};
use deskhand_ports::Observe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zbus::export::futures_core::Stream;
use zbus::zvariant::{OwnedValue, Value};
use zbus::{Connection, MatchRule, MessageStream, message};

use crate::calls::{Calls, Object};

const BUS: &str = "org.a11y.Bus";
const BUS_PATH: &str = "/org/a11y/bus";
const STATUS: &str = "org.a11y.Status";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const CALL_LIMIT: Duration = Duration::from_secs(3);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Some toolkits begin to follow their own tree only when somebody listens.
const LISTENED: &[&str] = &["object:state-changed", "object:children-changed", "object:text-changed"];

#[derive(Clone)]
pub struct Bus {
    pub calls: Calls,
    /// Whether applications are told to offer their trees.
    pub enabled: bool,
}

pub struct Shared {
    observe: Observe,
    bus: Mutex<Result<Bus, String>>,
    told: watch::Sender<bool>,
    /// Counts the connections, and the last one on which was said what is listened to.
    connections: AtomicU64,
    prepared: tokio::sync::Mutex<u64>,
}

impl Shared {
    pub fn new(observe: Observe) -> Self {
        Self {
            observe,
            bus: Mutex::new(Err("the accessibility bus wasn't looked for yet".into())),
            told: watch::Sender::new(false),
            connections: AtomicU64::new(0),
            prepared: tokio::sync::Mutex::new(0),
        }
    }

    pub fn bus(&self) -> Result<Bus, String> {
        self.bus.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub async fn told(&self) {
        let _ = self.told.subscribe().wait_for(|told| *told).await;
    }

    /// Once a connection, and only when somebody looks: applications work more while they are listened to.
    pub async fn prepare(&self, calls: &Calls, end: Instant) {
        let mut prepared = self.prepared.lock().await;
        let current = self.connections.load(Ordering::SeqCst);
        if *prepared == current {
            return;
        }
        let registry = Object::new("org.a11y.atspi.Registry", "/org/a11y/atspi/registry");
        for event in LISTENED {
            let _ = calls.call(&registry, "org.a11y.atspi.Registry", "RegisterEvent", event, end).await;
        }
        *prepared = current;
    }

    fn tell(&self, bus: Result<Bus, String>) {
        let state = match &bus {
            Ok(bus) => AccessState::Up { enabled: bus.enabled },
            Err(detail) => AccessState::Down { detail: detail.clone() },
        };
        *self.bus.lock().unwrap_or_else(PoisonError::into_inner) = bus;
        (self.observe)(Observation::Accessibility(state));
        self.told.send_replace(true);
    }
}

pub async fn follow(shared: Arc<Shared>, session_bus: Option<String>, enable: bool) {
    let Some(address) = session_bus else {
        shared.tell(Err("there is no session bus: DBUS_SESSION_BUS_ADDRESS isn't set and the runtime directory has no socket named bus".into()));
        return;
    };
    let mut retry = FIRST_RETRY;
    loop {
        let began = Instant::now();
        let why = match on_session(&shared, &address, enable).await {
            Ok(()) => "the session bus ended".to_string(),
            Err(why) => why,
        };
        shared.tell(Err(why));
        if began.elapsed() > LONGEST_RETRY {
            retry = FIRST_RETRY;
        }
        sleep(retry).await;
        retry = (retry * 2).min(LONGEST_RETRY);
    }
}

/// Until the session bus ends.
async fn on_session(shared: &Shared, address: &str, enable: bool) -> Result<(), String> {
    let session = connect(address, "session").await?;
    let rule = || -> zbus::Result<MatchRule<'static>> {
        Ok(MatchRule::builder()
            .msg_type(message::Type::Signal)
            .sender("org.freedesktop.DBus")?
            .member("NameOwnerChanged")?
            .arg(0, BUS)?
            .build())
    };
    let failed = |e: zbus::Error| format!("the session bus can't be asked: {e}");
    let mut owners = MessageStream::for_match_rule(rule().map_err(failed)?, &session, Some(16)).await.map_err(failed)?;
    loop {
        if !enable && !has_owner(&session).await? {
            shared.tell(Err("the accessibility bus isn't running; the policy's accessibility = \"enable\" starts it (package at-spi2-core)".into()));
            if next(&mut owners).await.is_none() {
                return Ok(());
            }
            continue;
        }
        let (calls, ended, enabled) = on_accessibility(&session, enable).await?;
        shared.connections.fetch_add(1, Ordering::SeqCst);
        shared.tell(Ok(Bus { calls, enabled }));
        tokio::select! {
            _ = ended => {}
            signal = next(&mut owners) => if signal.is_none() { return Ok(()) },
        }
        // The next bus isn't there in the same moment.
        shared.tell(Err("the accessibility bus ended".into()));
        sleep(Duration::from_millis(200)).await;
    }
}

async fn on_accessibility(session: &Connection, enable: bool) -> Result<(Calls, tokio::task::JoinHandle<()>, bool), String> {
    let failed = |e: String| format!("org.a11y.Bus can't be asked ({e}); is at-spi2-core installed?");
    let reply = call(session, BUS, "GetAddress", &()).await.map_err(failed)?;
    let address: String = reply.body().deserialize().map_err(|e| failed(e.to_string()))?;
    if !address.starts_with("unix:") {
        return Err("the accessibility bus is on no Unix socket of this session, so it isn't used".into());
    }
    let connection = connect(&address, "accessibility").await?;
    if enable {
        call(session, PROPERTIES, "Set", &(STATUS, "IsEnabled", Value::from(true))).await.map_err(failed)?;
    }
    let enabled = match call(session, PROPERTIES, "Get", &(STATUS, "IsEnabled")).await {
        Ok(reply) => reply.body().deserialize::<OwnedValue>().ok().and_then(|v| bool::try_from(v).ok()).unwrap_or(false),
        Err(_) => false,
    };
    let (calls, ended) = Calls::new(connection);
    Ok((calls, ended, enabled))
}

async fn connect(address: &str, what: &str) -> Result<Connection, String> {
    let unreachable = |e: zbus::Error| format!("the {what} bus can't be reached: {e}");
    let connecting = zbus::connection::Builder::address(address).map_err(unreachable)?.build();
    match timeout(CALL_LIMIT, connecting).await {
        Ok(connection) => connection.map_err(unreachable),
        Err(_) => Err(format!("the {what} bus doesn't answer")),
    }
}

async fn call<B: serde::Serialize + zbus::zvariant::DynamicType>(session: &Connection, interface: &str, method: &str, body: &B) -> Result<zbus::Message, String> {
    match timeout(CALL_LIMIT, session.call_method(Some(BUS), BUS_PATH, Some(interface), method, body)).await {
        Ok(reply) => reply.map_err(|e| e.to_string()),
        Err(_) => Err("no answer in time".into()),
    }
}

async fn has_owner(session: &Connection) -> Result<bool, String> {
    let asked = session.call_method(Some("org.freedesktop.DBus"), "/org/freedesktop/DBus", Some("org.freedesktop.DBus"), "NameHasOwner", &BUS);
    let reply = timeout(CALL_LIMIT, asked).await.map_err(|_| "the session bus doesn't answer".to_string())?.map_err(|e| e.to_string())?;
    reply.body().deserialize().map_err(|e| e.to_string())
}

async fn next(stream: &mut MessageStream) -> Option<()> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await.and_then(Result::ok).map(drop)
}
