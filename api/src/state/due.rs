//! What falls due by itself: leaves that follow from the leaves before them and from log time, and from nothing else.
//!
//! They are written in order of (time, kind, id), before whatever is judged next; so nothing is ever judged beside an expired
//! object, and an auditor knows which leaf must stand where.

use countersign_verifier::json::canonical;
use serde_json::{Map, Value};

use super::{State, lease, session};

/// Something that ends at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Log time at which it ends, in milliseconds since 1970.
    pub at: u64,
    /// The `type` of its event.
    pub kind: &'static str,
    /// Which of its kind.
    pub id: String,
}

/// Takes an event in, in the leaf at this index.
pub(super) type Taken = fn(&mut State, &Map<String, Value>, u64) -> Result<(), String>;

/// The nouns whose members end by themselves: how the next one is found, spelled and taken in.
pub(super) struct Noun {
    pub(super) kind: &'static str,
    /// The member that ends first: when, and which.
    pub(super) next: fn(&State) -> Option<(u64, String)>,
    /// The members of its event, without `type`; there is at least one.
    pub(super) event: fn(&State, &str) -> Map<String, Value>,
    /// Takes the event in, in the leaf at this index.
    pub(super) apply: Taken,
    /// Puts the end of every running one off by so many milliseconds.
    pub(super) extend: fn(&mut State, u64),
}

const NOUNS: &[Noun] = &[lease::NOUN, session::NOUN];

impl State {
    /// What ends first.
    #[must_use]
    pub fn next_due(&self) -> Option<Due> {
        let due = |noun: &Noun| {
            (noun.next)(self).map(|(at, id)| Due {
                at,
                kind: noun.kind,
                id,
            })
        };
        NOUNS.iter().filter_map(due).min()
    }

    /// The event that must be the next leaf at log time `at`, compact; `None` while nothing is due.
    #[must_use]
    pub fn due_event(&self, at: u64) -> Option<String> {
        let due = self.next_due().filter(|due| due.at <= at)?;
        let noun = NOUNS.iter().find(|noun| noun.kind == due.kind)?;
        let members = canonical(&Value::Object((noun.event)(self, &due.id)));
        // `type` first, as in every event; the members after it in the order of RFC 8785.
        Some(format!("{{\"type\":\"{}\",{}", due.kind, &members[1..]))
    }

    /// Takes in a derived event; `None` where none of this type is derived.
    pub(super) fn apply_due(
        &mut self,
        kind: &str,
        event: &Map<String, Value>,
        index: u64,
    ) -> Option<Result<(), String>> {
        let noun = NOUNS.iter().find(|noun| noun.kind == kind)?;
        Some((noun.apply)(self, event, index))
    }

    /// Puts the end of everything that runs off: log time has been made to jump.
    pub(super) fn extend(&mut self, by_ms: u64) {
        for noun in NOUNS {
            (noun.extend)(self, by_ms);
        }
        self.tokens.extend(by_ms);
    }
}

/// Whether events of this type follow from the leaves before them.
#[must_use]
pub fn is_derived(kind: &str) -> bool {
    NOUNS.iter().any(|noun| noun.kind == kind)
}
