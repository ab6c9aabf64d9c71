//! Evidence of a fork: what a log has signed that no honest log can sign.
//!
//! Either two checkpoints of one size with different roots, or two checkpoints and one node, complete in
//! both trees, with two different hashes and the path of each to its own root. Either convinces whoever has
//! the log's key, offline; a failed or a missing consistency proof convinces nobody, and has no form here.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::hash::Hash;
use crate::json::{Fault, JsonError};
use crate::limits::{FORK_BYTES_MAX, INCLUSION_HASHES_MAX};
use crate::note::{self, Note, NoteError};
use crate::scan::{Scanner, push_string};
use crate::tree::{NodeError, verify_node};
use crate::vkey::{KeyId, VerifierKey};

/// `format` of such a file.
pub const FORMAT: &str = "countersign.fork/1";

/// What is claimed: two signed checkpoints, and where their sizes differ a node that settles it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Two signed notes, each with any cosignatures.
    pub checkpoints: [String; 2],
    /// For checkpoints of two sizes; one of the same size needs none, and may have none.
    pub node: Option<Node>,
}

/// A node of both trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its level: 0 are leaves, 1 their parents.
    pub level: u8,
    /// Its index in the level, from 0.
    pub index: u64,
    /// Its hash in either tree.
    pub hashes: [Hash; 2],
    /// Its path to the root in either tree, sibling first.
    pub paths: [Vec<Hash>; 2],
}

/// Why a file is not evidence of a fork.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// Longer than [`FORK_BYTES_MAX`].
    #[error("{bytes} bytes are beyond the largest evidence of a fork, {FORK_BYTES_MAX}")]
    TooLarge {
        /// Bytes of the file.
        bytes: usize,
    },
    /// Of another `format`: whether it holds cannot be told.
    #[error("unsupported version: format {format:?}; this release reads {FORMAT}")]
    Newer {
        /// What the file says it is.
        format: String,
    },
    /// Not of the form.
    #[error("{0}")]
    Form(#[from] JsonError),
}

/// Which of the two checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first in the file.
    First,
    /// The second.
    Second,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "the first checkpoint",
            Self::Second => "the second checkpoint",
        })
    }
}

/// Why a claim proves no fork.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// Not a note, or a bad signature by a key of the log.
    #[error("{which}: {what}")]
    Note {
        /// Which of the two.
        which: Which,
        /// What is wrong with it; [`NoteError::Untrusted`] where no key of the log has signed it.
        what: NoteError,
    },
    /// Not a checkpoint.
    #[error("{which}: {what}")]
    Checkpoint {
        /// Which of the two.
        which: Which,
        /// What is wrong with it.
        what: CheckpointError,
    },
    /// Of another log.
    #[error("{which} is of another log: {origin:?}")]
    Origin {
        /// Which of the two.
        which: Which,
        /// The origin that it states.
        origin: String,
    },
    /// One head twice.
    #[error("both checkpoints have {size} leaves and the same root: one history, signed twice")]
    Same {
        /// The size.
        size: u64,
    },
    /// Two sizes, and no node: the larger tree may extend the smaller.
    #[error("checkpoints of {} and {} leaves, and no node that differs: a log that grew looks the same", .sizes[0], .sizes[1])]
    NoNode {
        /// The sizes.
        sizes: [u64; 2],
    },
    /// A node beside two checkpoints of one size, which need none.
    #[error("a node beside two checkpoints of one size, which need none")]
    Needless,
    /// The node has the same hash in both.
    #[error("the node has the same hash in both trees")]
    SameNode,
    /// The node is not in a tree as claimed.
    #[error("{which}: {what}")]
    Node {
        /// In which of the two trees.
        which: Which,
        /// What is wrong with its path.
        what: NodeError,
    },
}

/// A fork that is proved. `Display` says in words what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The heads that the log signed, in the file's order.
    pub heads: [Head; 2],
    /// What differs.
    pub differs: Differs,
}

/// A tree head and who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The tree head.
    pub checkpoint: Checkpoint,
    /// The log's key that signed it; the first given when several did.
    pub key: (String, KeyId),
}

