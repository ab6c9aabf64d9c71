//! What becomes of one item of an import, by rules that make a second import of the same file do nothing.

use std::cmp::Ordering;

use countersign_verifier::leaf::Millis;
use serde_json::{Map, Value};

use super::{
    Board, Item, Status,
    cycle::{Cycle, Work, cycle},
    import::Mode,
    item::{ItemError, normalise},
    patch::{Moment, comment_id, finish},
};

/// What becomes of one item of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It is new.
    Created,
    /// The file's is newer, or wins.
    Updated,
    /// Only its comments were news.
    Joined,
    /// It is not in the file, which replaces the board.
    Dropped,
    /// It is there as it is.
    Unchanged,
    /// The board's is newer.
    Older,
    /// Both have this version, and differ.
    Conflict,
    /// Somebody else holds it.
    Held,
    /// Its id looks like another one's.
    Twin,
    /// It would wait for itself.
    Cycle,
    /// It would be accepted by somebody who may not.
    Review,
    /// It does not fit with what is there: too large, or too many.
    Full,
    /// Saying whether it would wait for itself, or telling those who wait for it, is more than one operation may do.
    Deep,
}

impl Merged {
    const ALL: [(Merged, char, &'static str); 13] = [
        (Merged::Created, 'c', "new"),
        (Merged::Updated, 'u', "the file's version is newer"),
        (Merged::Joined, 'j', "comments were joined"),
        (Merged::Dropped, 'd', "the file does not have it"),
        (Merged::Unchanged, 's', "it is there already"),
        (Merged::Older, 'o', "the board's version is newer"),
        (
            Merged::Conflict,
            'x',
            "both have this version, with other content",
        ),
        (Merged::Held, 'l', "somebody else holds a lease of it"),
        (Merged::Twin, 't', "its id looks like that of another item"),
        (Merged::Cycle, 'y', "it would wait for itself"),
        (
            Merged::Review,
            'r',
            "it needs a review by the role reviewer or owner",
        ),
        (
            Merged::Full,
            'f',
            "it and what is there are too large together",
        ),
        (
            Merged::Deep,
            'e',
            "too much depends on it, or it on too much, for one part: import the file again to go on",
        ),
    ];

    fn row(self) -> &'static (Merged, char, &'static str) {
        let row = Merged::ALL.iter().find(|(merged, ..)| *merged == self);
        // OK because every outcome has its row, as a test shows.
        row.expect("Merged::row")
    }

    /// As effects write it.
    #[must_use]
    pub fn letter(self) -> char {
        self.row().1
    }

    /// For people.
    #[must_use]
    pub fn why(self) -> &'static str {
        self.row().2
    }

    /// The outcome of this letter.
    #[must_use]
    pub fn from_letter(letter: char) -> Option<Merged> {
        let row = Merged::ALL.iter().find(|(_, l, _)| *l == letter);
        row.map(|(merged, ..)| *merged)
    }

    /// Whether anything is changed.
    #[must_use]
    pub fn changes(self) -> bool {
        matches!(
            self,
            Merged::Created | Merged::Updated | Merged::Joined | Merged::Dropped
        )
    }
}

/// What an import rests on beside the board.
pub struct Rests<'a> {
    /// Whether somebody else holds this item.
    pub held: &'a dyn Fn(&str) -> bool,
    /// Whether the caller may accept work.
    pub reviews: bool,
    /// How many items there may be.
    pub items_max: u64,
    /// How much may still be looked at; `None` where all this was judged before.
    pub work: Option<&'a Work>,
}

