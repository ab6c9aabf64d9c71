//! tlog-proof files (c2sp.org/tlog-proof): an inclusion path and the checkpoint that it leads to.

use alloc::string::String;
use alloc::vec::Vec;

use crate::base64::{self, Base64Error};
use crate::decimal;
use crate::hash::{Hash, HashError};
use crate::limits::{EXTRA_BYTES_MAX, INCLUSION_HASHES_MAX, TLOG_PROOF_BYTES_MAX};
use crate::note::{Note, NoteError};
use crate::policy::{Accepted, Policy, PolicyError};
use crate::tree::{self, ProofError};

/// First line of the file.
pub const HEADER: &str = "c2sp.org/tlog-proof@v1";

/// A proof as its file states it; nothing is verified by reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// Bytes for the application, 1..=65,535 of them, which nothing authenticates.
    pub extra: Option<Vec<u8>>,
    /// Index of the leaf.
    pub index: u64,
    /// Inclusion path, sibling of the leaf first, 0..=64 hashes.
    pub path: Vec<Hash>,
    /// The checkpoint's signed note, byte for byte; not read yet.
    pub checkpoint: String,
}

/// Why a file is not a tlog-proof. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlogProofError {
    /// Longer than [`TLOG_PROOF_BYTES_MAX`].
    #[error("proof file of {bytes} bytes is beyond the largest, {TLOG_PROOF_BYTES_MAX}")]
    TooLarge {
        /// Bytes of the file.
        bytes: usize,
    },
    /// Not UTF-8 from here on.
    #[error("invalid UTF-8 at byte {offset} of the proof file")]
    Utf8 {
        /// Where, in bytes.
        offset: usize,
    },
    /// Another first line than [`HEADER`].
    #[error("line 1 of the proof file is not {HEADER}")]
    Header,
    /// Extra data that is not base64.
    #[error("extra data, line 2: {0}")]
    Extra(Base64Error),
    /// Extra data of no byte or of more than 65,535.
    #[error("extra data, line 2, has {bytes} bytes, not 1 to {EXTRA_BYTES_MAX}")]
    ExtraLength {
        /// Bytes of the data.
        bytes: usize,
    },
    /// No `index` line where one is due.
    #[error("line {line} of the proof file is not `index` and a decimal number")]
    Index {
        /// The line.
        line: usize,
    },
    /// A path line that is not the base64 of 32 bytes.
    #[error("proof hash, line {line}: {what}")]
    Hash {
        /// The line.
        line: usize,
        /// What is wrong with it.
        what: HashError,
    },
    /// More than 64 path lines.
    #[error("more than {INCLUSION_HASHES_MAX} proof hashes")]
    TooManyHashes,
    /// The file ends before its checkpoint.
    #[error("the proof file ends without a checkpoint")]
    NoCheckpoint,
}

/// Why a proof does not hold under a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnprovenError {
    /// The checkpoint is not a note.
    #[error("checkpoint: {0}")]
    Note(#[from] NoteError),
    /// The policy does not accept the checkpoint.
    #[error("checkpoint: {0}")]
    Policy(#[from] PolicyError),
    /// The path does not lead from the leaf to the checkpoint's root.
    #[error("inclusion: {0}")]
    Inclusion(#[from] ProofError),
}

impl TlogProof {
    /// Reads a file; the first empty line ends the proof, the rest is kept byte for byte.
    ///
    /// # Errors
    /// [`TlogProofError`].
    pub fn parse(file: &[u8]) -> Result<Self, TlogProofError> {
        if file.len() > TLOG_PROOF_BYTES_MAX {
            return Err(TlogProofError::TooLarge { bytes: file.len() });
        }
        let utf8 = core::str::from_utf8(file);
        let text = utf8.map_err(|e| TlogProofError::Utf8 {
            offset: e.valid_up_to(),
        })?;
        let rest = text
            .strip_prefix(HEADER)
            .and_then(|rest| rest.strip_prefix('\n'));
        let mut rest = rest.ok_or(TlogProofError::Header)?;
        let mut line = 2;
        let mut next = || -> Result<&str, TlogProofError> {
            let (head, tail) = rest.split_once('\n').ok_or(TlogProofError::NoCheckpoint)?;
            rest = tail;
            Ok(head)
        };
        let mut head = next()?;
        let mut extra = None;
        if let Some(text) = head.strip_prefix("extra ") {
            extra = Some(parse_extra(text)?);
            line += 1;
            head = next()?;
        }
        let index = head.strip_prefix("index ").and_then(decimal::parse);
        let index = index.ok_or(TlogProofError::Index { line })?;
        let mut path = Vec::new();
        loop {
            line += 1;
            match next()? {
                "" => break,
                _ if path.len() == INCLUSION_HASHES_MAX => {
                    return Err(TlogProofError::TooManyHashes);
                }
                hash => {
                    let hash = Hash::from_base64(hash);
                    path.push(hash.map_err(|what| TlogProofError::Hash { line, what })?);
                }
            }
        }
        if rest.is_empty() {
            return Err(TlogProofError::NoCheckpoint);
        }
        Ok(Self {
            extra,
            index,
            path,
            checkpoint: rest.into(),
        })
    }

    /// The file that [`parse`](Self::parse) reads back.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = alloc::format!("{HEADER}\n");
        if let Some(extra) = &self.extra {
            text.push_str("extra ");
            base64::encode_to(extra, &mut text);
            text.push('\n');
        }
        text.push_str(&alloc::format!("index {}\n", self.index));
        for hash in &self.path {
            base64::encode_to(&hash.0, &mut text);
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&self.checkpoint);
        text
    }

    /// Checks that `leaf`, computed by the caller from bytes that it has, stands at the stated index of a
    /// tree whose head the policy accepts. Times of cosignatures are not judged.
    ///
    /// # Errors
    /// [`UnprovenError`].
    pub fn verify<'p>(
        &self,
        leaf: &Hash,
        policy: &'p Policy,
    ) -> Result<Accepted<'p>, UnprovenError> {
        let accepted = policy.check(&Note::parse(self.checkpoint.as_bytes())?)?;
        let head = &accepted.checkpoint;
        tree::verify_inclusion(leaf, self.index, head.size, &self.path, &head.root)?;
        Ok(accepted)
    }
}

fn parse_extra(text: &str) -> Result<Vec<u8>, TlogProofError> {
    let extra = base64::decode(text).map_err(TlogProofError::Extra)?;
    match extra.len() {
        1..=EXTRA_BYTES_MAX => Ok(extra),
        bytes => Err(TlogProofError::ExtraLength { bytes }),
    }
}
