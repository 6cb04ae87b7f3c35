//! Taking connections in, up to the bound, and serving each in a task of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::Listener;
use crate::link::{Ending, Link, Socket, Watched};
use crate::server::Server;
use crate::service;

/// The system is out of something; trying again at once would only burn.
const PAUSE: Duration = Duration::from_millis(100);
/// A connection idle for less may have its next request on the way.
const IDLE_MS: u64 = 500;
/// How long the peer's system may acknowledge nothing, in ms.
const UNHEARD_MS: u32 = 45_000;

pub(crate) enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Bound {
    pub fn new(listener: Listener) -> io::Result<Self> {
        match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?))
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(listener)?))
            }
        }
    }

    async fn next(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                // With the comments on streams this finds clients that went without a word.
                rustix::net::sockopt::set_tcp_user_timeout(&stream, UNHEARD_MS)?;
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(listener) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

/// One connection beyond the bound may stand accepted, waiting for another's end; the rest wait in the backlog.
pub(crate) async fn accept(server: Arc<Server>, listener: Bound, permits: Arc<Semaphore>) {
    let mut failing = false;
    loop {
        let socket = match listener.next().await {
            Ok(socket) => {
                failing = false;
                socket
            }
            Err(e) if is_the_peers(&e) => continue,
            Err(e) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!("no connection can be accepted, idle ones are closed for it: {e}");
                }
                server.links.make_room(server.clock.now_ms());
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let permit = loop {
            if let Ok(permit) = permits.clone().try_acquire_owned() {
                break permit;
            }
            server.links.make_room(server.clock.now_ms());
            match tokio::time::timeout(PAUSE, permits.clone().acquire_owned()).await {
                Ok(Ok(permit)) => break permit,
                Ok(Err(_)) => return,
                Err(_) => {}
            }
        };
        tokio::spawn(connection(server.clone(), socket, permit));
    }
}

/// It left before it was taken in.
fn is_the_peers(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(e.kind(), ConnectionAborted | ConnectionReset | InvalidInput | NotConnected)
}

async fn connection(server: Arc<Server>, socket: Socket, _permit: OwnedSemaphorePermit) {
    let local = socket.local().map(|a| a.ip().to_canonical());
    if matches!(socket, Socket::Tcp(_)) && local.is_none() {
        return;
    }
    let link = server.links.add(|number| Link::new(number, local, server.clock));
    let _listed = Listed { server: &server, number: link.number };
    let service = service_fn(|request| {
        let (server, link) = (server.clone(), link.clone());
        async move { Ok::<_, Infallible>(service::answer(server, link, request).await) }
    });
    let io = TokioIo::new(Watched { socket, link: link.clone() });
    let mut http = pin!(http1::Builder::new().max_header_size(server.limits.head).serve_connection(io, service));
    let mut told = false;
    let ended = std::future::poll_fn(|cx| {
        link.register(cx.waker());
        match link.ending() {
            Ending::No => {}
            Ending::Soon if told => {}
            Ending::Soon => {
                told = true;
                http.as_mut().graceful_shutdown();
            }
            Ending::Now => return Poll::Ready(Ok(())),
        }
        http.as_mut().poll(cx)
    });
    if let Err(e) = ended.await {
        tracing::debug!("a connection ended early: {e}");
    }
}

struct Listed<'a> {
    server: &'a Server,
    number: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.server.links.remove(self.number);
    }
}

/// All open connections.
#[derive(Default)]
pub(crate) struct Links {
    by_number: Mutex<BTreeMap<u64, Arc<Link>>>,
    issued: AtomicU64,
    /// How those end that come from now on.
    ending: AtomicU8,
    pub came: Notify,
    pub left: Notify,
}

impl Links {
    fn add(&self, new: impl FnOnce(u64) -> Link) -> Arc<Link> {
        let link = Arc::new(new(self.issued.fetch_add(1, Ordering::Relaxed)));
        self.lock().insert(link.number, link.clone());
        link.end_as(self.ending.load(Ordering::Acquire));
        self.came.notify_one();
        link
    }

    fn remove(&self, number: u64) {
        self.lock().remove(&number);
        self.left.notify_waiters();
    }

    pub fn all(&self) -> Vec<Arc<Link>> {
        self.lock().values().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub fn end_all(&self, how: Ending) {
        self.ending.fetch_max(how as u8, Ordering::AcqRel);
        self.all().iter().for_each(|l| l.end(how));
    }

    pub fn end_of(&self, principals: &BTreeSet<Arc<str>>) {
        let theirs = |link: &&Arc<Link>| link.principal().is_some_and(|p| principals.contains(&p));
        self.all().iter().filter(theirs).for_each(|l| l.end(Ending::Now));
    }

    /// Closes the connection that has been idle longest, unless it is only between two requests.
    fn make_room(&self, now_ms: u64) {
        let all = self.all();
        let idle = all.iter().filter(|l| l.ending() == Ending::No).filter_map(|l| l.idle_since().map(|since| (since, l)));
        if let Some((since, link)) = idle.min_by_key(|(since, _)| *since)
            && now_ms.saturating_sub(since) >= IDLE_MS
        {
            link.end(Ending::Soon);
        }
    }

    /// Waits until all are gone, at most for `limit`.
    pub async fn gone(&self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let left = self.left.notified();
            if self.is_empty() || tokio::time::timeout_at(end, left).await.is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Link>>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
