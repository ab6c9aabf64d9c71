//! Putting a backup back: every file is copied and hashed, then everything is recomputed from the leaves as a check does, and only
//! then is there a directory.

use std::path::{Path, PathBuf};

use countersign_log::{
    StoreError,
    store::blobs::{BlobStore as _, files::FileBlobs},
};
use countersign_verifier::{hash::Hash, verdict::Outcome, vkey::VerifierKey};

use super::{
    copy::copy,
    error::{BackupError, file, place},
    look::{Seen, look},
    manifest::{AccountRow, KEYS, Manifest},
    of_store,
    stage::{Stage, resolved},
};
use crate::{
    audit::check::{self, CheckError, Report},
    data_dir::{AccountDir, DataDir},
    state::Erased,
};

/// Faults that are named.
const NAMED_MAX: usize = 100;

/// What to put back.
pub struct Plan<'a> {
    /// The backup.
    pub backup: &'a Path,
    /// Where to: absent or empty.
    pub dir: &'a DataDir,
    /// The SHA-256 that its `backup.json` must have, where somebody has noted it.
    pub sha256: Option<Hash>,
    /// The clock, POSIX seconds.
    pub now_s: Option<u64>,
    /// Told of bytes copied, and of all.
    pub bytes: &'a dyn Fn(u64, u64),
    /// Told of an account's leaves done, and of all.
    pub leaves: &'a dyn Fn(u64, u64),
}

/// What came of it.
pub struct Restored {
    /// Where it is now; absent: it was refused, and nothing was made.
    pub place: Option<PathBuf>,
    /// What the backup says of itself.
    pub manifest: Manifest,
    /// SHA-256 of its `backup.json`.
    pub sha256: Hash,
    /// The files that are not what it says; then the accounts were not looked at.
    pub faults: Vec<String>,
    /// The accounts, recomputed.
    pub accounts: Vec<Recomputed>,
    /// What is not in the backup and must be put beside it.
    pub missing: Vec<Missing>,
}

/// An account of a backup, recomputed from its leaves.
pub struct Recomputed {
    /// Its name.
    pub name: String,
    /// What a check says.
    pub report: Report,
    /// Where it is another one than `backup.json` says.
    pub apart: Vec<String>,
    /// Bodies that were in the backup, and that a leaf in it has erased.
    pub erased: u64,
}

/// A file that must be put beside what was restored.
pub struct Missing {
    /// Below the directory.
    pub file: String,
    /// What it is, and what is without it.
    pub why: &'static str,
}

impl Restored {
    /// Whether all of it is what it must be. Anything that is not: does not hold. Else anything that cannot be told: cannot tell.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::Holds;
        if !self.faults.is_empty() || self.accounts.iter().any(|of| !of.apart.is_empty()) {
            return Outcome::DoesNotHold;
        }
        for account in &self.accounts {
            match account.report.outcome() {
                Outcome::DoesNotHold => return Outcome::DoesNotHold,
                Outcome::CannotTell => outcome = Outcome::CannotTell,
                Outcome::Holds => {}
            }
        }
        outcome
    }
}

/// Puts it back, if all of it is what it must be.
///
/// # Errors
/// [`BackupError`]; what is wrong with the backup's files and leaves is in the answer.
pub fn run(plan: &Plan<'_>) -> Result<Restored, BackupError> {
    if !plan.backup.is_dir() {
        return Err(place(plan.backup, "there is no such folder"));
    }
    let source = plan.backup.canonicalize().map_err(file(plan.backup))?;
    let (manifest, sha256) = Manifest::read(&source)?;
    if let Some(due) = plan.sha256.filter(|due| *due != sha256) {
        return Err(BackupError::Another {
            path: DataDir::new(&source).backup_json(),
            found: sha256.to_hex(),
            due: due.to_hex(),
        });
    }
    if resolved(plan.dir.root())?.starts_with(&source) {
        let why = "in the backup, which stays as it is: name a folder elsewhere";
        return Err(place(plan.dir.root(), why));
    }
    let stage = Stage::begin(plan.dir.root(), "restore")?;
    let staged = DataDir::new(stage.path());
    let mut restored = Restored {
        place: None,
        faults: copied(plan, (&source, &manifest), &stage)?,
        manifest,
        sha256,
        accounts: Vec::new(),
        missing: Vec::new(),
    };
    if restored.faults.is_empty() {
        for row in &restored.manifest.accounts {
            let account = recomputed(plan, &staged, row)?;
            restored.accounts.push(account);
        }
    }
    if restored.outcome() == Outcome::Holds {
        restored.missing = missing(&staged, &restored.manifest);
        restored.place = Some(stage.finish()?);
    }
    Ok(restored)
}

/// Copies every file of it; what is not as it says.
fn copied(
    plan: &Plan<'_>,
    (source, manifest): (&Path, &Manifest),
    stage: &Stage,
) -> Result<Vec<String>, BackupError> {
    let mut faults = strangers(source, manifest)?;
    if !faults.is_empty() {
        return Ok(faults);
    }
    let (mut done, all) = (0, manifest.bytes());
    let mut step = |n: u64| {
        done += n;
        (plan.bytes)(done, all.max(done));
    };
    for row in &manifest.files {
        let path = &row.path;
        match copy(&source.join(path), &stage.at(path)?, &mut step)? {
            None => faults.push(format!("{path}: it is not there")),
            Some((bytes, _)) if bytes != row.bytes => {
                let due = row.bytes;
                faults.push(format!(
                    "{path}: it has {bytes} bytes, and had {due} when the backup was made"
                ));
            }
            Some((_, sha256)) if sha256.to_hex() != row.sha256 => {
                faults.push(format!(
                    "{path}: its SHA-256 is {sha256}, and was {} when the backup was made",
                    row.sha256
                ));
            }
            Some(_) => {}
        }
        if faults.len() >= NAMED_MAX {
            break;
        }
    }
    Ok(faults)
}

