//! The body of a witness's sign-subtree call (c2sp.org/tlog-witness): for a subtree of a tree that the
//! witness has cosigned, a cosignature without a time.

use alloc::string::String;
use alloc::vec::Vec;

use crate::add_checkpoint::next_line;
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::decimal;
use crate::hash::{Hash, HashError};
use crate::limits::{ADD_CHECKPOINT_BYTES_MAX, CONSISTENCY_HASHES_MAX};
use crate::note::{self, Note, NoteError};
use crate::subtree::{self, SubtreeError, is_subtree};
use crate::vkey::{Algorithm, VerifierKey};

/// A request to cosign a subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignSubtree<'a> {
    /// First leaf.
    pub start: u64,
    /// The leaf after the last; with `start` the bounds of a subtree.
    pub end: u64,
    /// The subtree's hash.
    pub hash: Hash,
    /// The subtree's proof in the checkpoint's tree, 0..=63 hashes.
    pub proof: Vec<Hash>,
    /// The reference checkpoint's note, not verified.
    pub note: Note<'a>,
}

/// Why a request is malformed. Lines count from 1, over the whole body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignSubtreeError {
    /// Longer than [`ADD_CHECKPOINT_BYTES_MAX`].
    #[error("request of {bytes} bytes is beyond the largest, {ADD_CHECKPOINT_BYTES_MAX}")]
    TooLarge {
        /// Bytes of the body.
        bytes: usize,
    },
    /// The first line is not `subtree` and two numbers, one space before each.
    #[error("line 1 is not `subtree` and two decimal numbers")]
    Bounds,
    /// No tree has such a subtree.
    #[error("[{start}, {end}) is not a subtree")]
    Subtree {
        /// First leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
    },
    /// A line that should be the base64 of 32 bytes: the second, or one of the proof.
    #[error("hash, line {line}: {what}")]
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

/// Why a witness does not sign what a well-formed request asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubtreeRefused {
    /// No ML-DSA-44 cosignature by a key of its own on the reference checkpoint, or one that does not
    /// verify. A cosignature/v1 is not enough: nothing could be given for it. Answered with 403.
    #[error("the reference checkpoint has no ML-DSA-44 cosignature by this witness")]
    Unsigned,
    /// What it cosigned is no checkpoint; 400.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The subtree reaches beyond the checkpoint's tree; 400.
    #[error("subtree [{start}, {end}) is not in a tree of size {size}")]
    NotInTree {
        /// First leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
        /// Size of the tree.
        size: u64,
    },
    /// The proof shows nothing; 422.
    #[error(transparent)]
    Proof(SubtreeError),
}

impl<'a> SignSubtree<'a> {
    /// Reads a request: the first empty line ends the proof, the rest is the note, as it came.
    ///
    /// # Errors
    /// [`SignSubtreeError`].
    pub fn parse(body: &'a [u8]) -> Result<Self, SignSubtreeError> {
        if body.len() > ADD_CHECKPOINT_BYTES_MAX {
            return Err(SignSubtreeError::TooLarge { bytes: body.len() });
        }
        let mut rest = body;
        let bounds = next_line(&mut rest).and_then(|line| line.strip_prefix("subtree "));
        let (start, end) = bounds
            .and_then(|bounds| bounds.split_once(' '))
            .and_then(|(start, end)| Some((decimal::parse(start)?, decimal::parse(end)?)))
            .ok_or(SignSubtreeError::Bounds)?;
        if !is_subtree(start, end) {
            return Err(SignSubtreeError::Subtree { start, end });
        }
        let hash_at = |line, text| {
            Hash::from_base64(text).map_err(|what| SignSubtreeError::Hash { line, what })
        };
        let hash = hash_at(2, next_line(&mut rest).ok_or(SignSubtreeError::Separator)?)?;
        let mut proof = Vec::new();
        loop {
            let line = proof.len() + 3;
            match next_line(&mut rest).ok_or(SignSubtreeError::Separator)? {
                "" => break,
                _ if proof.len() == CONSISTENCY_HASHES_MAX => {
                    return Err(SignSubtreeError::TooManyHashes);
                }
                text => proof.push(hash_at(line, text)?),
            }
        }
        let first = proof.len() + 4;
        let note = Note::parse(rest).map_err(|what| SignSubtreeError::Note { first, what })?;
        Ok(Self {
            start,
            end,
            hash,
            proof,
            note,
        })
    }

    /// What a witness checks before it signs, beyond knowing the log: that an ML-DSA-44 key among `own`,
    /// its keys, cosigned the reference checkpoint, and that the subtree is in that tree. Returns the
    /// checkpoint.
    ///
    /// # Errors
    /// [`SubtreeRefused`], in the order in which they are looked for.
    pub fn check<'k>(
        &self,
        own: impl IntoIterator<Item = &'k VerifierKey>,
    ) -> Result<Checkpoint, SubtreeRefused> {
        let own = own.into_iter();
        let own = own.filter(|key| matches!(key.algorithm, Algorithm::MlDsa44(_)));
        note::open(&self.note, own).map_err(|_| SubtreeRefused::Unsigned)?;
        let checkpoint = Checkpoint::parse(self.note.text)?;
        checkpoint.check_size()?;
        let (start, end, size) = (self.start, self.end, checkpoint.size);
        if end > size {
            return Err(SubtreeRefused::NotInTree { start, end, size });
        }
        subtree::verify_consistency(
            (start, end),
            &self.hash,
            size,
            &checkpoint.root,
            &self.proof,
        )
        .map_err(SubtreeRefused::Proof)?;
        Ok(checkpoint)
    }
}

/// The request body: bounds, hash, proof and the cosigned note, verbatim.
#[must_use]
pub fn request((start, end): (u64, u64), hash: &Hash, proof: &[Hash], note: &str) -> String {
    let mut body = alloc::format!("subtree {start} {end}\n");
    for hash in core::iter::once(hash).chain(proof) {
        body.push_str(&hash.to_base64());
        body.push('\n');
    }
    body.push('\n');
    body.push_str(note);
    body
}
