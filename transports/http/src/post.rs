//! A POST: its head and body, then as an exchange of its own or as a part of a session.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use deskhand_core::protocol::http::{Head, Posted, has_priming_event, inspect, status_of};
use deskhand_core::rpc::body::Nature;
use deskhand_core::{Carriage, Input, Route};
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};

use crate::exchange::{Exchange, Open};
use crate::link::{Link, Phase};
use crate::payload::{Payload, Source};
use crate::replies::{self, Reply, SESSION_ID};
use crate::service::{Admitted, VERSION};
use crate::session::{Outcome, Session};
use crate::sessions::NoSession;
use crate::{negotiation, sse};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where nothing is read: what comes for a message that gets no answer.
const NOWHERE: Route = Route(u64::MAX);

pub(crate) async fn post(admitted: Admitted<'_>, body: Incoming) -> Reply {
    let headers = &admitted.head.headers;
    if !negotiation::is_json(headers) {
        return replies::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported media type: send Content-Type: application/json, not encoded");
    }
    if !negotiation::takes_an_answer(headers) {
        return replies::refused(StatusCode::NOT_ACCEPTABLE, "Not acceptable: send Accept: application/json, text/event-stream");
    }
    let bytes = match whole(body, admitted.server.limits.body, admitted.link).await {
        Ok(bytes) => bytes,
        Err(why) => return replies::and_close(why.reply()),
    };
    let posted = match what_it_is(&admitted, &bytes) {
        Ok(posted) => posted,
        Err(refused) => return *refused,
    };
    match posted {
        Posted::Modern { answered } => exchange(admitted, posted, answered, bytes).await,
        Posted::Initialize => initialize(admitted, posted, bytes).await,
        Posted::Legacy { answered } => in_session(admitted, posted, answered, bytes).await,
    }
}

fn what_it_is(admitted: &Admitted<'_>, bytes: &[u8]) -> Result<Posted, Box<Reply>> {
    let headers = &admitted.head.headers;
    let (Ok(version), Ok(method), Ok(name), Ok(session)) = (one(headers, VERSION), one(headers, METHOD), one(headers, NAME), one(headers, SESSION_ID)) else {
        let why = "Header mismatch: an Mcp header came more than once, or isn't ASCII";
        return Err(Box::new(replies::error(StatusCode::BAD_REQUEST, replies::HEADER_MISMATCH, why)));
    };
    let param = |name: &str| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    let head = Head { version, method, name, session, param: &param };
    inspect(admitted.server.mounts[admitted.mount].toolset, &head, bytes).map_err(|refusal| Box::new(replies::message(refusal.status, &refusal.body)))
}

async fn exchange(admitted: Admitted<'_>, posted: Posted, answered: bool, bytes: Bytes) -> Reply {
    let server = admitted.server;
    let driver = &server.mounts[admitted.mount].driver;
    let sink = Arc::new(Exchange::new(admitted.link.clone(), server.limits.stream_queue));
    let conn = driver.exchange(&admitted.principal, sink.clone(), bytes);
    // From here on: dropped with the client, it cancels.
    let open = Open { driver: driver.clone(), conn };
    if !answered {
        return replies::accepted();
    }
    let Some(first) = std::future::poll_fn(|cx| sink.poll_next(cx)).await else { return replies::unavailable() };
    let nature = first.nature();
    if let Nature::Answer { .. } = nature {
        return replies::message(status_of(posted, nature), &first);
    }
    let mut events = VecDeque::new();
    sse::event(&mut events, None, &first);
    replies::events(Payload::events(Source::Exchange { exchange: sink, _open: open }, events, server.limits.keep_alive))
}

