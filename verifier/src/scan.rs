//! A pull scanner over JSON text, for readers that know what they expect.
//!
//! It hands out borrowed strings, knows the pointer and offset of each fault, and has one depth
//! bound. A general deserialiser would accept an array where an object is due, would not look at
//! what it skips, and could not say where in the document a base64 string went wrong.

mod text;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::{Fault, JsonError};
use crate::limits;

pub(crate) use self::text::{push_string, push_utf8};

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

/// The line of a byte, counted from 1.
fn line(bytes: &[u8], offset: usize) -> usize {
    1 + bytes
        .iter()
        .take(offset)
        .filter(|&&byte| byte == b'\n')
        .count()
}
