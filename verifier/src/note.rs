//! Signed notes (c2sp.org/signed-note): a text, an empty line, signature lines.
//!
//! What is signed is the text with its final LF and without the empty line. Until [`open`] has returned,
//! the text may choose which keys to try and nothing else.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::base64::{self, Base64Error};
use crate::limits::{NOTE_BYTES_MAX, NOTE_SIGNATURES_MAX};
use crate::vkey::{Algorithm, KeyId, VerifierKey, is_name};

/// A note split into its parts; nothing is verified by that. `Display` prints the same bytes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// The signed text: ends in LF, may hold empty lines.
    pub text: &'a str,
    /// The signature lines in their order, which means nothing; 1..=100 of them.
    pub signatures: Vec<NoteSignature<'a>>,
}

/// One signature line. `Display` prints it, final LF included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteSignature<'a> {
    /// Key name.
    pub name: &'a str,
    /// Key ID.
    pub id: KeyId,
    /// What stands behind the key ID, at least one byte.
    pub signature: Vec<u8>,
}

/// A signature line that verified, with the key that it verified under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'n, 'k> {
    /// The trusted key.
    pub key: &'k VerifierKey,
    /// Its line.
    pub signature: &'n NoteSignature<'n>,
}

/// Why a note is malformed or not to be trusted. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Longer than [`NOTE_BYTES_MAX`].
    #[error("note of {bytes} bytes is beyond the largest, {NOTE_BYTES_MAX}")]
    TooLarge {
        /// Bytes of the note.
        bytes: usize,
    },
    /// Not UTF-8.
    #[error("invalid UTF-8 in line {line}")]
    Utf8 {
        /// The line.
        line: usize,
    },
    /// A control character other than LF.
    #[error("{} in line {line}", Control(*character))]
    Control {
        /// The line.
        line: usize,
        /// The character, below U+0020.
        character: char,
    },
    /// No final LF.
    #[error("note does not end in a line feed")]
    FinalLine,
    /// No empty line between text and signatures.
    #[error("no empty line between text and signatures")]
    Separator,
    /// Nothing behind the last empty line.
    #[error("no signature line behind the last empty line")]
    Unsigned,
    /// More than [`NOTE_SIGNATURES_MAX`] signature lines.
    #[error("more than {NOTE_SIGNATURES_MAX} signature lines")]
    TooManySignatures,
    /// A malformed signature line.
    #[error("signature line {line}: {what}")]
    Line {
        /// The line.
        line: usize,
        /// What is wrong with it.
        what: LineError,
    },
    /// Two trusted keys share name and key ID: an error of configuration.
    #[error("two trusted keys are both named {name}+{id}")]
    Ambiguous {
        /// Key name.
        name: String,
        /// Key ID.
        id: KeyId,
    },
    /// A line of a trusted key that does not verify.
    #[error("bad signature by trusted key {name}+{id}")]
    Signature {
        /// Key name.
        name: String,
        /// Key ID.
        id: KeyId,
    },
    /// Two different lines of one trusted key.
    #[error("two different signatures by trusted key {name}+{id}")]
    TwoSignatures {
        /// Key name.
        name: String,
        /// Key ID.
        id: KeyId,
    },
    /// No line is by a trusted key.
    #[error("no signature from a trusted key")]
    Untrusted,
}

/// What is wrong with a signature line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It does not begin with an em dash and a space.
    #[error("does not begin with an em dash (U+2014) and a space")]
    Dash,
    /// No name, or one with white space or `+`.
    #[error("key name is empty, or has white space or a plus in it")]
    Name,
    /// The signature is not base64.
    #[error("{0}")]
    Base64(#[from] Base64Error),
    /// Not even one byte behind the key ID.
    #[error("nothing behind the key ID")]
    Short,
}

struct Control(char);

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            '\r' => f.write_str("carriage return"),
            '\t' => f.write_str("tab"),
            other => write!(f, "control character U+{:04X}", u32::from(other)),
        }
    }
}

impl<'a> Note<'a> {
    /// Splits a note at its last empty line and reads every signature line.
    ///
    /// # Errors
    /// [`NoteError`], of the malformed kinds.
    pub fn parse(note: &'a [u8]) -> Result<Self, NoteError> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(NoteError::TooLarge { bytes: note.len() });
        }
        let note = check_characters(note)?;
        if !note.ends_with('\n') {
            return Err(NoteError::FinalLine);
        }
        let at = note.rfind("\n\n").ok_or(NoteError::Separator)?;
        let (text, signatures) = (&note[..=at], &note[at + 2..]);
        if signatures.is_empty() {
            return Err(NoteError::Unsigned);
        }
        let line = text.matches('\n').count() + 2;
        Ok(Self {
            text,
            signatures: parse_lines(signatures, line)?,
        })
    }
}

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures
            .iter()
            .try_for_each(|signature| write!(f, "{signature}"))
    }
}

