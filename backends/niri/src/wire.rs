//! niri's framing: one JSON value a line.

use std::io;

use bytes::{Bytes, BytesMut};
use deskhand_ports::ipc::Framing;

/// A line longer than this is no answer but a fault: the connection is given up.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

#[derive(Default)]
pub struct Lines {
    /// How much of the buffer is known to hold no newline.
    scanned: usize,
}

impl Framing for Lines {
    /// Without its newline.
    type Message = Bytes;

    fn take(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Bytes>> {
        let Some(at) = buffer[self.scanned..].iter().position(|&b| b == b'\n') else {
            self.scanned = buffer.len();
            if self.scanned > LONGEST_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 64 MiB"));
            }
            return Ok(None);
        };
        let mut line = buffer.split_to(self.scanned + at + 1);
        line.truncate(self.scanned + at);
        self.scanned = 0;
        Ok(Some(line.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_arrive() {
        let text = b"one\n\ntwo\nthree";
        for chunk in 1..=text.len() {
            let (mut lines, mut buffer, mut found) = (Lines::default(), BytesMut::new(), Vec::new());
            for bytes in text.chunks(chunk) {
                buffer.extend_from_slice(bytes);
                while let Some(line) = lines.take(&mut buffer).unwrap() {
                    found.push(line);
                }
            }
            assert_eq!(found, ["one", "", "two"]);
            assert_eq!(&buffer[..], b"three");
        }
    }
}
