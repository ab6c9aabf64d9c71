//! The newest cosigned heads that everybody may ask for: those of logs that are not private, a page at a time.

use countersign_verifier::hash::Hash;
use serde::{Deserialize, Serialize};

use crate::Witness;
use crate::store::StoreError;

/// Most heads of a page.
pub const HEADS_MAX: usize = 256;
/// Largest page, in bytes of notes: a note has at most 106,496, a usual one 500.
pub const NOTES_BYTES_MAX: usize = 512 * 1024;
/// Largest page as JSON: of the notes' bytes only LF, `"` and `\` are spelled with two.
pub const PAGE_BYTES_MAX: usize = 2 * NOTES_BYTES_MAX;
/// Most logs that are looked at for one page, of which many may have no head.
const LOGS_MAX: usize = 4_096;
/// Most hashes of a page of forks.
pub const FORKS_MAX: usize = 1_024;

/// A page of heads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heads {
    /// Signed notes, by the SHA-256 of their origins.
    pub heads: Vec<String>,
    /// Where to go on; none at the end.
    pub next: Option<String>,
}

/// A page of logs that there is evidence of a fork of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forks {
    /// The SHA-256 of their origins, hexadecimal.
    pub forks: Vec<String>,
    /// Where to go on; none at the end.
    pub next: Option<String>,
}

/// The heads behind `after`.
///
/// # Errors
/// What the store says.
pub fn heads(witness: &Witness, after: Option<&Hash>) -> Result<Heads, StoreError> {
    let (mut page, mut bytes, mut looked_at) = (Heads::default(), 0, 0);
    let mut at = after.copied();
    loop {
        let outlines = witness.roster().outlines(at.as_ref(), HEADS_MAX)?;
        let end = outlines.len() < HEADS_MAX;
        for outline in outlines {
            let record = match outline.private {
                true => None,
                false => witness.newest(&outline.log)?,
            };
            if let Some(note) = record.map(|record| record.note()) {
                bytes += note.len();
                if bytes > NOTES_BYTES_MAX || page.heads.len() == HEADS_MAX {
                    page.next = at.map(|at| at.to_hex());
                    return Ok(page);
                }
                page.heads.push(note);
            }
            at = Some(cursor(outline.log, outline.private));
            looked_at += 1;
        }
        if end {
            return Ok(page);
        }
        if looked_at >= LOGS_MAX {
            page.next = at.map(|at| at.to_hex());
            return Ok(page);
        }
    }
}

/// Where to go on behind a log. The hash of a private one, with which its head can be asked for, is shown to nobody: what lies
/// between it and this has the same first 16 bytes.
fn cursor(mut log: Hash, private: bool) -> Hash {
    if private {
        log.0[16..].fill(0xff);
    }
    log
}

/// The forks behind `after`, those of private logs left out.
#[must_use]
pub fn forks(witness: &Witness, after: Option<&Hash>) -> Forks {
    let found = witness.forks().page(after, FORKS_MAX);
    let private = witness.roster().private();
    let last = found.last().filter(|_| found.len() == FORKS_MAX);
    let is_private = |log: &Hash| private.binary_search(log).is_ok();
    Forks {
        next: last.map(|log| cursor(*log, is_private(log)).to_hex()),
        forks: found
            .iter()
            .filter(|log| !is_private(log))
            .map(Hash::to_hex)
            .collect(),
    }
}