/// What lies in the backup and is not of it.
fn strangers(source: &Path, manifest: &Manifest) -> Result<Vec<String>, BackupError> {
    let (rows, own) = (manifest.by_path(), DataDir::new(source).backup_json());
    let (mut open, mut faults) = (vec![source.to_owned()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().map_err(file(&folder))? {
            let entry = entry.map_err(file(&folder))?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(file(&folder))?);
            let below = path.strip_prefix(source).unwrap_or(&path);
            let below = below.to_string_lossy().into_owned();
            if kind.is_dir() {
                open.push(path);
            } else if !kind.is_file() {
                faults.push(format!("{below}: no plain file"));
            } else if path != own && !rows.contains_key(below.as_str()) {
                faults.push(format!("{below}: backup.json does not name it"));
            }
            if faults.len() >= NAMED_MAX {
                return Ok(faults);
            }
        }
    }
    Ok(faults)
}

/// Takes away what the account's leaves have erased, and recomputes the rest.
fn recomputed(
    plan: &Plan<'_>,
    staged: &DataDir,
    row: &AccountRow,
) -> Result<Recomputed, BackupError> {
    let files = staged.account(&row.name);
    let (db, mark) = (files.db(), files.tidemark());
    // A store that cannot be looked at is for the check to say.
    let bodies = FileBlobs::to_look_at(&files.blobs());
    let bodies = bodies.names().map_err(|e| of_store(&row.name, e))?.len() as u64;
    let (mut erased, mut apart) = (0, Vec::new());
    if bodies != row.bodies {
        apart.push(format!(
            "bodies: backup.json says {}, and there are {bodies}",
            row.bodies
        ));
    }
    match look(&db, &mark) {
        Ok(seen) => {
            erased = erase(&files, &seen.erased).map_err(|e| of_store(&row.name, e))?;
            apart.extend(differences(row, &files, &seen));
        }
        Err(StoreError::Damaged { .. } | StoreError::TooNew { .. }) => {}
        Err(error) => return Err(of_store(&row.name, error)),
    }
    let report = check::run(&check::Plan {
        files: &files,
        store: (&db, &mark),
        live: None,
        // All of them, or none: one that is missing among others is a fault.
        keys_elsewhere: !KEYS.iter().any(|key| files.root().join(key).exists()),
        now_s: plan.now_s,
        progress: plan.leaves,
    });
    let report = report.map_err(|error| match error {
        CheckError::Unusable(what) => BackupError::Damaged {
            account: row.name.clone(),
            what,
        },
        CheckError::Unknown(error) => of_store(&row.name, error),
    })?;
    Ok(Recomputed {
        name: row.name.clone(),
        report,
        apart,
        erased,
    })
}

/// Takes away the bodies that leaves have erased; how many were there.
fn erase(files: &AccountDir, erased: &Erased) -> Result<u64, countersign_log::StoreError> {
    let bodies = FileBlobs::to_look_at(&files.blobs());
    let mut count = 0;
    for name in bodies.names()? {
        if erased.get(&name).is_some() {
            count += u64::from(bodies.erase(&name)?);
        }
    }
    Ok(count)
}

/// Where the account is another one than `backup.json` says.
fn differences(row: &AccountRow, files: &AccountDir, seen: &Seen) -> Vec<String> {
    let vkey = crate::files::read_small(&files.log_vkey()).unwrap_or_default();
    let published = seen.published.as_ref().map(|kept| kept.note.as_str());
    let parsed = VerifierKey::parse(vkey.trim());
    let origin = parsed.map_or_else(|_| String::new(), |vkey| vkey.name);
    let note = |note: Option<&str>| note.unwrap_or("none").to_owned();
    let pairs = [
        ("origin", row.origin.clone(), origin),
        ("vkey", row.vkey.clone(), vkey.trim().to_owned()),
        ("size", row.size.to_string(), seen.head.size.to_string()),
        ("root", row.root.clone(), seen.head.root.to_base64()),
        (
            "checkpoint",
            note(row.checkpoint.as_deref()),
            note(published),
        ),
    ];
    let apart = pairs.into_iter().filter(|(_, said, found)| said != found);
    apart
        .map(|(name, said, found)| {
            format!("{name}: backup.json says {said}, and the account {found}")
        })
        .collect()
}

/// What has to be put beside what was restored.
fn missing(staged: &DataDir, manifest: &Manifest) -> Vec<Missing> {
    let mut found = Vec::new();
    for row in &manifest.accounts {
        let files = staged.account(&row.name);
        if files.succeeded().exists() {
            // It never signs again.
            continue;
        }
        for (key, why) in KEYS.into_iter().zip([
            "the log's private key: without it the account does not open, and no other will do",
            "the private key of the service identity: without it the account does not open",
            "the secret of which the keys of seats are made: without it the account does not open",
        ]) {
            if !files.root().join(key).exists() {
                let file = format!("accounts/{}/{key}", row.name);
                found.push(Missing { file, why });
            }
        }
    }
    if !staged.owner_key().exists() && manifest.left_out.iter().any(|name| name == "owner.key") {
        found.push(Missing {
            file: "owner.key".into(),
            why: "the owner's private key, which lay beside the log: without it nobody enrols, revokes or sets anything",
        });
    }
    if !staged.owner_token().exists() {
        found.push(Missing {
            file: "owner.token".into(),
            why: "the owner's token: without it nobody reads private accounts or /metrics as the owner",
        });
    }
    found
}
