//! The head that a successor goes on from, held against all that is known of the old log.

use countersign_log::{
    Head, StartError, StoreError,
    import::Import,
    store::{Kept, rocks::Shared},
};
use countersign_verifier::{
    checkpoint::Checkpoint,
    key::PublicKey,
    note::{self, Note},
    predecessor::Predecessor,
    vkey::VerifierKey,
};

use super::{Plan, SucceedError};
use crate::{
    account::Parts,
    ledger::Ledger,
    recover::{self, RecoverError},
    witnessing,
};

/// A head of the old log that somebody has seen.
struct Known {
    what: String,
    head: Head,
    /// The note, where it was kept.
    note: Option<String>,
}

/// The newest checkpoint of a log that each witness of its policies shows, with the witness's address. Who does not answer is left out.
pub async fn ask_witnesses(old: &Parts) -> Vec<(String, String)> {
    witnessing::newest(&old.policies.judges, &old.opened.origin).await
}

/// Where a successor goes on from.
pub(super) struct Last {
    /// The note of the old log's last witnessed head.
    pub note: String,
    /// How many leaves are here of the history that it belongs to.
    pub recovered: u64,
    /// Why none are, where that is so.
    pub nothing: Option<String>,
    /// The owner's newest key, where the leaves here are of that history.
    pub owner: Option<PublicKey>,
}

/// The old log's last witnessed head, and what is here of it.
pub(super) fn last_head(old: &Parts, plan: &Plan) -> Result<Last, SucceedError> {
    let given = match plan.heads.as_slice() {
        [] => None,
        heads => Some(recover::accept(old, heads)?.0),
    };
    let (here, damage) = open(old)?;
    if let Some(here) = &here {
        check_closed(here, plan)?;
    }
    let known = known(old, here.as_ref(), plan)?;
    let kept = match (given, newest(old, &known)) {
        (Some(given), _) => given,
        (None, Some(newest)) => newest,
        (None, None) => return Err(damage.map_or_else(|| none(old, &known), SucceedError::Recover)),
    };
    let larger = known.into_iter().max_by_key(|known| known.head.size);
    if let Some(larger) = larger.filter(|l| l.head.size > kept.head.size && !plan.below_known) {
        return Err(SucceedError::Below {
            what: larger.what,
            known: larger.head,
            size: kept.head.size,
        });
    }
    of_history((here, damage), kept)
}

/// What is here of the head that a successor's leaf 0 names: what was said when that was made.
pub(super) fn again(old: &Parts, before: &Predecessor) -> Result<Last, SucceedError> {
    let named = before.head()?;
    let head = Head {
        size: named.size,
        root: named.root,
    };
    let note = before.checkpoint.clone();
    of_history(open(old)?, Kept { head, note })
}

/// The old log as it lies here, to be read; or what its store is damaged by.
fn open(old: &Parts) -> Result<(Option<Import<Ledger>>, Option<RecoverError>), SucceedError> {
    // Small: little is read.
    let shared = Shared::new(8 << 20, 8 << 20);
    match recover::begin(old, &shared, false) {
        Ok(here) => Ok((Some(here), None)),
        // A store that is damaged beyond reading holds nothing that could be counted.
        Err(
            error @ (RecoverError::Store(StoreError::Damaged { .. })
            | RecoverError::Start(StartError::Store(StoreError::Damaged { .. }))),
        ) => Ok((None, Some(error))),
        Err(error) => Err(error.into()),
    }
}

/// How much of what is here belongs to the history of a head.
fn of_history(
    (here, damage): (Option<Import<Ledger>>, Option<RecoverError>),
    kept: Kept,
) -> Result<Last, SucceedError> {
    let nothing = |why| Last {
        note: kept.note.clone(),
        recovered: 0,
        nothing: why,
        owner: None,
    };
    let Some(here) = here else {
        return Ok(nothing(damage.map(|error| error.to_string())));
    };
    let committed = here.committed();
    if kept.head.size <= committed.size && here.root_at(kept.head.size)? != kept.head.root {
        let why = format!(
            "what is stored here is another history than the head: size {} has another root",
            kept.head.size
        );
        return Ok(nothing(Some(why)));
    }
    let state = here.version();
    let owner = state.owner().and_then(|id| state.identities.get(&id));
    Ok(Last {
        note: kept.note,
        recovered: committed.size,
        nothing: None,
        owner: owner.map(|owner| owner.key.public.clone()),
    })
}

/// Why no head that is known can be gone on from.
fn none(old: &Parts, known: &[Known]) -> SucceedError {
    let notes = known
        .iter()
        .filter_map(|one| Some((one, one.note.as_ref()?)));
    let largest = notes.max_by_key(|(one, _)| one.head.size);
    let refused =
        largest.map(|(one, note)| (one, recover::accept(old, std::slice::from_ref(note))));
    match refused {
        Some((one, Err(why))) => SucceedError::Unmet {
            what: one.what.clone(),
            size: one.head.size,
            why: why.to_string(),
        },
        _ => SucceedError::NoHead,
    }
}

/// A log that its owner has closed goes on where its last leaf says, or nowhere.
fn check_closed(here: &Import<Ledger>, plan: &Plan) -> Result<(), SucceedError> {
    match here.version().closed {
        // A key that is named was there before this: the successor's is made here.
        Some(closed) if closed.successor != plan.origin => Err(SucceedError::Named {
            index: closed.index,
            named: closed.successor,
        }),
        _ => Ok(()),
    }
}

/// Every head that was shown to readers here, or that a witness holds.
fn known(
    old: &Parts,
    here: Option<&Import<Ledger>>,
    plan: &Plan,
) -> Result<Vec<Known>, SucceedError> {
    let mut known = Vec::new();
    if let Some(here) = here {
        let kept = [
            ("what is kept here as published", here.published()?),
            (
                "what a witness once showed, and is kept here,",
                here.ahead()?,
            ),
        ];
        known.extend(kept.into_iter().filter_map(|(what, kept)| {
            kept.map(|kept| Known {
                what: what.into(),
                head: kept.head,
                note: Some(kept.note),
            })
        }));
        known.extend(here.mark()?.map(|head| Known {
            what: "the mark beside the database".into(),
            head,
            note: None,
        }));
    }
    let shown = plan.shown.iter().filter_map(|(witness, note)| {
        Some(Known {
            what: format!("witness {witness}"),
            head: signed(old, note)?,
            note: Some(note.clone()),
        })
    });
    known.extend(shown);
    Ok(known)
}

/// The head of a note that the old log has signed.
fn signed(old: &Parts, note: &str) -> Option<Head> {
    let note = Note::parse(note.as_bytes()).ok()?;
    let key = VerifierKey::parse(&old.vkey).ok()?;
    note::open(&note, [&key]).ok()?;
    let checkpoint = Checkpoint::parse(note.text).ok()?;
    checkpoint.check_size().ok()?;
    (checkpoint.origin == old.opened.origin).then_some(Head {
        size: checkpoint.size,
        root: checkpoint.root,
    })
}

/// The largest of them that has what the policy of its size asks for, all notes of one text taken together.
fn newest(old: &Parts, known: &[Known]) -> Option<Kept> {
    let mut order: Vec<&Known> = known.iter().filter(|known| known.note.is_some()).collect();
    order.sort_by_key(|known| std::cmp::Reverse(known.head.size));
    order.into_iter().find_map(|one| {
        let same = known.iter().filter(|other| other.head == one.head);
        let notes: Vec<String> = same.filter_map(|other| other.note.clone()).collect();
        Some(recover::accept(old, &notes).ok()?.0)
    })
}
