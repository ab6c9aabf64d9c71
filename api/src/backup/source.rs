//! The files of a data directory as a backup reads them.

use std::{
    fs,
    io::ErrorKind,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use countersign_verifier::vkey::VerifierKey;

use super::{
    error::{BackupError, file, place},
    manifest::{NEEDED, PUBLIC, is_policy, is_table},
};
use crate::{data_dir::AccountDir, files};

/// How often small files are read until two readings agree.
const READINGS: usize = 100;
/// A body that is overwritten is gone by then.
const ERASED_WITHIN: Duration = Duration::from_secs(2);
const ERASED_LOOK: Duration = Duration::from_millis(20);

/// Which log this is, by its files.
pub(super) fn vkey(account: &str, small: &[(String, Vec<u8>)]) -> Result<VerifierKey, BackupError> {
    let damaged = |why: String| BackupError::Damaged {
        account: account.into(),
        what: format!("log.vkey: {why}"),
    };
    let text = small.iter().find(|(name, _)| name == "log.vkey");
    let text = text.map(|(_, bytes)| String::from_utf8_lossy(bytes));
    let text = text.ok_or_else(|| damaged("it is not there".into()))?;
    VerifierKey::parse(text.trim()).map_err(|e| damaged(e.to_string()))
}

/// The bytes of a small file, where there is one.
pub(super) fn optional(path: &Path) -> Result<Option<Vec<u8>>, BackupError> {
    match files::read_plain(path, files::SMALL_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(file(path)(e)),
    }
}

/// The small files of an account that are no secret, as they all were at one moment: a change of policy writes several.
pub(super) fn settled(account: &AccountDir) -> Result<Vec<(String, Vec<u8>)>, BackupError> {
    let mut before = small(account)?;
    for _ in 0..READINGS {
        let now = small(account)?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
    Err(place(account.root(), "its files change all the time"))
}

fn small(account: &AccountDir) -> Result<Vec<(String, Vec<u8>)>, BackupError> {
    let mut found = Vec::new();
    for (at, name) in PUBLIC.iter().enumerate() {
        let path = account.root().join(name);
        match optional(&path)? {
            Some(bytes) => found.push(((*name).to_owned(), bytes)),
            None if at < NEEDED => return Err(file(&path)(ErrorKind::NotFound.into())),
            None => {}
        }
    }
    let folder = account.policies();
    let eras = match folder.read_dir() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(found),
        read => read.map_err(file(&folder))?,
    };
    for era in eras {
        let path = era.map_err(file(&folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !is_policy(&name) {
            let why = "named as no policy of an era is: a start would refuse it too; take it away";
            return Err(place(&path, why));
        }
        if let Some(bytes) = optional(&path)? {
            found.push((format!("policy.d/{name}"), bytes));
        }
    }
    found.sort();
    Ok(found)
}

/// The files of a database that nobody writes to. What RocksDB leaves wherever it looks, and what others leave (NFS, editors), is none.
pub(super) fn tables(db: &Path) -> Result<Vec<String>, BackupError> {
    let mut found = Vec::new();
    for entry in db.read_dir().map_err(file(db))? {
        let entry = entry.map_err(file(db))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_table(&name) && entry.file_type().map_err(file(db))?.is_file() {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// For progress alone.
pub(super) fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |of| of.len())
}

/// Whether a body is being erased: overwritten, and then gone within a moment. One that stays was damaged.
pub(super) fn is_going(body: &Path) -> Result<bool, BackupError> {
    let until = Instant::now() + ERASED_WITHIN;
    loop {
        match body.try_exists().map_err(file(body))? {
            false => return Ok(true),
            true if Instant::now() >= until => return Ok(false),
            true => thread::sleep(ERASED_LOOK),
        }
    }
}
