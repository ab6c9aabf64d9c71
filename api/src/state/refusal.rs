//! Refusals: a denied request proves that a gate worked, so it is a leaf; the same one again within a minute is not.

use countersign_verifier::{hash::Hash, hash::sha256, key::IdentityId, operation::Operation};
use imbl::OrdMap;
use serde::Deserialize;
use serde_json::Map;

use super::{
    At, Caller, Decided, State,
    verb::{Verb, arguments, malformed},
};
use crate::code::Code;

/// How long a repeat of a refusal is answered with the first one's leaf, in milliseconds.
pub const FOLD_MS: u64 = 60_000;

/// What makes two refusals the same: who, which tool, which code, about what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Hash);

impl Kind {
    /// The kind of a refusal.
    #[must_use]
    pub fn new(identity: IdentityId, tool: &str, code: &str, resource: &str) -> Kind {
        // Lengths before the parts, so that no two lists of parts run together alike.
        let text = format!(
            "{identity} {} {tool} {} {code} {} {resource}",
            tool.len(),
            code.len(),
            resource.len()
        );
        Kind(sha256(text.as_bytes()))
    }

    pub(super) fn hash(&self) -> Hash {
        self.0
    }

    pub(super) fn from_hash(hash: Hash) -> Kind {
        Kind(hash)
    }
}

/// The refusals of the last minute: index and log time of the first of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    first: OrdMap<Kind, (u64, u64)>,
    /// In order of time, so that old ones are found without a search.
    by_time: OrdMap<(u64, u64), Kind>,
}

impl Refusals {
    /// The leaf that a repeat at `at` is answered with, and when its minute ends.
    #[must_use]
    pub fn folds_into(&self, kind: &Kind, at: u64) -> Option<(u64, u64)> {
        let (index, first_at) = self.first.get(kind)?;
        (at.saturating_sub(*first_at) < FOLD_MS).then_some((*index, first_at + FOLD_MS))
    }

    /// Takes in a refusal's leaf, and forgets those that no repeat can meet any more.
    pub fn note(&mut self, kind: Kind, index: u64, at: u64) {
        while let Some(((old_at, old_index), old)) = self.by_time.get_min().map(|(k, v)| (*k, *v))
            && at.saturating_sub(old_at) >= FOLD_MS
        {
            self.by_time.remove(&(old_at, old_index));
            if self.first.get(&old).is_some_and(|(i, _)| *i == old_index) {
                self.first.remove(&old);
            }
        }
        self.first.insert(kind, (index, at));
        self.by_time.insert((at, index), kind);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Kind, u64, u64)> {
        self.first
            .iter()
            .map(|(kind, (index, at))| (*kind, *index, *at))
    }
}

/// Arguments of `refusals_folded`, by which the service says how often a refusal was repeated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folded {
    /// The leaf of the first.
    pub index: u64,
    /// How many more there were within the minute.
    pub count: u64,
}

/// `refusals_folded`: the service's own observation, no tool for others.
pub const FOLDED: Verb = Verb {
    tool: "refusals_folded",
    decide,
    apply: |_, _, _, _, _| Ok(()),
    resource: |_| String::new(),
};

fn decide(state: &State, caller: &Caller<'_>, operation: &Operation, at: At) -> Decided {
    let asked: Folded = match arguments(&operation.arguments) {
        Ok(asked) => asked,
        Err(why) => return malformed(why),
    };
    if state.opened.as_ref().map(|o| o.service.identity()) != Some(caller.identity.id) {
        return Decided::refuse(Code::NotAllowed, "only the service counts what it folded");
    }
    if asked.index >= at.index || asked.count == 0 {
        return malformed("a count of at least one, of a leaf before this".into());
    }
    Decided::Applied(Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: &str) -> Kind {
        Kind::new(IdentityId(Hash([1; 32])), "identity_enroll", code, "a")
    }

    #[test]
    fn a_repeat_folds_for_a_minute_and_not_longer() {
        let mut refusals = Refusals::default();
        refusals.note(kind("A"), 5, 1_000);
        for (at, code, expected) in [
            (1_000, "A", Some((5, 61_000))),
            (60_999, "A", Some((5, 61_000))),
            (61_000, "A", None),
            (1_000, "B", None),
        ] {
            assert_eq!(
                refusals.folds_into(&kind(code), at),
                expected,
                "{code} at {at}"
            );
        }
    }

    #[test]
    fn old_ones_are_forgotten_and_a_newer_first_of_a_kind_is_not() {
        let mut refusals = Refusals::default();
        refusals.note(kind("A"), 1, 0);
        refusals.note(kind("A"), 2, 60_000);
        refusals.note(kind("B"), 3, 60_001);
        assert_eq!(refusals.iter().count(), 2);
        assert_eq!(refusals.folds_into(&kind("A"), 60_001), Some((2, 120_000)));
        assert_eq!(refusals.by_time.len(), 2);
    }

    #[test]
    fn parts_that_run_together_alike_are_different_kinds() {
        let id = IdentityId(Hash([1; 32]));
        assert_ne!(
            Kind::new(id, "a", "b c", "d"),
            Kind::new(id, "a b", "c", "d")
        );
    }
}
