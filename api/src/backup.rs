//! Backups: a copy of a data directory, or of some of its accounts, in which every file is known by its SHA-256; and the way back.
//!
//! A backup is a folder that looks like the data directory and has `backup.json`, by which nobody takes it for one: it is read by
//! [`restore`], which recomputes all of it. Not in it are witnesses: one that is put back from an older copy cosigns a second
//! history of what it forgot.

mod copy;
mod error;
mod look;
mod manifest;
pub mod restore;
mod source;
mod stage;

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use countersign_log::{StoreError, store::blobs::files::FileBlobs};
use countersign_verifier::hash::{Hash, sha256};

pub use error::BackupError;
pub use manifest::{AccountRow, FORMAT, FileRow, Manifest};

use crate::{
    blobs,
    data_dir::{DataDir, write_secret},
    files,
};
use copy::copy;
use error::{file, place};
use manifest::{KEYS, SETTINGS, TOKENS};
use source::{is_going, optional, settled, size_of, tables, vkey};
use stage::{Stage, resolved};

/// A backup that is being made.
pub struct Backup<'a> {
    dir: &'a DataDir,
    stage: Stage,
    manifest: Manifest,
    left_out: Vec<String>,
    /// Whether what failed was the place that it is made in.
    place_fails: bool,
}

/// A backup that was made.
pub struct Made {
    /// Where it is.
    pub place: PathBuf,
    /// What is in it.
    pub manifest: Manifest,
    /// The SHA-256 of its `backup.json`, which stands for all that is in it.
    pub sha256: Hash,
    /// The bodies that are damaged where they lie and are not in it.
    pub left_out: Vec<String>,
}

