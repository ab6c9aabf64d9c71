//! Lists of logs that ask to be witnessed (witness-network.org log-list format, `logs/v0`).
//!
//! A list tells a witness of logs; it is no configuration. A witness adds logs that it did not know, and
//! neither removes nor changes one because a list did.

use alloc::string::String;
use alloc::vec::Vec;

use crate::decimal;
use crate::limits::{LOG_LIST_BYTES_MAX, LOG_LIST_LOGS_MAX};
use crate::vkey::{Algorithm, VerifierKey, VkeyError};

/// The first line that is neither empty nor a comment.
pub const HEADER: &str = "logs/v0";

/// One log of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLog {
    /// Its key, Ed25519 (0x01).
    pub key: VerifierKey,
    /// Its origin; the key's name where the list states none.
    pub origin: String,
    /// Add-checkpoint requests that it will make a day at most, 1..=2^31 - 1.
    pub requests_per_day: u32,
    /// How to reach its operator: free text, anybody's.
    pub contact: String,
}

/// Why a text is not a list of logs: what, and in which line, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log list, line {line}: {what}")]
pub struct LogListError {
    /// The line; for what is missing at the end, the one after the last.
    pub line: usize,
    /// What is wrong there.
    pub what: LogListFault,
}

/// What is wrong with a line of a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogListFault {
    /// The list is longer than [`LOG_LIST_BYTES_MAX`].
    #[error("the list is beyond the largest, {LOG_LIST_BYTES_MAX} bytes")]
    TooLarge,
    /// Not UTF-8.
    #[error("not UTF-8")]
    Utf8,
    /// The list does not begin with [`HEADER`].
    #[error("`{HEADER}` is due here")]
    Header,
    /// Another line than the order asks for.
    #[error("`{due}` is due here")]
    Due {
        /// The lines that may stand here.
        due: &'static str,
    },
    /// A malformed verifier key.
    #[error(transparent)]
    Vkey(#[from] VkeyError),
    /// A key of another type than Ed25519, 0x01.
    #[error("a key of type 0x{kind:02x}, where logs are listed with keys of type 0x01")]
    KeyType {
        /// The type byte.
        kind: u8,
    },
    /// An origin with a control character, which no checkpoint can have.
    #[error("an origin with a control character")]
    Origin,
    /// Not a number from 1 to 2^31 - 1 without sign and leading zero.
    #[error("requests per day are not a number from 1 to 2147483647")]
    RequestsPerDay,
    /// More than [`LOG_LIST_LOGS_MAX`] logs.
    #[error("more than {LOG_LIST_LOGS_MAX} logs")]
    TooMany,
}

/// Reads a list.
///
/// # Errors
/// [`LogListError`], with the line.
pub fn parse(list: &[u8]) -> Result<Vec<ListedLog>, LogListError> {
    if list.len() > LOG_LIST_BYTES_MAX {
        let what = LogListFault::TooLarge;
        return Err(LogListError { line: 1, what });
    }
    let text = core::str::from_utf8(list).map_err(|error| {
        let before = list.iter().take(error.valid_up_to());
        LogListError {
            line: 1 + before.filter(|&&byte| byte == b'\n').count(),
            what: LogListFault::Utf8,
        }
    })?;
    let mut lines = Lines { text, line: 0 };
    if lines.next() != Some(HEADER) {
        return Err(lines.fault(LogListFault::Header));
    }
    let mut logs = Vec::new();
    while let Some(line) = lines.next() {
        if logs.len() == LOG_LIST_LOGS_MAX {
            return Err(lines.fault(LogListFault::TooMany));
        }
        logs.push(log(line, &mut lines)?);
    }
    Ok(logs)
}

fn log(first: &str, lines: &mut Lines<'_>) -> Result<ListedLog, LogListError> {
    let due = |due| LogListFault::Due { due };
    let key = value(first, "vkey").ok_or_else(|| lines.fault(due("vkey <vkey>")))?;
    let key = VerifierKey::parse(key).map_err(|error| lines.fault(error.into()))?;
    if !matches!(key.algorithm, Algorithm::Ed25519(_)) {
        let kind = key.algorithm.kind();
        return Err(lines.fault(LogListFault::KeyType { kind }));
    }
    let mut line = lines.next().unwrap_or_default();
    let mut origin = key.name.as_str();
    let stated = value(line, "origin");
    if let Some(stated) = stated {
        if stated.contains(|c: char| c < ' ') {
            return Err(lines.fault(LogListFault::Origin));
        }
        origin = stated;
        line = lines.next().unwrap_or_default();
    }
    let or_origin = if stated.is_some() {
        "qpd <number>"
    } else {
        "origin <text>` or `qpd <number>"
    };
    let qpd = value(line, "qpd").ok_or_else(|| lines.fault(due(or_origin)))?;
    let qpd = decimal::parse(qpd).and_then(|qpd| i32::try_from(qpd).ok());
    let requests_per_day = qpd
        .filter(|qpd| *qpd > 0)
        .ok_or_else(|| lines.fault(LogListFault::RequestsPerDay))?
        .unsigned_abs();
    let contact = lines.next().and_then(|line| value(line, "contact"));
    let contact = contact.ok_or_else(|| lines.fault(due("contact <text>")))?;
    Ok(ListedLog {
        origin: origin.into(),
        contact: contact.into(),
        key,
        requests_per_day,
    })
}

/// What stands behind a line's first word, if that is `name`; never empty.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (word, rest) = line.split_once([' ', '\t'])?;
    let rest = rest.trim();
    (word == name && !rest.is_empty()).then_some(rest)
}

/// The lines that say something, trimmed; counts all of them.
struct Lines<'a> {
    text: &'a str,
    line: usize,
}

impl Lines<'_> {
    fn fault(&self, what: LogListFault) -> LogListError {
        let line = self.line;
        LogListError { line, what }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        while !self.text.is_empty() {
            let (line, rest) = self.text.split_once('\n').unwrap_or((self.text, ""));
            self.text = rest;
            self.line += 1;
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                return Some(line);
            }
        }
        self.line += 1; // what is missing is missing behind the last line
        None
    }
}
