//! What a response carries.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use deskhand_core::rpc::body::Body;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::exchange::{Exchange, Open};
use crate::link::Busy;
use crate::session::Reader;
use crate::sse;

pub(crate) struct Payload {
    kind: Kind,
    /// The connection isn't idle while this is being written.
    busy: Option<Busy>,
}

enum Kind {
    Empty,
    One(Bytes),
    Pieces(VecDeque<Bytes>, u64),
    Events(Box<Events>),
}

struct Events {
    source: Source,
    ready: VecDeque<Bytes>,
    every: Duration,
    alive: Option<Pin<Box<Sleep>>>,
}

pub(crate) enum Source {
    Exchange { exchange: Arc<Exchange>, _open: Open },
    Session(Reader),
}

impl Payload {
    pub fn empty() -> Self {
        Kind::Empty.into()
    }

    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Kind::One(bytes.into()).into()
    }

    pub fn message(body: &Body) -> Self {
        match body.segments() {
            [] => Kind::Empty.into(),
            [only] => Kind::One(only.clone()).into(),
            _ => Kind::Pieces(sse::pieces(body), body.len() as u64).into(),
        }
    }

    /// `first` are events that stand ready. A comment is sent after each `every` without one.
    pub fn events(source: Source, first: VecDeque<Bytes>, every: Duration) -> Self {
        Kind::Events(Box::new(Events { source, ready: first, every, alive: None })).into()
    }

    pub fn keep(&mut self, busy: Busy) {
        self.busy = Some(busy);
    }
}

impl From<Kind> for Payload {
    fn from(kind: Kind) -> Self {
        Self { kind, busy: None }
    }
}

impl hyper::body::Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.kind {
            Kind::Empty => None,
            Kind::One(bytes) => {
                let bytes = std::mem::take(bytes);
                self.kind = Kind::Empty;
                Some(bytes)
            }
            Kind::Pieces(pieces, left) => {
                let piece = pieces.pop_front();
                *left -= piece.as_ref().map_or(0, |p| p.len() as u64);
                piece
            }
            Kind::Events(events) => match events.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => piece,
            },
        };
        Poll::Ready(piece.map(|p| Ok(Frame::data(p))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::One(bytes) => bytes.is_empty(),
            Kind::Pieces(pieces, _) => pieces.is_empty(),
            Kind::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::One(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Pieces(_, left) => SizeHint::with_exact(*left),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

impl Events {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ready.is_empty() {
            let more = match &mut self.source {
                Source::Exchange { exchange, .. } => exchange.poll_next(cx).map(|next| next.map(|body| sse::event(&mut self.ready, None, &body)).is_some()),
                Source::Session(reader) => reader.poll_next(cx, &mut self.ready),
            };
            match more {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(None),
                Poll::Pending => return self.keep_alive(cx),
            }
        }
        if let Some(alive) = &mut self.alive {
            alive.as_mut().reset(Instant::now() + self.every);
        }
        Poll::Ready(self.ready.pop_front())
    }

    fn keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let every = self.every;
        let alive = self.alive.get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        if alive.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        alive.as_mut().reset(Instant::now() + every);
        Poll::Ready(Some(sse::COMMENT))
    }
}
