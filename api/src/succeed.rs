//! Beginning the log that goes on from one that cannot be recovered.
//!
//! The old one is marked first, and never signs again: whatever happens then, there are not two.

use std::{io, path::PathBuf, sync::Arc};

use countersign_log::{Head, StartError, StoreError, SystemClocks, store::rocks::Shared};
use countersign_verifier::{
    checkpoint::Checkpoint,
    note::Note,
    predecessor::{Predecessor, PredecessorError},
};
use serde::{Deserialize, Serialize};

use crate::{
    account::{Account, After, New, OpenError, Parts},
    data_dir::{DataDir, sync_dir, write_public},
    init,
    local_witnesses::{self, LocalError},
    recover::{self, RecoverError},
};

/// What to begin.
pub struct Plan {
    /// The new account's local name.
    pub name: String,
    /// The new log's origin.
    pub origin: String,
    /// Notes of the last witnessed head of the old log; none: the newest that is kept here.
    pub heads: Vec<String>,
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
    let (note, recovered, nothing) = last_head(old, &plan.heads)?;
    let predecessor = Predecessor::new(&note, recovered)?;
    let after = After {
        epoch: old.opened.epoch + 1,
        predecessor: predecessor.clone(),
        policy: old.policies.text.clone(),
        vkey: old.vkey.clone(),
    };
    let again = mark(old, plan)?;
    let new = New {
        name: plan.name.clone(),
        origin: plan.origin.clone(),
        owner: old.opened.owner.clone(),
        public: old.public,
        witnesses: Vec::new(),
    };
    let files = dir.account(&plan.name);
    if again && files.log_vkey().is_file() {
        // It is whole: what an earlier attempt did not come to is to tell the directory's own witnesses.
        let vkey = std::fs::read_to_string(files.log_vkey()).map_err(file(files.log_vkey()))?;
        let vkey = vkey.trim().to_owned();
        local_witnesses::admit(dir, &vkey)?;
        return Ok(Succeeded {
            vkey,
            predecessor,
            nothing,
        });
    }
    let folder = files.root().to_owned();
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
        nothing,
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

/// The note of the old log's last witnessed head, and how many leaves are here of the history that it belongs to.
fn last_head(old: &Parts, heads: &[String]) -> Result<(String, u64, Option<String>), SucceedError> {
    let given = match heads {
        [] => None,
        heads => Some(recover::accept(old, heads)?.0),
    };
    let shared = Shared::new(8 << 20, 8 << 20);
    let here = match recover::begin(old, &shared, false) {
        Ok(here) => here,
        // A store that is damaged beyond reading holds nothing that could be counted.
        Err(
            error @ (RecoverError::Store(StoreError::Damaged { .. })
            | RecoverError::Start(StartError::Store(StoreError::Damaged { .. }))),
        ) => {
            let Some(kept) = given else {
                return Err(error.into());
            };
            return Ok((kept.note, 0, Some(error.to_string())));
        }
        Err(error) => return Err(error.into()),
    };
    let stored = |error: StoreError| SucceedError::Recover(error.into());
    let kept = match given {
        Some(kept) => kept,
        None => {
            let published = here
                .published()
                .map_err(stored)?
                .ok_or(SucceedError::NoHead)?;
            recover::accept(old, &[published.note])?.0
        }
    };
    let committed = here.committed();
    if kept.head.size <= committed.size
        && here.root_at(kept.head.size).map_err(stored)? != kept.head.root
    {
        let why = format!(
            "what is stored here is another history than the head: size {} has another root",
            kept.head.size
        );
        return Ok((kept.note, 0, Some(why)));
    }
    Ok((kept.note, committed.size, None))
}

/// Marks the old account; whether it was marked for this successor already.
fn mark(old: &Parts, plan: &Plan) -> Result<bool, SucceedError> {
    let path = old.files.succeeded();
    let mark = Mark {
        origin: plan.origin.clone(),
        account: plan.name.clone(),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => match serde_json::from_str::<Mark>(&text) {
            Ok(found) if found == mark => Ok(true),
            Ok(found) => Err(SucceedError::Another {
                path,
                origin: found.origin,
                name: found.account,
            }),
            // Cut short when it was written: it marks as well, and says no name yet.
            Err(_) => {
                std::fs::remove_file(&path).map_err(file(path.clone()))?;
                self::mark(old, plan)
            }
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // OK because a struct of strings has no key that is not a string.
            let text = serde_json::to_string(&mark).expect("succeed::mark") + "\n";
            write_public(&path, text.as_bytes()).map_err(file(path))?;
            Ok(false)
        }
        Err(e) => Err(file(path)(e)),
    }
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
