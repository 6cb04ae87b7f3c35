//! Server-sent events, and pieces of bytes on their way to the socket.

use std::collections::VecDeque;

use bytes::Bytes;
use deskhand_core::rpc::body::Body;

/// Segments below this are gathered into one; copying them costs less than a piece of their own.
const GATHER: usize = 4 << 10;

pub(crate) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// An event's place: its stream, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub route: u64,
    pub number: u64,
}

impl EventId {
    /// From `3-7`.
    pub fn parse(text: &str) -> Option<Self> {
        let (route, number) = text.split_once('-')?;
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse::<u64>().ok()).flatten();
        Some(Self { route: digits(route)?, number: digits(number)? })
    }
}

/// A message as an event. JSON as the core writes it has no line ends.
pub(crate) fn event(out: &mut VecDeque<Bytes>, id: Option<EventId>, body: &Body) {
    let mut head = Vec::with_capacity(64 + body.segments().first().map_or(0, |s| s.len().min(GATHER)));
    if let Some(id) = id {
        head.extend_from_slice(format!("id: {}-{}\n", id.route, id.number).as_bytes());
    }
    head.extend_from_slice(b"data: ");
    gather(out, head, body, b"\n\n");
}

/// Tells a place to come back to, before anything has been said.
pub(crate) fn priming(id: EventId) -> Bytes {
    Bytes::from(format!("id: {}-{}\ndata: \n\n", id.route, id.number))
}

/// When to come back.
pub(crate) fn retry(ms: u64) -> Bytes {
    Bytes::from(format!("retry: {ms}\n\n"))
}

/// A body's pieces, small ones gathered.
pub(crate) fn pieces(body: &Body) -> VecDeque<Bytes> {
    let mut out = VecDeque::with_capacity(3);
    gather(&mut out, Vec::new(), body, b"");
    out
}

fn gather(out: &mut VecDeque<Bytes>, mut small: Vec<u8>, body: &Body, tail: &[u8]) {
    for segment in body.segments() {
        if segment.len() < GATHER {
            small.extend_from_slice(segment);
        } else {
            if !small.is_empty() {
                out.push_back(Bytes::from(std::mem::take(&mut small)));
            }
            out.push_back(segment.clone());
        }
    }
    small.extend_from_slice(tail);
    if !small.is_empty() {
        out.push_back(Bytes::from(small));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_and_its_id() {
        let mut out = VecDeque::new();
        let mut body = Body::from(b"{\"a\":\"".to_vec());
        let large = Bytes::from(vec![b'x'; GATHER]);
        body.push(large.clone());
        body.push(&b"\"}"[..]);
        event(&mut out, Some(EventId { route: 3, number: 7 }), &body);
        assert_eq!(out[0], "id: 3-7\ndata: {\"a\":\"");
        assert_eq!(out[1].as_ptr(), large.as_ptr(), "a large segment isn't copied");
        assert_eq!(out[2], "\"}\n\n");
        assert_eq!(EventId::parse("3-7"), Some(EventId { route: 3, number: 7 }));
        for bad in ["", "-", "3", "3-", "-7", "+3-7", "3-7-1", "3-99999999999999999999"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
    }
}
