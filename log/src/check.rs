//! A store at rest, recomputed from its leaves: are tiles, head and lookup keys what follows from them?
//!
//! Nothing is believed but the leaves, where these lead to the stored root. What a leaf means is for [`Above`] to say, to which each is
//! shown in order. [`run`] changes nothing; [`repair`] makes again what follows from the leaves. Memory: some MiB, and a few bits a leaf
//! where something is wrong with it.

mod faults;
mod heads;
mod index;
mod pass;
pub mod repair;
mod walk;

use countersign_verifier::vkey::VerifierKey;

use crate::{
    judge::Key,
    store::{Head, Store, StoreError, rocks::RocksStore},
};
use faults::Faults;
use walk::Walk;

/// What kind of object is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The head, a stored checkpoint, or the mark beside the database.
    Head,
    /// A tile.
    Tile,
    /// A leaf.
    Entry,
    /// A lookup key.
    Index,
}

impl Class {
    /// All of them, in the order of the numbers that they are.
    pub const ALL: [Class; 4] = [Class::Head, Class::Tile, Class::Entry, Class::Index];
}

/// An object that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which kind.
    pub class: Class,
    /// At which leaf, where it is at one.
    pub index: Option<u64>,
    /// What, in plain words.
    pub what: String,
}

impl Fault {
    fn new(class: Class, index: Option<u64>, what: impl Into<String>) -> Fault {
        let what = what.into();
        Fault { class, index, what }
    }
}

/// What a leaf is found by, and its log time.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Log time in milliseconds since 1970.
    pub at: u64,
    /// Keys that name this leaf alone, but for its hash.
    pub unique: Vec<Key>,
    /// Keys that may name other leaves too.
    pub postings: Vec<Key>,
}

/// What knows the meaning of leaves.
pub trait Above {
    /// Takes the next leaves in, from index `first` on: of each what it is found by, or `None` where that cannot be told (and of none
    /// behind it).
    fn take(&mut self, first: u64, leaves: &[Vec<u8>]) -> Vec<Option<Known>>;

    /// Begins at leaf 0 again. From now on leaves are shown only to know what they are found by: nothing else needs to be judged.
    fn again(&mut self);

    /// Told of leaves done, and of all.
    fn progress(&self, done: u64, all: u64);

    /// Whether another log goes on in the place of this one: what is missing at its end is named there, and is no fault here.
    fn has_successor(&self) -> bool {
        false
    }
}

/// What a store was found to hold.
#[derive(Clone, Debug)]
pub struct Found {
    /// The head that it names.
    pub head: Head,
    /// What its leaves lead to, where all could be read.
    pub tree: Option<Head>,
    /// The newest checkpoint kept as published, if it could be read.
    pub published: Option<String>,
    /// What is wrong, in no special order: the first hundred of each class.
    pub faults: Vec<Fault>,
    /// How many more there are, by class, in the order of [`Class::ALL`].
    pub unnamed: [u64; Class::ALL.len()],
    /// Whether the mark, or a checkpoint that the log has signed, speaks of another tree than that of the store.
    pub contradicted: bool,
    /// The size of the largest checkpoint, or of the mark, where that is beyond the head.
    pub beyond: Option<u64>,
    /// Whether the mark says nothing at all, though the store has published.
    pub mark_is_blank: bool,
    /// How many tiles and lookup keys were compared.
    pub tiles: u64,
    /// See above.
    pub keys: u64,
    /// Why lookup keys were not compared, where they were not.
    pub keys_untold: Option<&'static str>,
}

impl Found {
    /// Whether all leaves could be read and lead to the head. Where they do not, not every tile and checkpoint was held against them:
    /// what follows from a changed leaf is no fault of its own. That none is named then says nothing.
    #[must_use]
    pub fn leads_to_head(&self) -> bool {
        self.tree == Some(self.head)
    }

    /// Whether anything of this class is wrong.
    #[must_use]
    pub fn has(&self, class: Class) -> bool {
        self.faults.iter().any(|fault| fault.class == class)
    }

    /// Whether the leaves are known to be those that were committed: then what follows from them can be made again.
    #[must_use]
    pub fn leaves_hold(&self) -> bool {
        self.leads_to_head() && !self.contradicted
    }
}

/// Checks a store that nobody writes to. `vkey` is the log's own key.
///
/// # Errors
/// `Unavailable`: what could be read until then says nothing. Whatever is damaged is in the answer.
pub fn run(
    store: &RocksStore,
    vkey: &VerifierKey,
    above: &mut dyn Above,
) -> Result<Found, StoreError> {
    let mut found = Found {
        head: Head::EMPTY,
        tree: None,
        published: None,
        faults: Vec::new(),
        unnamed: [0; Class::ALL.len()],
        contradicted: false,
        beyond: None,
        mark_is_blank: false,
        tiles: 0,
        keys: 0,
        keys_untold: None,
    };
    let mut faults = Faults::default();
    match store.head() {
        Ok((head, last_at)) => {
            found.head = head;
            tree(store, (vkey, last_at), above, (&mut found, &mut faults))?;
        }
        Err(StoreError::Damaged { what }) => {
            // How many leaves there should be is not known: nothing can be missing, and nothing be too much.
            faults.add(Class::Head, None, what);
            found.keys_untold = Some("the head cannot be read");
        }
        Err(error) => return Err(error),
    }
    (found.faults, found.unnamed) = faults.into_parts();
    Ok(found)
}

fn tree(
    store: &RocksStore,
    (vkey, last_at): (&VerifierKey, u64),
    above: &mut dyn Above,
    (found, faults): (&mut Found, &mut Faults),
) -> Result<(), StoreError> {
    let heads = heads::read(store, faults)?;
    found.published = heads.published();
    found.mark_is_blank = heads.mark_is_blank();
    let largest = heads.sizes().last().copied();
    found.beyond = largest.filter(|size| *size > found.head.size);
    let mut walk = Walk::new(store, found.head, heads.sizes());
    walk.run(above)?;
    walk.tiles_beyond()?;
    (found.tree, found.tiles) = (walk.whole(), walk.tiles);
    if found.tree == Some(found.head) && walk.last_at().is_some_and(|at| at != last_at) {
        let what = format!("the head says that its last leaf is of {last_at} ms, and it is not");
        faults.add(Class::Head, None, what);
    }
    let roots = std::mem::take(&mut walk.roots);
    let leaves_hold = walk.settle(above, found, faults)?;
    found.contradicted = heads.compare(
        vkey,
        &roots,
        (leaves_hold, above.has_successor()),
        (found, faults),
    );
    Ok(())
}

#[cfg(test)]
mod tests;
