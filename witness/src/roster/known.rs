//! What is known of all logs together, in memory.

use std::collections::BTreeSet;

use countersign_verifier::hash::Hash;

use super::entry::Outline;
use super::{PEERS_MAX, PRIVATE_MAX};

/// Most lists that are named on the witness's page.
const LISTS_MAX: usize = 64;

/// What is known of all logs together.
#[derive(Default)]
pub(super) struct Known {
    pub logs: u64,
    pub lists: BTreeSet<String>,
    pub private: Private,
    pub forked: BTreeSet<Hash>,
}

/// The private logs, and whom the witness pulls.
#[derive(Clone, Default)]
pub(super) struct Private {
    pub logs: BTreeSet<Hash>,
    /// Peers that private logs name.
    named: BTreeSet<String>,
    /// Peers that are pulled for everything.
    pulled: BTreeSet<String>,
}

impl Known {
    /// Counts a new log.
    pub fn count(&mut self, list: Option<&str>) {
        self.logs += 1;
        if let Some(list) = list
            && self.lists.len() < LISTS_MAX
        {
            self.lists.insert(list.to_owned());
        }
    }

    /// Takes in what is stored of a log.
    pub fn read(&mut self, log: Hash, entry: Outline) {
        self.count(entry.list.as_deref());
        if entry.private {
            self.private.logs.insert(log);
            self.private.named.extend(entry.peers);
        }
        if entry.forked.is_some() {
            self.forked.insert(log);
        }
    }
}

impl Private {
    /// Takes in a private log with the peers that it names, or says what there is too much of; then nothing is changed.
    pub fn take(&mut self, log: Hash, peers: &[String]) -> Result<(), String> {
        if self.logs.len() >= PRIVATE_MAX && !self.logs.contains(&log) {
            return Err(format!("a witness has at most {PRIVATE_MAX} private logs"));
        }
        let mut more = self.clone();
        more.named.extend(peers.iter().cloned());
        more.check()?;
        more.logs.insert(log);
        *self = more;
        Ok(())
    }

    /// Says whom the witness pulls for everything, or that these are too many with the others.
    pub fn pull(&mut self, peers: &[String]) -> Result<(), String> {
        let mut more = self.clone();
        more.pulled = peers.iter().cloned().collect();
        more.check()?;
        *self = more;
        Ok(())
    }

    /// All that are pulled.
    pub fn peers(&self) -> BTreeSet<String> {
        self.named.union(&self.pulled).cloned().collect()
    }

    fn check(&self) -> Result<(), String> {
        match self.named.union(&self.pulled).count() {
            0..=PEERS_MAX => Ok(()),
            n => Err(format!(
                "a witness pulls at most {PEERS_MAX} peers, those that private logs name included; these would be {n}"
            )),
        }
    }
}
