//! The board: items of work, what waits for what, and what is ready to be begun.
//!
//! Every list that a client may ask for has its index, kept by the one way in which an item gets in; so a page of 100,000 items
//! costs what a page of a hundred does.

use std::{ops::Bound, sync::Arc};

use imbl::{OrdMap, OrdSet};
use serde::{Deserialize, Serialize};

mod asked;
mod cycle;
mod fence;
pub mod file;
mod import;
pub mod item;
mod merge;
pub mod names;
mod patch;
mod verbs;
mod waits;

pub use asked::{Comment, Outcome, Patch, Resolve, Upsert};
pub use cycle::Work;
pub use fence::{held_by_other, holder};
pub use file::{File, FileError};
pub use import::{IMPORT, Import, Mode};
pub use item::{Item, Members, Provenance, Status};
pub use merge::{Merged, Rests, drop, merge};
pub use patch::Moment;
pub use verbs::{COMMENT, RESOLVE, UPSERT, may_review};

/// What decides which ready item is offered first: priority, then age, then id.
pub type Turn = (u8, u64, Arc<str>);

/// By what a list can be narrowed without reading items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// Where they stand.
    Status(Status),
    /// A name that they are found by.
    Tag(Arc<str>),
    /// Whose they are.
    Owner(Arc<str>),
    /// The strand of work.
    Workstream(Arc<str>),
}

/// The items of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    items: OrdMap<Arc<str>, Arc<Item>>,
    /// What readers would take for one another → the one id of that look that is there.
    twins: OrdMap<Arc<str>, Arc<str>>,
    by_status: OrdSet<(Status, Arc<str>)>,
    by_tag: OrdSet<(Arc<str>, Arc<str>)>,
    by_owner: OrdSet<(Arc<str>, Arc<str>)>,
    by_workstream: OrdSet<(Arc<str>, Arc<str>)>,
    waits: waits::Waits,
    /// Pending, and all that it depends on is done. Whether somebody holds it is asked when it is offered.
    ready: OrdSet<Turn>,
}

