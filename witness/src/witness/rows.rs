//! What a witness shows its operator of each log.

use countersign_verifier::hash::Hash;

use super::Witness;
use crate::gossip::board::Unresolved;
use crate::record::Record;
use crate::roster::LogEntry;
use crate::store::StoreError;
use crate::tally::Tally;

/// A log as `list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// SHA-256 of the origin.
    pub log: Hash,
    /// What is configured.
    pub entry: LogEntry,
    /// The newest cosigned head, if there is one.
    pub record: Option<Record>,
    /// What was counted.
    pub tally: Tally,
    /// Heads of peers that could not be settled.
    pub unresolved: Vec<Unresolved>,
    /// Whether there is evidence against it.
    pub forked: bool,
}

impl Witness {
    /// Up to `limit` logs behind `after`, by the hash of their origins.
    ///
    /// # Errors
    /// What the store says.
    pub fn rows(&self, after: Option<&Hash>, limit: usize) -> Result<Vec<Row>, StoreError> {
        let page = self.roster.page(after, limit)?;
        page.into_iter()
            .map(|(log, entry)| {
                Ok(Row {
                    record: self.store.record(&log)?,
                    tally: self.tallies.of(&*self.store, &log)?,
                    unresolved: self.board.of(&log),
                    forked: self.is_forked(&log, &entry),
                    log,
                    entry,
                })
            })
            .collect()
    }
}
