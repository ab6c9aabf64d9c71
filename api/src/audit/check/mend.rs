//! What follows from the leaves of an account, made again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use countersign_log::{
    StoreError,
    check::repair::{self, Repaired},
    store::{
        Snapshot, Store as _,
        rocks::{Derived, RocksStore, Shared},
    },
};
use serde_json::{Value, json};

use super::{CACHE_BYTES, Plan, Report, above::Keys};
use crate::data_dir;

/// What was mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// Where the store lies as it was.
    pub copy: PathBuf,
    /// Tiles and lookup keys.
    pub repaired: Repaired,
    /// Whether the snapshot was made again.
    pub snapshot: bool,
}

/// Why nothing, or not all, was mended.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The copy of what was there could not be made: nothing was changed.
    #[error("{}: {source}; nothing was changed", path.display())]
    Copy {
        /// Where it was to be.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What the store says. What was done until then is right, and another attempt goes on.
    #[error("{0}; what was done until then is right, and it can be run again")]
    Store(#[from] StoreError),
}

/// Finishes what a repair began that was cut off at a bad moment, so that the store opens again. Of any other store it changes nothing.
/// What it writes, no copy is made before: a database without a family of rows opens for nobody, not even to be copied. It makes the
/// missing families, empty, and touches no row; what was in them is in the copy that the repair made which was cut off.
///
/// # Errors
/// What the system says.
pub fn complete(plan: &Plan<'_>) -> Result<(), StoreError> {
    match RocksStore::complete(plan.store, &Shared::new(CACHE_BYTES, CACHE_BYTES)) {
        // Whatever is wrong with it is for the check to say.
        Err(StoreError::Damaged { .. }) => Ok(()),
        other => other.map(drop),
    }
}

/// Mends what a check of this directory found and what follows from its leaves: `None` where there is nothing of that kind. No other
/// process may have the directory open. A copy of the store is made first.
///
/// # Errors
/// [`RepairError`].
pub fn repair(plan: &Plan<'_>, report: &Report) -> Result<Option<Mended>, RepairError> {
    if report.repairable == 0 {
        return Ok(None);
    }
    let (folder, mark) = plan.store;
    let store = RocksStore::open(folder, mark, &Shared::new(CACHE_BYTES, CACHE_BYTES))?;
    let copy = keep(plan.files.root(), mark, &store)?;
    let mut above = Keys::new(plan.progress);
    let repaired = repair::run(&store, report.keys_told, &mut above)?;
    if report.snapshot_wrong {
        store.drop_snapshot()?;
        // One that cannot be made is left to the next start, which replays as far as it can.
        if !above.stopped && above.state.size == store.head()?.0.size {
            let (size, bytes) = (above.state.size, above.state.to_snapshot());
            store.keep_snapshot(&Snapshot { size, bytes })?;
        }
    }
    Ok(Some(Mended {
        copy,
        repaired,
        snapshot: report.snapshot_wrong,
    }))
}

/// Keeps the store as it is, of hard links, with the mark beside it.
fn keep(account: &Path, mark: &Path, store: &RocksStore) -> Result<PathBuf, RepairError> {
    let mut all = (1_u32..).map(|n| account.join(format!("before-repair-{n}")));
    // OK because a folder has no 2^32 of them.
    let path = all
        .find(|path| fs::symlink_metadata(path).is_err())
        .expect("mend::keep");
    let failed = |source| RepairError::Copy {
        path: path.clone(),
        source,
    };
    fs::create_dir(&path).map_err(failed)?;
    let copied = store
        .copy_to(&path.join("db"))
        .map_err(|error| failed(io::Error::other(error)))
        .and_then(|()| keep_mark(mark, &path.join("published")).map_err(failed))
        .and_then(|()| data_dir::sync_dir(&path).map_err(failed))
        .and_then(|()| data_dir::sync_dir(account).map_err(failed));
    if let Err(error) = copied {
        // Of half a copy nobody has any use.
        let _ = fs::remove_dir_all(&path);
        return Err(error);
    }
    Ok(path)
}

/// Copies the mark, durable on return: an empty one beside the copied store would keep that from ever being opened.
fn keep_mark(mark: &Path, to: &Path) -> io::Result<()> {
    fs::copy(mark, to)?;
    fs::File::open(to)?.sync_all()
}

impl Mended {
    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let of = &self.repaired;
        json!({
            "copy": self.copy,
            "begun_again": of.begun_again.iter().map(|of| family(*of)).collect::<Vec<_>>(),
            "tiles_made": of.tiles_made,
            "tiles_removed": of.tiles_removed,
            "keys_made": of.keys_made,
            "keys_removed": of.keys_removed,
            "snapshot_made": self.snapshot,
        })
    }

    /// Lines for people.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let of = &self.repaired;
        let mut did: Vec<String> = of
            .begun_again
            .iter()
            .map(|of| format!("all {}, of which some could not be read", family(*of)))
            .collect();
        for (count, what) in [
            (of.tiles_made, "tiles made again"),
            (of.tiles_removed, "tiles beyond the tree removed"),
            (of.keys_made, "lookup keys made again"),
            (of.keys_removed, "lookup keys that no leaf has removed"),
            (u64::from(self.snapshot), "snapshot made again"),
        ] {
            if count > 0 {
                did.push(format!("{count} {what}"));
            }
        }
        let mut lines = format!("  the store as it was: {}\n", self.copy.display());
        for what in did {
            lines += &format!("  repaired: {what}\n");
        }
        lines
    }
}

fn family(of: Derived) -> &'static str {
    match of {
        Derived::Tiles => "tiles",
        Derived::Unique => "unique keys",
        Derived::Postings => "postings",
    }
}
