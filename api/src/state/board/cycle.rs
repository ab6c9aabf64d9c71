//! Whether an item would wait for itself, and how much may be looked at to say so.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use super::{Board, Item, waits::DEPENDENTS_MAX};
use crate::{code::Code, state::Decided};

/// A search for a cycle stops after so many items.
pub const CYCLE_NODES_MAX: usize = 10_000;
/// One operation looks at so many dependencies, whichever its items are: everybody waits meanwhile, some milliseconds at most; every
/// auditor looks at as many, so that this is a rule of decisions.
pub const WORK_MAX: usize = 100_000;

/// How much one operation may still look at.
pub struct Work(Cell<usize>);

impl Default for Work {
    fn default() -> Work {
        Work(Cell::new(WORK_MAX))
    }
}

impl Work {
    /// So much.
    #[cfg(test)]
    pub(super) fn of(much: usize) -> Work {
        Work(Cell::new(much))
    }

    /// Takes so much, if there is so much.
    #[must_use]
    pub(super) fn take(&self, much: usize) -> bool {
        let left = self.0.get().checked_sub(much);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// What a search for a cycle found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cycle {
    /// The item waits for itself, by way of the last of these.
    Through(Vec<String>),
    /// More items hang together than are looked at.
    TooDeep,
    /// More dependencies would be looked at than one operation may.
    TooMuch,
    /// As many as may already wait for this one.
    Crowded(String),
}

/// Whether `item` may depend on what it depends on. Only what it did not depend on before is looked at: there was no cycle.
pub(super) fn cycle(board: &Board, item: &Item, work: &Work) -> Option<Cycle> {
    if item.depends_on.contains(&item.id) {
        return Some(Cycle::Through(vec![item.id.to_string()]));
    }
    let before = board.get(&item.id).map_or(&[][..], |item| &item.depends_on);
    let before: BTreeSet<&str> = before.iter().map(|id| &**id).collect();
    let fresh = || {
        let all = item.depends_on.iter().map(|id| &**id);
        all.filter(|id| !before.contains(id))
    };
    if let Some(id) = fresh().find(|id| board.dependents_count(id) >= DEPENDENTS_MAX) {
        return Some(Cycle::Crowded(id.into()));
    }
    // Nothing leads back to an item that nobody waits for.
    board.dependents(&item.id).next()?;
    let mut from: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let mut open: Vec<&str> = fresh()
        .filter(|id| from.insert(id, None).is_none())
        .collect();
    while let Some(at) = open.pop() {
        if from.len() > CYCLE_NODES_MAX {
            return Some(Cycle::TooDeep);
        }
        let Some(found) = board.get(at) else {
            continue;
        };
        if !work.take(1 + found.depends_on.len()) {
            return Some(Cycle::TooMuch);
        }
        for next in &found.depends_on {
            if *next == item.id {
                let back = std::iter::successors(Some(at), |at| from.get(at).copied().flatten());
                let mut path: Vec<String> = back.map(str::to_owned).collect();
                path.reverse();
                return Some(Cycle::Through(path));
            }
            if !from.contains_key(&**next) {
                from.insert(&**next, Some(at));
                open.push(next);
            }
        }
    }
    None
}

/// # Errors
/// `DependencyCycle`, `DependencyTooDeep`.
pub(super) fn acyclic(board: &Board, item: &Item) -> Result<(), Decided> {
    let deep = |why: String, limit: usize| {
        Decided::refuse(Code::DependencyTooDeep, why).with("limit", limit)
    };
    Err(match cycle(board, item, &Work::default()) {
        None => return Ok(()),
        Some(Cycle::TooDeep) => {
            let why = format!("more than {CYCLE_NODES_MAX} items depend on one another here");
            deep(why, CYCLE_NODES_MAX)
        }
        Some(Cycle::TooMuch) => {
            let why = format!("more than {WORK_MAX} dependencies hang together here");
            deep(why, WORK_MAX)
        }
        Some(Cycle::Crowded(id)) => {
            let why = format!("{DEPENDENTS_MAX} items wait for this one, and no more can");
            deep(why, DEPENDENTS_MAX).with("through", vec![id])
        }
        Some(Cycle::Through(path)) => {
            let why = format!("item `{}` would wait for itself", item.id);
            // What a leaf records of it is bounded; its ends say most.
            let shown: Vec<String> = path.into_iter().take(8).collect();
            Decided::refuse(Code::DependencyCycle, why).with("through", shown)
        }
    })
}