impl<'a> Rests<'a> {
    /// The same, with so much that may be looked at.
    #[must_use]
    pub fn within(&self, work: &'a Work) -> Rests<'a> {
        Rests {
            work: Some(work),
            ..*self
        }
    }

    /// Whether those who wait for an item can be told that it is done, or no longer.
    fn may_settle(&self, board: &Board, id: &str, was: Option<Status>, is: Status) -> bool {
        let turns = (was == Some(Status::Done)) != (is == Status::Done);
        !turns
            || self
                .work
                .is_none_or(|work| work.take(board.dependents_count(id)))
    }
}

/// What becomes of an item of a file; takes it in where something does.
///
/// # Errors
/// [`ItemError`] where it is no item at all.
pub fn merge(
    board: &mut Board,
    members: &Map<String, Value>,
    mode: Mode,
    moment: &Moment<'_>,
    rests: &Rests<'_>,
) -> Result<Merged, ItemError> {
    let theirs = complete(board, members, moment)?;
    let (merged, next) = match board.get(&theirs.id) {
        None if board.twin(&theirs.id).is_some() => return Ok(Merged::Twin),
        None if board.len() as u64 >= rests.items_max => return Ok(Merged::Full),
        None => (Merged::Created, theirs),
        Some(ours) => {
            let (merged, next) = match compare(ours, &theirs, mode, moment) {
                Ok(compared) => compared,
                Err(_) => return Ok(Merged::Full),
            };
            let Some(next) = next else {
                return Ok(merged);
            };
            // What was accepted stays as it was accepted; comments alone change nothing of it.
            let accepted = ours.status == Status::Done && merged != Merged::Joined;
            let accepts = next.status == Status::Done && ours.status != Status::Done;
            let loosens = accepted || accepts || !next.review_required;
            if ours.review_required && loosens && !rests.reviews {
                return Ok(Merged::Review);
            }
            (merged, next)
        }
    };
    if (rests.held)(&next.id) {
        return Ok(Merged::Held);
    }
    match rests.work.and_then(|work| cycle(board, &next, work)) {
        None => {}
        Some(Cycle::Through(_)) => return Ok(Merged::Cycle),
        Some(Cycle::TooDeep | Cycle::TooMuch | Cycle::Crowded(_)) => return Ok(Merged::Deep),
    }
    let was = board.get(&next.id).map(|ours| ours.status);
    if !rests.may_settle(board, &next.id, was, next.status) {
        return Ok(Merged::Deep);
    }
    board.insert(next);
    Ok(merged)
}

/// The item of these members, names in NFC; what a file need not say is what the board has, or what a new item has.
fn complete(
    board: &Board,
    members: &Map<String, Value>,
    moment: &Moment<'_>,
) -> Result<Item, ItemError> {
    let mut members = members.clone();
    normalise(&mut members);
    let id = members
        .get("id")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let ours = board.get(id).map(Item::members).unwrap_or_default();
    let now = Value::from(Millis(moment.at).to_string());
    for (name, new) in [
        ("version", Value::from(1)),
        ("created_at", now.clone()),
        ("updated_at", now),
    ] {
        if !members.contains_key(name) {
            members.insert(name.into(), ours.get(name).cloned().unwrap_or(new));
        }
    }
    within_reach(Item::new(members, moment.provenance())?)
}

/// The highest version that is taken from a file. Versions go on from there by one a change, up to 2^53 - 1: whoever brings in an item
/// leaves room for all the changes that will ever be made to it.
const VERSION_TAKEN_MAX: u64 = 1 << 52;

/// An item of a file, if its version can go on.
pub(super) fn within_reach(item: Item) -> Result<Item, ItemError> {
    if item.version <= VERSION_TAKEN_MAX {
        return Ok(item);
    }
    let why = format!("version: at most {VERSION_TAKEN_MAX} in a file");
    Err(ItemError::Member(why))
}

/// What two items of one id become: which outcome, and the item where it changes.
fn compare(
    ours: &Item,
    theirs: &Item,
    mode: Mode,
    moment: &Moment<'_>,
) -> Result<(Merged, Option<Item>), ItemError> {
    if ours.line == theirs.line {
        return Ok((Merged::Unchanged, None));
    }
    let (mine, other) = (ours.members(), theirs.members());
    let comments = Comments::of(&mine, &other, moment.index);
    let wins = mode == Mode::Replace || theirs.version > ours.version;
    let same = content(&mine) == content(&other);
    if !wins || (mode == Mode::Replace && same) {
        return Ok(match (comments.fresh, theirs.version.cmp(&ours.version)) {
            (true, _) => (
                Merged::Joined,
                Some(comments.join(mine, ours.version, moment)?),
            ),
            (false, _) if mode == Mode::Replace || same => (Merged::Unchanged, None),
            (false, Ordering::Less) => (Merged::Older, None),
            (false, _) => (Merged::Conflict, None),
        });
    }
    // The file's own, as it is: both sides then have the same.
    if theirs.version > ours.version && !comments.kept {
        return Ok((Merged::Updated, Some(theirs.clone())));
    }
    let version = ours.version.max(theirs.version);
    Ok((
        Merged::Updated,
        Some(comments.join(other, version, moment)?),
    ))
}

/// What an item says, apart from how often it was changed and what was remarked on it.
fn content(members: &Map<String, Value>) -> Map<String, Value> {
    let mut content = members.clone();
    for name in ["comments", "updated_at", "version"] {
        content.remove(name);
    }
    content
}

/// The comments of two items of one id.
struct Comments {
    all: Vec<Value>,
    /// The other has some that ours has not.
    fresh: bool,
    /// Ours has some that the other has not.
    kept: bool,
}

impl Comments {
    /// A comment is the same where author, time and text are: the numbers of two boards say nothing about each other.
    fn of(ours: &Map<String, Value>, theirs: &Map<String, Value>, index: u64) -> Comments {
        let (ours, theirs) = (list(ours), list(theirs));
        let same = |a: &Value, b: &Value| {
            ["author", "at", "text"]
                .iter()
                .all(|name| a[*name] == b[*name])
        };
        let mut all = ours.to_vec();
        for comment in theirs {
            if ours.iter().any(|own| same(own, comment)) {
                continue;
            }
            let mut comment = comment.clone();
            let taken = |id: &str| all.iter().any(|other| other["id"] == id);
            if comment["id"].as_str().is_some_and(taken) {
                comment["id"] = comment_id(index, taken).into();
            }
            all.push(comment);
        }
        let fresh = all.len() > ours.len();
        let kept = !ours
            .iter()
            .all(|own| theirs.iter().any(|comment| same(own, comment)));
        let time = |comment: &Value| comment["at"].as_str().unwrap_or_default().to_owned();
        all.sort_by_key(time);
        Comments { all, fresh, kept }
    }

