//! What the leaves of a store say, one after the other.

use countersign_log::{
    check::{Above, Known},
    store::Snapshot,
};
use countersign_verifier::{
    hash::sha256,
    leaf::{Leaf, LeafError},
    vkey::VerifierKey,
};

use super::{
    super::{
        cores,
        own::{Due, Named, Own},
        report::{Class, Faults},
    },
    Live,
    report::Looked,
    ways::Way,
};
use crate::{ledger::keys_of, state::State};

/// The state that the leaves make, beside what claims to be that state.
pub(super) struct Leaves<'a> {
    origin: String,
    vkeys: [String; 1],
    own: Own,
    pub(super) faults: Faults,
    snapshot: Option<Snapshot>,
    live: Option<Live>,
    /// What the comparisons came to, in words.
    compared: Vec<String>,
    /// Once all of it was judged: what the leaves are found by, and no more.
    again: Option<Keys<'a>>,
    progress: &'a dyn Fn(u64, u64),
    /// Whether the account is marked as one that another goes on from.
    pub(super) has_successor: bool,
    /// Whether what the service holds is not what the leaves make.
    live_wrong: bool,
}

impl<'a> Leaves<'a> {
    pub(super) fn new(
        vkey: &VerifierKey,
        faults: Faults,
        (snapshot, live): (Option<Snapshot>, Option<Live>),
        progress: &'a dyn Fn(u64, u64),
    ) -> Leaves<'a> {
        Leaves {
            origin: vkey.name.clone(),
            vkeys: [vkey.to_string()],
            own: Own::default(),
            faults,
            snapshot,
            live,
            compared: Vec::new(),
            again: None,
            progress,
            has_successor: false,
            live_wrong: false,
        }
    }

    /// Holds what claims to be the state at this size against it.
    fn compare(&mut self) {
        let state = &self.own.state;
        let size = state.size;
        if let Some(snapshot) = self.snapshot.take_if(|snapshot| snapshot.size == size) {
            match State::from_snapshot(&snapshot.bytes) {
                Some(kept) if kept == *state => {
                    let what = format!("the snapshot of {size} leaves equals a replay");
                    self.compared.push(what);
                }
                Some(_) => {
                    let what = format!("the snapshot of {size} leaves is not what they make");
                    self.faults.add_derived(Class::State, None, what);
                }
                // Of another release: a start passes it over, and replays.
                None if is_of_another_form(&snapshot.bytes) => {
                    let what = "the snapshot is of another release's form, and is not used";
                    self.compared.push(what.into());
                }
                None => {
                    let what = format!("the snapshot of {size} leaves cannot be read");
                    self.faults.add_derived(Class::State, None, what);
                }
            }
        }
        let state = &self.own.state;
        if let Some(live) = self.live.take_if(|live| live.size == size) {
            if sha256(&state.to_snapshot()).to_hex() == live.sha256 {
                let what = format!("what the service holds, of {size} leaves, equals a replay");
                self.compared.push(what);
            } else {
                let what =
                    format!("what the service holds, of {size} leaves, is not what they make");
                self.faults.add(Class::State, None, what);
                self.live_wrong = true;
            }
        }
    }

    /// Says what came of it; `whole`: every leaf was shown. The state.
    pub(super) fn finish(&mut self, whole: bool, looked: &mut Looked) -> State {
        let ended = whole && self.own.stopped.is_none();
        if self.own.state.size == 0 {
            // One that waits for its witnesses has no leaf, and neither has the service.
            self.compare();
        }
        for (derived, name, size) in [
            (true, "the snapshot", self.snapshot.as_ref().map(|s| s.size)),
            (
                false,
                "what the service holds",
                self.live.as_ref().map(|l| l.size),
            ),
        ] {
            if let Some(size) = size.filter(|_| ended) {
                let what = format!("{name} is of {size} leaves, which the store has not");
                match derived {
                    true => self.faults.add_derived(Class::State, None, what),
                    false => {
                        self.faults.add(Class::State, None, what);
                        self.live_wrong = true;
                    }
                }
            }
        }
        if self.live_wrong {
            looked.ways.insert(Way::Live);
        }
        looked.opened = self.own.state.opened.is_some();
        looked.decisions = self.own.decisions;
        looked.taken = self.own.taken;
        looked.signatures = self.own.signatures;
        looked.stopped = self.own.stopped;
        looked.compared = std::mem::take(&mut self.compared);
        std::mem::take(&mut self.own.state)
    }
}

