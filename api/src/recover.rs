//! Bringing back what a log has lost, from somebody who kept it.
//!
//! Nothing is believed of whoever serves it: a head that this log has signed, and that met the policy of its size, says what is
//! missing; the tree there must begin with what is here; and the leaves must lead to its root. Only then is one of them stored. Nor is
//! anything believed of what is here: every leaf of it is read first, and what is damaged is never gone on from.

mod error;
mod here;
mod spool;

use std::sync::Arc;

use countersign_log::{
    Head,
    import::{Import, ImportError},
    store::{
        Kept,
        rocks::{self, RocksStore, Shared},
    },
};
use countersign_verifier::{
    note::{self, Note, NoteError},
    policy::Quorum,
    tile::{WIDTH, bundles},
};

pub use error::{Forked, RecoverError};

use crate::{
    account::Parts,
    foreign::{Foreign, past},
    ledger::Ledger,
};
use spool::Spool;

/// Bundles a round, and so leaves a commit: at most 8 × 16 MiB in memory, of leaves of a kilobyte 2 MiB.
const ROUND: usize = 8;

/// From whom, and up to where.
pub struct Plan<'a> {
    /// Who serves the leaves.
    pub source: &'a Foreign,
    /// Notes of one head of this log, whose signatures count together; none: the source's newest checkpoint.
    pub heads: Vec<String>,
    /// Told of leaves that are here and were read, and of all of them; then of leaves that were proved, and of all that are missing; then
    /// of leaves that were stored.
    pub progress: &'a dyn Fn(u64, u64),
}

/// What was brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// What was here.
    pub from: Head,
    /// What is here now.
    pub to: Head,
    /// Who vouches for it.
    pub quorum: Quorum,
}

/// Brings back what is missing. The caller holds the directory. Interrupted, it is run again.
///
/// # Errors
/// [`RecoverError`].
pub fn run(parts: &Parts, plan: &Plan<'_>) -> Result<Recovered, RecoverError> {
    let (kept, quorum) = head(parts, plan)?;
    // Small caches: everything is read and written once.
    let shared = Shared::new(32 << 20, 64 << 20);
    let files = &parts.files;
    let lost = rocks::lost(&files.db(), &files.tidemark()).map_err(here::of_mark)?;
    let is_lost = lost.is_some();
    let mut rehearsal = match lost {
        Some(nothing) => Import::begin(Arc::new(nothing), parts.ledger()?)?,
        None => {
            here::read(files, &shared, plan.progress)?;
            begin(parts, &shared, false).map_err(here::damaged)?
        }
    };
    let from = rehearsal.committed();
    compare(&rehearsal, plan.source, &kept.head).map_err(here::damaged)?;
    let mut spool = Spool::create(parts.files.root().join("recover.part"))?;
    let rounds = fetch(&mut rehearsal, plan, &kept.head, &mut spool)?;
    // Closed before it is opened for writing.
    drop(rehearsal);
    let mut import = if is_lost {
        let store = RocksStore::create_behind(&files.db(), &files.tidemark(), &shared, &kept.head)?;
        Import::begin(Arc::new(store), parts.ledger()?)?
    } else {
        begin(parts, &shared, true)?
    };
    if import.committed() != from {
        return Err(ImportError::Changed { size: from.size }.into());
    }
    if !rounds.is_empty() {
        import.promise(&kept.head)?;
    }
    for (at, (count, head)) in rounds.iter().enumerate() {
        let leaves = spool.next(*count)?;
        let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
        import.commit(&leaves, head, at + 1 == rounds.len())?;
        (plan.progress)(head.size - from.size, kept.head.size - from.size);
    }
    if import
        .published()?
        .is_none_or(|p| p.head.size < kept.head.size)
    {
        import.finish(&kept)?;
    }
    Ok(Recovered {
        from,
        to: import.committed(),
        quorum,
    })
}

/// The log as it lies here, even where it ends before what was published.
pub(crate) fn begin(
    parts: &Parts,
    shared: &Shared,
    write: bool,
) -> Result<Import<Ledger>, RecoverError> {
    let files = &parts.files;
    let store = RocksStore::open_behind(&files.db(), &files.tidemark(), shared, write)?;
    Ok(Import::begin(Arc::new(store), parts.ledger()?)?)
}

