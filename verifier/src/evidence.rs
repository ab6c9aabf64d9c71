//! Evidence files: a leaf, its proof, and the leaves that show whose keys signed it.

mod chain;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base64;
use crate::dsse::push_base64;
use crate::hash::Hash;
use crate::json::{Fault, JsonError};
use crate::limits;
use crate::proof::{TlogProof, TlogProofError};
use crate::scan::{Scanner, push_string};

pub use self::chain::{Bound, Chain, ChainError, ChainFault, Held, How, Identity};

/// `format` of the evidence of one leaf.
pub const FORMAT: &str = "countersign.evidence/1";

/// `format` of the evidence of many leaves under one checkpoint.
pub const SET_FORMAT: &str = "countersign.evidence-set/1";

/// Why a file is not evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// Of another `format`: whether it holds cannot be told.
    #[error("unsupported version: format {format:?}; this release reads {FORMAT} and {SET_FORMAT}")]
    Newer {
        /// What the file says it is.
        format: String,
    },
    /// Not of the form.
    #[error("{0}")]
    Form(#[from] JsonError),
    /// The proof in it is not of the form.
    #[error("proof: {0}")]
    Proof(#[from] TlogProofError),
}

/// A leaf that shows an identity's key, with its own path under the same checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// Its index.
    pub index: u64,
    /// Its bytes.
    pub leaf: Vec<u8>,
    /// Its inclusion path, leaf's sibling first.
    pub path: Vec<Hash>,
}

/// The evidence of one leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Its bytes.
    pub leaf: Vec<u8>,
    /// Its proof, with the checkpoint.
    pub proof: TlogProof,
    /// Leaf 0 and the enrolment chain of each signer, under the same checkpoint.
    pub support: Vec<Support>,
}

/// The evidence of many leaves under one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceSet {
    /// A signed note.
    pub checkpoint: String,
    /// Index and bytes, in strictly ascending order, at most [`limits::MULTI_LEAVES_MAX`].
    pub leaves: Vec<(u64, Vec<u8>)>,
    /// The hashes of [`crate::multi`].
    pub multi: Vec<Hash>,
    /// As in [`Evidence`], for the signers of all leaves.
    pub support: Vec<Support>,
}

/// What an evidence file can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// Of one leaf.
    One(Evidence),
    /// Of many.
    Set(EvidenceSet),
}

impl File {
    /// Reads a file of either form. Unknown members are passed over.
    ///
    /// # Errors
    /// [`EvidenceError::Newer`] for another `format`, whatever else it holds; the others for a file that
    /// is malformed.
    pub fn parse(bytes: &[u8]) -> Result<Self, EvidenceError> {
        let members = Members::parse(bytes)?;
        let support = members.support()?;
        match members.format {
            Format::One => Ok(Self::One(Evidence {
                leaf: members.leaf()?,
                proof: members.proof()?,
                support,
            })),
            Format::Set => Ok(Self::Set(EvidenceSet {
                checkpoint: members.checkpoint()?,
                leaves: members.leaves()?,
                multi: members.multi()?,
                support,
            })),
        }
    }
}

impl Evidence {
    /// The file, compact, with a final line feed.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(b"{\"format\":\"countersign.evidence/1\",\"leaf\":\"");
        push_base64(&mut out, &self.leaf);
        out.extend_from_slice(b"\",\"proof\":");
        push_string(&mut out, &self.proof.to_text());
        push_support(&mut out, &self.support);
        out
    }
}

impl EvidenceSet {
    /// The file, compact, with a final line feed.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(b"{\"format\":\"countersign.evidence-set/1\",\"checkpoint\":");
        push_string(&mut out, &self.checkpoint);
        out.extend_from_slice(b",\"leaves\":[");
        for (i, (index, leaf)) in self.leaves.iter().enumerate() {
            push_leaf(&mut out, i, *index, leaf);
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"multi\":");
        push_hashes(&mut out, &self.multi);
        push_support(&mut out, &self.support);
        out
    }
}

fn push_leaf(out: &mut Vec<u8>, i: usize, index: u64, leaf: &[u8]) {
    let comma = if i > 0 { "," } else { "" };
    out.extend_from_slice(alloc::format!("{comma}{{\"index\":{index},\"leaf\":\"").as_bytes());
    push_base64(out, leaf);
    out.push(b'"');
}

fn push_hashes(out: &mut Vec<u8>, hashes: &[Hash]) {
    out.push(b'[');
    for (i, hash) in hashes.iter().enumerate() {
        out.extend_from_slice(if i > 0 { b",\"" } else { b"\"" });
        push_base64(out, &hash.0);
        out.push(b'"');
    }
    out.push(b']');
}

fn push_support(out: &mut Vec<u8>, support: &[Support]) {
    out.extend_from_slice(b",\"support\":[");
    for (i, support) in support.iter().enumerate() {
        push_leaf(out, i, support.index, &support.leaf);
        out.extend_from_slice(b",\"path\":");
        push_hashes(out, &support.path);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}\n");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    One,
    Set,
}