impl<'a> Backup<'a> {
    /// Begins one of this directory at a place that is absent or empty, outside the directory. `made_at`: the time, RFC 3339.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn begin(
        dir: &'a DataDir,
        at: &Path,
        (with_keys, made_at): (bool, String),
    ) -> Result<Backup<'a>, BackupError> {
        let root = dir.root().canonicalize().map_err(file(dir.root()))?;
        if resolved(at)?.starts_with(&root) {
            let why = "in the directory that is to be backed up: what takes that takes its backup with it";
            return Err(place(at, why));
        }
        let mut backup = Backup {
            dir,
            stage: Stage::begin(at, "backup")?,
            manifest: Manifest {
                format: FORMAT.into(),
                made_at,
                release: env!("CARGO_PKG_VERSION").into(),
                with_keys,
                left_out: Vec::new(),
                accounts: Vec::new(),
                files: Vec::new(),
            },
            left_out: Vec::new(),
            place_fails: false,
        };
        let tokens = TOKENS.iter().filter(|_| with_keys);
        for name in [SETTINGS].iter().chain(tokens) {
            if let Some(bytes) = optional(&dir.root().join(name))? {
                backup.put(name, &bytes)?;
            }
        }
        for name in TOKENS.iter().filter(|_| !with_keys) {
            if dir.root().join(name).exists() {
                backup.manifest.left_out.push((*name).to_owned());
            }
        }
        Ok(backup)
    }

    /// Takes an account in, whose store, and the mark beside it, lie here and are written by nobody. The bodies and files beside it
    /// are read after it, so that they are no older. `told`: bytes done, and of all.
    ///
    /// # Errors
    /// [`BackupError`]; nothing of this account is in it then.
    pub fn account(
        &mut self,
        name: &str,
        store: (&Path, &Path),
        told: &dyn Fn(u64, u64),
    ) -> Result<(), BackupError> {
        let (files, left_out) = (self.manifest.files.len(), self.left_out.len());
        let taken = self.take_account(name, store, told);
        if let Err(error) = &taken {
            self.place_fails |= self.is_of_the_place(error);
            self.manifest.files.truncate(files);
            self.left_out.truncate(left_out);
            let begun = self.stage.path().join("accounts").join(name);
            match fs::remove_dir_all(&begun) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(file(&begun)(e)),
                _ => {}
            }
        }
        taken
    }

    fn is_of_the_place(&self, error: &BackupError) -> bool {
        matches!(error, BackupError::File { path, .. } if path.starts_with(self.stage.path()))
    }

    /// Whether an account could not be taken in because of the place where the backup is made, such as a full disk: no other fares better,
    /// and what is there is no backup.
    #[must_use]
    pub fn place_fails(&self) -> bool {
        self.place_fails
    }

    fn take_account(
        &mut self,
        name: &str,
        (db, mark): (&Path, &Path),
        told: &dyn Fn(u64, u64),
    ) -> Result<(), BackupError> {
        let files = self.dir.account(name);
        let seen = look::look_through(db, mark).map_err(|e| of_store(name, e))?;
        let below = format!("accounts/{name}");
        let small = settled(&files)?;
        let vkey = vkey(name, &small)?;
        for (file, bytes) in &small {
            self.put(&format!("{below}/{file}"), bytes)?;
        }
        if self.manifest.with_keys {
            for key in KEYS {
                let path = files.root().join(key);
                let read = files::read_plain(&path, files::SMALL_BYTES_MAX);
                let bytes = zeroize::Zeroizing::new(read.map_err(file(&path))?);
                self.put(&format!("{below}/{key}"), &bytes)?;
            }
        }
        let tables = tables(db)?;
        let bodies = FileBlobs::to_look_at(&files.blobs());
        let mut names = bodies.names().map_err(|e| of_store(name, e))?;
        names.sort_unstable();
        let mut all = size_of(mark);
        all += tables
            .iter()
            .map(|table| size_of(&db.join(table)))
            .sum::<u64>();
        all += names
            .iter()
            .map(|name| size_of(&bodies.path_of(name)))
            .sum::<u64>();
        let mut done = 0;
        let mut step = |n: u64| {
            done += n;
            told(done, all.max(done));
        };
        self.take(mark, &format!("{below}/published"), &mut step)?;
        for table in &tables {
            self.take(&db.join(table), &format!("{below}/db/{table}"), &mut step)?;
        }
        let mut kept = 0;
        for body in names.iter().filter(|body| seen.erased.get(body).is_none()) {
            kept += u64::from(self.body(name, (&bodies, body), &mut step)?);
        }
        self.manifest.accounts.push(AccountRow {
            name: name.into(),
            origin: vkey.name.clone(),
            vkey: vkey.to_string(),
            size: seen.head.size,
            root: seen.head.root.to_base64(),
            checkpoint: seen.published.map(|kept| kept.note),
            bodies: kept,
        });
        Ok(())
    }

    /// Takes a body in; whether it was. One that is being erased is not, and neither is one that is not what was kept.
    fn body(
        &mut self,
        account: &str,
        (bodies, name): (&FileBlobs, &Hash),
        step: &mut dyn FnMut(u64),
    ) -> Result<bool, BackupError> {
        let (from, hex) = (bodies.path_of(name), name.to_hex());
        let below = format!("accounts/{account}/blobs");
        let path = format!("{below}/{}/{hex}", &hex[..2]);
        let to = self.stage.at(&path)?;
        let Some((bytes, sha256)) = copy(&from, &to, step)? else {
            return Ok(false);
        };
        let copies = FileBlobs::to_look_at(&self.stage.path().join(&below));
        match blobs::whole(&copies, name) {
            Ok(()) => {
                self.row(path, (bytes, sha256));
                Ok(true)
            }
            Err(StoreError::Damaged { what }) => {
                fs::remove_file(&to).map_err(file(&to))?;
                if !is_going(&from)? {
                    self.left_out.push(format!("account `{account}`: {what}"));
                }
                Ok(false)
            }
            Err(error) => Err(of_store(account, error)),
        }
    }

    /// Writes what it is of, and moves all of it to its place.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn finish(self) -> Result<Made, BackupError> {
        // What `restore` would not take must not be found out there.
        let unfit = |why| BackupError::Malformed {
            path: self.stage.path().to_owned(),
            why,
        };
        self.manifest.consistent().map_err(unfit)?;
        let bytes = self.manifest.to_json();
        let path = DataDir::new(self.stage.path()).backup_json();
        write_secret(&path, &bytes).map_err(file(&path))?;
        Ok(Made {
            place: self.stage.finish()?,
            manifest: self.manifest,
            sha256: sha256(&bytes),
            left_out: self.left_out,
        })
    }

    fn put(&mut self, below: &str, bytes: &[u8]) -> Result<(), BackupError> {
        let path = self.stage.at(below)?;
        write_secret(&path, bytes).map_err(file(&path))?;
        self.row(below.into(), (bytes.len() as u64, sha256(bytes)));
        Ok(())
    }

    fn take(
        &mut self,
        from: &Path,
        below: &str,
        step: &mut dyn FnMut(u64),
    ) -> Result<(), BackupError> {
        let to = self.stage.at(below)?;
        match copy(from, &to, step)? {
            Some(copied) => self.row(below.into(), copied),
            None => return Err(file(from)(ErrorKind::NotFound.into())),
        }
        Ok(())
    }

    fn row(&mut self, path: String, (bytes, sha256): copy::Copied) {
        let sha256 = sha256.to_hex();
        self.manifest.files.push(FileRow {
            path,
            bytes,
            sha256,
        });
    }
}

fn of_store(account: &str, source: StoreError) -> BackupError {
    let account = account.to_owned();
    match source {
        StoreError::Damaged { what } => BackupError::Damaged { account, what },
        source => BackupError::Store { account, source },
    }
}

#[cfg(test)]
mod tests;
