//! The audit of a whole log: is everything that it serves what it has signed?
//!
//! Reads every entry once, in bounded memory, and rebuilds tiles and root from them; of a log of ours also judges every leaf and
//! every signature, by the keys that the leaves themselves enrol. Nothing of what is served is believed: what counts is the
//! policy, the checkpoint's signatures under it, and what follows from the bytes.

pub mod check;
mod conclude;
pub(crate) mod cores;
pub(crate) mod edge;
mod kept;
mod own;
mod report;
mod work;

use std::path::Path;

use countersign_verifier::{
    checkpoint::Checkpoint,
    policy::Eras,
    verdict::{Status, judge_checkpoint},
};

pub use kept::KeptError;
pub use report::{Check, Class, Fault, Replayed, Report};

use crate::foreign::{Foreign, ForeignError, past};
use kept::Kept;
use report::Faults;
use work::{Ended, Work};

/// What to audit, and how.
pub struct Plan<'a> {
    /// The log.
    pub log: &'a Foreign,
    /// Whom the auditor trusts.
    pub eras: &'a Eras,
    /// Only the first so many leaves; they must still be a part of the signed tree.
    pub at: Option<u64>,
    /// Where the audit is kept, to go on from.
    pub state: Option<&'a Path>,
    /// Whether every decision is judged again.
    pub replay: bool,
    /// The auditor's clock, POSIX seconds.
    pub now_s: Option<u64>,
    /// Told of leaves done, and of all.
    pub progress: &'a dyn Fn(u64, u64),
}

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The checkpoint cannot be had.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// The file of an earlier audit cannot be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// More leaves are asked for than there are.
    #[error("--at {at}: the newest checkpoint has {size} leaves")]
    Beyond {
        /// Asked for.
        at: u64,
        /// There.
        size: u64,
    },
}

/// Audits a log.
///
/// # Errors
/// [`AuditError`]: nothing was judged. Everything that is wrong with the log itself is in the report.
pub fn run(plan: &Plan<'_>) -> Result<Report, AuditError> {
    let note = plan.log.checkpoint()?;
    let judged = judge_checkpoint(&note, plan.eras, plan.now_s, None);
    let mut report = Report::new(plan.log.at(""), note, judged.cosigners);
    report.checks.extend(judged.checks.map(Check::from));
    let Some(checkpoint) = judged.checkpoint else {
        let why =
            "no tree head is signed by a log of the policy, so there is nothing to compare with";
        report.skip_rest(why);
        return Ok(report);
    };
    report.of(&checkpoint);
    let target = plan.at.unwrap_or(checkpoint.size);
    if target > checkpoint.size {
        return Err(AuditError::Beyond {
            at: target,
            size: checkpoint.size,
        });
    }
    let kept = match plan.state {
        Some(path) => kept::load(path, &checkpoint.origin, plan.replay)?,
        None => None,
    };
    let mut work = Work::new(plan.replay, &checkpoint, kept.as_ref());
    report.resumed_from = kept.as_ref().map(|kept| kept.edge.size());
    if let Some(kept) = &kept
        && let Some((status, what)) = extends(plan, kept, &checkpoint, target, &mut work.faults)
    {
        report.checks.push(Check::new("entries", status, what));
        report.skip_rest("the entries were not read");
        report.take(work.faults);
        return Ok(report);
    }
    let ended = work.run(plan, target)?;
    finish(plan, &checkpoint, target, work, ended, &mut report)?;
    Ok(report)
}

/// Whether the signed tree still begins with what was audited before; if not, or if that cannot be told, why.
fn extends(
    plan: &Plan<'_>,
    kept: &Kept,
    checkpoint: &Checkpoint,
    target: u64,
    faults: &mut Faults,
) -> Option<(Status, String)> {
    let (before, root) = (kept.edge.size(), kept.edge.root());
    if before > target {
        let what = format!(
            "{before} leaves were audited before, and this is about {target}: an older checkpoint is shown, or --at is too small"
        );
        return Some((Status::Unknown, what));
    }
    match past(plan.log, before, checkpoint.size, &checkpoint.root) {
        Ok(past) if past.root == root => None,
        Ok(past) => {
            let what = format!(
                "the history was rewritten: the first {before} leaves had root {root} when they were audited, and have root {} in \
                 the tree of {} leaves that is signed now",
                past.root, checkpoint.size
            );
            faults.add(Class::Head, None, what.clone());
            Some((Status::Fail, what))
        }
        Err(error) => Some(blame(&error, Class::Tile, faults)),
    }
}

/// What an error while reading means for the log.
fn blame(error: &ForeignError, class: Class, faults: &mut Faults) -> (Status, String) {
    let what = error.to_string();
    if !error.is_the_logs() {
        return (Status::Unknown, what);
    }
    faults.add(class, None, what.clone());
    (Status::Fail, what)
}

fn finish(
    plan: &Plan<'_>,
    checkpoint: &Checkpoint,
    target: u64,
    mut work: Work,
    ended: Ended,
    report: &mut Report,
) -> Result<(), AuditError> {
    let (size, root) = (work.edge.size(), work.edge.root());
    let entries = match ended {
        Ended::Stopped(status, what) => Check::new("entries", status, what),
        Ended::Whole => {
            // The tree that was asked about, as the signed one has it.
            match past(plan.log, target, checkpoint.size, &checkpoint.root) {
                Ok(past) if past.root == root => {
                    let of = if target < checkpoint.size {
                        format!(", a part of the {} that are signed", checkpoint.size)
                    } else {
                        String::new()
                    };
                    let what = format!("{size} leaves lead to the signed root{of}");
                    Check::new("entries", Status::Pass, what)
                }
                Ok(past) => {
                    let what = format!(
                        "the entries of {size} leaves lead to root {root}, and the log has signed {}",
                        past.root
                    );
                    Check::new("entries", Status::Fail, what)
                }
                Err(error) => {
                    let (status, what) = blame(&error, Class::Tile, &mut work.faults);
                    Check::new("entries", status, what)
                }
            }
        }
    };
    let holds = entries.status == Status::Pass;
    if let Some(at) = work.newest_at() {
        // Now that it is known what the newest leaf claims.
        let judged = judge_checkpoint(&report.checkpoint, plan.eras, plan.now_s, Some(at));
        let [_, witnesses] = judged.checks;
        if target == checkpoint.size {
            report.checks[1] = Check::from(witnesses);
        }
    }
    report.checks.push(entries.clone());
    work.conclude(&entries, target, report);
    let clean = holds && work.faults.count() == 0;
    report.replayed = work.replayed().filter(|_| clean);
    if clean && let Some(path) = plan.state {
        kept::save(path, &work.keep(&checkpoint.origin))?;
    }
    report.take(work.faults);
    Ok(())
}
