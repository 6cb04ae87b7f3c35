//! Method calls on the accessibility bus, many at a time: each waits for its own reply only.

use std::collections::HashMap;
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deskhand_core::desktop::effect::{Failure, FailureKind};
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use zbus::export::futures_core::Stream;
use zbus::message::{Message, Type as Kind};
use zbus::zvariant::{DynamicType, OwnedValue, Type};
use zbus::{Connection, MessageStream};

pub const ACCESSIBLE: &str = "org.a11y.atspi.Accessible";
pub const ACTION: &str = "org.a11y.atspi.Action";
pub const COMPONENT: &str = "org.a11y.atspi.Component";
pub const TEXT: &str = "org.a11y.atspi.Text";
pub const EDITABLE_TEXT: &str = "org.a11y.atspi.EditableText";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// One call of an app that is alive takes a few milliseconds.
/// GTK 3 walks its long lists once when somebody begins to listen.
const CALL_LIMIT: Duration = Duration::from_millis(1500);

/// An object on the bus.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub bus: String,
    pub path: String,
}

impl Object {
    pub fn new(bus: impl Into<String>, path: impl Into<String>) -> Self {
        Self { bus: bus.into(), path: path.into() }
    }
}

/// The reply to one call that didn't come, or was an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// No answer in time.
    Slow,
    /// The peer is gone, or knows no such object or method.
    Said(String),
    /// The connection to the bus ended.
    Closed,
}

impl CallError {
    pub fn failure(&self) -> Failure {
        match self {
            Self::Slow => Failure::new(FailureKind::Unanswered, "the application doesn't answer on the accessibility bus"),
            Self::Said(what) => Failure::new(FailureKind::Refused, format!("the application said: \"{what}\"")),
            Self::Closed => Failure::new(FailureKind::Unanswered, "the connection to the accessibility bus ended"),
        }
    }
}

impl CallError {
    /// Of a call that acts: without an answer it may have been carried out.
    pub fn acted(&self) -> Failure {
        match self {
            Self::Said(_) => self.failure(),
            Self::Slow | Self::Closed => Failure { kind: FailureKind::TimedOut, ..self.failure() },
        }
    }
}

type Waiting = Arc<Mutex<HashMap<NonZeroU32, oneshot::Sender<Message>>>>;

/// A connection to the accessibility bus.
#[derive(Clone)]
pub struct Calls {
    connection: Connection,
    waiting: Waiting,
    /// The senders of signals, as they come.
    signals: broadcast::Sender<String>,
    ended: Arc<AtomicBool>,
}

impl Calls {
    /// The task ends with the connection.
    pub fn new(connection: Connection) -> (Self, JoinHandle<()>) {
        let (signals, _) = broadcast::channel(256);
        let calls = Self { connection, waiting: Arc::default(), signals, ended: Arc::default() };
        let task = tokio::spawn(calls.clone().read());
        (calls, task)
    }

    async fn read(self) {
        let mut stream = MessageStream::from(&self.connection);
        while let Some(Ok(message)) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
            match message.message_type() {
                Kind::MethodReturn | Kind::Error => {
                    let serial = message.header().reply_serial();
                    if let Some(waiting) = serial.and_then(|serial| self.waiting().remove(&serial)) {
                        let _ = waiting.send(message);
                    }
                }
                Kind::Signal => {
                    if let Some(sender) = message.header().sender() {
                        let _ = self.signals.send(sender.to_string());
                    }
                }
                Kind::MethodCall => {}
            }
        }
        self.ended.store(true, Ordering::SeqCst);
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<NonZeroU32, oneshot::Sender<Message>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn signals(&self) -> broadcast::Receiver<String> {
        self.signals.subscribe()
    }

    pub async fn call<B: serde_like::Body>(&self, object: &Object, interface: &str, method: &str, body: &B, end: Instant) -> Result<Message, CallError> {
        let said = |e: zbus::Error| CallError::Said(e.to_string());
        let message = Message::method_call(object.path.as_str(), method)
            .and_then(|m| m.destination(object.bus.as_str()))
            .and_then(|m| m.interface(interface))
            .and_then(|m| m.build(body))
            .map_err(said)?;
        let serial = message.primary_header().serial_num();
        let (to, reply) = oneshot::channel();
        self.waiting().insert(serial, to);
        let forget = Forget { waiting: &self.waiting, serial };
        let end = end.min(Instant::now() + CALL_LIMIT);
        if self.ended.load(Ordering::SeqCst) {
            return Err(CallError::Closed);
        }
        match timeout_at(end, self.connection.send(&message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(CallError::Closed),
            Err(_) => return Err(CallError::Slow),
        }
        let reply = match timeout_at(end, reply).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => return Err(CallError::Closed),
            Err(_) => return Err(CallError::Slow),
        };
        drop(forget);
        match reply.message_type() {
            Kind::Error => {
                let text = reply.body().deserialize::<String>().unwrap_or_default();
                let name = reply.header().error_name().map(ToString::to_string).unwrap_or_default();
                if name == "org.freedesktop.DBus.Error.NoReply" {
                    return Err(CallError::Slow);
                }
                Err(CallError::Said(if text.is_empty() { name } else { text }))
            }
            _ => Ok(reply),
        }
    }

    /// A call whose reply is of this type.
    pub async fn ask<B, R>(&self, object: &Object, interface: &str, method: &str, body: &B, end: Instant) -> Result<R, CallError>
    where
        B: serde_like::Body,
        R: serde_like::Reply,
    {
        let reply = self.call(object, interface, method, body, end).await?;
        reply.body().deserialize().map_err(|e| CallError::Said(e.to_string()))
    }

    pub async fn property(&self, object: &Object, interface: &str, name: &str, end: Instant) -> Result<OwnedValue, CallError> {
        self.ask(object, PROPERTIES, "Get", &(interface, name), end).await
    }

    pub async fn text_property(&self, object: &Object, interface: &str, name: &str, end: Instant) -> Result<String, CallError> {
        let value = self.property(object, interface, name, end).await?;
        String::try_from(value).map_err(|e| CallError::Said(e.to_string()))
    }

    /// A call of the bus itself.
    pub async fn daemon<B, R>(&self, method: &str, body: &B, end: Instant) -> Result<R, CallError>
    where
        B: serde_like::Body,
        R: serde_like::Reply,
    {
        let daemon = Object::new("org.freedesktop.DBus", "/org/freedesktop/DBus");
        self.ask(&daemon, "org.freedesktop.DBus", method, body, end).await
    }
}

/// Nobody waits any more, however the wait ended.
struct Forget<'a> {
    waiting: &'a Waiting,
    serial: NonZeroU32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.serial);
    }
}

/// What can be a call's body, and what a reply's.
pub mod serde_like {
    use super::{DynamicType, Type};

    pub trait Body: serde::Serialize + DynamicType + Sync {}
    impl<T: serde::Serialize + DynamicType + Sync> Body for T {}

    pub trait Reply: serde::de::DeserializeOwned + Type {}
    impl<T: serde::de::DeserializeOwned + Type> Reply for T {}
}
