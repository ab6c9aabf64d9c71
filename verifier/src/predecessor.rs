//! What leaf 0 of a successor says of the log before it.
//!
//! A log that cannot be recovered signs nothing any more, and another one goes on in its place, under another origin. Its leaf 0
//! names the last head of the old log that a quorum had cosigned, and which of its leaves are lost: whoever reads the new log
//! knows where the old one ended, and whoever holds a larger head of the old one that the operator kept back something.

use alloc::string::String;

use serde_json::Value;

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::limits::TREE_SIZE_MAX;
use crate::note::{Note, NoteError};

/// A log that has a successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// Its origin.
    pub origin: String,
    /// The last of its heads that was witnessed, as a note. Its signatures are not judged here: that takes its policy.
    pub checkpoint: String,
    /// How many of its leaves, from the first on, its operator still has; his word.
    pub recovered_size: u64,
    /// The leaves that the head covers and nobody is known to have, first and end; none where all are there.
    pub lost: Option<(u64, u64)>,
}

/// Why something is no predecessor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredecessorError {
    /// A member is missing, or of another type.
    #[error("predecessor: {0} is missing or of another type")]
    Member(&'static str),
    /// The checkpoint is no note.
    #[error("predecessor: {0}")]
    Note(#[from] NoteError),
    /// The note is no checkpoint.
    #[error("predecessor: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The members contradict each other.
    #[error("predecessor: {0}")]
    Contradiction(&'static str),
}

impl Predecessor {
    /// The log whose last witnessed head this note is.
    ///
    /// # Errors
    /// [`PredecessorError::Note`], [`PredecessorError::Checkpoint`].
    pub fn new(checkpoint: &str, recovered_size: u64) -> Result<Self, PredecessorError> {
        let head = head(checkpoint)?;
        Ok(Self {
            origin: head.origin,
            checkpoint: checkpoint.into(),
            recovered_size,
            lost: (recovered_size < head.size).then_some((recovered_size, head.size)),
        })
    }

    /// The last witnessed head.
    ///
    /// # Errors
    /// As [`Predecessor::new`].
    pub fn head(&self) -> Result<Checkpoint, PredecessorError> {
        head(&self.checkpoint)
    }

    /// Reads the member `predecessor` of leaf 0's event.
    ///
    /// # Errors
    /// [`PredecessorError`].
    pub fn parse(value: &Value) -> Result<Self, PredecessorError> {
        let text = |name: &'static str| {
            let member = value.get(name).and_then(Value::as_str);
            member.ok_or(PredecessorError::Member(name))
        };
        let size = value.get("recovered_size").and_then(Value::as_u64);
        let size = size.filter(|size| *size <= TREE_SIZE_MAX);
        let size = size.ok_or(PredecessorError::Member("recovered_size"))?;
        let read = Self::new(text("checkpoint")?, size)?;
        if read.origin != text("origin")? {
            return Err(PredecessorError::Contradiction(
                "the checkpoint is of another origin",
            ));
        }
        let lost = match value.get("lost") {
            None => None,
            Some(lost) => {
                let number = |at: usize| lost.get(at).and_then(Value::as_u64);
                let ends = number(0).zip(number(1)).filter(|_| lost.get(2).is_none());
                Some(ends.ok_or(PredecessorError::Member("lost"))?)
            }
        };
        if lost != read.lost {
            return Err(PredecessorError::Contradiction(
                "what is lost is what the head covers and was not recovered",
            ));
        }
        Ok(read)
    }
}

fn head(note: &str) -> Result<Checkpoint, PredecessorError> {
    let note = Note::parse(note.as_bytes())?;
    let head = Checkpoint::parse(note.text)?;
    head.check_size()?;
    Ok(head)
}
