//! The files of an account: whether they are those of its log.

use countersign_verifier::{base64, leaf::Class as KeyClass, policy::Eras, vkey::VerifierKey};

use super::super::report::{Class, Faults};
use crate::{
    account::Parts,
    data_dir::AccountDir,
    state::{Opened, State},
};

/// Reads them, each against the others.
pub(super) fn read(files: &AccountDir, vkey: &VerifierKey, faults: &mut Faults) -> Option<Parts> {
    let name = files.root().file_name().unwrap_or_default();
    let parts = files
        .data_dir()
        .map(|dir| Parts::look(&dir, &name.to_string_lossy()));
    match parts {
        Some(Ok(parts)) if parts.vkey == vkey.to_string() => return Some(parts),
        // The files agree with each other but for `log.vkey` as it is spelled.
        Some(Ok(parts)) => {
            let what = format!("log.vkey says {vkey}, and log.key is {}", parts.vkey);
            faults.add(Class::Key, None, what);
        }
        Some(Err(error)) => faults.add(Class::Key, None, error.to_string()),
        None => faults.add(Class::Key, None, "the account lies in no data directory"),
    }
    None
}

/// Whether they are what leaf 0 says, and the seats' secret makes the keys that seats have.
pub(super) fn compare(parts: &Parts, state: &State, faults: &mut Faults) {
    if let Some(opened) = &state.opened {
        for what in apart(opened, &parts.opened) {
            faults.add(Class::Key, Some(0), what);
        }
    }
    let seats = match parts.seats() {
        Ok(seats) => seats,
        Err(error) => {
            faults.add(Class::Key, None, error.to_string());
            return;
        }
    };
    let held = state
        .identities
        .iter()
        .filter(|identity| identity.class == KeyClass::SeatKey);
    let (mut any, mut ours) = (false, false);
    for identity in held {
        any = true;
        ours |= seats.key(&identity.name).public() == identity.key.public;
    }
    // A key that somebody else keeps may be enrolled as one of a seat; that none is ours is another secret.
    if any && !ours {
        let what = "seat.secret makes the key of none of the seats that the leaves enrol";
        faults.add(Class::Key, None, what);
    }
}

/// The same of files whose keys lie elsewhere; and their policies, which nobody else has read then.
pub(super) fn compare_without_keys(
    files: &AccountDir,
    state: &State,
    faults: &mut Faults,
) -> Option<Eras> {
    let name = files.root().file_name().unwrap_or_default();
    let Some(dir) = files.data_dir() else {
        faults.add(Class::Key, None, "the account lies in no data directory");
        return None;
    };
    let service = state.opened.as_ref().map(|opened| &opened.service);
    match Parts::without_keys(&dir, &name.to_string_lossy(), service) {
        Ok((said, policies)) => {
            for what in state.opened.iter().flat_map(|opened| apart(opened, &said)) {
                faults.add(Class::Key, Some(0), what);
            }
            Some(policies.judges)
        }
        Err(error) => {
            faults.add(Class::Key, None, error.to_string());
            None
        }
    }
}

/// What leaf 0 says otherwise than the files.
fn apart(leaf: &Opened, files: &Opened) -> Vec<String> {
    let spell = |key: &countersign_verifier::key::PublicKey| base64::encode(&key.spki_der());
    let pairs = [
        ("origin", leaf.origin.clone(), files.origin.clone()),
        (
            "the log's key",
            leaf.log_vkey.clone(),
            files.log_vkey.clone(),
        ),
        ("the owner's key", spell(&leaf.owner), spell(&files.owner)),
        (
            "the key of the service",
            spell(&leaf.service),
            spell(&files.service),
        ),
        ("epoch", leaf.epoch.to_string(), files.epoch.to_string()),
    ];
    let mut found: Vec<String> = pairs
        .into_iter()
        .filter(|(_, leaf, files)| leaf != files)
        .map(|(name, leaf, files)| format!("{name}: leaf 0 names {leaf}, and the files {files}"))
        .collect();
    if leaf.predecessor != files.predecessor {
        found.push("leaf 0 names another predecessor than the files".into());
    }
    found
}
