//! sway's framing: `i3-ipc`, the payload's length, the message's type (both 32 bits in native order), the payload.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use deskhand_ports::ipc::Framing;
use serde_json::Value;

pub const RUN_COMMAND: u32 = 0;
pub const SUBSCRIBE: u32 = 2;
pub const GET_OUTPUTS: u32 = 3;
pub const GET_TREE: u32 = 4;
pub const GET_VERSION: u32 = 7;
pub const GET_CONFIG: u32 = 9;
pub const GET_INPUTS: u32 = 100;

/// Events have the highest bit of their type set.
pub const EVENT: u32 = 1 << 31;
pub const EVENT_WORKSPACE: u32 = EVENT;
pub const EVENT_OUTPUT: u32 = EVENT | 1;
pub const EVENT_WINDOW: u32 = EVENT | 3;
pub const EVENT_SHUTDOWN: u32 = EVENT | 6;
pub const EVENT_INPUT: u32 = EVENT | 21;

const MAGIC: &[u8; 6] = b"i3-ipc";
const HEADER: usize = 14;
/// A payload longer than this is no answer but a fault: the connection is given up.
const LONGEST: usize = 64 * 1024 * 1024;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u32,
    pub payload: Bytes,
}

impl Frame {
    pub fn json(&self) -> Option<Value> {
        json(&self.payload)
    }
}

/// Clients can put bytes that are no UTF-8 into their titles, and sway passes them on.
pub fn json(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).or_else(|_| serde_json::from_str(&String::from_utf8_lossy(bytes))).ok()
}

pub fn encode(kind: u32, payload: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(MAGIC);
    // Payloads are commands of ours and short.
    bytes.extend_from_slice(&(payload.len() as u32).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(payload.as_bytes());
    bytes
}

#[derive(Default)]
pub struct Frames;

impl Framing for Frames {
    type Message = Frame;

    fn take(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
        if buffer.len() < HEADER {
            return Ok(None);
        }
        if !buffer.starts_with(MAGIC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what came is not sway's IPC"));
        }
        let mut numbers = &buffer[MAGIC.len()..HEADER];
        let (length, kind) = (numbers.get_u32_ne() as usize, numbers.get_u32_ne());
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is longer than 64 MiB"));
        }
        if buffer.len() < HEADER + length {
            return Ok(None);
        }
        buffer.advance(HEADER);
        Ok(Some(Frame { kind, payload: buffer.split_to(length).freeze() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_whole_however_the_bytes_arrive() {
        let mut text = encode(GET_TREE, "{\"a\":1}");
        text.extend(encode(RUN_COMMAND, ""));
        for chunk in 1..=text.len() {
            let (mut buffer, mut found) = (BytesMut::new(), Vec::new());
            for bytes in text.chunks(chunk) {
                buffer.extend_from_slice(bytes);
                while let Some(frame) = Frames.take(&mut buffer).unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found.len(), 2);
            assert_eq!((found[0].kind, &found[0].payload[..]), (GET_TREE, &b"{\"a\":1}"[..]));
            assert_eq!((found[1].kind, found[1].payload.len()), (RUN_COMMAND, 0));
        }
    }

    #[test]
    fn garbage_and_giants_are_errors() {
        let mut garbage = BytesMut::from(&b"HTTP/1.1 400 Bad Request"[..]);
        assert!(Frames.take(&mut garbage).is_err());
        let mut giant = BytesMut::from(&b"i3-ipc\xff\xff\xff\xff\0\0\0\0"[..]);
        assert!(Frames.take(&mut giant).is_err());
    }

    #[test]
    fn a_title_that_is_no_utf8_is_read_all_the_same() {
        let value = json(b"{\"name\":\"caf\xe9\"}").unwrap();
        assert_eq!(value["name"], "caf\u{fffd}");
        assert_eq!(json(b"{"), None);
    }
}
