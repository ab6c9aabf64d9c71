//! Strings: reading them with as few copies as can be, and their shortest spelling.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Read, Scanner};
use crate::json::Fault;

impl<'a> Scanner<'a> {
    /// Reads a string, borrowed unless it has escapes.
    pub(crate) fn string(&mut self) -> Read<Cow<'a, str>> {
        if self.peek() != Some(b'"') {
            return self.unexpected("a string");
        }
        let start = self.at + 1;
        self.at = start + plain(&self.text.as_bytes()[start..]);
        if self.byte() == Some(b'"') {
            let run = self.since(start);
            self.at += 1;
            return Ok(Cow::Borrowed(run));
        }
        let mut out = String::from(self.since(start));
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return self.fail(Fault::Control),
                None => {
                    return self.fail(Fault::End {
                        due: "the end of a string",
                    });
                }
            }
            let start = self.at;
            self.at += plain(&self.text.as_bytes()[start..]);
            out.push_str(self.since(start));
        }
    }

    fn escape(&mut self) -> Read<char> {
        let start = self.at;
        self.at += 2;
        Ok(match self.text.as_bytes().get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            _ => return self.fail_at(start, Fault::Escape),
        })
    }

    fn unicode(&mut self, start: usize) -> Read<char> {
        let Some(first) = self.hex4() else {
            return self.fail_at(start, Fault::Escape);
        };
        let unit = match first {
            0xD800..=0xDBFF if self.take("\\u") => match self.hex4() {
                Some(second @ 0xDC00..=0xDFFF) => {
                    0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                }
                _ => return self.fail_at(start, Fault::Surrogate),
            },
            other => other,
        };
        char::from_u32(unit).map_or_else(|| self.fail_at(start, Fault::Surrogate), Ok)
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        let value = digits.iter().try_fold(0, |sum, &digit| {
            Some(sum * 16 + char::from(digit).to_digit(16)?)
        })?;
        self.at += 4;
        Some(value)
    }
}

/// The number of bytes before the first quote, backslash or control character, eight at a time.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    let mut chunks = bytes.chunks_exact(8);
    let mut run = 0;
    for chunk in &mut chunks {
        let Ok(eight) = <[u8; 8]>::try_from(chunk) else {
            break;
        };
        let word = u64::from_le_bytes(eight);
        // The classic "has a byte less than n" of word and of word xor the byte sought; a borrow
        // can only mark bytes above one that is rightly marked.
        let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & (ONES << 7);
        let marks = below(word, 0x20)
            | below(word ^ (ONES * u64::from(b'"')), 1)
            | below(word ^ (ONES * u64::from(b'\\')), 1);
        if marks != 0 {
            return run + marks.trailing_zeros() as usize / 8;
        }
        run += 8;
    }
    let rest = chunks.remainder();
    run + rest
        .iter()
        .position(|&b| b < 0x20 || b == b'"' || b == b'\\')
        .unwrap_or(rest.len())
}

/// Appends `text` as a JSON string with the fewest escapes (RFC 8785 section 3.2.2.2).
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    push_utf8(out, text.as_bytes());
}

/// As [`push_string`], of bytes that are known to be UTF-8.
pub(crate) fn push_utf8(out: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text;
    loop {
        let run = plain(rest);
        out.extend_from_slice(&rest[..run]);
        let Some(&byte) = rest.get(run) else { break };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
        rest = &rest[run + 1..];
    }
    out.push(b'"');
}
