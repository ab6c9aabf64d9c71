//! Beginning the log that goes on from one that cannot be recovered.
//!
//! The old one is marked first, and never signs again: whatever happens then, there are not two. The new one is made beside its place and
//! moved there whole: what an interrupted attempt left lies where no account does.

mod known;
mod mark;
mod standing;

use std::{io, path::PathBuf, sync::Arc};

use countersign_log::{Head, StoreError, SystemClocks, store::rocks::Shared};
use countersign_verifier::{
    checkpoint::Checkpoint,
    key::PublicKey,
    note::Note,
    predecessor::{Predecessor, PredecessorError},
};

pub use known::ask_witnesses;
use known::last_head;
use mark::Mark;

use crate::{
    account::{Account, After, New, OpenError, Parts},
    data_dir::{AccountDir, DataDir, sync_dir},
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
    /// The mark does not say which log goes on, or is not there and one does.
    #[error("{}: {why}. {due}", path.display())]
    Mark {
        /// The mark.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What is to be done.
        due: String,
    },
    /// An account does not say what it goes on from, and it matters.
    #[error(
        "{}: {why}: whether this account goes on from the old log cannot be told. Mend it, or move the account's folder out of `accounts`",
        path.display()
    )]
    Untold {
        /// The file that should say it.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
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

/// Where the successor is made before it is moved to its place, whole.
const STAGE: &str = ".successor-new";

/// Marks the old account and makes the new one. The caller holds the directory. Interrupted, it is run again.
///
/// # Errors
/// [`SucceedError`].
pub fn run(dir: &DataDir, old: &Parts, plan: &Plan) -> Result<Succeeded, SucceedError> {
    check_names(old, plan)?;
    if standing::is_there(dir, old, plan)? {
        return finish(dir, old, plan);
    }
    let last = last_head(old, plan)?;
    let predecessor = Predecessor::new(&last.note, last.recovered)?;
    let after = After {
        epoch: old.opened.epoch + 1,
        predecessor: predecessor.clone(),
        policy: old.policies.text.clone(),
        vkey: old.vkey.clone(),
    };
    let told = plan.owner.clone().or(last.owner);
    let new = New {
        name: plan.name.clone(),
        origin: plan.origin.clone(),
        owner: told.unwrap_or_else(|| old.opened.owner.clone()),
        public: old.public,
        witnesses: Vec::new(),
    };
    let marked = Mark::of(plan).write(&old.files);
    marked.map_err(file(old.files.succeeded()))?;
    let vkey = make(dir, &new, &after)?;
    local_witnesses::admit(dir, &vkey)?;
    Ok(Succeeded {
        vkey,
        owner_until: owner_until(&predecessor).filter(|_| plan.owner.is_none()),
        predecessor,
        nothing: last.nothing,
    })
}

fn check_names(old: &Parts, plan: &Plan) -> Result<(), SucceedError> {
    init::check_names(&plan.name, &plan.origin).map_err(|e| SucceedError::Name(e.to_string()))?;
    if plan.origin == old.opened.origin {
        let why = "the successor needs an origin of its own: nothing is signed under the old one any more";
        return Err(SucceedError::Name(why.into()));
    }
    Ok(())
}

/// Makes the new account, whole or not at all; its verifier key.
fn make(dir: &DataDir, new: &New, after: &After) -> Result<String, SucceedError> {
    let stage = dir.root().join(STAGE);
    // What an interrupted attempt left: keys that nothing uses.
    if stage.exists() {
        std::fs::remove_dir_all(&stage).map_err(file(stage.clone()))?;
    }
    let staged = DataDir::new(&stage);
    // Small: one commit is made.
    let shared = Shared::new(8 << 20, 8 << 20);
    let made = Account::create_after(&staged, new, Some(after), &shared, Arc::new(SystemClocks))
        .map_err(SucceedError::from)
        .and_then(|vkey| {
            let (from, place) = (staged.account(&new.name), dir.account(&new.name));
            let (from, place) = (from.root(), place.root());
            sync_dir(from).map_err(file(from.to_owned()))?;
            files::move_into_place(from, place).map_err(file(place.to_owned()))?;
            Ok(vkey)
        });
    // Empty, or with keys that nothing uses; not being able to remove it changes nothing else.
    let _ = std::fs::remove_dir_all(&stage);
    made
}

/// The successor that an earlier attempt made whole: what that may not have come to is to make its place durable and to tell the
/// directory's own witnesses; and nobody may have heard what it had to say.
fn finish(dir: &DataDir, old: &Parts, plan: &Plan) -> Result<Succeeded, SucceedError> {
    let parts = Parts::read(dir, &plan.name)?;
    let is = &parts.opened;
    let there = |why: String| {
        let name = &plan.name;
        SucceedError::Name(format!("account `{name}` is there already, and {why}"))
    };
    let before = is.predecessor.clone();
    let before = before.ok_or_else(|| there("goes on from no other log".into()))?;
    if before.origin != old.opened.origin || is.origin != plan.origin {
        let (is, before) = (&is.origin, &before.origin);
        return Err(there(format!("is {is}, which goes on from {before}")));
    }
    if plan.owner.as_ref().is_some_and(|owner| *owner != is.owner) {
        return Err(there("its owner has another key".into()));
    }
    let accounts = dir.root().join("accounts");
    sync_dir(&accounts).map_err(file(accounts))?;
    local_witnesses::admit(dir, &parts.vkey)?;
    let last = known::again(old, &before);
    let is_given = match &last {
        _ if plan.owner.is_some() => true,
        // Not the key that leaves and files tell of: it was named with the attempt that made this.
        Ok(last) if last.recovered == before.recovered_size => {
            *last.owner.as_ref().unwrap_or(&old.opened.owner) != is.owner
        }
        _ => false,
    };
    let nothing = match last {
        _ if before.recovered_size > 0 => None,
        Ok(last) => last.nothing,
        Err(error) => Some(error.to_string()),
    };
    Ok(Succeeded {
        vkey: parts.vkey,
        owner_until: owner_until(&before).filter(|_| !is_given),
        predecessor: before,
        nothing,
    })
}

/// Up to which leaf the owner's key is known that a successor takes over, where there were more.
fn owner_until(before: &Predecessor) -> Option<u64> {
    match before.recovered_size {
        // Leaf 0 is what the files say.
        0 => Some(1),
        _ => before.lost.map(|(first, _)| first),
    }
}

/// The origin of the log that goes on from this account's; `None` where none does.
///
/// # Errors
/// In words, where there is a mark that does not say it.
pub fn read_mark(old: &AccountDir) -> Result<Option<String>, String> {
    let mark = Mark::read(old).map_err(|unread| {
        let (path, why) = (old.succeeded(), unread.why);
        let path = path.display();
        format!("{path}: {why}: run `succeed` again, which says what is to be done")
    })?;
    Ok(mark.map(|mark| mark.origin))
}

impl From<StoreError> for SucceedError {
    fn from(error: StoreError) -> SucceedError {
        SucceedError::Recover(error.into())
    }
}

/// The account of a directory that is marked for this successor: the one that an interrupted attempt was about.
#[must_use]
pub fn marked_for(dir: &DataDir, name: &str, origin: &str) -> Option<String> {
    let wanted = Mark {
        origin: origin.into(),
        account: name.into(),
    };
    let is_for = |old: &String| {
        let mark = Mark::read(&dir.account(old));
        matches!(mark, Ok(Some(mark)) if mark == wanted)
    };
    dir.account_names().ok()?.into_iter().find(is_for)
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

#[cfg(test)]
mod tests;