impl fmt::Display for NoteSignature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.id.0[..], &self.signature].concat();
        writeln!(f, "\u{2014} {} {}", self.name, base64::encode(&bytes))
    }
}

/// Bare signature lines, as a witness answers them: 1..=100, each ending in LF.
///
/// # Errors
/// [`NoteError`], of the malformed kinds.
pub fn parse_signatures(lines: &[u8]) -> Result<Vec<NoteSignature<'_>>, NoteError> {
    if lines.len() > NOTE_BYTES_MAX {
        return Err(NoteError::TooLarge { bytes: lines.len() });
    }
    let lines = check_characters(lines)?;
    if lines.is_empty() {
        return Err(NoteError::Unsigned);
    }
    parse_lines(lines, 1)
}

/// UTF-8 without control characters other than LF. Runs first, so that a file whose line ends were
/// converted is told just that.
pub(crate) fn check_characters(bytes: &[u8]) -> Result<&str, NoteError> {
    let line_at = |at: usize| bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1;
    if let Some(at) = bytes.iter().position(|&b| b < b' ' && b != b'\n') {
        return Err(NoteError::Control {
            line: line_at(at),
            character: char::from(bytes[at]),
        });
    }
    core::str::from_utf8(bytes).map_err(|error| NoteError::Utf8 {
        line: line_at(error.valid_up_to()),
    })
}

fn parse_lines(lines: &str, first: usize) -> Result<Vec<NoteSignature<'_>>, NoteError> {
    let lines = lines.strip_suffix('\n').ok_or(NoteError::FinalLine)?;
    let mut signatures = Vec::new();
    for (i, line) in lines.split('\n').enumerate() {
        if i == NOTE_SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures);
        }
        let signature = parse_line(line).map_err(|what| NoteError::Line {
            line: first + i,
            what,
        })?;
        signatures.push(signature);
    }
    Ok(signatures)
}

fn parse_line(line: &str) -> Result<NoteSignature<'_>, LineError> {
    let line = line.strip_prefix("\u{2014} ").ok_or(LineError::Dash)?;
    let (name, signature) = line.split_once(' ').ok_or(LineError::Short)?;
    if !is_name(name) {
        return Err(LineError::Name);
    }
    let bytes = base64::decode(signature)?;
    match bytes.split_first_chunk() {
        Some((id, signature)) if !signature.is_empty() => Ok(NoteSignature {
            name,
            id: KeyId(*id),
            signature: signature.to_vec(),
        }),
        _ => Err(LineError::Short),
    }
}

/// The lines of `note` that verify under `keys`, one a key, in the note's order: at least one.
///
/// Lines of unknown keys are ignored; name and key ID together say which key a line is of. Every line of
/// a known key must verify, and identical ones count once. At most as many signatures are checked as
/// there are keys.
///
/// # Errors
/// [`NoteError::Ambiguous`], [`NoteError::Signature`], [`NoteError::TwoSignatures`],
/// [`NoteError::Untrusted`].
pub fn open<'n, 'k>(
    note: &'n Note<'n>,
    keys: impl IntoIterator<Item = &'k VerifierKey>,
) -> Result<Vec<Verified<'n, 'k>>, NoteError> {
    let keys: Vec<&VerifierKey> = keys.into_iter().collect();
    let mut verified: Vec<Verified<'n, 'k>> = Vec::new();
    for signature in &note.signatures {
        let mut known = keys
            .iter()
            .filter(|key| key.name == signature.name && key.id == signature.id);
        let Some(&key) = known.next() else { continue };
        let (name, id) = (&key.name, key.id);
        if known.next().is_some() {
            return Err(NoteError::Ambiguous {
                name: name.clone(),
                id,
            });
        }
        if matches!(key.algorithm, Algorithm::Other { kind, .. } if kind != 0x05) {
            continue;
        }
        match verified.iter().find(|v| core::ptr::eq(v.key, key)) {
            Some(earlier) if earlier.signature == signature => continue,
            Some(_) => {
                return Err(NoteError::TwoSignatures {
                    name: name.clone(),
                    id,
                });
            }
            None => {}
        }
        let verdict = key.verify(note.text, &signature.signature);
        verdict.map_err(|_| NoteError::Signature {
            name: name.clone(),
            id,
        })?;
        verified.push(Verified { key, signature });
    }
    if verified.is_empty() {
        Err(NoteError::Untrusted)
    } else {
        Ok(verified)
    }
}

/// The note of `text`, which ends in LF, and complete signature lines.
#[must_use]
pub fn join<'l>(text: &str, lines: impl IntoIterator<Item = &'l str>) -> String {
    let mut note = alloc::format!("{text}\n");
    note.extend(lines);
    note
}
