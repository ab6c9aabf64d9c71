//! Bodies as they lie, for `countersign check` and for backups: nothing is changed.

use std::path::Path;

use countersign_log::{
    StoreError,
    store::blobs::{BlobStore as _, files::FileBlobs},
};
use countersign_verifier::hash::Hash;
use sha2::{Digest as _, Sha256};

use super::{About, Download};
use crate::state::Erased;

/// Read so many bytes at a time.
const PIECE: usize = 64 << 10;

/// How many bodies there are in this folder; and of each that is not what was kept, or that a leaf has erased, what is wrong.
///
/// # Errors
/// `Unavailable`.
pub fn look(
    folder: &Path,
    erased: &Erased,
    fault: &mut dyn FnMut(String),
) -> Result<u64, StoreError> {
    let store = FileBlobs::to_look_at(folder);
    let names = store.names()?;
    for name in &names {
        if let Some(index) = erased.get(name) {
            fault(format!(
                "body {name} is here, and leaf {index} erased it; it goes when the account is opened"
            ));
            continue;
        }
        match whole(&store, name) {
            Err(StoreError::Damaged { what }) => fault(what),
            other => other?,
        }
    }
    Ok(names.len() as u64)
}

/// Reads a body to its end, which only one that was kept so has. One that is gone meanwhile was erased.
///
/// # Errors
/// `Damaged`, `Unavailable`.
pub fn whole(store: &FileBlobs, name: &Hash) -> Result<(), StoreError> {
    let Some(body) = store.open(name)? else {
        return Ok(());
    };
    let (about, salt) = About::read(body.about()).map_err(|_| StoreError::Damaged {
        what: format!("body {name}: what is said of it cannot be read"),
    })?;
    let mut body = Download {
        about,
        left: body.bytes(),
        body,
        hash: Sha256::new_with_prefix(salt.0),
        commitment: *name,
    };
    while !body.next(PIECE)?.is_empty() {}
    Ok(())
}
