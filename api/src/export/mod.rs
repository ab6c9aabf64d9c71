//! A static copy of a log in the form of c2sp.org/tlog-tiles, which any web server can serve and any client of that form can read.
//!
//! Nothing is copied on trust. The newest checkpoint must be what the policy asks for; tiles are read a level above the entries and
//! must lead to the signed root before any entry is taken; each bundle must be the one under its tile. Tiles are written as they
//! follow from the entries, not as somebody served them. The checkpoint comes last, in one step: whoever reads the folder meanwhile
//! has the copy before or the one after.

mod dest;
mod grow;
mod report;

use std::{io, path::Path};

use countersign_verifier::{
    checkpoint::Checkpoint,
    policy::Eras,
    verdict::{Status, judge_checkpoint},
};

pub use report::Report;

use crate::{
    audit::edge::Edge,
    foreign::{Foreign, ForeignError, past},
};
use dest::Dest;
use grow::Growth;

/// What to copy, and where to.
pub struct Plan<'a> {
    /// The log.
    pub log: &'a Foreign,
    /// Who must have signed its newest head.
    pub eras: &'a Eras,
    /// The policy as files of the copy: path and content.
    pub policy: &'a [(String, Vec<u8>)],
    /// The folder of the copy.
    pub dest: &'a Path,
    /// Whether every file is looked at again, and not only what is new.
    pub whole: bool,
    /// The clock, POSIX seconds.
    pub now_s: Option<u64>,
    /// Told of leaves done, and of all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// Why a copy was not brought up to date. The one before it, if any, is whole.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read, or is none that leads to its signed root.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// Its newest head is not what the policy asks for.
    #[error("{place}: its newest head, by the policy: {what}")]
    Head {
        /// The log.
        place: String,
        /// `Fail`, or `Unknown` where it cannot be told.
        status: Status,
        /// Why.
        what: String,
    },
    /// It shows fewer leaves than the copy has: an older head. No fault of anybody that could be told from here.
    #[error("the log shows {shown} leaves, and the copy has {copied}: an older head")]
    Older {
        /// There.
        shown: u64,
        /// Here.
        copied: u64,
    },
    /// The log has another history than the copy.
    #[error(
        "the history was rewritten: the first {size} leaves have root {copied} in the copy, and root {now} in the tree that is signed now"
    )]
    Rewritten {
        /// Leaves of the copy.
        size: u64,
        /// Root of the copy.
        copied: String,
        /// Root of as many leaves in the log.
        now: String,
    },
    /// A published file of the copy is not what it must be.
    #[error("{path}: not what the log has there; nothing was changed")]
    Differs {
        /// Which.
        path: String,
    },
    /// The folder is not for this copy.
    #[error("{path}: {why}")]
    Taken {
        /// The folder.
        path: String,
        /// What it is.
        why: String,
    },
    /// A link in the copy, which is not followed.
    #[error("{path}: a symbolic link, which is not followed in a copy")]
    Link {
        /// Where.
        path: String,
    },
    /// Another export writes there.
    #[error("{path}: another export writes there")]
    Busy {
        /// The folder.
        path: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Brings a copy up to date.
///
/// # Errors
/// [`ExportError`].
pub fn run(plan: &Plan<'_>) -> Result<Report, ExportError> {
    let note = plan.log.checkpoint()?;
    let head = trusted(plan, &note)?;
    let dest = Dest::open(plan.dest)?;
    dest.claim(&head.origin)?;
    let published = dest.published(plan.eras, &head.origin)?;
    if let Some(before) = &published {
        goes_on(plan, before, &head)?;
    }
    dest.describe(&head.origin, &vkey(plan.eras, &head))?;
    let from = published.as_ref().map_or(0, |before| before.size);
    let mut report = Report::new(&dest, &head, from);
    if plan.whole || from < head.size {
        let edge = match &published {
            Some(before) if !plan.whole => dest.edge(before)?,
            _ => Edge::default(),
        };
        Growth::new(plan, &dest, &head, from, &mut report).run(edge)?;
    }
    // All that a reader of the checkpoint asks for is on the disk before it.
    dest.sync()?;
    // And the policy that judges it; until then the one before judges the checkpoint before.
    dest.judge_by(plan.policy)?;
    if dest.publish(&note)? {
        report.written += 1;
    }
    let swept_from = if plan.whole { 0 } else { from };
    report.removed = dest.sweep(swept_from, head.size)?;
    Ok(report)
}

/// The newest head, where it is what the policy asks for.
fn trusted(plan: &Plan<'_>, note: &str) -> Result<Checkpoint, ExportError> {
    let judged = judge_checkpoint(note, plan.eras, plan.now_s, None);
    let refuse = |status, what| ExportError::Head {
        place: plan.log.at("checkpoint"),
        status,
        what,
    };
    for check in judged.checks {
        if matches!(check.status, Status::Fail | Status::Unknown) {
            return Err(refuse(check.status, check.detail));
        }
    }
    let none = "no log of the policy has signed it";
    judged
        .checkpoint
        .ok_or_else(|| refuse(Status::Fail, none.into()))
}

/// Whether the log goes on from what the copy has.
fn goes_on(plan: &Plan<'_>, before: &Checkpoint, head: &Checkpoint) -> Result<(), ExportError> {
    if before.size > head.size {
        // By the copy's own tiles, which lead to the head that it publishes.
        let copy = Foreign::open(&plan.dest.to_string_lossy(), None)?;
        if let Ok(past) = past(&copy, head.size, before.size, &before.root)
            && past.root != head.root
        {
            return Err(ExportError::Rewritten {
                size: head.size,
                copied: past.root.to_string(),
                now: head.root.to_string(),
            });
        }
        return Err(ExportError::Older {
            shown: head.size,
            copied: before.size,
        });
    }
    if before.size == 0 {
        return Ok(());
    }
    let past = past(plan.log, before.size, head.size, &head.root)?;
    if past.root == before.root {
        return Ok(());
    }
    Err(ExportError::Rewritten {
        size: before.size,
        copied: before.root.to_string(),
        now: past.root.to_string(),
    })
}

/// The log's key, as the policy of this size has it.
fn vkey(eras: &Eras, head: &Checkpoint) -> String {
    let logs = eras.for_size(head.size).map(|policy| policy.logs());
    let mut named = logs.into_iter().flatten();
    let of_log = named.find(|log| log.key.name == head.origin);
    of_log.map_or_else(String::new, |log| log.key.to_string())
}

#[cfg(test)]
mod tests;