impl Board {
    /// How many items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item of exactly this id, in NFC.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Item> {
        self.items.get(id).map(|item| &**item)
    }

    /// Every item, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.items.values().map(|item| &**item)
    }

    /// The items after `after`, in order of id.
    pub fn after(&self, after: Option<&str>) -> impl Iterator<Item = &Item> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.items
            .range::<(Bound<&str>, Bound<&str>), str>((start, Bound::Unbounded))
            .map(|(_, item)| &**item)
    }

    /// The items whose ids begin with `prefix`, in order of id.
    pub fn beginning<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = &'s Item> {
        self.items
            .range::<(Bound<&str>, Bound<&str>), str>((Bound::Included(prefix), Bound::Unbounded))
            .map(|(_, item)| &**item)
            .take_while(move |item| item.id.starts_with(prefix))
    }

    /// The item that a reader would take this id for.
    #[must_use]
    pub fn twin(&self, id: &str) -> Option<&Item> {
        self.get(self.twins.get(names::twin(id).as_str())?)
    }

    /// The items of an index after `after`, in order of id.
    pub fn of<'s>(
        &'s self,
        by: &By,
        after: Option<&str>,
    ) -> Box<dyn Iterator<Item = &'s Item> + 's> {
        match by {
            By::Status(status) => Box::new(self.found(range(&self.by_status, *status, after))),
            By::Tag(tag) => Box::new(self.found(range(&self.by_tag, tag.clone(), after))),
            By::Owner(owner) => Box::new(self.found(range(&self.by_owner, owner.clone(), after))),
            By::Workstream(name) => {
                Box::new(self.found(range(&self.by_workstream, name.clone(), after)))
            }
        }
    }

    fn found<'s, K: 's>(
        &'s self,
        keys: impl Iterator<Item = &'s (K, Arc<str>)> + 's,
    ) -> impl Iterator<Item = &'s Item> + 's {
        keys.filter_map(|(_, id)| self.get(id))
    }

    /// The items that are pending and wait for nothing, after this turn, in the order in which they are offered. Some may be held.
    pub fn ready(&self, after: Option<Turn>) -> impl Iterator<Item = &Item> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ready
            .range((start, Bound::Unbounded))
            .filter_map(|(_, _, id)| self.get(id))
    }

    /// Whether an item is pending and waits for nothing.
    #[must_use]
    pub fn is_ready(&self, item: &Item) -> bool {
        self.ready.contains(&turn(item))
    }

    /// The ids that an item waits for: not done, or not there.
    pub fn waits_for<'s>(&'s self, item: &'s Item) -> impl Iterator<Item = &'s Arc<str>> {
        item.depends_on.iter().filter(|id| !self.is_done(id))
    }

    /// Who waits for this id.
    fn dependents(&self, id: &str) -> impl Iterator<Item = &Arc<str>> {
        self.waits.dependents(id)
    }

    /// How many wait for this id.
    fn dependents_count(&self, id: &str) -> usize {
        self.waits.count(id)
    }

    fn is_done(&self, id: &str) -> bool {
        self.get(id).is_some_and(|item| item.status == Status::Done)
    }

    /// Puts an item in, or in the place of what it was before: the only way in.
    pub fn insert(&mut self, item: Item) {
        let item = Arc::new(item);
        let before = self.items.insert(item.id.clone(), item.clone());
        let was_done = before
            .as_ref()
            .is_some_and(|item| item.status == Status::Done);
        if before.is_none() {
            let twin: Arc<str> = names::twin(&item.id).into();
            self.twins.insert(twin, item.id.clone());
        }
        self.list(before.as_deref(), &item);
        if was_done != (item.status == Status::Done) {
            for id in self.waits.settle(&item.id, !was_done) {
                self.judge_ready(&id);
            }
        }
    }

    /// Lists an item where it belongs, and no longer where it did before. Most changes leave most of that as it was, and a list that is
    /// not touched is not copied.
    fn list(&mut self, before: Option<&Item>, item: &Item) {
        fn moved<K: Ord + Clone>(
            set: &mut OrdSet<(K, Arc<str>)>,
            id: &Arc<str>,
            (before, after): (&[K], &[K]),
        ) {
            if before == after {
                return;
            }
            for key in before {
                set.remove(&(key.clone(), id.clone()));
            }
            for key in after {
                set.insert((key.clone(), id.clone()));
            }
        }
        let id = &item.id;
        let keys = |of: fn(&Item) -> &[Arc<str>]| (before.map_or(&[][..], of), of(item));
        let status = before.map(|before| before.status);
        moved(&mut self.by_status, id, (status.as_slice(), &[item.status]));
        moved(&mut self.by_tag, id, keys(|item| &item.tags));
        moved(&mut self.by_owner, id, keys(|item| item.owner.as_slice()));
        moved(
            &mut self.by_workstream,
            id,
            keys(|item| item.workstream.as_slice()),
        );
        let items = &self.items;
        let is_done = |id: &str| {
            items
                .get(id)
                .is_some_and(|item| item.status == Status::Done)
        };
        let depends = keys(|item| &item.depends_on);
        self.waits.change(id, depends, is_done);
        if let Some(before) = before.map(turn).filter(|before| *before != turn(item)) {
            self.ready.remove(&before);
        }
        self.judge_ready(id);
    }

    fn judge_ready(&mut self, id: &str) {
        let Some(item) = self.items.get(id).cloned() else {
            return;
        };
        let pending = item.status == Status::Pending;
        let ready = pending && self.waits.is_free(id);
        let turn = turn(&item);
        if ready != self.ready.contains(&turn) {
            if ready {
                self.ready.insert(turn);
            } else {
                self.ready.remove(&turn);
            }
        }
    }
}

/// The turn of an item that is ready.
#[must_use]
pub fn turn(item: &Item) -> Turn {
    (item.priority, item.created, item.id.clone())
}

/// The pairs that begin with `key`, after the one of `after`.
fn range<'s, K: Ord + Clone>(
    set: &'s OrdSet<(K, Arc<str>)>,
    key: K,
    after: Option<&str>,
) -> impl Iterator<Item = &'s (K, Arc<str>)> + use<'s, K> {
    // The empty id sorts before every other, and is none.
    let start = (key.clone(), Arc::from(after.unwrap_or_default()));
    set.range((Bound::Excluded(start), Bound::Unbounded))
        .take_while(move |(found, _)| *found == key)
}

/// An item as snapshots keep it: its line, and the leaf that last changed it.
#[derive(Serialize, Deserialize)]
pub(super) struct Row(String, String, Option<String>, u64);

impl Board {
    pub(super) fn to_rows(&self) -> Vec<Row> {
        let row = |item: &Item| {
            let Provenance { by, session, index } = &item.provenance;
            Row(
                item.line.as_ref().to_owned(),
                by.to_string(),
                session.clone(),
                *index,
            )
        };
        self.iter().map(row).collect()
    }

    pub(super) fn from_rows(rows: Vec<Row>) -> Option<Board> {
        let mut board = Board::default();
        for Row(line, by, session, index) in rows {
            let by = by.parse().ok()?;
            let provenance = Provenance { by, session, index };
            board.insert(Item::again(line, provenance).ok()?);
        }
        Some(board)
    }
}

#[cfg(test)]
mod tests;
