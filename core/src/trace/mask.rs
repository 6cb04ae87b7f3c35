//! Masks that keep a text's length and the classes of its characters, and nothing else of it.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// How many different texts are told apart; past it, equal masks may stand for different texts.
const REMEMBERED: usize = 8192;

/// Equal texts get equal masks and different ones different masks, as long as their classes leave room: what the core
/// compares (a title with the one before, a repeated request key) must come out the same when it is replayed.
#[derive(Debug, Default)]
pub(super) struct Masks {
    /// By the text's hash, so that no text is kept.
    known: BTreeMap<[u8; 32], String>,
    /// How many different texts had this plain mask so far.
    alike: BTreeMap<String, usize>,
}

impl Masks {
    pub fn text(&mut self, text: &str) -> String {
        let plain: String = text.chars().map(class).collect();
        let hash: [u8; 32] = Sha256::digest(text).into();
        if let Some(mask) = self.known.get(&hash) {
            return mask.clone();
        }
        if self.known.len() >= REMEMBERED {
            return plain;
        }
        let before = self.alike.entry(plain.clone()).or_default();
        let mask = numbered(&plain, *before).unwrap_or(plain);
        *before += 1;
        self.known.insert(hash, mask.clone());
        mask
    }

    /// The parts of a sentence that stand in quotes, which quote what somebody else said.
    pub fn quoted(&mut self, sentence: &str) -> String {
        let mut out = String::with_capacity(sentence.len());
        let mut rest = sentence;
        while let Some(open) = rest.find(['"', '`', '“', '«']) {
            let quote = rest[open..].chars().next().unwrap_or('"');
            let close = match quote {
                '“' => '”',
                '«' => '»',
                same => same,
            };
            let inner = open + quote.len_utf8();
            out.push_str(&rest[..inner]);
            // A quote that is never closed reaches to the end.
            let end = rest[inner..].find(close).map_or(rest.len(), |at| inner + at);
            out.push_str(&self.text(&rest[inner..end]));
            let after = rest[end..].chars().next().map_or(end, |c| end + c.len_utf8());
            out.push_str(&rest[end..after]);
            rest = &rest[after..];
        }
        out.push_str(rest);
        out
    }

    /// A path's parts; its slashes and its file's extension stay.
    pub fn path(&mut self, path: &str) -> String {
        let (stem, extension) = match path.rsplit_once('.') {
            Some((stem, extension)) if matches!(extension, "png" | "jsonl") => (stem, Some(extension)),
            _ => (path, None),
        };
        let parts: Vec<String> = stem.split('/').map(|part| self.text(part)).collect();
        let masked = parts.join("/");
        match extension {
            Some(extension) => format!("{masked}.{extension}"),
            None => masked,
        }
    }
}

/// What stands for an image's data: its length in bytes and the beginning of its SHA-256.
pub fn stand_in(base64: &[u8]) -> String {
    if base64.len() <= STAND_IN_MAX && base64.starts_with(PREFIX.as_bytes()) {
        return String::from_utf8_lossy(base64).into_owned();
    }
    let hash = super::entry::to_hex(&Sha256::digest(base64)[..8]);
    format!("{PREFIX}{}-{hash}", base64.len())
}

const PREFIX: &str = "blob-";
const STAND_IN_MAX: usize = PREFIX.len() + 20 + 1 + 16;

/// One character for each class and length in UTF-8. Blanks and controls stay: they show nothing but where words end.
fn class(c: char) -> char {
    match (c, c.len_utf8()) {
        (' ' | '\n' | '\t', _) => c,
        _ if c.is_control() => c,
        ('a'..='z', _) => 'x',
        ('A'..='Z', _) => 'X',
        ('0'..='9', _) => '0',
        (_, 1) => '#',
        (_, 2) if c.is_lowercase() => 'é',
        (_, 2) if c.is_uppercase() => 'É',
        (_, 2) if c.is_alphanumeric() => 'ا',
        (_, 2) => '§',
        (_, 3) if c.is_alphanumeric() => '中',
        (_, 3) => '…',
        _ if c.is_alphanumeric() => '𐌰',
        _ => '😀',
    }
}

/// The plain mask with its letters and digits counted on from the end; `None` when there is no room.
fn numbered(plain: &str, number: usize) -> Option<String> {
    const LOWER: &[u8; 26] = b"xyzabcdefghijklmnopqrstuvw";
    let mut left = number;
    let mut chars: Vec<char> = plain.chars().collect();
    for c in chars.iter_mut().rev() {
        if left == 0 {
            break;
        }
        let (digit, radix) = match c {
            'x' | 'X' => {
                let letter = char::from(LOWER[left % 26]);
                (if *c == 'X' { letter.to_ascii_uppercase() } else { letter }, 26)
            }
            '0' => (char::from(b"0123456789"[left % 10]), 10),
            _ => continue,
        };
        *c = digit;
        left /= radix;
    }
    (left == 0).then(|| chars.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_and_class_stay_and_equal_texts_stay_equal() {
        let mut masks = Masks::default();
        assert_eq!(masks.text("Hunter2 säß!"), "Xxxxxx0 xéé#");
        assert_eq!(masks.text("Hunter2 säß!"), "Xxxxxx0 xéé#");
        assert_eq!(masks.text("Walter9 böß?"), "Xxxxxx0 yéé#");
        let all: std::collections::BTreeSet<String> = (0..1000).map(|n| masks.text(&format!("t{n:03}"))).collect();
        assert_eq!(all.len(), 1000);
        assert_eq!(masks.text("日本…"), "中中…");
        assert_eq!(masks.quoted("no output is named \"DP-1\"; there are `a` and \"b"), "no output is named \"XX#0\"; there are `x` and \"y");
        assert_eq!(masks.path("/home/ann/a b.png"), "/xxxx/xxx/x x.png");
    }

    #[test]
    fn a_stand_in_stands_for_itself() {
        let one = stand_in(&[b'A'; 5000]);
        assert!(one.starts_with("blob-5000-"), "{one}");
        assert_eq!(stand_in(one.as_bytes()), one);
    }
}
