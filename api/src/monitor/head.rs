//! A new head: whether it is to be believed, continues the one before, and can be watched from where one stands.

use std::path::PathBuf;

use countersign_verifier::{
    checkpoint::Checkpoint,
    range::Range,
    tile::{Bundle, WIDTH},
    verdict::{self, Status, judge_checkpoint},
};

use super::{
    Breach, Broken, KeptError, Monitor, Trouble,
    kept::{Kept, Seen},
    learned::Learned,
};
use crate::{
    foreign::{Foreign, ForeignError, Piece, edge, edge_of},
    pins::{Finding, Head, LogFile, Pinned, compare, signer},
};

impl Monitor {
    /// The newest head, if it is signed and cosigned as the policy says.
    pub(super) fn judge(&self, note: &str, now_s: Option<u64>) -> Result<Checkpoint, Trouble> {
        let judged = judge_checkpoint(note, &self.plan.eras, now_s, None);
        let bad = |check: &&verdict::Check| matches!(check.status, Status::Fail | Status::Unknown);
        if let Some(check) = judged.checks.iter().find(bad) {
            return Err(Trouble::Unsigned {
                status: check.status,
                what: format!("{}: {}", check.name.as_str(), check.detail),
            });
        }
        judged.checkpoint.ok_or_else(|| Trouble::Unsigned {
            status: Status::Unknown,
            what: "no log of the policy has signed it".into(),
        })
    }

    /// Where nothing was read yet: the tree of the leaves that are left out.
    pub(super) fn begin(
        &self,
        log: &Foreign,
        now: &Checkpoint,
        note: &str,
    ) -> Result<Kept, Trouble> {
        let from = self.plan.from.unwrap_or(0);
        if from > now.size {
            return Err(Trouble::Unusable(format!(
                "--from {from}: the newest head has {} leaves",
                now.size
            )));
        }
        let read = match from {
            0 => Range::new(),
            from => edge_of(log, from, now.size, &now.root)?,
        };
        Ok(Kept {
            head: Seen {
                checkpoint: now.clone(),
                note: note.to_owned(),
                edge: edge(log, now.size, &now.root).ok(),
            },
            read,
            learned: Learned::default(),
            asked: None,
        })
    }

    /// Whether the position is one of this log, and what is asked for can be watched for from there on.
    pub(super) fn fits(
        &self,
        log: &Foreign,
        kept: &mut Kept,
        now: &Checkpoint,
    ) -> Result<(), Trouble> {
        let origin = &kept.head.checkpoint.origin;
        if *origin != now.origin {
            let what = format!(
                "the position in log {origin:?}, and this is {:?}",
                now.origin
            );
            return Err(self.unusable(what));
        }
        let (watched, from) = (&self.plan.watched, kept.read.size());
        if let Some(who) = watched.unresolved(&kept.learned, from) {
            return Err(Trouble::Unusable(format!(
                "{who}: names and keys are what the leaves say they are, and those below {from} were not read for this one. Give the id \
                 (id_…, as `countersign identity list` shows it), or watch in a new state file with --from 0"
            )));
        }
        let asked = watched.words();
        if let Some(new) = kept
            .asked
            .as_ref()
            .and_then(|before| asked.difference(before).next())
            && from > 0
        {
            return Err(Trouble::Unusable(format!(
                "{new}: the {from} leaves that were read were not looked through for it. In a new state file --from 0 looks through all, and \
                 --from {from} goes on from here"
            )));
        }
        kept.asked = Some(asked);
        kept.learned = watched.unlearned(std::mem::take(&mut kept.learned));
        if self.begun || watched.is_empty() || now.size == 0 {
            return Ok(());
        }
        let width = u16::try_from(now.size.min(WIDTH.into())).unwrap_or(WIDTH);
        let (first, error) = log.arrived(log.ahead([Bundle { index: 0, width }]));
        if let Some(error) = error {
            return Err(error.into());
        }
        let ours = |piece: &Piece| {
            let list = piece.entries.list();
            list.first()
                .is_some_and(|entry| entry.starts_with(b"{\"v\":"))
        };
        if first.first().is_some_and(ours) {
            return Ok(());
        }
        Err(Trouble::Unusable(
            "the entries of this log are none of Countersign's, and are followed as the bytes that they are: watch it without \
             --identity, --type and --subject"
                .into(),
        ))
    }

    /// Whether a new head continues the one before. The edge of its tree, where it can be had.
    pub(super) fn extends(
        &self,
        (log, place): (&Foreign, &str),
        (now, note): (&Checkpoint, &str),
        kept: &Kept,
    ) -> Result<Option<Range>, Trouble> {
        let pinned = self.pinned(place, kept)?;
        let before = &kept.head.checkpoint;
        let broken = |kind, what, against: Box<Head>, fork| {
            Trouble::Broken(Box::new(Broken {
                kind,
                what,
                pinned: Box::new(pinned.clone()),
                against,
                now: now.clone(),
                note: note.to_owned(),
                fork,
            }))
        };
        match compare(log, &pinned, now, note) {
            Finding::Same | Finding::Extends => Ok(edge(log, now.size, &now.root).ok()),
            Finding::Older => Err(Trouble::Older {
                now: now.size,
                before: before.size,
            }),
            Finding::Rewritten {
                what,
                against,
                fork,
            } => Err(broken(Breach::Rewritten, what, against, fork)),
            Finding::Unproven {
                why: why @ ForeignError::Missing { .. },
            } if now.size < before.size => {
                let what = format!(
                    "the log has signed a tree of {} leaves, and shows one of {} and serves nothing beyond it: {why}",
                    before.size, now.size
                );
                let against = Box::new(pinned.newest().clone());
                Err(broken(Breach::Shrunk, what, against, None))
            }
            Finding::Unproven { why } => Err(why.into()),
        }
    }

    /// The head before, as what it is compared as.
    fn pinned(&self, place: &str, kept: &Kept) -> Result<Pinned, Trouble> {
        let seen = &kept.head;
        let origin = &seen.checkpoint.origin;
        let Some(key) = signer(&self.plan.eras, origin, &seen.note) else {
            let what = "the head that it holds is not signed by a log of your policy";
            return Err(self.unusable(what.into()));
        };
        let head = Head {
            checkpoint: seen.checkpoint.clone(),
            note: seen.note.clone(),
            edge: seen.edge.clone(),
            file: PathBuf::new(),
        };
        let file = LogFile::new(origin, key, place);
        Ok(Pinned::of(file, key.clone(), head, PathBuf::new()))
    }

    fn unusable(&self, what: String) -> Trouble {
        let path = self.plan.state.clone().unwrap_or_default();
        KeptError::Unusable { path, what }.into()
    }
}
