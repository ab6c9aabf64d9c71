//! Who waits for what, counted: a change of one item reads those who wait for it, and not all that each of them waits for.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use imbl::{OrdMap, OrdSet};

/// So many items may wait for one: when it is done, or is no longer, each of them is looked at while everybody else waits.
pub const DEPENDENTS_MAX: usize = 10_000;

/// The pairs of a board, and how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Waits {
    /// (what must be done before, who waits for it): the other one may not be there yet.
    pairs: OrdSet<(Arc<str>, Arc<str>)>,
    /// How many wait for an id, where any does.
    dependents: OrdMap<Arc<str>, usize>,
    /// For how many an item waits that are not done, where there is any.
    undone: OrdMap<Arc<str>, usize>,
}

impl Waits {
    /// Who waits for this id.
    pub fn dependents(&self, id: &str) -> impl Iterator<Item = &Arc<str>> {
        // The empty id sorts before every other, and is none.
        let key: Arc<str> = id.into();
        let start = (key.clone(), Arc::from(""));
        self.pairs
            .range((Bound::Excluded(start), Bound::Unbounded))
            .take_while(move |(before, _)| *before == key)
            .map(|(_, dependent)| dependent)
    }

    /// How many wait for this id, without counting them.
    pub fn count(&self, id: &str) -> usize {
        self.dependents.get(id).copied().unwrap_or(0)
    }

    /// Whether all that an item waits for is done.
    pub fn is_free(&self, id: &str) -> bool {
        !self.undone.contains_key(id)
    }

    /// Item `id` depends on `after` from now on, and no longer on `before`.
    pub fn change(
        &mut self,
        id: &Arc<str>,
        (before, after): (&[Arc<str>], &[Arc<str>]),
        is_done: impl Fn(&str) -> bool,
    ) {
        if before == after {
            return;
        }
        for other in before {
            if self.pairs.remove(&(other.clone(), id.clone())).is_some() {
                add(&mut self.dependents, other, false);
            }
        }
        for other in after {
            if self.pairs.insert((other.clone(), id.clone())).is_none() {
                add(&mut self.dependents, other, true);
            }
        }
        let after: BTreeSet<&str> = after.iter().map(|other| &**other).collect();
        match after.into_iter().filter(|other| !is_done(other)).count() {
            0 => self.undone.remove(id),
            undone => self.undone.insert(id.clone(), undone),
        };
    }

    /// An id is done now, or is no longer: those who wait for nothing more, or did so until now.
    pub fn settle(&mut self, id: &str, is_done: bool) -> Vec<Arc<str>> {
        let dependents: Vec<Arc<str>> = self.dependents(id).cloned().collect();
        let mut turned = Vec::new();
        for dependent in dependents {
            let was_free = self.is_free(&dependent);
            add(&mut self.undone, &dependent, !is_done);
            if was_free != self.is_free(&dependent) {
                turned.push(dependent);
            }
        }
        turned
    }
}

/// One more, or one less; none at all is not kept.
fn add(counts: &mut OrdMap<Arc<str>, usize>, id: &Arc<str>, more: bool) {
    let count = counts.get(id).copied().unwrap_or(0);
    match if more {
        count + 1
    } else {
        count.saturating_sub(1)
    } {
        0 => counts.remove(id),
        count => counts.insert(id.clone(), count),
    };
}
