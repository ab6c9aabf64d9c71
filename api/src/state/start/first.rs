//! The first item of a filter that can be begun, found by the shortest of the ways to it.

use std::sync::Arc;

use super::Wanted;
use crate::{
    code::Code,
    state::{
        Decided, State,
        board::{By, Item, names, turn},
    },
};

/// So many items are looked at for one start: as many as there can be sessions, each of which may hold one. Everybody else waits
/// meanwhile, some milliseconds at most; every auditor looks at as many, so that this is a rule of decisions.
const LOOKS_MAX: usize = 50_000;

/// A filter, its names as items have them.
struct Fits {
    id: Option<Arc<str>>,
    tag: Option<Arc<str>>,
    owner: Option<Arc<str>>,
    workstream: Option<Arc<str>>,
}

impl Fits {
    fn of(wanted: &Wanted) -> Fits {
        let name = |asked: &Option<String>| asked.as_deref().map(|name| names::nfc(name).into());
        Fits {
            id: name(&wanted.id),
            tag: name(&wanted.tag),
            owner: name(&wanted.owner),
            workstream: name(&wanted.workstream),
        }
    }

    /// Whether an item fits, and nobody holds it.
    fn free(&self, state: &State, item: &Item) -> bool {
        let is = |asked: &Option<Arc<str>>, has: &Option<Arc<str>>| asked.is_none() || asked == has;
        is(&self.owner, &item.owner)
            && is(&self.workstream, &item.workstream)
            && self.tag.as_ref().is_none_or(|tag| item.tags.contains(tag))
            && !state.leases.holds_item(&item.id)
    }

    /// The lists, each of which has all that fit, and others.
    fn lists(&self) -> impl Iterator<Item = By> {
        let tag = self.tag.clone().map(By::Tag);
        let owner = self.owner.clone().map(By::Owner);
        let workstream = self.workstream.clone().map(By::Workstream);
        tag.into_iter().chain(owner).chain(workstream)
    }
}

/// The first item, in the order in which they are offered, that fits and that nobody holds.
///
/// # Errors
/// The refusal of a search that would look at more than [`LOOKS_MAX`].
pub(super) fn first<'s>(state: &'s State, wanted: &Wanted) -> Result<Option<&'s Item>, Decided> {
    search(state, wanted, LOOKS_MAX).map_err(|TooMany| {
        let why = "so many items that can be begun are held, or do not fit: name the item, or something that fewer have";
        Decided::refuse(Code::LimitReached, why).with("limit", LOOKS_MAX)
    })
}

/// More items than may be looked at.
#[derive(Debug, PartialEq)]
pub(super) struct TooMany;

/// The same among the first `most` that are come by.
pub(super) fn search<'s>(
    state: &'s State,
    wanted: &Wanted,
    most: usize,
) -> Result<Option<&'s Item>, TooMany> {
    let (board, fits) = (&state.board, Fits::of(wanted));
    if let Some(id) = &fits.id {
        let named = board.get(id).filter(|item| board.is_ready(item));
        return Ok(named.filter(|item| fits.free(state, item)));
    }
    let mut left = most;
    let mut look = || {
        left = left.checked_sub(1).ok_or(TooMany)?;
        Ok(())
    };
    // In turn, the first that is free is the one; of another list the one whose turn is first is known at its end. All at one pace:
    // whichever is through first has found it.
    let mut in_turn = board.ready(None);
    let mut lists: Vec<_> = fits.lists().map(|by| (board.of(&by, None), None)).collect();
    loop {
        look()?;
        match in_turn.next() {
            None => return Ok(None),
            Some(item) if fits.free(state, item) => return Ok(Some(item)),
            Some(_) => {}
        }
        for (list, best) in &mut lists {
            look()?;
            let Some(item) = list.next() else {
                return Ok(*best);
            };
            let sooner = |best: &Item| turn(item) < turn(best);
            if best.is_none_or(sooner) && board.is_ready(item) && fits.free(state, item) {
                *best = Some(item);
            }
        }
    }
}