/// What two trees differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// Their roots, at one size.
    Roots,
    /// The leaves `[start, end)`, which both have.
    Leaves {
        /// The first leaf.
        start: u64,
        /// The leaf after the last.
        end: u64,
    },
}

impl Fork {
    /// Reads such a file. Unknown members are passed over.
    ///
    /// # Errors
    /// [`ForkError::Newer`] for another `format`, whatever else it holds; the others for a file that is
    /// malformed.
    pub fn parse(file: &[u8]) -> Result<Self, ForkError> {
        if file.len() > FORK_BYTES_MAX {
            return Err(ForkError::TooLarge { bytes: file.len() });
        }
        let mut scanner = Scanner::new(file)?;
        let mut format = None;
        scanner.object(|s, name| match name.as_ref() {
            "format" => s.once(&mut format, |s| Ok(s.string()?.into_owned())),
            _ => s.skip(),
        })?;
        scanner.end()?;
        let format = scanner.need(format, "format")?;
        if format != FORMAT {
            return Err(ForkError::Newer { format });
        }
        let mut scanner = Scanner::new(file)?;
        let (mut checkpoints, mut node) = (None, None);
        scanner.object(|s, name| match name.as_ref() {
            "checkpoints" => s.once(&mut checkpoints, |s| {
                s.pair(|s| Ok(s.string()?.into_owned()))
            }),
            "node" => s.once(&mut node, Scanner::node),
            _ => s.skip(),
        })?;
        let checkpoints = scanner.need(checkpoints, "checkpoints")?;
        Ok(Self { checkpoints, node })
    }

    /// The file, compact, with a final line feed.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(b"{\"format\":");
        push_string(&mut out, FORMAT);
        out.extend_from_slice(b",\"checkpoints\":[");
        push_string(&mut out, &self.checkpoints[0]);
        out.push(b',');
        push_string(&mut out, &self.checkpoints[1]);
        out.push(b']');
        if let Some(node) = &self.node {
            let place = alloc::format!(
                ",\"node\":{{\"level\":{},\"index\":{},\"hashes\":",
                node.level,
                node.index
            );
            out.extend_from_slice(place.as_bytes());
            push_hashes(&mut out, &node.hashes);
            out.extend_from_slice(b",\"paths\":[");
            push_hashes(&mut out, &node.paths[0]);
            out.push(b',');
            push_hashes(&mut out, &node.paths[1]);
            out.extend_from_slice(b"]}");
        }
        out.extend_from_slice(b"}\n");
        out
    }

    /// The first line of the first checkpoint: of which log this claims to be. Nothing is verified by that;
    /// it is what to look up keys by.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.checkpoints[0].split('\n').next().unwrap_or_default()
    }

    /// Judges the claim against the keys of the log `origin`. Sizes may be any 64-bit number: whatever the
    /// log has signed counts.
    ///
    /// # Errors
    /// [`NotProven`].
    pub fn verify<'k>(
        &self,
        origin: &str,
        keys: impl IntoIterator<Item = &'k VerifierKey>,
    ) -> Result<Proven, NotProven> {
        let keys: Vec<&VerifierKey> = keys.into_iter().collect();
        let first = head(&self.checkpoints[0], Which::First, origin, &keys)?;
        let second = head(&self.checkpoints[1], Which::Second, origin, &keys)?;
        let differs = self.differs(&first.checkpoint, &second.checkpoint)?;
        let heads = [first, second];
        Ok(Proven { heads, differs })
    }

    fn differs(&self, first: &Checkpoint, second: &Checkpoint) -> Result<Differs, NotProven> {
        let sizes = [first.size, second.size];
        let Some(node) = &self.node else {
            return match sizes {
                [size, other] if size != other => Err(NotProven::NoNode { sizes }),
                [size, _] if first.root == second.root => Err(NotProven::Same { size }),
                _ => Ok(Differs::Roots),
            };
        };
        if sizes[0] == sizes[1] {
            return Err(NotProven::Needless);
        }
        if node.hashes[0] == node.hashes[1] {
            return Err(NotProven::SameNode);
        }
        let trees = [(Which::First, first), (Which::Second, second)];
        for ((which, tree), (hash, path)) in
            trees.into_iter().zip(node.hashes.iter().zip(&node.paths))
        {
            verify_node(hash, node.level, node.index, tree.size, path, &tree.root)
                .map_err(|what| NotProven::Node { which, what })?;
        }
        // OK because the node is complete in both trees, so that its end is a size.
        let (start, width) = (node.index << node.level, 1 << node.level);
        let end = start + width;
        Ok(Differs::Leaves { start, end })
    }
}

