//! Beginning the log that goes on from one that cannot be recovered.
//!
//! The old one is marked first, and never signs again: whatever happens then, there are not two.

mod known;

use std::{io, path::PathBuf, sync::Arc};

use countersign_log::{Head, StoreError, SystemClocks, store::rocks::Shared};
use countersign_verifier::{
    checkpoint::Checkpoint,
    key::PublicKey,
    note::Note,
    predecessor::{Predecessor, PredecessorError},
};
use serde::{Deserialize, Serialize};

pub use known::ask_witnesses;
use known::last_head;

use crate::{
    account::{Account, After, New, OpenError, Parts},
    data_dir::{AccountDir, DataDir, sync_dir, write_public},
    files, init,
    local_witnesses::{self, LocalError},
    recover::RecoverError,
};

/// What to begin.
pub struct Plan {
    /// The new account's local name.
    pub name: String,
    /// The new log's origin.
    pub origin: String,
    /// Notes of the last witnessed head of the old log; none: the newest that is known.
    pub heads: Vec<String>,
    /// Checkpoints of the old log that witnesses show, with whose they are: [`ask_witnesses`] collects them.
    pub shown: Vec<(String, String)>,
    /// Go on from the head given though a larger one is known.
    pub below_known: bool,
    /// The owner's key; none: the one that the old log's leaves give it last.
    pub owner: Option<PublicKey>,
}

/// What was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Succeeded {
    /// The new log's verifier key.
    pub vkey: String,
    /// What its leaf 0 says of the old one.
    pub predecessor: Predecessor,
    /// Why nothing of the old one is counted as recovered, where that is so.
    pub nothing: Option<String>,
    /// Up to which leaf the owner's key is known, where there were more: a later one may have given it another.
    pub owner_until: Option<u64>,
}

/// Why nothing was begun.
#[derive(Debug, thiserror::Error)]
pub enum SucceedError {
    /// The old account's files cannot be used, or the new ones not be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The head is not acceptable, or what is here cannot be read.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// There is no head.
    #[error(
        "no head was ever published here: give the last one that was witnessed with --head, as a witness shows it"
    )]
    NoHead,
    /// Heads are known, and none of them can be gone on from.
    #[error(
        "{what} shows a head of this log of size {size}, the largest that is known, and none of those that are known meets the policy: {why}. \
         Give one with --head, once for each witness that shows it"
    )]
    Unmet {
        /// What shows the largest.
        what: String,
        /// Its size.
        size: u64,
        /// What is missing.
        why: String,
    },
    /// More is known than the head given.
    #[error(
        "{what} shows a head of this log of size {}, root {}, and the one to go on from has only {size} leaves: what lies between would \
         not even be named as lost. Give that head with --head, as enough witnesses show it; where no quorum for it can be found, say \
         --below-known", known.size, known.root
    )]
    Below {
        /// What shows it.
        what: String,
        /// The larger head.
        known: Head,
        /// The size of the head given.
        size: u64,
    },
    /// Its owner closed the old log, and named another one.
    #[error("leaf {index} closes this log, and names {named} as the one that goes on")]
    Named {
        /// The leaf.
        index: u64,
        /// Whom it names.
        named: String,
    },
    /// Leaf 0 cannot say it.
    #[error(transparent)]
    Predecessor(#[from] PredecessorError),
    /// The names are taken, or are those of the old one.
    #[error("{0}")]
    Name(String),
    /// The old log has another successor.
    #[error("{}: this log's successor is {origin}, in account `{name}`", path.display())]
    Another {
        /// The mark.
        path: PathBuf,
        /// The successor's origin.
        origin: String,
        /// Its account.
        name: String,
    },
    /// The directory's own witnesses do not take the new log.
    #[error(transparent)]
    Witnesses(#[from] LocalError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Two names: no mark is nearly as large.
const MARK_BYTES_MAX: u64 = 64 << 10;

/// What marks the old account.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    origin: String,
    account: String,
}

/// Marks the old account and makes the new one. The caller holds the directory. Interrupted, it is run again.
///
/// # Errors
/// [`SucceedError`].
pub fn run(dir: &DataDir, old: &Parts, plan: &Plan) -> Result<Succeeded, SucceedError> {
    check_names(dir, old, plan)?;
    let successor = dir.account(&plan.name);
    let again = marked(old, plan)?;
    if again && successor.log_vkey().is_file() {
        return whole(dir, plan);
    }
    let last = last_head(old, plan)?;
    let predecessor = Predecessor::new(&last.note, last.recovered)?;
    let owner_until = match (&plan.owner, &last.owner) {
        (Some(_), _) => None,
        // Leaf 0 is what the files say.
        (None, None) => Some(1),
        (None, Some(_)) => {
            let all = head_of(&last.note).map_or(0, |head| head.size);
            (last.recovered < all).then_some(last.recovered)
        }
    };
    let told = plan.owner.clone().or(last.owner);
    let after = After {
        epoch: old.opened.epoch + 1,
        predecessor: predecessor.clone(),
        policy: old.policies.text.clone(),
        vkey: old.vkey.clone(),
    };
    mark(old, plan)?;
    let new = New {
        name: plan.name.clone(),
        origin: plan.origin.clone(),
        owner: told.clone().unwrap_or_else(|| old.opened.owner.clone()),
        public: old.public,
        witnesses: Vec::new(),
    };
    let folder = successor.root().to_owned();
    if again && folder.exists() {
        // Of an attempt that did not come to its end: without its vkey it is no account.
        std::fs::remove_dir_all(&folder).map_err(file(folder))?;
    }
    // Small: one commit is made.
    let shared = Shared::new(8 << 20, 8 << 20);
    let vkey = Account::create_after(dir, &new, Some(&after), &shared, Arc::new(SystemClocks))?;
    let accounts = dir.root().join("accounts");
    sync_dir(&accounts).map_err(file(accounts))?;
    local_witnesses::admit(dir, &vkey)?;
    Ok(Succeeded {
        vkey,
        predecessor,
        nothing: last.nothing,
        owner_until,
    })
}

fn check_names(dir: &DataDir, old: &Parts, plan: &Plan) -> Result<(), SucceedError> {
    init::check_names(&plan.name, &plan.origin).map_err(|e| SucceedError::Name(e.to_string()))?;
    let taken = |what: &str| Err(SucceedError::Name(what.into()));
    if plan.origin == old.opened.origin {
        return taken(
            "the successor needs an origin of its own: nothing is signed under the old one any more",
        );
    }
    let (new, marked) = (dir.account(&plan.name), old.files.succeeded().exists());
    if new.root().exists() && !marked {
        return taken("there is an account of this name already");
    }
    Ok(())
}

/// The successor that an earlier attempt made whole: what that did not come to is to tell the directory's own witnesses.
fn whole(dir: &DataDir, plan: &Plan) -> Result<Succeeded, SucceedError> {
    let parts = Parts::read(dir, &plan.name)?;
    local_witnesses::admit(dir, &parts.vkey)?;
    let predecessor = parts.opened.predecessor.ok_or_else(|| {
        SucceedError::Name(format!("account `{}` goes on from no other log", plan.name))
    })?;
    Ok(Succeeded {
        vkey: parts.vkey,
        predecessor,
        nothing: None,
        owner_until: None,
    })
}

/// Whether the old account is marked for this successor already. One that was cut short when it was written marks as well, and says no
/// name yet.
fn marked(old: &Parts, plan: &Plan) -> Result<bool, SucceedError> {
    let path = old.files.succeeded();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(file(path)(e)),
    };
    match serde_json::from_str::<Mark>(&text) {
        Ok(found) if found == Mark::of(plan) => Ok(true),
        Ok(found) => Err(SucceedError::Another {
            path,
            origin: found.origin,
            name: found.account,
        }),
        Err(_) => Ok(false),
    }
}

