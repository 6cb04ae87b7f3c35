//! A session's streams: what was sent on each, how far its reader is, and what is kept for a client that comes back.
//!
//! Pure bookkeeping; `session` puts a lock around it. Event numbers begin at 1: 0 is the priming event's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use deskhand_core::rpc::body::{Body, Nature};

use crate::link::{Ending, Link};
use crate::sse::EventId;

/// What an event costs beside its bytes.
const OVERHEAD: usize = 128;
/// Ended streams whose events are kept.
const ENDED_MAX: usize = 32;
/// The stream of messages that belong to no request.
pub(crate) const UNSOLICITED: u64 = 0;

pub(crate) struct Streams {
    by_route: BTreeMap<u64, Stream>,
    /// Kept events, oldest first: route, number, cost.
    order: VecDeque<(u64, u64, usize)>,
    kept: usize,
    /// Streams that ended, oldest first.
    ended: VecDeque<u64>,
    routes: u64,
    readers: u64,
    replay: usize,
    queue: usize,
}

#[derive(Default)]
pub(crate) struct Stream {
    /// Its POST still waits for the first message, which decides its form.
    undecided: bool,
    /// Its POST's handler is there and will become its reader.
    awaited: bool,
    /// The core has its request.
    handed_over: bool,
    /// The answer came first: there is no stream.
    answer: Option<Body>,
    log: VecDeque<(u64, Body)>,
    /// The next event's number.
    next: u64,
    /// The first number that no reader has been handed.
    unread: u64,
    unread_bytes: usize,
    /// Nothing follows what is in the log.
    over: bool,
    /// The client was told at least one event's id, so it can come back.
    told: bool,
    reader: Option<Attached>,
    waker: Option<Waker>,
    /// To be closed once all is read, with when to come back.
    pause: Option<u64>,
}

struct Attached {
    number: u64,
    link: Arc<Link>,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its number among the session's readers.
    pub reader: u64,
    pub after: EventId,
}

/// What a POST's handler learns.
pub(crate) enum First {
    Answer(Body),
    Stream,
    /// The call was cancelled: there will be no answer.
    Nothing,
}

/// What a reader gets.
pub(crate) enum Next {
    Event(EventId, Body),
    /// Come back after so many ms.
    Pause(u64),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStream {
    /// Another GET has it.
    Taken,
    /// The id is none of ours, or what followed it is no longer kept.
    Unknown,
}

impl Streams {
    /// Bounds in bytes: of what is kept, and of what may wait for one reader.
    pub fn new(replay: usize, queue: usize) -> Self {
        let first = Stream { next: 1, unread: 1, ..Stream::default() };
        Self {
            by_route: BTreeMap::from([(UNSOLICITED, first)]),
            order: VecDeque::new(),
            kept: 0,
            ended: VecDeque::new(),
            routes: 0,
            readers: 0,
            replay,
            queue,
        }
    }

    pub fn begin(&mut self) -> u64 {
        self.routes += 1;
        self.by_route.insert(self.routes, Stream { undecided: true, awaited: true, next: 1, unread: 1, ..Stream::default() });
        self.routes
    }

    pub fn handed_over(&mut self, route: u64) {
        if let Some(stream) = self.by_route.get_mut(&route) {
            stream.handed_over = true;
        }
    }

    /// A message of the core's. Without a stream that the client could read it on, it is dropped.
    pub fn push(&mut self, route: u64, body: Body) {
        let Some(stream) = self.by_route.get_mut(&route).filter(|s| !s.over) else { return };
        let answer = matches!(body.nature(), Nature::Answer { .. });
        stream.over = answer && route != UNSOLICITED;
        if stream.undecided && answer {
            stream.answer = Some(body);
            stream.wake();
            return;
        }
        stream.undecided = false;
        let cost = body.len() + OVERHEAD;
        self.order.push_back((route, stream.next, cost));
        self.kept += cost;
        stream.log.push_back((stream.next, body));
        stream.next += 1;
        if stream.unread_bytes > 0 && stream.unread_bytes + cost > self.queue {
            // The client doesn't read. What is kept it can have when it comes back.
            stream.cut_off();
        }
        stream.unread_bytes += cost;
        stream.wake();
        if stream.over && stream.reader.is_none() && !stream.awaited {
            self.note_ended(route);
        }
        self.trim();
    }

