//! A log as it is now, beside a head that was pinned.

use countersign_verifier::{checkpoint::Checkpoint, fork::Fork, vkey::VerifierKey};

use super::Head;
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
        /// What shows it to a stranger, where it could be had.
        fork: Option<Box<Fork>>,
    },
    /// It cannot be told: the log does not show what it would take. No evidence of anything.
    Unproven {
        /// Why.
        why: ForeignError,
    },
}

/// Compares a signed head of a log with a pinned one.
#[must_use]
pub fn compare(
    log: &Foreign,
    key: &VerifierKey,
    pinned: &Head,
    now: &Checkpoint,
    note: &str,
) -> Finding {
    let before = &pinned.checkpoint;
    if now.size == before.size {
        if now.root == before.root {
            return Finding::Same;
        }
        let what = format!(
            "the log has signed two trees of {} leaves, with different roots",
            now.size
        );
        return rewritten(what, pinned, key, note, None);
    }
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
    let edge = pinned.edge.as_ref().filter(|_| now.size > before.size);
    let node = match edge.map(|edge| apart(log, edge, now.size, &now.root)) {
        Some(Ok(node)) => node,
        // It was shown above; only the form for strangers is missing.
        Some(Err(_)) | None => None,
    };
    match node {
        Some(node) => rewritten(what, pinned, key, note, Some(node)),
        None => Finding::Rewritten { what, fork: None },
    }
}

fn rewritten(
    what: String,
    pinned: &Head,
    key: &VerifierKey,
    note: &str,
    node: Option<countersign_verifier::fork::Node>,
) -> Finding {
    let fork = Fork {
        checkpoints: [pinned.note.clone(), note.to_owned()],
        node,
    };
    // Only what convinces a stranger is called evidence.
    let holds = fork.verify(&pinned.checkpoint.origin, [key]).is_ok();
    Finding::Rewritten {
        what,
        fork: holds.then(|| Box::new(fork)),
    }
}
