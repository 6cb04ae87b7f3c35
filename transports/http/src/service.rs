//! One request through the doors, in the order that `lib` tells; then GET and DELETE.

use std::sync::Arc;

use deskhand_core::protocol::revision::Revision;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, StatusCode};

use crate::link::{Busy, Link};
use crate::payload::{Payload, Source};
use crate::replies::{self, LAST_EVENT_ID, Reply, SESSION_ID};
use crate::server::{Place, Server};
use crate::session::{NotHeard, Session};
use crate::sse::EventId;
use crate::stream_log::NoStream;
use crate::{negotiation, post, well_known};

pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A request that was let in.
pub(crate) struct Admitted<'a> {
    pub server: &'a Arc<Server>,
    pub link: &'a Arc<Link>,
    pub mount: usize,
    pub principal: Arc<str>,
    pub head: &'a Parts,
}

pub(crate) async fn answer(server: Arc<Server>, link: Arc<Link>, request: Request<Incoming>) -> Reply {
    let busy = Busy::new(link);
    let (head, body) = request.into_parts();
    let mut reply = let_in(&server, busy.link(), &head, body).await;
    reply.body_mut().keep(busy);
    reply
}

async fn let_in(server: &Arc<Server>, link: &Arc<Link>, head: &Parts, body: Incoming) -> Reply {
    let place = server.place(head.uri.path());
    if let Place::Nowhere = place {
        return replies::not_found();
    }
    let origin = match server.doors.check(&head.headers, &head.uri, link) {
        Ok(origin) => origin.cloned(),
        Err(why) => return replies::shut(why),
    };
    let mut reply = match place {
        _ if head.method == Method::OPTIONS && origin.is_some() => replies::preflight(&head.headers),
        Place::Nowhere => replies::not_found(),
        Place::About(path) if head.method == Method::GET => well_known::document(&server.doors, &head.headers, path),
        Place::About(_) => replies::method_not_allowed("GET"),
        Place::Mount(mount) => match admit(server, link, mount, head) {
            Ok(admitted) => by_method(admitted, body).await,
            Err(refused) => *refused,
        },
    };
    if let Some(origin) = origin {
        replies::share_with(&mut reply, origin);
    }
    reply
}

fn admit<'a>(server: &'a Arc<Server>, link: &'a Arc<Link>, mount: usize, head: &'a Parts) -> Result<Admitted<'a>, Box<Reply>> {
    let principal = server
        .doors
        .admit(&head.headers, &server.anyone)
        .map_err(|why| Box::new(well_known::unauthorized(&server.doors, &head.headers, head.uri.path(), why)))?;
    link.set_principal(&principal);
    if let Some(rate) = &server.rate
        && let Err(after) = rate.take(&principal, server.clock.now_ms())
    {
        let why = "Too many requests: this client's share of this minute is used up; wait as Retry-After says";
        return Err(Box::new(replies::too_many(StatusCode::TOO_MANY_REQUESTS, after, why)));
    }
    Ok(Admitted { server, link, mount, principal, head })
}

async fn by_method(admitted: Admitted<'_>, body: Incoming) -> Reply {
    match admitted.head.method {
        Method::POST => post::post(admitted, body).await,
        Method::GET if admitted.is_of_a_session() => admitted.listen(),
        Method::DELETE if admitted.is_of_a_session() => admitted.end_session(),
        Method::GET | Method::DELETE => replies::method_not_allowed("POST"),
        _ => replies::method_not_allowed("GET, POST, DELETE"),
    }
}

impl Admitted<'_> {
    /// The stateless revision knows no sessions, whatever the head says.
    fn is_of_a_session(&self) -> bool {
        let headers = &self.head.headers;
        let is_modern = text(headers, VERSION).and_then(Revision::parse).is_some_and(Revision::is_modern);
        headers.contains_key(SESSION_ID) && !is_modern
    }

    pub fn session(&self) -> Option<Arc<Session>> {
        let id = text(&self.head.headers, SESSION_ID)?;
        let session = self.server.sessions.find(id, self.mount, &self.principal)?;
        session.touch(self.server.clock.now_ms());
        Some(session)
    }

    fn listen(&self) -> Reply {
        let headers = &self.head.headers;
        if !negotiation::takes_events(headers) {
            return replies::refused(StatusCode::NOT_ACCEPTABLE, "Not acceptable: a GET opens a stream; send Accept: text/event-stream");
        }
        if let Some(refused) = self.unknown_version() {
            return refused;
        }
        let Some(session) = self.session() else { return replies::session_unknown() };
        let unknown_event = || {
            let why = "Bad request: this Last-Event-ID is unknown, or what followed it is no longer kept; open a stream without it";
            replies::refused(StatusCode::BAD_REQUEST, why)
        };
        let last = match headers.get(LAST_EVENT_ID).map(|v| v.to_str().ok().and_then(EventId::parse)) {
            None => None,
            Some(Some(id)) => Some(id),
            Some(None) => return unknown_event(),
        };
        match session.listen(last, self.link) {
            Ok((reader, first)) => replies::events(Payload::events(Source::Session(reader), first, self.server.limits.keep_alive)),
            Err(NotHeard::SessionEnded) => replies::session_unknown(),
            Err(NotHeard::Stream(NoStream::Unknown)) => unknown_event(),
            Err(NotHeard::Stream(NoStream::Taken)) => {
                let why = "Conflict: another GET has this session's stream; one is enough, or name its Last-Event-ID to take it over";
                replies::refused(StatusCode::CONFLICT, why)
            }
        }
    }

    fn end_session(&self) -> Reply {
        if let Some(refused) = self.unknown_version() {
            return refused;
        }
        let Some(session) = self.session() else { return replies::session_unknown() };
        self.server.sessions.end(&session);
        replies::bare(StatusCode::NO_CONTENT, Payload::empty())
    }

    fn unknown_version(&self) -> Option<Reply> {
        let said = self.head.headers.get(VERSION)?;
        let known = said.to_str().is_ok_and(|v| Revision::parse(v).is_some());
        let why = "Bad request: MCP-Protocol-Version names no revision that is served; send the one that initialize settled";
        (!known).then(|| replies::refused(StatusCode::BAD_REQUEST, why))
    }
}

pub(crate) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}