    /// The item of these members with the comments of both, one version after `version`.
    fn join(
        self,
        mut members: Map<String, Value>,
        version: u64,
        moment: &Moment<'_>,
    ) -> Result<Item, ItemError> {
        members.insert("comments".into(), self.all.into());
        members.insert("version".into(), version.into());
        // As if it had been done before: when that was is what the members say.
        finish(members, Some(Status::Done), moment)
    }
}

fn list(members: &Map<String, Value>) -> &[Value] {
    let comments = members.get("comments").and_then(Value::as_array);
    comments.map_or(&[], Vec::as_slice)
}

/// Drops an item that a file does not have.
pub fn drop(board: &mut Board, id: &str, moment: &Moment<'_>, rests: &Rests<'_>) -> Merged {
    let Some(ours) = board.get(id).filter(|item| item.status != Status::Dropped) else {
        return Merged::Unchanged;
    };
    // As by its own tool: what needs a review is given up by whoever may review.
    if ours.review_required && !rests.reviews {
        return Merged::Review;
    }
    if (rests.held)(id) {
        return Merged::Held;
    }
    if !rests.may_settle(board, id, Some(ours.status), Status::Dropped) {
        return Merged::Deep;
    }
    let mut members = ours.members();
    members.insert("status".into(), Status::Dropped.name().into());
    match finish(members, Some(ours.status), moment) {
        Ok(item) => {
            board.insert(item);
            Merged::Dropped
        }
        Err(_) => Merged::Full,
    }
}
