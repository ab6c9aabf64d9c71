//! Two signed heads of one log: what they say together. Pure: no clock, no store, no network.

use countersign_verifier::checkpoint::{Checkpoint, MAX_SIZE};
use countersign_verifier::fork::{Fork, Node};
use countersign_verifier::hash::Hash;
use countersign_verifier::note::{self, Note, NoteError};
use countersign_verifier::tree::verify_node;

use crate::decide::{Head, TEXT_BYTES_MAX, first_line};
use crate::record::Record;
use crate::roster::LogEntry;

/// A head under its log's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Size and root.
    pub head: Head,
    /// The note as it was shown. Lines of others stay: whoever cosigned both of two histories is named by them, and one that does
    /// not verify takes nothing from what the log signed.
    pub note: String,
}

/// Why a note is no head of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSeen {
    /// Not a note, or not signed by a key of this log.
    #[error("{0}")]
    Note(#[from] NoteError),
    /// Of another log, no checkpoint, or beyond what is taken.
    #[error("no checkpoint of this log")]
    Checkpoint,
}

impl Seen {
    /// Reads a note that somebody shows, under the keys of `log`.
    ///
    /// # Errors
    /// [`NotSeen`].
    pub fn open(note: &[u8], log: &LogEntry) -> Result<Seen, NotSeen> {
        let whole = note;
        let note = Note::parse(whole)?;
        if first_line(note.text) != log.origin || note.text.len() > TEXT_BYTES_MAX {
            return Err(NotSeen::Checkpoint);
        }
        note::open(&note, &log.keys)?;
        let checkpoint = Checkpoint::parse(note.text).map_err(|_| NotSeen::Checkpoint)?;
        if checkpoint.size > MAX_SIZE {
            return Err(NotSeen::Checkpoint);
        }
        Ok(Seen {
            head: Head {
                size: checkpoint.size,
                root: checkpoint.root,
            },
            // OK because it was parsed: it is UTF-8.
            note: String::from_utf8_lossy(whole).into_owned(),
        })
    }
}

impl From<&Record> for Seen {
    fn from(record: &Record) -> Seen {
        Seen {
            head: record.head(),
            note: record.note(),
        }
    }
}

/// What two heads of one log say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// One head.
    Same,
    /// One tree is empty: everything extends it.
    Consistent,
    /// Two sizes: a log that grew, or two histories. The smaller first.
    NeedProof([Seen; 2]),
    /// One size with two roots: evidence.
    Fork(Fork),
}

/// Compares two heads that are both signed by the log.
#[must_use]
pub fn compare(one: &Seen, other: &Seen) -> Compared {
    let (a, b) = (one.head, other.head);
    if a == b {
        return Compared::Same;
    }
    if a.size == b.size {
        return Compared::Fork(Fork {
            checkpoints: [one.note.clone(), other.note.clone()],
            node: None,
        });
    }
    let [smaller, larger] = if a.size < b.size {
        [one, other]
    } else {
        [other, one]
    };
    if smaller.head.size == 0 {
        return Compared::Consistent;
    }
    Compared::NeedProof([smaller.clone(), larger.clone()])
}

/// A node of a signed tree, with the path that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its hash.
    pub hash: Hash,
    /// Its path to the root, sibling first.
    pub path: Vec<Hash>,
}

impl Shown {
    /// What an answer of hashes, the node's first, shows of a head; `None` if it shows nothing.
    #[must_use]
    pub fn check(hashes: &[Hash], (level, index): (u8, u64), head: &Head) -> Option<Shown> {
        let (hash, path) = hashes.split_first()?;
        verify_node(hash, level, index, head.size, path, &head.root).ok()?;
        Some(Shown {
            hash: *hash,
            path: path.to_vec(),
        })
    }
}

/// The evidence that one place of two trees makes, if it differs.
#[must_use]
pub fn differ(heads: &[Seen; 2], (level, index): (u8, u64), nodes: [Shown; 2]) -> Option<Fork> {
    let [one, other] = nodes;
    (one.hash != other.hash).then(|| Fork {
        checkpoints: heads.each_ref().map(|seen| seen.note.clone()),
        node: Some(Node {
            level,
            index,
            hashes: [one.hash, other.hash],
            paths: [one.path, other.path],
        }),
    })
}
