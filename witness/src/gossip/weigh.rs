//! A head that somebody shows, from its bytes to what follows from it.

use std::{sync::Arc, time::Duration};

use countersign_verifier::checkpoint::{Checkpoint, origin_hash};
use countersign_verifier::hash::Hash;
use countersign_verifier::note::Note;

use super::compare::{Compared, Seen, compare};
use super::settle::{Settled, View, settle};
use crate::Witness;
use crate::blocking::block;
use crate::decide::{Head, first_line};
use crate::roster::LogEntry;
use crate::store::StoreError;
use crate::witness::Unkept;

/// Longest time for one log's proof and nodes; what is not settled by then is asked for at the next pull.
const SETTLE_TIME: Duration = Duration::from_secs(40);

/// What is known of a shown head before anybody is asked.
pub enum Glance {
    /// Not a note of a log that is known here, signed by it.
    Nothing,
    /// Nothing of this log was cosigned here yet: nothing to compare with.
    First,
    /// There is evidence against the log already.
    Forked,
    /// The very head that is stored here.
    Same(Hash),
    /// Another one.
    Other(Box<Pair>),
}

/// Two heads of one log.
pub struct Pair {
    /// SHA-256 of the origin.
    pub log: Hash,
    /// The log.
    pub entry: LogEntry,
    /// Our newest head.
    pub ours: Seen,
    /// The shown one, under the log's signature.
    pub theirs: Seen,
}

/// What became of a shown head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighed {
    /// Not a note of a log that is known here, signed by it.
    Unknown,
    /// Nothing to compare it with.
    First,
    /// One head.
    Same,
    /// One history.
    Consistent,
    /// It cannot be settled.
    Unresolved,
    /// Two histories; the evidence is kept.
    Fork,
}

impl Weighed {
    /// In one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Weighed::Unknown => "unknown",
            Weighed::First => "first",
            Weighed::Same => "same",
            Weighed::Consistent => "consistent",
            Weighed::Unresolved => "unresolved",
            Weighed::Fork => "fork",
        }
    }
}

/// Looks at a note without asking anybody. A signature is checked only where the head is not the stored one.
///
/// # Errors
/// What the store says.
pub fn glance(witness: &Witness, note: &[u8]) -> Result<Glance, StoreError> {
    let Ok(parsed) = Note::parse(note) else {
        return Ok(Glance::Nothing);
    };
    let origin = first_line(parsed.text);
    let Some(entry) = witness.roster().find(origin)? else {
        return Ok(Glance::Nothing);
    };
    let log = origin_hash(origin);
    if witness.is_forked(&log, &entry) {
        return Ok(Glance::Forked);
    }
    let Some(record) = witness.newest(&log)? else {
        return Ok(Glance::First);
    };
    let stated = Checkpoint::parse(parsed.text).map(|c| Head {
        size: c.size,
        root: c.root,
    });
    if stated.is_ok_and(|head| head == record.head()) {
        return Ok(Glance::Same(log));
    }
    let Ok(theirs) = Seen::open(note, &entry) else {
        return Ok(Glance::Nothing);
    };
    let ours = Seen::from(&record);
    let entry = LogEntry::clone(&entry);
    Ok(Glance::Other(Box::new(Pair {
        log,
        entry,
        ours,
        theirs,
    })))
}

impl Pair {
    /// Whether somebody must be asked.
    #[must_use]
    pub fn needs_proof(&self) -> bool {
        matches!(compare(&self.ours, &self.theirs), Compared::NeedProof(_))
    }
}

/// Settles two heads and follows what comes of it. `from` is the peer that showed the second one; of strangers, who may show any
/// old head, nothing is remembered but evidence.
pub async fn weigh(
    witness: &Arc<Witness>,
    pair: &Pair,
    from: Option<&str>,
    view: &impl View,
) -> Weighed {
    let Pair { log, entry, .. } = pair;
    let settled = tokio::time::timeout(SETTLE_TIME, settle(&pair.ours, &pair.theirs, view)).await;
    match settled.unwrap_or(Settled::Unresolved) {
        Settled::Same => {
            from.inspect(|from| witness.board().settled(log, from));
            Weighed::Same
        }
        Settled::Consistent => {
            from.inspect(|from| witness.board().settled(log, from));
            Weighed::Consistent
        }
        Settled::Unresolved => {
            let size = pair.theirs.head.size;
            let board = witness.board();
            from.inspect(|from| board.unresolved(log, from, size, witness.now()));
            Weighed::Unresolved
        }
        Settled::Fork(fork) => {
            let (witness, log, entry) = (witness.clone(), *log, entry.clone());
            block(move || match witness.accuse(&log, &entry, &fork) {
                Ok(_) => Weighed::Fork,
                Err(error) => {
                    tracing::error!(%error, origin = %entry.origin, "a fork was found");
                    match error {
                        Unkept::Io(_) => Weighed::Fork,
                        Unkept::NotProven(_) => Weighed::Unresolved,
                    }
                }
            })
            .await
        }
    }
}
