//! Evidence against a log: taken once it is verified, kept before anything else, and then nothing of that log is signed any more.

use countersign_verifier::add_checkpoint::AddCheckpoint;
use countersign_verifier::fork::{Fork, NotProven};
use countersign_verifier::hash::Hash;

use super::{Answer, Witness};
use crate::decide::Refusal;
use crate::forks::Forks;
use crate::gossip::compare::{Compared, Seen, compare};
use crate::roster::{LogEntry, Roster};
use crate::store::StoreError;

/// Why evidence is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Unkept {
    /// It is none, under the keys that are trusted for this log.
    #[error("{0}")]
    NotProven(#[from] NotProven),
    /// It cannot be written now; it waits in memory, and the log is quarantined all the same.
    #[error("evidence of a fork cannot be kept: {0}")]
    Io(#[from] std::io::Error),
}

/// Whether a file is evidence against a log of the roster.
pub(super) fn holds(roster: &Roster, log: &Hash, file: &[u8]) -> bool {
    let entry = roster
        .get(log)
        .inspect_err(|error| tracing::error!(%error, "the roster cannot be read"))
        .ok()
        .flatten();
    match (entry, Fork::parse(file)) {
        (Some(entry), Ok(fork)) => fork.verify(&entry.origin, &entry.keys).is_ok(),
        _ => false,
    }
}

/// Marks in the roster what a crash left unmarked.
pub(super) fn mark(roster: &Roster, forks: &Forks, now: u64) -> Result<(), StoreError> {
    let marked = roster.forked();
    let held = forks.page(None, usize::MAX);
    for log in held.iter().filter(|log| marked.binary_search(log).is_err()) {
        roster.mark_forked(log, now)?;
    }
    for log in marked.iter().filter(|log| !forks.holds(log)) {
        if forks.is_on() {
            tracing::error!(%log, "the evidence against this log is gone from forks/; it stays quarantined");
        }
    }
    Ok(())
}

impl Witness {
    /// Whether there is evidence of a fork of this log, here or in the roster's own memory of it.
    #[must_use]
    pub fn is_forked(&self, log: &Hash, entry: &LogEntry) -> bool {
        entry.forked.is_some() || self.forks.bars(log)
    }

    /// Takes evidence against a log: verified, then durable, then the log is quarantined. Whether it is the first.
    ///
    /// # Errors
    /// [`Unkept`].
    pub fn accuse(&self, log: &Hash, entry: &LogEntry, fork: &Fork) -> Result<bool, Unkept> {
        let proven = fork.verify(&entry.origin, &entry.keys)?;
        let barred = self.forks.bars(log);
        let kept = self.forks.keep(log, &fork.to_json());
        if !barred && self.forks.bars(log) {
            tracing::error!(origin = %entry.origin, %log, "a fork: {proven}; nothing of this log is signed any more");
            self.board.forget(log);
        }
        // Also where the file cannot be written yet: either alone keeps the quarantine across a restart.
        if !matches!(kept, Ok(false)) {
            self.mark_forked(log);
        }
        Ok(kept?)
    }

    /// Tries again to write evidence that no disk would take; to be called from time to time.
    pub fn write_evidence(&self) {
        for log in self.forks.write_again() {
            tracing::info!(%log, "the evidence of its fork is written now");
            self.mark_forked(&log);
        }
    }

    fn mark_forked(&self, log: &Hash) {
        if let Err(error) = self.roster.mark_forked(log, self.now()) {
            tracing::error!(%error, %log, "the roster is marked at the next start");
        }
    }

    /// After a no: a head that the log signed, of the stored size and with another root, is evidence whatever it came with.
    pub(super) fn look_for_fork(&self, body: &[u8], log: &Hash, entry: &LogEntry, answer: &Answer) {
        let told = matches!(
            answer,
            Answer::Conflict(_)
                | Answer::Refused(
                    Refusal::OtherRoot { .. } | Refusal::EmptyRoot | Refusal::NothingToProve { .. }
                )
        );
        if !told || !self.forks.is_on() {
            return;
        }
        let found = || -> Result<Option<Fork>, StoreError> {
            let Some(record) = self.store.record(log)? else {
                return Ok(None);
            };
            let Some(at) = body.windows(2).position(|two| two == b"\n\n") else {
                return Ok(None);
            };
            let Ok(request) = AddCheckpoint::parse(body) else {
                return Ok(None);
            };
            // Numbers are compared before signatures: most conflicts are of another size.
            let stated = request.note.text.split('\n').nth(1);
            if stated != Some(record.checkpoint.size.to_string().as_str()) {
                return Ok(None);
            }
            let Ok(theirs) = Seen::open(&body[at + 2..], entry) else {
                return Ok(None);
            };
            Ok(match compare(&Seen::from(&record), &theirs) {
                Compared::Fork(fork) => Some(fork),
                _ => None,
            })
        };
        let taken = match found() {
            Ok(Some(fork)) => self.accuse(log, entry, &fork),
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the store cannot be read");
                return;
            }
        };
        if let Err(error) = taken {
            tracing::error!(%error, origin = %entry.origin, "a log signed two heads of one size");
        }
    }
}
