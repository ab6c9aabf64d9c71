//! Checkpoints: a tree head as the text of a signed note (c2sp.org/tlog-checkpoint).

use alloc::string::String;
use alloc::vec::Vec;

use crate::decimal;
use crate::hash::{EMPTY_ROOT, Hash, HashError, sha256};
use crate::limits::{NOTE_BYTES_MAX, TREE_SIZE_MAX};
use crate::note::{self, NoteError};

/// Largest tree size that a log of ours signs and a witness of ours cosigns: 2^62.
pub const MAX_SIZE: u64 = TREE_SIZE_MAX;

/// A tree head: whose tree, how many leaves, which root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log; not empty, no LF. May hold spaces, and need not be the name of a key.
    pub origin: String,
    /// Number of leaves.
    pub size: u64,
    /// Root of the tree of `size` leaves.
    pub root: Hash,
    /// Further lines, each not empty. Signed with the rest; nothing here gives them a meaning.
    pub extensions: Vec<String>,
}

/// Why a text is not a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Characters that no note holds, or no final LF.
    #[error("checkpoint: {0}")]
    Text(#[from] NoteError),
    /// Fewer than three lines.
    #[error("checkpoint has fewer than three lines")]
    Lines,
    /// The first line is empty.
    #[error("checkpoint origin, line 1, is empty")]
    Origin,
    /// The second line is not a decimal number below 2^64 without sign and leading zero.
    #[error("checkpoint size, line 2, is not a decimal number of 64 bits: {text:?}")]
    Size {
        /// The line.
        text: String,
    },
    /// The third line is not the base64 of 32 bytes.
    #[error("checkpoint root, line 3: {0}")]
    Root(HashError),
    /// An empty extension line.
    #[error("checkpoint extension, line {line}, is empty")]
    Extension {
        /// The line, from 1.
        line: usize,
    },
    /// A tree beyond [`MAX_SIZE`].
    #[error("checkpoint size {size} is beyond the largest, 2^62")]
    TooLarge {
        /// The size.
        size: u64,
    },
    /// Size 0 with a root other than that of the empty tree.
    #[error("checkpoint of size 0 has root {root}, not that of the empty tree")]
    EmptyRoot {
        /// The root.
        root: Hash,
    },
}

impl Checkpoint {
    /// Reads a checkpoint's text, any 64-bit size. Numbers and root are not judged: see
    /// [`check_size`](Self::check_size).
    ///
    /// # Errors
    /// [`CheckpointError`], by line; never its last two kinds.
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        if text.len() > NOTE_BYTES_MAX {
            return Err(NoteError::TooLarge { bytes: text.len() }.into());
        }
        let text = note::check_characters(text.as_bytes())?;
        let lines = text.strip_suffix('\n').ok_or(NoteError::FinalLine)?;
        let mut lines = lines.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(CheckpointError::Lines);
        };
        if origin.is_empty() {
            return Err(CheckpointError::Origin);
        }
        let size =
            decimal::parse(size).ok_or_else(|| CheckpointError::Size { text: size.into() })?;
        let root = Hash::from_base64(root).map_err(CheckpointError::Root)?;
        let extensions: Vec<String> = lines.map(String::from).collect();
        if let Some(i) = extensions.iter().position(String::is_empty) {
            return Err(CheckpointError::Extension { line: i + 4 });
        }
        Ok(Self {
            origin: origin.into(),
            size,
            root,
            extensions,
        })
    }

    /// The text to sign, final LF included.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = alloc::format!(
            "{}\n{}\n{}\n",
            self.origin,
            self.size,
            self.root.to_base64()
        );
        for line in &self.extensions {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// What reading does not ask: at most [`MAX_SIZE`] leaves, and at size 0 the root of the empty tree.
    ///
    /// # Errors
    /// [`CheckpointError::TooLarge`], [`CheckpointError::EmptyRoot`].
    pub fn check_size(&self) -> Result<(), CheckpointError> {
        match self.size {
            size if size > MAX_SIZE => Err(CheckpointError::TooLarge { size }),
            0 if self.root != EMPTY_ROOT => Err(CheckpointError::EmptyRoot { root: self.root }),
            _ => Ok(()),
        }
    }
}

/// The hash that names a log at a witness or mirror: SHA-256 of the origin without LF
/// (c2sp.org/tlog-witness). The distributor's log ID is another one, with `o:` before the origin.
#[must_use]
pub fn origin_hash(origin: &str) -> Hash {
    sha256(origin.as_bytes())
}