/// The members of a file, found but not yet read: a verifier of many files reads only what it has not
/// seen before.
pub(crate) struct Members<'a> {
    pub(crate) format: Format,
    text: &'a str,
    /// Where the value of each of [`NAMES`] is.
    places: [Option<(usize, &'a str)>; NAMES.len()],
}

const NAMES: [&str; 7] = [
    "format",
    "leaf",
    "proof",
    "support",
    "checkpoint",
    "leaves",
    "multi",
];

type Read<T> = Result<T, JsonError>;

impl<'a> Members<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, EvidenceError> {
        let mut scanner = Scanner::new(bytes)?;
        let mut places = [None; NAMES.len()];
        scanner.object(
            |s, name| match NAMES.iter().position(|known| *known == name) {
                Some(known) => s.once(&mut places[known], |s| {
                    s.peek();
                    let start = s.offset();
                    s.skip()?;
                    Ok((start, s.since(start)))
                }),
                None => s.skip(),
            },
        )?;
        scanner.end()?;
        let mut members = Self {
            format: Format::One,
            text: scanner.document(),
            places,
        };
        let format = members.read(0, |s| Ok(s.string()?.into_owned()))?;
        members.format = match format.as_str() {
            FORMAT => Format::One,
            SET_FORMAT => Format::Set,
            _ => return Err(EvidenceError::Newer { format }),
        };
        Ok(members)
    }

    fn read<T>(&self, known: usize, read: impl FnOnce(&mut Scanner<'a>) -> Read<T>) -> Read<T> {
        match self.places[known] {
            Some((start, _)) => read(&mut Scanner::within(self.text, start, NAMES[known])),
            None => Scanner::new(self.text.as_bytes())?.fail(Fault::Missing(NAMES[known])),
        }
    }

    pub(crate) fn leaf(&self) -> Read<Vec<u8>> {
        self.read(1, |s| s.strict_base64(limits::ENTRY_BYTES_MAX))
    }

    fn proof_text(&self) -> Read<Cow<'a, str>> {
        self.read(2, Scanner::string)
    }

    pub(crate) fn proof(&self) -> Result<TlogProof, EvidenceError> {
        Ok(TlogProof::parse(self.proof_text()?.as_bytes())?)
    }

    /// The text of the support, to know it again by; empty when there is none.
    pub(crate) fn support_text(&self) -> &'a str {
        self.places[3].map_or("", |(_, text)| text)
    }

    pub(crate) fn support(&self) -> Read<Vec<Support>> {
        if self.places[3].is_none() {
            return Ok(Vec::new());
        }
        let mut support = Vec::new();
        self.read(3, |s| {
            s.array(|s, _| {
                support.push(s.support()?);
                Ok(())
            })
        })?;
        Ok(support)
    }

    pub(crate) fn checkpoint(&self) -> Read<String> {
        self.read(4, |s| Ok(s.string()?.into_owned()))
    }

    pub(crate) fn leaves(&self) -> Read<Vec<(u64, Vec<u8>)>> {
        let mut leaves = Vec::new();
        self.read(5, |s| {
            s.array(|s, i| {
                if i >= limits::MULTI_LEAVES_MAX {
                    return s.fail(Fault::TooMany {
                        limit: limits::MULTI_LEAVES_MAX,
                    });
                }
                let (index, leaf, _) = s.placed_leaf()?;
                leaves.push((index, leaf));
                Ok(())
            })
        })?;
        Ok(leaves)
    }

    pub(crate) fn multi(&self) -> Read<Vec<Hash>> {
        // Each leaf brings at most one hash a level.
        self.read(6, |s| {
            s.hashes(limits::MULTI_LEAVES_MAX * limits::INCLUSION_HASHES_MAX)
        })
    }
}

impl Scanner<'_> {
    pub(crate) fn hashes(&mut self, limit: usize) -> Read<Vec<Hash>> {
        let mut hashes = Vec::new();
        self.array(|s, i| {
            if i >= limit {
                return s.fail(Fault::TooMany { limit });
            }
            let start = s.offset();
            let text = s.string()?;
            match base64::decode_array(&text) {
                Ok(hash) => hashes.push(Hash(hash)),
                Err(error) => return s.fail_at(start, Fault::Base64(error)),
            }
            Ok(())
        })?;
        Ok(hashes)
    }

    fn support(&mut self) -> Read<Support> {
        let (index, leaf, path) = self.placed_leaf()?;
        Ok(Support {
            index,
            leaf,
            path: self.need(path, "path")?,
        })
    }

    /// Index, bytes, and a path where there is one.
    fn placed_leaf(&mut self) -> Read<(u64, Vec<u8>, Option<Vec<Hash>>)> {
        let (mut index, mut leaf, mut path) = (None, None, None);
        self.object(|s, name| match name.as_ref() {
            "index" => s.once(&mut index, Scanner::count),
            "leaf" => s.once(&mut leaf, |s| s.strict_base64(limits::ENTRY_BYTES_MAX)),
            "path" => s.once(&mut path, |s| s.hashes(limits::INCLUSION_HASHES_MAX)),
            _ => s.skip(),
        })?;
        Ok((self.need(index, "index")?, self.need(leaf, "leaf")?, path))
    }
}
