//! Newline framing for stdio: whole lines out, a bound on their length, and one bad line never swallows the next.

use bytes::{Buf, Bytes, BytesMut};

/// What the framer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// One line without its end; never blank.
    Text(Bytes),
    /// A line longer than the bound; its bytes are gone.
    TooLong,
}

/// Splits bytes into lines. Holds at most `limit` bytes of an unfinished one.
#[derive(Debug)]
pub struct LineFramer {
    buffer: BytesMut,
    limit: usize,
    /// How much of `buffer` was searched for a line end already.
    searched: usize,
    skipping: bool,
}

impl LineFramer {
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit, searched: 0, skipping: false }
    }

    /// Where to read into.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line, or `None` until more bytes come.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let found = memchr::memchr(b'\n', self.buffer.get(self.searched..).unwrap_or_default());
            let Some(at) = found else {
                self.searched = self.buffer.len();
                if self.searched > self.limit {
                    self.buffer.clear();
                    self.searched = 0;
                    if !std::mem::replace(&mut self.skipping, true) {
                        return Some(Line::TooLong);
                    }
                }
                return None;
            };
            let end = self.searched + at;
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                self.buffer.advance(end + 1);
                continue;
            }
            let mut line = self.buffer.split_to(end + 1);
            line.truncate(end);
            if line.len() > self.limit {
                return Some(Line::TooLong);
            }
            if line.last() == Some(&b'\r') {
                line.truncate(line.len() - 1);
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(Line::Text(line.freeze()));
        }
    }

    /// At the end of input: a last line without its end.
    pub fn finish(&mut self) -> Option<Line> {
        self.searched = 0;
        let rest = std::mem::take(&mut self.buffer).freeze();
        (!self.skipping && !rest.iter().all(u8::is_ascii_whitespace)).then_some(Line::Text(rest))
    }
}


#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(framer: &mut LineFramer) -> Vec<Line> {
        std::iter::from_fn(|| framer.next_line()).collect()
    }

    #[test]
    fn a_long_line_is_reported_once_and_the_next_one_is_whole() {
        let mut framer = LineFramer::new(8);
        framer.push(b"0123456789");
        assert_eq!(all(&mut framer), [Line::TooLong]);
        framer.push(b"abcdefghijkl");
        assert_eq!(all(&mut framer), []);
        framer.push(b"x\n{}\n\n \r\n[]\r\n123456789\n1");
        assert_eq!(
            all(&mut framer),
            [Line::Text("{}".into()), Line::Text("[]".into()), Line::TooLong]
        );
        assert_eq!(framer.finish(), Some(Line::Text("1".into())));
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_cut_makes_no_difference(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b' ')], 0..200),
            cuts in proptest::collection::vec(0usize..20, 0..40),
        ) {
            let mut whole = LineFramer::new(12);
            whole.push(&text);
            let mut expected = all(&mut whole);
            expected.extend(whole.finish());
            let mut cut = LineFramer::new(12);
            let mut got = Vec::new();
            let mut rest = &text[..];
            for n in cuts {
                let (a, b) = rest.split_at(n.min(rest.len()));
                cut.push(a);
                got.extend(all(&mut cut));
                rest = b;
            }
            cut.push(rest);
            got.extend(all(&mut cut));
            got.extend(cut.finish());
            // An unfinished last line over the bound is told only once it is certain to be one.
            let tell = |lines: Vec<Line>| lines.into_iter().filter(|l| !matches!(l, Line::TooLong)).collect::<Vec<_>>();
            prop_assert_eq!(tell(got), tell(expected));
        }
    }
}
