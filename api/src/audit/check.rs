//! `countersign check`: the store of an account and the files beside it, recomputed from the leaves and judged.
//!
//! The store's own part (leaves, tiles, heads, lookup keys) is [`countersign_log::check`]. Here is what the leaves say: signatures,
//! decisions, the state that they make, and whether snapshot, service and key files agree with it. [`run`] changes nothing; [`repair`]
//! makes again what follows from the leaves.

mod above;
mod files;
mod mend;
mod report;

use std::path::Path;

use countersign_log::{
    StoreError,
    check::{self, Class as Kind, Found},
    store::{
        Store as _,
        rocks::{RocksStore, Rows, Shared},
    },
};
use countersign_verifier::{
    policy::Eras,
    verdict::{Status, judge_checkpoint},
    vkey::VerifierKey,
};

pub use mend::{Mended, RepairError, complete, repair};
pub use report::Report;

use super::report::{Class, Faults};
use crate::{blobs, data_dir::AccountDir, succeed};
use above::Leaves;
use report::Looked;

/// Everything is read once: what a small cache does not hold is no loss.
const CACHE_BYTES: usize = 64 << 20;

/// What to check.
pub struct Plan<'a> {
    /// The account's files.
    pub files: &'a AccountDir,
    /// Its store, and the mark beside it: those of the account, or a copy that a running service made.
    pub store: (&'a Path, &'a Path),
    /// What the running service holds.
    pub live: Option<Live>,
    /// Whether the private keys lie elsewhere, as those of a backup do.
    pub keys_elsewhere: bool,
    /// The clock, POSIX seconds.
    pub now_s: Option<u64>,
    /// Told of leaves done, and of all.
    pub progress: &'a dyn Fn(u64, u64),
}

/// The state of a running service, as it says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// Leaves that it reflects.
    pub size: u64,
    /// SHA-256 of its bytes, in lowercase hexadecimal.
    pub sha256: String,
}

/// Why nothing could be told.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Which log it is cannot be read.
    #[error("{0}")]
    Unusable(String),
    /// It is of a newer release, or cannot be reached.
    #[error("{0}")]
    Unknown(StoreError),
}

/// Checks an account.
///
/// # Errors
/// [`CheckError`]. What is wrong with the account is in the report.
pub fn run(plan: &Plan<'_>) -> Result<Report, CheckError> {
    let path = plan.files.log_vkey();
    let unusable =
        |why: &dyn std::fmt::Display| CheckError::Unusable(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|e| unusable(&e))?;
    let vkey = VerifierKey::parse(text.trim()).map_err(|e| unusable(&e))?;
    let mut faults = Faults::default();
    let files = match plan.keys_elsewhere {
        true => None,
        false => files::read(plan.files, &vkey, &mut faults),
    };
    let mut looked = Looked::new(&vkey.name);
    looked.keys_elsewhere = plan.keys_elsewhere;
    let shared = Shared::new(CACHE_BYTES, CACHE_BYTES);
    let (folder, mark) = plan.store;
    let store = match RocksStore::open_behind(folder, mark, &shared, false) {
        Ok(store) => store,
        Err(StoreError::Damaged { what }) => {
            faults.add(
                Class::Head,
                None,
                format!("the store does not open: {what}"),
            );
            return Ok(Report::unopened(looked, faults));
        }
        Err(error) => return Err(CheckError::Unknown(error)),
    };
    let snapshot = match store.snapshot() {
        Err(StoreError::Damaged { what }) => {
            let what = format!("the snapshot: {what}");
            // Where the rows themselves cannot be read, another one beside them would mend nothing: the head lies among them.
            match store.scan(Rows::Meta, |_| true) {
                Ok(()) => faults.add_derived(Class::State, None, what),
                Err(_) => faults.add(Class::State, None, what),
            }
            None
        }
        other => other.map_err(CheckError::Unknown)?,
    };
    let successor = succeed::read_mark(plan.files);
    if let Err(why) = &successor {
        faults.add(Class::Key, None, why.clone());
    }
    let mut leaves = Leaves::new(&vkey, faults, (snapshot, plan.live.clone()), plan.progress);
    leaves.has_successor = matches!(successor, Ok(Some(_)));
    let found = check::run(&store, &vkey, &mut leaves).map_err(CheckError::Unknown)?;
    let whole = found.tree.is_some();
    let state = leaves.finish(whole, &mut looked);
    let mut faults = leaves.faults;
    let judges = match files {
        Some(files) => {
            files::compare(&files, &state, &mut faults);
            Some(files.policies.judges)
        }
        None if plan.keys_elsewhere => files::compare_without_keys(plan.files, &state, &mut faults),
        None => None,
    };
    if let Some(judges) = &judges {
        published(&found, judges, plan.now_s, &state, &mut faults);
    }
    let mut fault = |what| faults.add(Class::Blob, None, what);
    let bodies = blobs::look(&plan.files.blobs(), &state.erased, &mut fault);
    looked.bodies = bodies.map_err(CheckError::Unknown)?;
    take(&found, &mut faults);
    looked.found(&found);
    Ok(Report::new(looked, faults))
}

/// Whether the newest published checkpoint is what the account's own policy asks for.
fn published(
    found: &Found,
    eras: &Eras,
    now_s: Option<u64>,
    state: &crate::state::State,
    faults: &mut Faults,
) {
    let Some(note) = &found.published else {
        return;
    };
    let at = (state.size > 0).then_some(countersign_verifier::leaf::Millis(state.at));
    for check in judge_checkpoint(note, eras, now_s, at).checks {
        if check.status == Status::Fail {
            let what = format!(
                "the published checkpoint, by the account's policy: {}",
                check.detail
            );
            faults.add(Class::Head, None, what);
        }
    }
}

fn take(found: &Found, faults: &mut Faults) {
    let of = |kind: Kind| match kind {
        Kind::Head => (Class::Head, false),
        Kind::Tile => (Class::Tile, true),
        Kind::Entry => (Class::Entry, false),
        Kind::Index => (Class::Index, found.keys_untold.is_none()),
    };
    for fault in &found.faults {
        let what = fault.what.clone();
        match of(fault.class) {
            (class, true) => faults.add_derived(class, fault.index, what),
            (class, false) => faults.add(class, fault.index, what),
        }
    }
    for (kind, more) in Kind::ALL.into_iter().zip(found.unnamed) {
        let (class, derived) = of(kind);
        faults.count_more(class, more, derived);
    }
}

#[cfg(test)]
mod tests;
