//! The server: what all connections share, and its graceful end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use deskhand_core::Input;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::accepting::{self, Links};
use crate::doors::{ANYONE, Doors};
use crate::limits::Limits;
use crate::link::{Clock, Ending};
use crate::rate::Rate;
use crate::sessions::Sessions;
use crate::{Listener, Mount, sweep, well_known};

/// At the end: how long answers under way are waited for, then what still stands on streams.
const ANSWERS: Duration = Duration::from_millis(500);
const WRITING: Duration = Duration::from_millis(200);
/// Descriptors that are not for connections: the desktop's, files, logs.
const SPARE_DESCRIPTORS: u64 = 64;

pub(crate) struct Server {
    pub mounts: Vec<Mount>,
    pub doors: Doors,
    pub limits: Limits,
    pub sessions: Sessions,
    pub links: Links,
    pub rate: Option<Rate>,
    pub clock: Clock,
    pub anyone: Arc<str>,
}

pub(crate) enum Place<'a> {
    Mount(usize),
    /// The document about the endpoint at this path.
    About(&'a str),
    Nowhere,
}

impl Server {
    pub fn place<'a>(&'a self, path: &'a str) -> Place<'a> {
        if let Some(at) = self.mounts.iter().position(|m| m.paths.iter().any(|p| p == path)) {
            return Place::Mount(at);
        }
        match path.strip_prefix(well_known::PREFIX).filter(|_| self.doors.authorization_server.is_some()) {
            Some("") => self.mounts.first().and_then(|m| m.paths.first()).map_or(Place::Nowhere, |p| Place::About(p)),
            Some(about) if self.mounts.iter().any(|m| m.paths.iter().any(|p| p == about)) => Place::About(about),
            _ => Place::Nowhere,
        }
    }

    /// Ends what belonged to tokens that are gone.
    pub fn end_of_removed_tokens(&self) {
        let Some(tokens) = &self.doors.tokens else { return };
        tokens.refresh();
        let gone = tokens.take_gone();
        if !gone.is_empty() {
            self.sessions.end_of(&gone);
            self.links.end_of(&gone);
        }
    }
}

/// Serves until `asked_to_end`; then the drivers' cores are shut down, so that what is under way gets an answer.
pub async fn serve(listeners: Vec<Listener>, mounts: Vec<Mount>, doors: Doors, mut limits: Limits, asked_to_end: impl Future<Output = ()>) -> io::Result<()> {
    check(&mounts)?;
    limits.connections = limits.connections.min(affordable_connections()).max(1);
    let permits = Arc::new(Semaphore::new(limits.connections));
    let rate = doors.requests_per_minute.map(Rate::new);
    let server = Arc::new(Server {
        mounts,
        doors,
        limits,
        sessions: Sessions::default(),
        links: Links::default(),
        rate,
        clock: Clock::start(),
        anyone: Arc::from(ANYONE),
    });
    let _whatever_happens = EndAll(server.clone());
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let listener = accepting::Bound::new(listener)?;
        accepting.spawn(accepting::accept(server.clone(), listener, permits.clone()));
    }
    let mut sweeping = JoinSet::new();
    sweeping.spawn(sweep::sweep(server.clone()));
    asked_to_end.await;
    accepting.shutdown().await;
    end(&server).await;
    Ok(())
}

async fn end(server: &Server) {
    for mount in &server.mounts {
        mount.driver.handle(Input::Shutdown);
    }
    server.sessions.end_unsolicited();
    server.links.end_all(Ending::Soon);
    server.links.gone(ANSWERS).await;
    server.sessions.end_all();
    server.links.gone(WRITING).await;
}

struct EndAll(Arc<Server>);

impl Drop for EndAll {
    fn drop(&mut self) {
        self.0.sessions.end_all();
        self.0.links.end_all(Ending::Now);
    }
}

fn check(mounts: &[Mount]) -> io::Result<()> {
    let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    let paths: Vec<&String> = mounts.iter().flat_map(|m| &m.paths).collect();
    for (i, path) in paths.iter().enumerate() {
        if !path.starts_with('/') || path.contains(['?', '#']) || path.starts_with(well_known::PREFIX) {
            return wrong(format!("{path:?} isn't a path for an endpoint; one looks like /mcp"));
        }
        if paths[..i].contains(path) {
            return wrong(format!("the path {path} is given twice"));
        }
    }
    Ok(())
}

fn affordable_connections() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(SPARE_DESCRIPTORS).max(limit / 2)).unwrap_or(usize::MAX)
}