async fn initialize(admitted: Admitted<'_>, posted: Posted, bytes: Bytes) -> Reply {
    let server = admitted.server;
    let driver = &server.mounts[admitted.mount].driver;
    let session = match server.sessions.open(admitted.mount, &admitted.principal, driver, &server.limits, server.clock.now_ms()) {
        Ok(session) => session,
        Err(NoSession::Full) => {
            let why = "Unavailable: as many sessions as this server keeps are in use; end one with DELETE";
            return replies::too_many(StatusCode::SERVICE_UNAVAILABLE, 30, why);
        }
        Err(NoSession::NoId(e)) => {
            tracing::error!("no session can begin: the system gives no random bytes: {e}");
            return replies::unavailable();
        }
    };
    let mut begun = Begun { admitted: &admitted, session: &session, kept: false };
    let conn = driver.open(&admitted.principal, Carriage::Session, session.clone());
    session.opened(conn);
    let Outcome::Answer(body) = session.request(bytes, admitted.link).await else { return replies::unavailable() };
    let nature = body.nature();
    let mut reply = replies::message(status_of(posted, nature), &body);
    if nature == (Nature::Answer { error: None })
        && let Some(revision) = driver.look(|core| core.session_revision(conn))
        && let Ok(id) = HeaderValue::from_str(&session.id)
    {
        session.set_primes(has_priming_event(revision));
        reply.headers_mut().insert(SESSION_ID, id);
        begun.kept = true;
    }
    reply
}

/// A session that `initialize` didn't get through ends at once.
struct Begun<'a> {
    admitted: &'a Admitted<'a>,
    session: &'a Arc<Session>,
    kept: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.admitted.server.sessions.end(self.session);
        }
    }
}

async fn in_session(admitted: Admitted<'_>, posted: Posted, answered: bool, bytes: Bytes) -> Reply {
    if !admitted.head.headers.contains_key(SESSION_ID) {
        return replies::session_missing();
    }
    let Some(session) = admitted.session() else { return replies::session_unknown() };
    if !answered {
        let Some(conn) = session.conn() else { return replies::session_unknown() };
        session.driver.handle(Input::Message { conn, route: NOWHERE, bytes });
        session.let_go_of_cancelled();
        return replies::accepted();
    }
    let outcome = session.request(bytes, admitted.link).await;
    session.touch(admitted.server.clock.now_ms());
    match outcome {
        Outcome::Answer(body) => replies::message(status_of(posted, body.nature()), &body),
        Outcome::Stream(reader, first) => replies::events(Payload::events(Source::Session(reader), first, admitted.server.limits.keep_alive)),
        // The client asked for no answer; a stream without events is the form that says so.
        Outcome::Nothing => replies::events(Payload::empty()),
        Outcome::SessionEnded => replies::session_unknown(),
    }
}

/// A header's only value.
fn one(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(only), None) => only.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

enum NoBody {
    TooLarge,
    TooSlow,
    Broken,
}

impl NoBody {
    fn reply(&self) -> Reply {
        match self {
            Self::TooLarge => replies::refused(StatusCode::PAYLOAD_TOO_LARGE, "Payload too large: the message is longer than this server reads"),
            Self::TooSlow => replies::refused(StatusCode::REQUEST_TIMEOUT, "Request timeout: the body didn't come in time"),
            Self::Broken => replies::refused(StatusCode::BAD_REQUEST, "Bad request: the body ended early or isn't in the form that the head says"),
        }
    }
}

/// The whole body. Nearly always it comes in one piece, which is then passed on as it is.
async fn whole(mut body: Incoming, limit: usize, link: &Link) -> Result<Bytes, NoBody> {
    if body.size_hint().lower() > limit as u64 {
        return Err(NoBody::TooLarge);
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    link.enter(Phase::Body);
    let mut so_far = BytesMut::new();
    let result = std::future::poll_fn(|cx| {
        loop {
            // The sweep wakes the connection for it.
            if link.has_body_expired() {
                return Poll::Ready(Err(NoBody::TooSlow));
            }
            let data = match Pin::new(&mut body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(so_far.split().freeze())),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(NoBody::Broken)),
                Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            if so_far.len() + data.len() > limit {
                return Poll::Ready(Err(NoBody::TooLarge));
            }
            if so_far.is_empty() && body.is_end_stream() {
                return Poll::Ready(Ok(data));
            }
            so_far.extend_from_slice(&data);
            if body.is_end_stream() {
                return Poll::Ready(Ok(so_far.split().freeze()));
            }
        }
    })
    .await;
    link.enter(Phase::Busy);
    result
}
