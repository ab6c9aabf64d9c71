//! Faults as they are found: the first of each class in full, all of them counted, so that a store of which nothing is right takes no
//! more memory than one with a scratch.

use super::{Class, Fault};

/// Faults of one class that are named.
pub(super) const NAMED_MAX: usize = 100;

/// See above.
#[derive(Debug, Default)]
pub(super) struct Faults {
    named: Vec<Fault>,
    /// How many of each class are named.
    counts: [usize; Class::ALL.len()],
    unnamed: [u64; Class::ALL.len()],
}

impl Faults {
    pub(super) fn add(&mut self, class: Class, index: Option<u64>, what: impl Into<String>) {
        if self.counts[class as usize] < NAMED_MAX {
            self.counts[class as usize] += 1;
            let what = what.into();
            self.named.push(Fault { class, index, what });
        } else {
            self.more(class, 1);
        }
    }

    /// So many more than are named.
    pub(super) fn more(&mut self, class: Class, count: u64) {
        self.unnamed[class as usize] += count;
    }

    pub(super) fn append(&mut self, other: Faults) {
        for fault in other.named {
            self.add(fault.class, fault.index, fault.what);
        }
        for class in Class::ALL {
            self.more(class, other.unnamed[class as usize]);
        }
    }

    /// What is named, and by class how many more there are.
    pub(super) fn into_parts(self) -> (Vec<Fault>, [u64; Class::ALL.len()]) {
        (self.named, self.unnamed)
    }
}

/// A bit a leaf.
#[derive(Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn set(&mut self, index: u64) {
        let (word, bit) = Bits::place(index);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    pub(super) fn has(&self, index: u64) -> bool {
        let (word, bit) = Bits::place(index);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|word| *word != 0)
    }

    /// The leaves whose bit is set, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        let words = (0_u64..).zip(&self.0).filter(|(_, bits)| **bits != 0);
        words.flat_map(|(at, bits)| {
            let set = move |bit: &u64| *bits & (1_u64 << *bit) != 0;
            (0..64).filter(set).map(move |bit| at * 64 + bit)
        })
    }

    /// OK because what has a bit was read from this machine's disk, a leaf after the other.
    fn place(index: u64) -> (usize, u64) {
        let word = usize::try_from(index / 64).expect("Bits::place");
        (word, 1 << (index % 64))
    }
}