/// The origin of the log that goes on from this account's; `None` where none does.
///
/// # Errors
/// In words, where there is a mark that does not say it.
pub fn read_mark(old: &AccountDir) -> Result<Option<String>, String> {
    let path = old.succeeded();
    let bytes = match files::read_plain(&path, MARK_BYTES_MAX) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| format!("{}: {e}", path.display()))?,
    };
    let mark = serde_json::from_slice::<Mark>(&bytes);
    mark.map(|mark| Some(mark.origin)).map_err(|e| {
        let path = path.display();
        format!("{path}: it says that another log goes on, and not which ({e}): run `succeed` again, or remove it if nobody did")
    })
}

/// Marks the old account, which is not marked for another successor.
fn mark(old: &Parts, plan: &Plan) -> Result<(), SucceedError> {
    if marked(old, plan)? {
        return Ok(());
    }
    let path = old.files.succeeded();
    if path.exists() {
        std::fs::remove_file(&path).map_err(file(path.clone()))?;
    }
    // OK because a struct of strings has no key that is not a string.
    let text = serde_json::to_string(&Mark::of(plan)).expect("succeed::mark") + "\n";
    write_public(&path, text.as_bytes()).map_err(file(path))
}

impl From<StoreError> for SucceedError {
    fn from(error: StoreError) -> SucceedError {
        SucceedError::Recover(error.into())
    }
}

impl Mark {
    fn of(plan: &Plan) -> Mark {
        Mark {
            origin: plan.origin.clone(),
            account: plan.name.clone(),
        }
    }
}

/// The account of a directory that is marked for this successor: the one that an interrupted attempt was about.
#[must_use]
pub fn marked_for(dir: &DataDir, name: &str, origin: &str) -> Option<String> {
    dir.account_names().ok()?.into_iter().find(|old| {
        let text = std::fs::read_to_string(dir.account(old).succeeded());
        let mark = text
            .ok()
            .and_then(|text| serde_json::from_str::<Mark>(&text).ok());
        mark.is_some_and(|mark| mark.account == name && mark.origin == origin)
    })
}

fn file(path: PathBuf) -> impl FnOnce(io::Error) -> SucceedError {
    move |source| SucceedError::File { path, source }
}

/// The head that a note names, for those who show it.
#[must_use]
pub fn head_of(note: &str) -> Option<Head> {
    let note = Note::parse(note.as_bytes()).ok()?;
    let Checkpoint { size, root, .. } = Checkpoint::parse(note.text).ok()?;
    Some(Head { size, root })
}