/// The head to go on from: signed by this log, and with what the policy of its size asks for.
fn head(parts: &Parts, plan: &Plan<'_>) -> Result<(Kept, Quorum), RecoverError> {
    let mut texts = plan.heads.clone();
    if texts.is_empty() {
        texts.push(plan.source.checkpoint()?);
    }
    accept(parts, &texts)
}

/// One head of this log out of notes of it, if it has what the policy of its size asks for.
pub(crate) fn accept(parts: &Parts, texts: &[String]) -> Result<(Kept, Quorum), RecoverError> {
    let notes: Result<Vec<Note<'_>>, NoteError> = texts
        .iter()
        .map(|text| Note::parse(text.as_bytes()))
        .collect();
    let notes = notes?;
    let text = notes[0].text;
    if notes.iter().any(|note| note.text != text) {
        return Err(RecoverError::Heads);
    }
    let mut lines: Vec<String> = Vec::new();
    for signature in notes.iter().flat_map(|note| &note.signatures) {
        let line = signature.to_string();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let joined = note::join(text, lines.iter().map(String::as_str));
    let note = Note::parse(joined.as_bytes())?;
    let accepted = parts.policies.judges.check(&note)?;
    if accepted.log.to_string() != parts.vkey {
        return Err(RecoverError::Log {
            found: accepted.log.to_string(),
            ours: parts.vkey.clone(),
        });
    }
    let head = Head {
        size: accepted.checkpoint.size,
        root: accepted.checkpoint.root,
    };
    let quorum = accepted.quorum;
    Ok((Kept { head, note: joined }, quorum))
}

/// Whether the tree of the head begins with what is here, and with everything that is known to have left this log.
fn compare(here: &Import<Ledger>, source: &Foreign, head: &Head) -> Result<(), RecoverError> {
    let committed = here.committed();
    let mut known = here.known()?;
    known.push(("what is stored here", committed));
    for (what, known) in known {
        let (there, root) = if known.size > head.size {
            if known.size > committed.size {
                let known = known.size;
                let head = *head;
                return Err(RecoverError::Short { what, known, head });
            }
            // What is here reaches beyond the head: then the head's tree must be a part of what is here.
            (head.root, here.root_at(head.size)?)
        } else if known.size == 0 {
            continue;
        } else {
            let past = past(source, known.size, head.size, &head.root)?;
            (past.root, known.root)
        };
        if there != root {
            let size = known.size.min(head.size);
            let here = Head { size, root };
            let head = *head;
            return Err(Box::new(Forked {
                what,
                here,
                head,
                there,
            })
            .into());
        }
    }
    Ok(())
}

/// Fetches what is missing, into a file beside the store; of each round how many leaves it has, and the head after it.
fn fetch(
    rehearsal: &mut Import<Ledger>,
    plan: &Plan<'_>,
    head: &Head,
    spool: &mut Spool,
) -> Result<Vec<(usize, Head)>, RecoverError> {
    let first = rehearsal.committed().size;
    let mut rounds = Vec::new();
    if first >= head.size {
        return Ok(rounds);
    }
    let width = u64::from(WIDTH);
    let mut queue = bundles(head.size).skip_while(|bundle| bundle.index < first / width);
    let mut ahead = plan.source.ahead(queue.by_ref().take(ROUND));
    let mut reached = rehearsal.committed();
    let mut index = first - first % width;
    loop {
        let (pieces, error) = plan.source.arrived(ahead);
        if let Some(error) = error {
            return Err(error.into());
        }
        if pieces.is_empty() {
            break;
        }
        ahead = plan.source.ahead(queue.by_ref().take(ROUND));
        let mut leaves = Vec::new();
        for entry in pieces.iter().flat_map(|piece| piece.entries.list()) {
            // Of the bundle that was begun here, what is here already.
            if index >= first {
                leaves.push(entry);
            }
            index += 1;
        }
        reached = rehearsal.rehearse(&leaves)?;
        spool.append(&leaves)?;
        rounds.push((leaves.len(), reached));
        (plan.progress)(reached.size - first, head.size - first);
    }
    if reached != *head {
        return Err(RecoverError::Root {
            place: plan.source.at(""),
            found: reached,
            due: *head,
        });
    }
    spool.rewind()?;
    Ok(rounds)
}