impl Above for Leaves<'_> {
    fn take(&mut self, first: u64, leaves: &[Vec<u8>]) -> Vec<Option<Known>> {
        if let Some(again) = &mut self.again {
            return again.take(first, leaves);
        }
        let bytes: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
        let parsed: Vec<Result<Leaf<'_>, LeafError>> =
            cores::each(&bytes, |leaf| Leaf::parse(leaf));
        let (origin, vkeys) = (self.origin.clone(), self.vkeys.clone());
        let named = Named {
            origin: &origin,
            vkeys: &vkeys,
        };
        let mut known = Vec::with_capacity(leaves.len());
        let checked = cores::beside(
            |give| {
                for (index, leaf) in (first..).zip(&parsed) {
                    // Before the leaf is taken in: keys depend on who had which key then.
                    known.push(match leaf {
                        Ok(leaf) if self.own.stopped.is_none() => found_by(&self.own.state, leaf),
                        _ => None,
                    });
                    self.own
                        .step(index, leaf, (&named, true), &mut self.faults, give);
                    self.compare();
                }
            },
            |due: Due<'_>| due.check().map(|why| (due.index, why)),
        );
        for (index, why) in checked.into_iter().flatten() {
            self.faults.add(Class::Key, Some(index), why);
        }
        known
    }

    fn has_successor(&self) -> bool {
        self.has_successor
    }

    fn again(&mut self) {
        self.again = Some(Keys::new(self.progress));
    }

    fn progress(&self, done: u64, all: u64) {
        (self.progress)(done, all);
    }
}

/// What a leaf is found by, after those that this state reflects.
fn found_by(state: &State, leaf: &Leaf<'_>) -> Option<Known> {
    let (unique, postings) = keys_of(state, leaf).ok()?;
    Some(Known {
        at: leaf.at().0,
        unique,
        postings,
    })
}

/// What leaves are found by, and the state that they make: nothing of them is judged.
pub(super) struct Keys<'a> {
    pub(super) state: State,
    /// Whether there was a leaf that the state could not take in.
    pub(super) stopped: bool,
    progress: &'a dyn Fn(u64, u64),
}

impl<'a> Keys<'a> {
    pub(super) fn new(progress: &'a dyn Fn(u64, u64)) -> Keys<'a> {
        Keys {
            state: State::default(),
            stopped: false,
            progress,
        }
    }

    fn next(&mut self, leaf: &Result<Leaf<'_>, LeafError>) -> Option<Known> {
        let leaf = leaf.as_ref().ok().filter(|_| !self.stopped);
        let known = leaf.and_then(|leaf| found_by(&self.state, leaf));
        self.stopped |= leaf.is_none_or(|leaf| self.state.apply(leaf).is_err());
        known
    }
}

impl Above for Keys<'_> {
    fn take(&mut self, _: u64, leaves: &[Vec<u8>]) -> Vec<Option<Known>> {
        let bytes: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
        let parsed = cores::each(&bytes, |leaf| Leaf::parse(leaf));
        parsed.iter().map(|leaf| self.next(leaf)).collect()
    }

    fn again(&mut self) {
        *self = Keys::new(self.progress);
    }

    fn progress(&self, done: u64, all: u64) {
        (self.progress)(done, all);
    }
}

/// Whether these are the bytes of a snapshot that another release wrote.
fn is_of_another_form(bytes: &[u8]) -> bool {
    State::snapshot_form(bytes).is_some_and(|form| form != State::SNAPSHOT_FORM)
}