    /// The core lets the client poll.
    pub fn pause(&mut self, route: u64, retry_ms: u64) {
        let Some(stream) = self.by_route.get_mut(&route) else { return };
        if stream.reader.is_some() || stream.awaited {
            stream.undecided = false;
            stream.pause = Some(retry_ms);
            stream.wake();
        }
    }

    /// What came first on a POST's stream; `None` when nothing has yet.
    pub fn first(&mut self, route: u64, waker: &Waker) -> Option<First> {
        let Some(stream) = self.by_route.get_mut(&route) else { return Some(First::Nothing) };
        if let Some(answer) = stream.answer.take() {
            self.remove(route);
            return Some(First::Answer(answer));
        }
        if stream.over && stream.log.is_empty() {
            self.remove(route);
            return Some(First::Nothing);
        }
        if !stream.undecided {
            return Some(First::Stream);
        }
        stream.listen(waker);
        None
    }

    /// A POST's own stream.
    pub fn attach(&mut self, route: u64, link: Arc<Link>) -> Option<Place> {
        self.readers += 1;
        let stream = self.by_route.get_mut(&route)?;
        stream.awaited = false;
        stream.reader = Some(Attached { number: self.readers, link });
        Some(Place { reader: self.readers, after: EventId { route, number: stream.unread - 1 } })
    }

    /// A GET: the stream that follows `last`, or without it the one that belongs to no request.
    pub fn listen(&mut self, last: Option<EventId>, link: Arc<Link>) -> Result<Place, NoStream> {
        let route = last.map_or(UNSOLICITED, |l| l.route);
        let stream = self.by_route.get_mut(&route).ok_or(NoStream::Unknown)?;
        if let Some(last) = last {
            let first_kept = stream.log.front().map_or(stream.next, |(n, _)| *n);
            if stream.awaited || last.number >= stream.next || last.number + 1 < first_kept {
                return Err(NoStream::Unknown);
            }
            stream.unread = last.number + 1;
            stream.unread_bytes = stream.log.iter().filter(|(n, _)| *n >= stream.unread).map(|(_, b)| b.len() + OVERHEAD).sum();
        } else if stream.reader.is_some() {
            return Err(NoStream::Taken);
        }
        // An earlier reader's client has come back before we saw it leave.
        stream.wake();
        stream.pause = None;
        self.readers += 1;
        stream.reader = Some(Attached { number: self.readers, link });
        Ok(Place { reader: self.readers, after: EventId { route, number: stream.unread - 1 } })
    }

    pub fn next(&mut self, route: u64, reader: u64, waker: &Waker) -> Option<Next> {
        let Some(stream) = self.by_route.get_mut(&route) else { return Some(Next::End) };
        if stream.reader.as_ref().is_none_or(|r| r.number != reader) {
            return Some(Next::End);
        }
        if stream.unread < stream.next {
            let first = stream.log.front().map_or(stream.next, |(n, _)| *n);
            let at = stream.unread.checked_sub(first).and_then(|at| usize::try_from(at).ok());
            let Some((number, body)) = at.and_then(|at| stream.log.get(at)) else { return Some(Next::End) };
            let event = Next::Event(EventId { route, number: *number }, body.clone());
            stream.unread_bytes = stream.unread_bytes.saturating_sub(body.len() + OVERHEAD);
            stream.unread += 1;
            stream.told = true;
            return Some(event);
        }
        if stream.over {
            return Some(Next::End);
        }
        if let Some(ms) = stream.pause.take() {
            stream.told = true;
            return Some(Next::Pause(ms));
        }
        stream.listen(waker);
        None
    }

