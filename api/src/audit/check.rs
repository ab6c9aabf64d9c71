//! `countersign check`: the store of an account and the files beside it, recomputed from the leaves and judged.
//!
//! The store's own part (leaves, tiles, heads, lookup keys) is [`countersign_log::check`]. Here is what the leaves say: signatures,
//! decisions, the state that they make, and whether snapshot, service and key files agree with it. [`run`] changes nothing; [`repair`]
//! makes again what follows from the leaves.

mod above;
mod files;
mod mend;
mod report;
mod ways;

use std::path::Path;

use countersign_log::{
    StoreError,
    check::{self, Class as Kind, Found},
    store::{
        Snapshot, Store as _,
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
use ways::Way;

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
    let text = crate::files::read_small(&path).map_err(|e| unusable(&e))?;
    let vkey = VerifierKey::parse(text.trim()).map_err(|e| unusable(&e))?;
    let mut faults = Faults::default();
    let mut looked = Looked::new(&vkey.name);
    looked.keys_elsewhere = plan.keys_elsewhere;
    let files = match plan.keys_elsewhere {
        true => None,
        false => files::read(plan.files, &vkey, &mut faults),
    };
    let successor = succeed::read_mark(plan.files);
    if let Err(why) = &successor {
        faults.add(Class::Key, None, why.clone());
    }
    if faults.count() > 0 {
        looked.ways.insert(Way::Files);
    }
    let Some(store) = open(plan, &mut looked, &mut faults)? else {
        return Ok(Report::unopened(looked, faults));
    };
    let snapshot = snapshot(&store, &mut looked, &mut faults)?;
    let before = faults.not_derived();
    let mut leaves = Leaves::new(&vkey, faults, (snapshot, plan.live.clone()), plan.progress);
    leaves.has_successor = matches!(successor, Ok(Some(_)));
    let found = check::run(&store, &vkey, &mut leaves).map_err(CheckError::Unknown)?;
    looked.found(&found, leaves.has_successor);
    let state = leaves.finish(found.tree.is_some(), &mut looked);
    let mut faults = leaves.faults;
    let live = u64::from(looked.ways.contains(&Way::Live));
    if found.leads_to_head() && faults.not_derived() > before + live {
        looked.ways.insert(Way::Said);
    }
    let before = faults.of(Class::Key);
    let judges = match files {
        Some(files) => {
            files::compare(&files, &state, &mut faults);
            Some(files.policies.judges)
        }
        None if plan.keys_elsewhere => files::compare_without_keys(plan.files, &state, &mut faults),
        None => None,
    };
    // Beside a changed leaf 0 it may be that which is wrong, and not the files.
    if found.leads_to_head() && faults.of(Class::Key) > before {
        looked.ways.insert(Way::Files);
    }
    let told = (&mut looked, &mut faults);
    published(&found, judges.as_ref(), plan.now_s, &state, told);
    let mut fault = |what| faults.add(Class::Blob, None, what);
    let bodies = blobs::look(&plan.files.blobs(), &state.erased, &mut fault);
    looked.bodies = bodies.map_err(CheckError::Unknown)?;
    if faults.of(Class::Blob) > 0 {
        looked.ways.insert(Way::Bodies);
    }
    take(&found, &mut faults);
    Ok(Report::new(looked, faults))
}

/// The store, for reading only; `None` where it is too damaged to be opened.
fn open(
    plan: &Plan<'_>,
    looked: &mut Looked,
    faults: &mut Faults,
) -> Result<Option<RocksStore>, CheckError> {
    let (folder, mark) = plan.store;
    let shared = Shared::new(CACHE_BYTES, CACHE_BYTES);
    let (opened, way) = match RocksStore::read_mark(mark) {
        Err(error) => (Err(error), Way::Mark),
        Ok(_) => {
            let store = RocksStore::open_behind(folder, mark, &shared, false);
            (store, Way::Rows)
        }
    };
    match opened {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::Damaged { what }) => {
            let what = format!("the store does not open: {what}");
            faults.add(Class::Head, None, what);
            looked.ways.insert(way);
            Ok(None)
        }
        Err(error) => Err(CheckError::Unknown(error)),
    }
}

/// The snapshot, where there is one that can be read.
fn snapshot(
    store: &RocksStore,
    looked: &mut Looked,
    faults: &mut Faults,
) -> Result<Option<Snapshot>, CheckError> {
    match store.snapshot() {
        Err(StoreError::Damaged { what }) => {
            let what = format!("the snapshot: {what}");
            // Where the rows themselves cannot be read, another one beside them would mend nothing: the head lies among them.
            match store.scan(Rows::Meta, |_| true) {
                Ok(()) => faults.add_derived(Class::State, None, what),
                Err(_) => {
                    faults.add(Class::State, None, what);
                    looked.ways.insert(Way::Rows);
                }
            }
            Ok(None)
        }
        other => other.map_err(CheckError::Unknown),
    }
}

/// Whether the newest published checkpoint is what the account's own policy asks for.
fn published(
    found: &Found,
    eras: Option<&Eras>,
    now_s: Option<u64>,
    state: &crate::state::State,
    (looked, faults): (&mut Looked, &mut Faults),
) {
    let Some(note) = &found.published else {
        return;
    };
    let Some(eras) = eras else {
        looked.policy_untold = Some("the account's policy cannot be read".into());
        return;
    };
    let at = (state.size > 0).then_some(countersign_verifier::leaf::Millis(state.at));
    for check in judge_checkpoint(note, eras, now_s, at).checks {
        match check.status {
            Status::Fail => {
                let what = format!(
                    "the published checkpoint, by the account's policy: {}",
                    check.detail
                );
                faults.add(Class::Head, None, what);
                // Where the checkpoint is one of this tree, the policy is another one than it was published under.
                if found.leads_to_head() && !found.has(Kind::Head) {
                    looked.ways.insert(Way::Files);
                }
            }
            Status::Unknown => looked.policy_untold = Some(check.detail),
            Status::Pass | Status::Skipped => {}
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
