//! The bodies of a witness's add-checkpoint call (c2sp.org/tlog-witness): request, conflict, answer.

use alloc::string::String;
use alloc::vec::Vec;

use crate::decimal;
use crate::hash::{Hash, HashError};
use crate::limits::{ADD_CHECKPOINT_BYTES_MAX, CONSISTENCY_HASHES_MAX};
use crate::note::{Note, NoteError};

/// Content type of a conflict's body, exactly: no parameter.
pub const CONFLICT_TYPE: &str = "text/x.tlog.size";

/// A request to cosign: from the size that the witness is thought to hold to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint<'a> {
    /// Size that the proof starts from; 0 when the witness never saw the log.
    pub old: u64,
    /// Consistency proof from `old` to the checkpoint, 0..=63 hashes.
    pub proof: Vec<Hash>,
    /// The checkpoint's note, not verified.
    pub note: Note<'a>,
}

/// Why a request is malformed. Lines count from 1, over the whole body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddCheckpointError {
    /// Longer than [`ADD_CHECKPOINT_BYTES_MAX`].
    #[error("request of {bytes} bytes is beyond the largest, {ADD_CHECKPOINT_BYTES_MAX}")]
    TooLarge {
        /// Bytes of the body.
        bytes: usize,
    },
    /// The first line is not `old`, a space, and a number.
    #[error("line 1 is not `old` and a decimal size")]
    Old,
    /// A proof line that is not the base64 of 32 bytes.
    #[error("proof, line {line}: {what}")]
    Hash {
        /// The line.
        line: usize,
        /// What is wrong with it.
        what: HashError,
    },
    /// More than 63 proof lines.
    #[error("more than {CONSISTENCY_HASHES_MAX} proof lines")]
    TooManyHashes,
    /// No empty line behind the proof.
    #[error("no empty line between proof and checkpoint")]
    Separator,
    /// The checkpoint is not a note.
    #[error("checkpoint from line {first} on: {what}")]
    Note {
        /// The line of the body that is the note's line 1.
        first: usize,
        /// What is wrong with it.
        what: NoteError,
    },
}

impl<'a> AddCheckpoint<'a> {
    /// Reads a request: the first empty line ends the proof, the rest is the note, as it came.
    ///
    /// # Errors
    /// [`AddCheckpointError`].
    pub fn parse(body: &'a [u8]) -> Result<Self, AddCheckpointError> {
        if body.len() > ADD_CHECKPOINT_BYTES_MAX {
            return Err(AddCheckpointError::TooLarge { bytes: body.len() });
        }
        let mut rest = body;
        let old = next_line(&mut rest).and_then(|line| line.strip_prefix("old "));
        let old = old
            .and_then(decimal::parse)
            .ok_or(AddCheckpointError::Old)?;
        let mut proof = Vec::new();
        loop {
            let line = proof.len() + 2;
            match next_line(&mut rest).ok_or(AddCheckpointError::Separator)? {
                "" => break,
                _ if proof.len() == CONSISTENCY_HASHES_MAX => {
                    return Err(AddCheckpointError::TooManyHashes);
                }
                hash => {
                    let hash = Hash::from_base64(hash);
                    proof.push(hash.map_err(|what| AddCheckpointError::Hash { line, what })?);
                }
            }
        }
        let first = proof.len() + 3;
        let note = Note::parse(rest).map_err(|what| AddCheckpointError::Note { first, what })?;
        Ok(Self { old, proof, note })
    }
}

/// Takes one line off `rest`; `None` without an LF, or where the line is not UTF-8.
pub(crate) fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let end = rest.iter().position(|&b| b == b'\n')?;
    let (line, after) = rest.split_at(end);
    *rest = &after[1..]; // OK because `after` begins with the LF
    core::str::from_utf8(line).ok()
}

/// The request body: `old`, proof and the signed note, verbatim.
#[must_use]
pub fn request(old: u64, proof: &[Hash], note: &str) -> String {
    let mut body = alloc::format!("old {old}\n");
    for hash in proof {
        body.push_str(&hash.to_base64());
        body.push('\n');
    }
    body.push('\n');
    body.push_str(note);
    body
}

/// Body of a 409 answer: the size that the witness holds, to be sent as [`CONFLICT_TYPE`].
#[must_use]
pub fn conflict(size: u64) -> String {
    alloc::format!("{size}\n")
}

/// The size that a 409 answer hints at; `None` for any other content type or body. It is a hint: it may be
/// lower or higher than what the witness holds, and a log must bound how often it follows one.
#[must_use]
pub fn parse_conflict(content_type: &str, body: &[u8]) -> Option<u64> {
    if content_type != CONFLICT_TYPE {
        return None;
    }
    decimal::parse(core::str::from_utf8(body).ok()?.strip_suffix('\n')?)
}
