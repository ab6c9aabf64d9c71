//! The leaves that are here, read to the last before anything is compared with them: a store of the right size may have lost one.

use countersign_log::{
    StartError, StoreError,
    store::{
        Store as _,
        rocks::{RocksStore, Row, Rows, Shared},
    },
};
use countersign_verifier::{hash::leaf_hash, range::Range};

use super::RecoverError;
use crate::data_dir::AccountDir;

/// Progress is told after so many leaves.
const EVERY: u64 = 4_096;

/// Reads them all. They must lead to the head that the store names.
///
/// # Errors
/// [`RecoverError::Mark`], [`RecoverError::Damaged`]; [`RecoverError::Store`] where the store cannot be read.
pub(super) fn read(
    files: &AccountDir,
    shared: &Shared,
    progress: &dyn Fn(u64, u64),
) -> Result<(), RecoverError> {
    let (folder, mark) = (files.db(), files.tidemark());
    RocksStore::read_mark(&mark).map_err(of_mark)?;
    leaves(&folder, &mark, shared, progress).map_err(|error| damaged(error.into()))
}

fn leaves(
    folder: &std::path::Path,
    mark: &std::path::Path,
    shared: &Shared,
    progress: &dyn Fn(u64, u64),
) -> Result<(), StoreError> {
    let store = RocksStore::open_behind(folder, mark, shared, false)?;
    let (head, _) = store.head()?;
    let (mut range, mut next) = (Range::new(), 0_u64);
    let scanned = store.scan(Rows::Entries, |row| match row {
        Row::Entry(index, leaf) if index == next && next < head.size => {
            range.push(leaf_hash(leaf));
            next += 1;
            if next.is_multiple_of(EVERY) {
                progress(next, head.size);
            }
            next < head.size
        }
        Row::Entry(..) => false,
        // Named by a check; no leaf lies there.
        _ => true,
    });
    let what = match scanned {
        Err(StoreError::Damaged { what }) => format!("leaf {next} cannot be read: {what}"),
        Err(error) => return Err(error),
        Ok(()) if next < head.size => format!("leaf {next} is missing"),
        Ok(()) if range.root() != head.root => format!(
            "the leaves here lead to root {}, and their head says {}: one of them is another leaf",
            range.root(),
            head.root
        ),
        Ok(()) => return Ok(()),
    };
    Err(StoreError::Damaged { what })
}

/// What is said of a mark that cannot be read.
pub(super) fn of_mark(error: StoreError) -> RecoverError {
    match error {
        StoreError::Damaged { what } => RecoverError::Mark { what },
        other => other.into(),
    }
}

/// What is said of a database that is here and damaged.
pub(super) fn damaged(error: RecoverError) -> RecoverError {
    match error {
        RecoverError::Store(StoreError::Damaged { what })
        | RecoverError::Start(StartError::Store(StoreError::Damaged { what })) => {
            RecoverError::Damaged { what }
        }
        other => other,
    }
}
