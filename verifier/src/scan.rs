//! A pull scanner over JSON text, for readers that know what they expect.
//!
//! It hands out borrowed strings, knows the pointer and offset of each fault, and has one depth
//! bound. A general deserialiser would accept an array where an object is due, would not look at
//! what it skips, and could not say where in the document a base64 string went wrong.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::{Fault, JsonError};
use crate::limits;

enum Step<'a> {
    Member(Cow<'a, str>),
    Index(usize),
}

pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    compact: bool,
    path: Vec<Step<'a>>,
}

type Read<T> = Result<T, JsonError>;

impl<'a> Scanner<'a> {
    /// A scanner that allows white space between tokens.
    pub(crate) fn new(bytes: &'a [u8]) -> Read<Self> {
        Self::over(bytes, false)
    }

    /// A scanner to which white space between tokens is a fault.
    pub(crate) fn compact(bytes: &'a [u8]) -> Read<Self> {
        Self::over(bytes, true)
    }

    /// A scanner over a member of the document `text`, whose value begins at `start`.
    pub(crate) fn within(text: &'a str, start: usize, name: &'static str) -> Self {
        let path = [Step::Member(Cow::Borrowed(name))].into();
        Self {
            text,
            at: start,
            compact: false,
            path,
        }
    }

    /// The whole document.
    pub(crate) fn document(&self) -> &'a str {
        self.text
    }

    fn over(bytes: &'a [u8], compact: bool) -> Read<Self> {
        match core::str::from_utf8(bytes) {
            Ok(text) => Ok(Self {
                text,
                at: 0,
                compact,
                path: Vec::new(),
            }),
            Err(error) => {
                let offset = error.valid_up_to();
                Err(JsonError {
                    pointer: String::new(),
                    offset,
                    line: line(bytes, offset),
                    what: Fault::Utf8,
                })
            }
        }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The text from `start` to here.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        // OK because both ends were reached between tokens, and tokens end at character boundaries.
        &self.text[start..self.at]
    }

    pub(crate) fn fail<T>(&self, what: Fault) -> Read<T> {
        self.fail_at(self.at, what)
    }

    pub(crate) fn fail_at<T>(&self, offset: usize, what: Fault) -> Read<T> {
        let mut pointer = String::new();
        for step in &self.path {
            pointer.push('/');
            match step {
                Step::Index(index) => pointer.push_str(&alloc::format!("{index}")),
                Step::Member(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
            }
        }
        Err(JsonError {
            pointer,
            offset,
            line: line(self.text.as_bytes(), offset),
            what,
        })
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The first byte of the next token.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        if !self.compact {
            while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
                self.at += 1;
            }
        }
        self.byte()
    }

    fn unexpected<T>(&mut self, due: &'static str) -> Read<T> {
        match self.peek() {
            None => self.fail(Fault::End { due }),
            Some(_) => self.fail(Fault::Unexpected { due }),
        }
    }

    /// Takes exactly `text`, byte for byte.
    pub(crate) fn literal(&mut self, text: &'static str) -> Read<()> {
        if self.text.as_bytes()[self.at..].starts_with(text.as_bytes()) {
            self.at += text.len();
            return Ok(());
        }
        self.unexpected(text)
    }

    /// Whether the next bytes are exactly `text`; takes them if so.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Nothing but white space follows.
    pub(crate) fn end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail(Fault::Trailing),
        }
    }

    fn open(&mut self, bracket: u8, due: &'static str) -> Read<()> {
        if self.peek() != Some(bracket) {
            return self.unexpected(due);
        }
        // Every open bracket but the first has a step on the path.
        if self.path.len() >= limits::JSON_DEPTH_MAX {
            return self.fail(Fault::Depth);
        }
        self.at += 1;
        Ok(())
    }

    /// After a member or an element: whether another one follows.
    fn more(&mut self, close: u8, due: &'static str) -> Read<bool> {
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(byte) if byte == close => {
                self.at += 1;
                return Ok(false);
            }
            _ => return self.unexpected(due),
        }
        Ok(true)
    }

    /// Reads an object; `member` takes each value. The name is also the last step of the pointer.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Read<()>,
    ) -> Read<()> {
        self.open(b'{', "an object")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.unexpected("a member name");
            }
            let name = self.string()?;
            if self.peek() != Some(b':') {
                return self.unexpected("a colon");
            }
            self.at += 1;
            self.path.push(Step::Member(name.clone()));
            member(self, name)?;
            self.path.pop();
            if !self.more(b'}', "a comma or the end of the object")? {
                return Ok(());
            }
        }
    }

    /// Reads an array; `element` takes each value.
    pub(crate) fn array(
        &mut self,
        mut element: impl FnMut(&mut Self, usize) -> Read<()>,
    ) -> Read<()> {
        self.open(b'[', "an array")?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            self.path.push(Step::Index(index));
            element(self, index)?;
            self.path.pop();
            if !self.more(b']', "a comma or the end of the array")? {
                break;
            }
        }
        Ok(())
    }

    /// Sets a member that may be there once.
    pub(crate) fn once<T>(
        &mut self,
        slot: &mut Option<T>,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<()> {
        if slot.is_some() {
            return self.fail(Fault::Duplicate);
        }
        *slot = Some(read(self)?);
        Ok(())
    }

    /// The value of a member that must be there.
    pub(crate) fn need<T>(&self, slot: Option<T>, name: &'static str) -> Read<T> {
        slot.map_or_else(|| self.fail(Fault::Missing(name)), Ok)
    }

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

    /// Takes a number of any form and gives its text.
    pub(crate) fn number(&mut self) -> Read<&'a str> {
        self.peek();
        let start = self.at;
        self.take("-");
        match self.byte() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return self.unexpected("a value"),
        }
        if self.take(".") {
            self.digits()?;
        }
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            self.digits()?;
        }
        Ok(self.since(start))
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at == start {
            self.unexpected("a digit")
        } else {
            Ok(())
        }
    }

    /// An index, a size or a time: a number of digits alone, below 2^63.
    pub(crate) fn count(&mut self) -> Read<u64> {
        self.peek();
        let start = self.at;
        match self.number()?.parse::<u64>() {
            Ok(count) if count < 1 << 63 => Ok(count),
            _ => self.fail_at(start, Fault::Count),
        }
    }

    /// Takes one value of any kind, and only looks at its form.
    pub(crate) fn skip(&mut self) -> Read<()> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{') => self.object(|scanner, _| scanner.skip()),
            Some(b'[') => self.array(|scanner, _| scanner.skip()),
            _ if self.take("true") || self.take("false") || self.take("null") => Ok(()),
            _ => self.number().map(drop),
        }
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

/// The line of a byte, counted from 1.
fn line(bytes: &[u8], offset: usize) -> usize {
    1 + bytes
        .iter()
        .take(offset)
        .filter(|&&byte| byte == b'\n')
        .count()
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
