//! Whether an item would wait for itself.

use super::{Board, Item};
use crate::{code::Code, state::Decided};

/// A search for a cycle stops after so many items.
pub const CYCLE_NODES_MAX: usize = 10_000;
/// What a search for a cycle found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cycle {
    /// The item waits for itself, by way of the last of these.
    Through(Vec<String>),
    /// More items hang together than are looked at.
    TooDeep,
}

/// Whether `item` would wait for itself.
pub(super) fn cycle(board: &Board, item: &Item) -> Option<Cycle> {
    if item.depends_on.contains(&item.id) {
        return Some(Cycle::Through(vec![item.id.to_string()]));
    }
    // Nothing leads back to an item that nobody waits for.
    board.dependents(&item.id).next()?;
    let mut from = std::collections::BTreeMap::new();
    let mut open: Vec<&str> = Vec::new();
    for id in &item.depends_on {
        if from.insert(&**id, None).is_none() {
            open.push(id);
        }
    }
    while let Some(at) = open.pop() {
        if from.len() > CYCLE_NODES_MAX {
            return Some(Cycle::TooDeep);
        }
        let Some(found) = board.get(at) else {
            continue;
        };
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
    match cycle(board, item) {
        None => Ok(()),
        Some(Cycle::TooDeep) => {
            let why = format!("more than {CYCLE_NODES_MAX} items depend on one another here");
            let refused = Decided::refuse(Code::DependencyTooDeep, why);
            Err(refused.with("limit", CYCLE_NODES_MAX))
        }
        Some(Cycle::Through(path)) => {
            let why = format!("item `{}` would wait for itself", item.id);
            // What a leaf records of it is bounded; its ends say most.
            let shown: Vec<String> = path.into_iter().take(8).collect();
            Err(Decided::refuse(Code::DependencyCycle, why).with("through", shown))
        }
    }
}
