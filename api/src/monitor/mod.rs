//! The monitor: follows a log and tells of every leaf that somebody watches for.
//!
//! A step takes the newest head, which must be signed and cosigned as the policy says and continue the head before; reads the
//! entries that are new; and shows that they are in that head before anything is told of them. The position moves when what it
//! moves past was told, and not before: a monitor that is killed at any moment skips nothing, and at worst tells the same again,
//! under the same id.

mod alert;
mod head;
mod kept;
mod learned;
mod trouble;
mod watched;
mod webhook;

use std::path::PathBuf;

use countersign_verifier::{checkpoint::Checkpoint, hash::leaf_hash, policy::Eras, tile::WIDTH};

pub use alert::Alert;
pub use kept::KeptError;
pub use trouble::{Breach, Broken, Trouble, Undelivered};
pub use watched::Watched;
pub use webhook::{Webhook, WebhookError};

use crate::{
    audit::cores,
    foreign::{Foreign, Piece, Rounds, past},
};
use alert::Of;
use kept::{Kept, Seen};
use watched::Read;

/// What to watch, and how.
pub struct Plan {
    /// What somebody wants to hear of.
    pub watched: Watched,
    /// Whom he trusts.
    pub eras: Eras,
    /// Where the position is kept.
    pub state: Option<PathBuf>,
    /// The leaf to begin with, where no position is kept yet.
    pub from: Option<u64>,
}

/// Who hears what a monitor says.
pub trait Ear {
    /// Takes an alert; on return it is delivered.
    ///
    /// # Errors
    /// [`Undelivered`]: the position stays before it.
    fn alert(&mut self, alert: &Alert) -> Result<(), Undelivered>;

    /// Every leaf below `done`, of `head.size`, was read, shown to be in that head, and told.
    ///
    /// # Errors
    /// [`Undelivered`].
    fn complete(&mut self, done: u64, head: &Checkpoint) -> Result<(), Undelivered>;
}

/// A monitor of one log.
pub struct Monitor {
    plan: Plan,
    kept: Option<Kept>,
    begun: bool,
}

impl Monitor {
    /// With the position that is kept, or at the beginning that is asked for.
    ///
    /// # Errors
    /// [`KeptError`]; [`KeptError::Lost`] where a position should be kept and none is, nor a beginning was named.
    pub fn new(plan: Plan) -> Result<Monitor, KeptError> {
        let kept = match &plan.state {
            None => None,
            Some(path) => match kept::load(path) {
                Err(KeptError::Lost { .. }) if plan.from.is_some() => None,
                loaded => Some(loaded?),
            },
        };
        Ok(Monitor {
            plan,
            kept,
            begun: false,
        })
    }

    /// Leaves that were read and told.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.read.size())
    }

    /// The names that are watched for, and that no leaf read so far gives to anybody.
    #[must_use]
    pub fn unknown_names(&self) -> Vec<&str> {
        let names = self.kept.iter().flat_map(|kept| &kept.learned.names);
        let unknown = names.filter(|(_, id)| id.is_none());
        unknown.map(|(name, _)| name.as_str()).collect()
    }

    /// Follows the log up to its newest head. `place` is where it is read, for the files that are kept of it.
    ///
    /// # Errors
    /// [`Trouble`]; what was done before it stays done.
    pub fn step(
        &mut self,
        (log, place): (&Foreign, &str),
        now_s: Option<u64>,
        ear: &mut dyn Ear,
    ) -> Result<(), Trouble> {
        let note = log.checkpoint().map_err(Trouble::Head)?;
        let now = self.judge(&note, now_s)?;
        let mut kept = match self.kept.take() {
            Some(kept) => kept,
            None => self.begin(log, &now, &note)?,
        };
        let result = self.follow((log, place), (now, note), &mut kept, ear);
        self.kept = Some(kept);
        result
    }

    fn follow(
        &mut self,
        (log, place): (&Foreign, &str),
        (now, note): (Checkpoint, String),
        kept: &mut Kept,
        ear: &mut dyn Ear,
    ) -> Result<(), Trouble> {
        self.fits(log, kept, &now)?;
        if now != kept.head.checkpoint {
            let edge = self.extends((log, place), (&now, &note), kept)?;
            kept.head = Seen {
                checkpoint: now,
                note,
                edge,
            };
            self.save(kept)?;
        }
        let size = kept.head.checkpoint.size;
        if !self.begun {
            self.begun = true;
            // From here on a file that is not there is a lost one.
            self.save(kept)?;
            if kept.read.size() == size {
                // Whoever starts it hears where it stands.
                ear.complete(size, &kept.head.checkpoint)?;
            }
        }
        let mut rounds = Rounds::new(log, size, kept.read.size(), size);
        while kept.read.size() < size {
            let (pieces, error) = rounds.arrive();
            if !pieces.is_empty() {
                self.round(log, &pieces, kept, ear)?;
            }
            if let Some(error) = error {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Shows that the entries of a round are in the head, tells of them, and moves on.
    fn round(
        &self,
        log: &Foreign,
        pieces: &[Piece],
        kept: &mut Kept,
        ear: &mut dyn Ear,
    ) -> Result<(), Trouble> {
        let head = kept.head.checkpoint.clone();
        let from = kept.read.size();
        // OK because a bundle has at most 256 entries.
        let known = usize::try_from(from % u64::from(WIDTH)).expect("Monitor::round: known");
        let lists = pieces.iter().flat_map(|piece| piece.entries.list());
        let entries: Vec<&[u8]> = lists.skip(known).collect();
        let opaque = self.plan.watched.is_empty();
        let read = cores::each(&entries, |&entry| {
            (leaf_hash(entry), (!opaque).then(|| Read::of(entry)))
        });
        let mut next = kept.read.clone();
        next.extend(read.iter().map(|(hash, _)| *hash));
        let signed = past(log, next.size(), head.size, &head.root)?.root;
        if signed != next.root() {
            return Err(Trouble::Entries {
                size: next.size(),
                root: next.root(),
                signed,
            });
        }
        let evidence = evidence(log);
        let of = Of {
            head: &head,
            evidence: evidence.as_deref(),
        };
        let mut learned = kept.learned.clone();
        for (index, (entry, (_, read))) in (from..).zip(entries.iter().zip(&read)) {
            let Some(read) = read else { break };
            let found = self.plan.watched.look(&mut learned, read);
            if let Some(alert) = Alert::of_leaf(&of, index, (entry, read), &found) {
                ear.alert(&alert)?;
            }
        }
        let moved = Kept {
            head: kept.head.clone(),
            read: next,
            learned,
            asked: kept.asked.clone(),
        };
        self.save(&moved)?;
        *kept = moved;
        Ok(ear.complete(kept.read.size(), &head)?)
    }

    fn save(&self, kept: &Kept) -> Result<(), KeptError> {
        match &self.plan.state {
            Some(path) => kept::save(path, kept),
            None => Ok(()),
        }
    }
}

/// Where a service gives the evidence of a leaf, without its index.
fn evidence(log: &Foreign) -> Option<String> {
    let url = log.at("evidence/");
    url.starts_with("http").then_some(url)
}

#[cfg(test)]
mod tests;
