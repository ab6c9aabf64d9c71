//! The checkpoints that a store keeps, and the mark beside it.

use std::collections::{BTreeMap, BTreeSet};

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::Hash,
    note::{self, Note},
    vkey::VerifierKey,
};

use super::{Class, Found, faults::Faults};
use crate::store::{
    Head, Kept, Store, StoreError,
    rocks::{RocksStore, Row, Rows},
};

/// What is known to have left the process.
#[derive(Default)]
pub(super) struct Heads {
    notes: Vec<(&'static str, Kept)>,
    mark: Option<Head>,
    /// Whether the mark says nothing, not even that nothing was published.
    blank: bool,
    /// Whether there is a published checkpoint that cannot be read.
    unread: bool,
}

const PUBLISHED: &str = "the published checkpoint";
const AHEAD: &str = "the checkpoint that a witness showed";
const MARK: &str = "the mark of what was published";

/// Reads them; what cannot be read is a fault.
pub(super) fn read(store: &RocksStore, faults: &mut Faults) -> Result<Heads, StoreError> {
    let mut heads = Heads::default();
    let mut taken = |read: Result<Vec<Kept>, StoreError>, name| match read {
        Ok(all) => {
            heads.notes.extend(all.into_iter().map(|kept| (name, kept)));
            Ok(())
        }
        Err(StoreError::Damaged { what }) => {
            faults.add(Class::Head, None, format!("{name}: {what}"));
            Ok(())
        }
        Err(error) => Err(error),
    };
    let published = store.published();
    let unread = published.is_err();
    taken(published.map(Vec::from_iter), PUBLISHED)?;
    taken(store.signed(), "a signed checkpoint")?;
    taken(store.ahead().map(Vec::from_iter), AHEAD)?;
    // Also those that nobody asks for: a disk that changed them may change others.
    let mut stranger = None;
    let scanned = store.scan(Rows::Meta, |row| {
        if let Row::Odd(key) = row {
            stranger.get_or_insert_with(|| String::from_utf8_lossy(key).into_owned());
        }
        true
    });
    match scanned {
        Err(StoreError::Damaged { what }) => faults.add(Class::Head, None, what),
        other => other?,
    }
    if let Some(key) = stranger {
        let what = format!("a row that no log has: {key:?}");
        faults.add(Class::Head, None, what);
    }
    // What a start would refuse.
    match store.migrating() {
        Err(StoreError::Damaged { what }) => faults.add(Class::Head, None, what),
        other => other?,
    }
    // Damaged, it would not have opened.
    heads.mark = store.tidemark()?;
    heads.blank = store.mark_is_blank();
    heads.unread = unread;
    Ok(heads)
}

impl Heads {
    /// The sizes whose roots must be known.
    pub(super) fn sizes(&self) -> BTreeSet<u64> {
        let notes = self.notes.iter().map(|(_, kept)| kept.head.size);
        notes.chain(self.mark.map(|mark| mark.size)).collect()
    }

    pub(super) fn published(&self) -> Option<String> {
        let published = self.notes.iter().find(|(name, _)| *name == PUBLISHED);
        published.map(|(_, kept)| kept.note.clone())
    }

    /// Whether the mark says nothing, though the store has published.
    pub(super) fn mark_is_blank(&self) -> bool {
        self.blank && self.mark.is_none() && self.published().is_some()
    }

    /// Whether each is signed by the log, and says what the leaves lead to: of all of them only where the leaves lead to the head
    /// ([`Found::leads_to_head`]), else of those for which there are leaves that hold. Whether one that cannot be doubted (the mark, or
    /// what the log has signed) speaks of another tree than that of the store.
    pub(super) fn compare(
        &self,
        vkey: &VerifierKey,
        roots: &BTreeMap<u64, Hash>,
        (leaves_hold, has_successor): (bool, bool),
        (found, faults): (&Found, &mut Faults),
    ) -> bool {
        let (head, whole) = (found.head, found.tree.is_some());
        let mut contradicted = false;
        let mut add = |name: &str, what: String| {
            faults.add(Class::Head, None, format!("{name}: {what}"));
        };
        let mut all = Vec::new();
        for (name, kept) in &self.notes {
            let signed = signed(kept, vkey);
            all.push((*name, kept.head, signed.is_ok()));
            if let Err(why) = signed {
                add(name, why);
            }
        }
        match (self.mark, self.published()) {
            (None, Some(_)) if self.mark_is_blank() => {
                contradicted = true;
                add(MARK, "it is empty, and the store has published".into());
            }
            // Cut off between its first checkpoint and the mark: the next start raises that.
            (None, _) => {}
            (Some(mark), published) => {
                all.push((MARK, mark, true));
                if published.is_none() && !self.unread {
                    add(PUBLISHED, "there is none, and the mark has one".into());
                }
            }
        }
        for (name, of, sure) in all {
            match roots.get(&of.size) {
                Some(root) if *root == of.root => continue,
                // Changed leaves lead elsewhere, and are named.
                Some(_) if !leaves_hold => continue,
                Some(root) => add(
                    name,
                    format!(
                        "at size {} it has root {}, and the leaves lead to {root}",
                        of.size, of.root
                    ),
                ),
                None if of.size > head.size && has_successor => continue,
                None if of.size > head.size => {
                    let what = format!("of size {}, and the store ends at {}", of.size, head.size);
                    add(name, what);
                }
                // What is missing is named already.
                None if !whole => continue,
                None => add(name, format!("of size {}, which was not reached", of.size)),
            }
            contradicted |= sure;
        }
        contradicted
    }
}

/// Whether the note is the log's own, for this head.
fn signed(kept: &Kept, vkey: &VerifierKey) -> Result<(), String> {
    let note = Note::parse(kept.note.as_bytes()).map_err(|e| e.to_string())?;
    let checkpoint = Checkpoint::parse(note.text).map_err(|e| e.to_string())?;
    let says = Head {
        size: checkpoint.size,
        root: checkpoint.root,
    };
    if says != kept.head {
        return Err(format!(
            "the note is of size {}, and it is kept as one of size {}",
            says.size, kept.head.size
        ));
    }
    if checkpoint.origin != vkey.name {
        return Err(format!("it is of log {:?}", checkpoint.origin));
    }
    note::open(&note, std::slice::from_ref(vkey)).map_err(|e| e.to_string())?;
    Ok(())
}
