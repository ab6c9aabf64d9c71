//! What must agree before anything may be signed again.
//!
//! A log that starts from less than it has published would sign a second history. So the newest published checkpoint, the
//! checkpoints signed after it, and the mark beside the database must all be prefixes of what is committed. That finds a lost
//! end and a database put back alone; a whole directory put back from an older copy agrees with itself, and only witnesses
//! can tell: they are asked after this (`witnesses`), and what one of them showed is remembered here.

use crate::{
    grow::Edge,
    prove::Prover,
    reader::hashes_from,
    store::{Head, Store, StoreError},
};

/// What was published is not what is stored.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GuardError {
    /// The store ends before what was published.
    #[error(
        "the store ends at size {committed}, and {what} of size {published} had left the process: leaves are missing. \
             Nothing is signed until they are back; restore a copy that holds them"
    )]
    Behind {
        /// What was found: a published or signed checkpoint, or the mark.
        what: &'static str,
        /// The committed size.
        committed: u64,
        /// The size that had been published.
        published: u64,
    },
    /// The store holds another history than what was published.
    #[error(
        "at size {size} the store has another root than {what} that had left the process: leaves were changed. \
             Nothing is signed; restore a copy that holds the published history"
    )]
    Differs {
        /// What was found.
        what: &'static str,
        /// The size at which the roots differ.
        size: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Compares everything that is known to have left the process with the committed tree. What it gives is why nothing may be written
/// although what is here agrees with itself: a witness once showed what is still missing.
///
/// # Errors
/// See [`GuardError`]: nothing may then be signed.
pub fn check(store: &dyn Store, edge: &Edge) -> Result<Option<String>, GuardError> {
    for (what, head) in recorded(store)? {
        compare(store, edge, what, &head)?;
    }
    Ok(missing(store, edge)?)
}

fn missing(store: &dyn Store, edge: &Edge) -> Result<Option<String>, StoreError> {
    let Some(ahead) = store.ahead()? else {
        return Ok(None);
    };
    match compare(
        store,
        edge,
        "a checkpoint that a witness showed",
        &ahead.head,
    ) {
        Ok(()) => Ok(None),
        Err(GuardError::Store(error)) => Err(error),
        Err(why) => Ok(Some(format!(
            "{why}. `countersign recover` brings back what is missing, `countersign succeed` begins a successor"
        ))),
    }
}

/// Every head that is known to have left the process, and what it is known from.
pub(crate) fn known(store: &dyn Store) -> Result<Vec<(&'static str, Head)>, StoreError> {
    let shown = store.ahead()?;
    let shown = shown.map(|kept| ("a checkpoint that a witness showed", kept.head));
    Ok(recorded(store)?.into_iter().chain(shown).collect())
}

fn recorded(store: &dyn Store) -> Result<Vec<(&'static str, Head)>, StoreError> {
    let published = store.published()?;
    let mut known: Vec<_> = published
        .iter()
        .map(|kept| ("a published checkpoint", kept.head))
        .chain(store.tidemark()?.map(|head| ("a published head", head)))
        .collect();
    let signed = store.signed()?.into_iter();
    known.extend(signed.map(|kept| ("a signed checkpoint", kept.head)));
    Ok(known)
}

/// The committed tree of a store that no writer runs on, or not yet.
pub(crate) struct Stored<'a>(pub &'a dyn Store, pub &'a Edge);

impl crate::prove::Tiles for Stored<'_> {
    fn hashes(
        &self,
        level: u8,
        index: u64,
        width: usize,
    ) -> Result<Vec<countersign_verifier::hash::Hash>, StoreError> {
        hashes_from(self.0, self.1, level, index, width)
    }
}

fn compare(
    store: &dyn Store,
    edge: &Edge,
    what: &'static str,
    head: &Head,
) -> Result<(), GuardError> {
    if head.size > edge.size() {
        return Err(GuardError::Behind {
            what,
            committed: edge.size(),
            published: head.size,
        });
    }
    let root = Prover::new(&Stored(store, edge), head.size).root()?;
    if root != head.root {
        return Err(GuardError::Differs {
            what,
            size: head.size,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Kept, Stage, memory::MemoryStore, suite};
    use countersign_verifier::hash::Hash;

    fn store_with(leaves: &[&[u8]]) -> (MemoryStore, Edge) {
        let store = MemoryStore::new();
        let growth = suite::growth(&Head::EMPTY, leaves);
        store.commit(&Head::EMPTY, &growth).unwrap();
        let mut edge = Edge::default();
        for leaf in leaves {
            edge.push(countersign_verifier::hash::leaf_hash(leaf), &mut Vec::new());
        }
        (store, edge)
    }

    fn kept(size: u64, root: Hash) -> Kept {
        Kept {
            head: Head { size, root },
            note: String::new(),
        }
    }

    #[test]
    fn what_was_published_must_be_a_prefix() {
        let one = suite::growth(&Head::EMPTY, &[b"a"]).head;
        for (size, root, expected) in [
            (1, one.root, "ok"),
            (1, Hash([9; 32]), "differs"),
            (3, one.root, "behind"),
            (0, Head::EMPTY.root, "ok"),
        ] {
            for stage in [Stage::Signed { replaces: None }, Stage::Published] {
                let (store, edge) = store_with(&[b"a", b"b"]);
                store.keep(stage, &kept(size, root)).unwrap();
                let found = match check(&store, &edge) {
                    Ok(_) => "ok",
                    Err(GuardError::Behind { .. }) => "behind",
                    Err(GuardError::Differs { .. }) => "differs",
                    Err(GuardError::Store(_)) => "store",
                };
                assert_eq!(found, expected, "{stage:?} at {size}");
            }
        }
    }
}