    /// The client was sent the priming event.
    pub fn told(&mut self, route: u64) {
        if let Some(stream) = self.by_route.get_mut(&route) {
            stream.told = true;
        }
    }

    /// A POST's handler is gone before the form was decided, or its client is.
    pub fn leave(&mut self, route: u64) {
        if self.by_route.get(&route).is_some_and(|s| s.reader.is_none()) {
            self.remove(route);
        }
    }

    /// A reader is gone. Its stream stays if the client can come back to it.
    pub fn detach(&mut self, route: u64, reader: u64) {
        let Some(stream) = self.by_route.get_mut(&route) else { return };
        if stream.reader.as_ref().is_some_and(|r| r.number == reader) {
            stream.reader = None;
            let (told, over) = (stream.told, stream.over);
            self.after_reader(route, told, over);
        }
    }

    fn after_reader(&mut self, route: u64, told: bool, over: bool) {
        if route == UNSOLICITED {
            return;
        }
        if !told {
            self.remove(route);
        } else if over {
            self.note_ended(route);
        }
    }

    /// Requests that the core has and hasn't answered.
    pub fn unanswered(&self) -> Vec<u64> {
        self.by_route.iter().filter(|(route, s)| **route != UNSOLICITED && s.handed_over && !s.over).map(|(route, _)| *route).collect()
    }

    /// These will never be answered.
    pub fn give_up(&mut self, routes: &[u64]) {
        for route in routes {
            let Some(stream) = self.by_route.get_mut(route).filter(|s| !s.over) else { continue };
            stream.over = true;
            stream.wake();
            if stream.reader.is_none() && !stream.awaited {
                self.note_ended(*route);
            }
        }
    }

    /// Whether somebody waits or reads.
    pub fn is_used(&self) -> bool {
        self.by_route.values().any(|s| s.reader.is_some() || s.awaited)
    }

    pub fn end_unsolicited(&mut self) {
        if let Some(stream) = self.by_route.get_mut(&UNSOLICITED) {
            stream.over = true;
            stream.wake();
        }
    }

    pub fn wake_all(&mut self) {
        self.by_route.values_mut().for_each(Stream::wake);
    }

    fn note_ended(&mut self, route: u64) {
        if self.ended.contains(&route) {
            return;
        }
        self.ended.push_back(route);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
            && self.by_route.get(&oldest).is_some_and(|s| s.reader.is_none())
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, route: u64) {
        let Some(stream) = self.by_route.remove(&route) else { return };
        self.ended.retain(|r| *r != route);
        if !stream.log.is_empty() {
            self.order.retain(|(r, ..)| *r != route);
            self.kept = self.kept.saturating_sub(stream.log.iter().map(|(_, b)| b.len() + OVERHEAD).sum());
        }
    }

    /// Forgets the oldest events past the bound, but for the newest.
    fn trim(&mut self) {
        while self.kept > self.replay && self.order.len() > 1 {
            let Some((route, number, cost)) = self.order.pop_front() else { return };
            self.kept = self.kept.saturating_sub(cost);
            let Some(stream) = self.by_route.get_mut(&route) else { continue };
            stream.log.pop_front();
            if stream.unread <= number {
                // Nobody has read it.
                stream.unread = number + 1;
                stream.unread_bytes = stream.unread_bytes.saturating_sub(cost);
                stream.cut_off();
            }
        }
    }
}

impl Stream {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn listen(&mut self, waker: &Waker) {
        if self.waker.as_ref().is_none_or(|w| !w.will_wake(waker)) {
            self.waker = Some(waker.clone());
        }
    }

    fn cut_off(&mut self) {
        if let Some(reader) = &self.reader {
            reader.link.end(Ending::Now);
        }
    }
}

#[cfg(test)]
#[path = "stream_log_tests.rs"]
mod tests;
