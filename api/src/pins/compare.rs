//! A log as it is now, beside a head that was pinned.

use countersign_verifier::{
    checkpoint::Checkpoint,
    fork::{Fork, Node},
    vkey::VerifierKey,
};

use super::{Head, Pinned};
use crate::foreign::{Foreign, ForeignError, apart, past};

/// What the two say together.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// One head.
    Same,
    /// The log has grown, and its tree begins with the pinned one.
    Extends,
    /// An older head than the pinned one, of the same history.
    Older,
    /// Two histories.
    Rewritten {
        /// What shows it, in plain words.
        what: String,
        /// The pinned head that contradicts the new one.
        against: Box<Head>,
        /// What shows it to a stranger, where it could be had.
        fork: Option<Box<Fork>>,
    },
    /// It cannot be told: the log does not show what it would take. No evidence of anything.
    Unproven {
        /// Why.
        why: ForeignError,
    },
}

/// Compares a signed head of a log with the newest pinned one; or where one of its size is pinned, with that.
#[must_use]
pub fn compare(log: &Foreign, pinned: &Pinned, now: &Checkpoint, note: &str) -> Finding {
    let same = |head: &&Head| head.checkpoint.size == now.size;
    if let Some(head) = pinned.heads.iter().find(same) {
        let newest = pinned.newest().checkpoint.size == now.size;
        return match head.checkpoint.root == now.root {
            true if newest => Finding::Same,
            // Each pinned head was seen to continue the one before.
            true => Finding::Older,
            false => {
                let what = format!(
                    "the log has signed two trees of {} leaves, with different roots",
                    now.size
                );
                rewritten(what, (head, &pinned.key), note, None)
            }
        };
    }
    let (newest, key) = (pinned.newest(), &pinned.key);
    let before = &newest.checkpoint;
    let (small, large) = if now.size < before.size {
        (now, before)
    } else {
        (before, now)
    };
    let past = match past(log, small.size, large.size, &large.root) {
        Ok(past) => past,
        Err(why) => return Finding::Unproven { why },
    };
    if past.root == small.root {
        return if now.size < before.size {
            Finding::Older
        } else {
            Finding::Extends
        };
    }
    let what = format!(
        "the first {} leaves of the signed tree of {} have root {}, and the log has also signed root {} for them",
        small.size, large.size, past.root, small.root
    );
    let edge = newest.edge.as_ref().filter(|_| now.size > before.size);
    let node = match edge.map(|edge| apart(log, edge, now.size, &now.root)) {
        Some(Ok(node)) => node,
        // It was shown above; only the form for strangers is missing.
        Some(Err(_)) | None => None,
    };
    match node {
        Some(node) => rewritten(what, (newest, key), note, Some(node)),
        None => Finding::Rewritten {
            what,
            against: Box::new(newest.clone()),
            fork: None,
        },
    }
}

fn rewritten(
    what: String,
    (pinned, key): (&Head, &VerifierKey),
    note: &str,
    node: Option<Node>,
) -> Finding {
    let fork = Fork {
        checkpoints: [pinned.note.clone(), note.to_owned()],
        node,
    };
    // Only what convinces a stranger is called evidence.
    let holds = fork.verify(&pinned.checkpoint.origin, [key]).is_ok();
    Finding::Rewritten {
        what,
        against: Box::new(pinned.clone()),
        fork: holds.then(|| Box::new(fork)),
    }
}