/// A checkpoint of the log, under its signature.
fn head(text: &str, which: Which, origin: &str, keys: &[&VerifierKey]) -> Result<Head, NotProven> {
    let bad = |what| NotProven::Note { which, what };
    let note = Note::parse(text.as_bytes()).map_err(bad)?;
    let stated = note.text.split('\n').next().unwrap_or_default();
    if stated != origin {
        let origin = stated.into();
        return Err(NotProven::Origin { which, origin });
    }
    let verified = note::open(&note, keys.iter().copied()).map_err(bad)?;
    let signed = |key: &&&VerifierKey| verified.iter().any(|line| core::ptr::eq(line.key, **key));
    let key = keys.iter().find(signed).ok_or(bad(NoteError::Untrusted))?;
    let checkpoint = Checkpoint::parse(note.text);
    Ok(Head {
        checkpoint: checkpoint.map_err(|what| NotProven::Checkpoint { which, what })?,
        key: (key.name.clone(), key.id),
    })
}

impl fmt::Display for Proven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = [&self.heads[0].checkpoint, &self.heads[1].checkpoint];
        let (smaller, larger) = (one.size.min(other.size), one.size.max(other.size));
        match self.differs {
            Differs::Roots => write!(
                f,
                "the log signed two trees of {smaller} leaves with different roots: it has shown two histories"
            ),
            Differs::Leaves { start, end } => write!(
                f,
                "the log signed a tree of {larger} leaves that does not extend its tree of {smaller}: leaves \
                 {start} to {}, which both have, are not the same",
                end - 1
            ),
        }
    }
}

fn push_hashes(out: &mut Vec<u8>, hashes: &[Hash]) {
    for (i, hash) in hashes.iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",\"" } else { b"[\"" });
        out.extend_from_slice(hash.to_base64().as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(if hashes.is_empty() { b"[]" } else { b"]" });
}

type Read<T> = Result<T, JsonError>;

impl Scanner<'_> {
    /// An array of exactly two.
    fn pair<T>(&mut self, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<[T; 2]> {
        let (mut first, mut second) = (None, None);
        self.array(|s, at| {
            match at {
                0 => first = Some(read(s)?),
                1 => second = Some(read(s)?),
                _ => return s.fail(Fault::TooMany { limit: 2 }),
            }
            Ok(())
        })?;
        match (first, second) {
            (Some(first), Some(second)) => Ok([first, second]),
            _ => self.fail(Fault::Form("an array of two")),
        }
    }

    fn node(&mut self) -> Read<Node> {
        let (mut level, mut index, mut hashes, mut paths) = (None, None, None, None);
        self.object(|s, name| match name.as_ref() {
            "level" => s.once(&mut level, |s| {
                let start = s.offset();
                match u8::try_from(s.count()?) {
                    Ok(level) if level < 64 => Ok(level),
                    _ => s.fail_at(start, Fault::Form("a level below 64")),
                }
            }),
            "index" => s.once(&mut index, Scanner::count),
            "hashes" => s.once(&mut hashes, |s| {
                let hashes = s.hashes(2)?;
                <[Hash; 2]>::try_from(hashes).or_else(|_| s.fail(Fault::Form("an array of two")))
            }),
            "paths" => s.once(&mut paths, |s| s.pair(|s| s.hashes(INCLUSION_HASHES_MAX))),
            _ => s.skip(),
        })?;
        Ok(Node {
            level: self.need(level, "level")?,
            index: self.need(index, "index")?,
            hashes: self.need(hashes, "hashes")?,
            paths: self.need(paths, "paths")?,
        })
    }
}
