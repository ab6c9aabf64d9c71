//! What lies in the directory before anything is written: whether the successor was made already, and whose the names are.
//!
//! An account is known as the successor by what its own files say it goes on from, never by what is missing in it.

use std::io;

use serde::Deserialize;

use super::{
    Plan, SucceedError, file,
    mark::{Mark, Unread},
};
use crate::{
    account::{Parts, origin_of},
    data_dir::{AccountDir, DataDir, is_account_name},
    files,
};

/// What is read here of an `account.json`.
#[derive(Deserialize)]
struct About {
    origin: String,
    predecessor: Option<Before>,
}

#[derive(Deserialize)]
struct Before {
    origin: String,
}

/// What lies in the place of an account.
struct Entry {
    name: String,
    files: AccountDir,
    about: io::Result<About>,
}

/// Whether the successor is there, whole; if not, it can be begun.
///
/// # Errors
/// [`SucceedError`]: the names are another's, or the old log has another successor, or that cannot be told.
pub(super) fn is_there(dir: &DataDir, old: &Parts, plan: &Plan) -> Result<bool, SucceedError> {
    let all = entries(dir)?;
    let next = all
        .iter()
        .filter(|entry| entry.goes_on_from(&old.opened.origin))
        .max_by_key(|entry| entry.name == plan.name);
    let place = all.iter().find(|entry| entry.name == plan.name);
    let mark = Mark::read(&old.files);
    let wanted = Mark::of(plan);
    if let Some(place) = place.filter(|place| !place.is_successor(old, plan)) {
        let is_marked = matches!(&mark, Ok(Some(mark)) if *mark == wanted);
        return Err(taken(place, is_marked && next.is_none()));
    }
    match marked(old, mark, (all.as_slice(), next))? {
        Some(mark) if mark == wanted => match (place, next) {
            (Some(place), _) => return whole(place).map(|()| true),
            (None, Some(next)) => return Err(another(old, next.as_mark().unwrap_or(mark))),
            (None, None) => {}
        },
        Some(mark) => {
            let is_anothers = |e: &Entry| e.name == mark.account || e.has_origin(&mark.origin);
            if next.is_some() || !all.iter().any(is_anothers) {
                return Err(another(old, mark));
            }
            // Nothing that goes on from this log is here, and what the mark names is not to be had: it takes other names.
            all_told(&all)?;
        }
        None => {}
    }
    let same = all.iter().find(|entry| entry.has_origin(&plan.origin));
    same.map_or(Ok(false), |same| {
        let (name, origin) = (&same.name, &plan.origin);
        let why = format!("account `{name}` has the origin {origin}: one origin is one log");
        Err(SucceedError::Name(why))
    })
}

/// What the mark says: nothing where there is none, nor an account that goes on from this log.
fn marked(
    old: &Parts,
    mark: Result<Option<Mark>, Unread>,
    (all, next): (&[Entry], Option<&Entry>),
) -> Result<Option<Mark>, SucceedError> {
    let wrong = |why: String, due: String| SucceedError::Mark {
        path: old.files.succeeded(),
        why,
        due,
    };
    let due = next.and_then(Entry::as_mark).map(|mark| {
        let (name, text) = (&mark.account, mark.text());
        format!("Account `{name}` goes on from this log: write {text} into it and run this again")
    });
    match (mark, due) {
        (Ok(None), Some(due)) => Err(wrong("it is missing".into(), due)),
        (Ok(mark), _) => Ok(mark),
        (Err(unread), Some(due)) => Err(wrong(unread.why, due)),
        (Err(unread), None) if unread.cut => all_told(all).map(|()| None),
        (Err(unread), None) => {
            let due = "Put it back from a backup; if no successor of this log was ever begun, remove it and run this again";
            Err(wrong(unread.why, due.into()))
        }
    }
}

fn taken(place: &Entry, is_marked: bool) -> SucceedError {
    let what = place.what();
    let due = if is_marked {
        ". This log was to go on in it, and has no successor yet: give it another name"
    } else {
        ""
    };
    SucceedError::Name(format!(
        "there is an account of this name already: {what}{due}"
    ))
}

fn another(old: &Parts, mark: Mark) -> SucceedError {
    SucceedError::Another {
        path: old.files.succeeded(),
        origin: mark.origin,
        name: mark.account,
    }
}

/// Whether the successor has what makes it an account. Without, nobody can say whether it ever signed.
fn whole(place: &Entry) -> Result<(), SucceedError> {
    if place.files.log_vkey().is_file() {
        return Ok(());
    }
    let folder = place.files.root().display();
    Err(SucceedError::Name(format!(
        "there is an account of this name already, and it has no log.vkey: put that back from a backup; if it was never served, move \
         {folder} away and run this again"
    )))
}

/// Whether each account says what it goes on from.
fn all_told(all: &[Entry]) -> Result<(), SucceedError> {
    let untold = all.iter().find_map(|entry| match &entry.about {
        Err(error) if entry.is_account(error) => Some((entry, error)),
        _ => None,
    });
    untold.map_or(Ok(()), |(entry, error)| {
        Err(SucceedError::Untold {
            path: entry.files.about(),
            why: error.to_string(),
        })
    })
}

impl Entry {
    fn goes_on_from(&self, origin: &str) -> bool {
        let about = self.about.as_ref().ok();
        let before = about.and_then(|about| about.predecessor.as_ref());
        before.is_some_and(|before| before.origin == origin)
    }

    /// Whether it is the account that this plan makes, whole or not.
    fn is_successor(&self, old: &Parts, plan: &Plan) -> bool {
        let about = self.about.as_ref();
        self.goes_on_from(&old.opened.origin)
            && about.is_ok_and(|about| about.origin == plan.origin)
    }

    fn has_origin(&self, origin: &str) -> bool {
        let about = self.about.as_ref();
        about.is_ok_and(|about| about.origin == origin)
            || origin_of(&self.files).is_some_and(|of| of == origin)
    }

    /// Whether what has this `account.json`, or none, is an account at all.
    fn is_account(&self, error: &io::Error) -> bool {
        let none = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        !none.contains(&error.kind()) || self.files.log_vkey().exists()
    }

    /// What would mark the log that it goes on from.
    fn as_mark(&self) -> Option<Mark> {
        let about = self.about.as_ref().ok()?;
        Some(Mark {
            origin: about.origin.clone(),
            account: self.name.clone(),
        })
    }

    fn what(&self) -> String {
        match &self.about {
            Ok(About {
                origin,
                predecessor,
            }) => match predecessor {
                Some(before) => format!("{origin}, which goes on from {}", before.origin),
                None => format!("{origin}, which goes on from no other log"),
            },
            Err(error) => format!("{}: {error}", self.files.about().display()),
        }
    }
}

/// Everything that lies where accounts do, under a name that an account can have.
fn entries(dir: &DataDir) -> Result<Vec<Entry>, SucceedError> {
    let accounts = dir.root().join("accounts");
    let mut names = Vec::new();
    for entry in accounts.read_dir().map_err(file(accounts.clone()))? {
        let entry = entry.map_err(file(accounts.clone()))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| is_account_name(name));
    names.sort();
    let look = |name: String| {
        let files = dir.account(&name);
        let about = about(&files);
        Entry { name, files, about }
    };
    Ok(names.into_iter().map(look).collect())
}

fn about(of: &AccountDir) -> io::Result<About> {
    let text = files::read_small(&of.about())?;
    serde_json::from_str(&text).map_err(io::Error::from)
}
