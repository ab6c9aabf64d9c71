//! `backup.json`: what a backup is of, and the SHA-256 of each of its files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use countersign_verifier::hash::{Hash, sha256};
use serde::{Deserialize, Serialize};

use super::error::{BackupError, file, place};
use crate::{
    data_dir::{DataDir, is_account_name},
    files,
};

/// The one format there is.
pub const FORMAT: &str = "countersign.backup/1";
const FORMATS: &str = "countersign.backup/";
/// The largest that is read: some 200 bytes a file.
const BYTES_MAX: u64 = 1 << 30;

/// What lies in an account's folder and is no secret; the first of them must.
pub(super) const PUBLIC: [&str; 5] = [
    "account.json",
    "log.vkey",
    "policy",
    // A change of policy that is decided and not in all files yet.
    "policy.next",
    "succeeded.json",
];
/// How many of them must.
pub(super) const NEEDED: usize = 3;
/// The account's secrets, all of which it has.
pub(super) const KEYS: [&str; 3] = ["log.key", "service.key", "seat.secret"];
/// Secrets of the directory, each of which it may have.
pub(super) const TOKENS: [&str; 2] = ["owner.key", "owner.token"];
/// The settings, which may hold the path of a secret and none itself.
pub(super) const SETTINGS: &str = "config.toml";

/// What `backup.json` says. Members that are not known are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// When it was begun, RFC 3339, by the clock of the machine.
    pub made_at: String,
    /// The release that made it.
    pub release: String,
    /// Whether the private keys and tokens are in it.
    pub with_keys: bool,
    /// The secrets of the directory itself that were there and are not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The accounts, by name.
    pub accounts: Vec<AccountRow>,
    /// All files but this one.
    pub files: Vec<FileRow>,
}

/// An account of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRow {
    /// Its local name.
    pub name: String,
    /// Its log's origin.
    pub origin: String,
    /// Its log's verifier key.
    pub vkey: String,
    /// How many leaves there are.
    pub size: u64,
    /// Their root, base64.
    pub root: String,
    /// The newest published checkpoint, a signed note; absent: none was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// How many bodies beside the log there are.
    pub bodies: u64,
}

/// What every format of it has.
#[derive(Deserialize)]
struct Named {
    format: String,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Below the backup, with `/`.
    pub path: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Their SHA-256, in lowercase hexadecimal.
    pub sha256: String,
}

impl Manifest {
    /// Its bytes.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // OK because a struct of strings and numbers has no key that is not a string.
        let mut bytes = serde_json::to_vec_pretty(self).expect("Manifest::to_json");
        bytes.push(b'\n');
        bytes
    }

    /// Reads that of the backup in this folder; with the SHA-256 of its bytes, which stands for all that is in the backup.
    ///
    /// # Errors
    /// `Place` where there is none, `Malformed`, `Newer`.
    pub fn read(folder: &Path) -> Result<(Manifest, Hash), BackupError> {
        let path = DataDir::new(folder).backup_json();
        let bytes = match files::read_plain(&path, BYTES_MAX) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let why = "no backup: there is no backup.json in it, which is written last";
                return Err(place(folder, why));
            }
            read => read.map_err(file(&path))?,
        };
        let malformed = |why: String| BackupError::Malformed {
            path: path.clone(),
            why,
        };
        let named: Named = serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        match named.format {
            format if format == FORMAT => {}
            format if format.starts_with(FORMATS) => {
                return Err(BackupError::Newer { path, format });
            }
            format => return Err(malformed(format!("its format is {format:?}"))),
        }
        let read: Manifest =
            serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        read.consistent().map_err(malformed)?;
        Ok((read, sha256(&bytes)))
    }

    /// Whether each account and each file is named once, and each file is one that a backup has: nothing is ever written elsewhere
    /// than a data directory has it.
    pub(super) fn consistent(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for row in &self.accounts {
            if !is_account_name(&row.name) || !names.insert(row.name.as_str()) {
                return Err(format!("the account {:?}", row.name));
            }
        }
        if names.is_empty() {
            return Err("it names no account".into());
        }
        let mut paths = BTreeSet::new();
        for row in &self.files {
            if !self.with_keys && is_secret(&row.path) {
                return Err(format!(
                    "the file {:?}: it says that no secret is in it",
                    row.path
                ));
            }
            if !is_ours(&row.path, &names) || !paths.insert(row.path.as_str()) {
                return Err(format!("the file {:?}", row.path));
            }
        }
        for name in names {
            let needed = PUBLIC.iter().take(NEEDED).chain(&["published"]);
            for file in needed {
                let path = format!("accounts/{name}/{file}");
                if !paths.contains(path.as_str()) {
                    return Err(format!("{path} is not in it"));
                }
            }
        }
        Ok(())
    }

    /// Its files by their paths.
    #[must_use]
    pub fn by_path(&self) -> BTreeMap<&str, &FileRow> {
        let rows = self.files.iter();
        rows.map(|row| (row.path.as_str(), row)).collect()
    }

    /// How many bytes all files have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files
            .iter()
            .fold(0, |all, row| all.saturating_add(row.bytes))
    }
}

/// Whether a file is one that only a backup with keys has.
fn is_secret(path: &str) -> bool {
    TOKENS.contains(&path)
        || path
            .rsplit('/')
            .next()
            .is_some_and(|file| KEYS.contains(&file))
}

/// Whether a file of `policy.d` is the policy of an era.
pub(super) fn is_policy(file: &str) -> bool {
    file.strip_suffix(".policy").is_some_and(is_size)
}

/// Whether a backup of these accounts may have a file there.
fn is_ours(path: &str, names: &BTreeSet<&str>) -> bool {
    if path == SETTINGS || TOKENS.contains(&path) {
        return true;
    }
    let mut parts = path.split('/');
    let (top, name) = (parts.next(), parts.next());
    if top != Some("accounts") || !name.is_some_and(|name| names.contains(name)) {
        return false;
    }
    let parts: Vec<&str> = parts.collect();
    match parts[..] {
        [file] => file == "published" || PUBLIC.contains(&file) || KEYS.contains(&file),
        ["policy.d", file] => is_policy(file),
        ["db", file] => is_table(file),
        ["blobs", folder, file] => Hash::from_hex(file).is_ok_and(|_| file[..2] == *folder),
        _ => false,
    }
}

fn is_size(text: &str) -> bool {
    text.parse::<u64>()
        .is_ok_and(|size| size.to_string() == text)
}

/// Whether a file of `db` is one that RocksDB reads.
pub(super) fn is_table(file: &str) -> bool {
    let numbered = |text: Option<&str>| {
        text.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    ["CURRENT", "IDENTITY"].contains(&file)
        || [".sst", ".log"]
            .iter()
            .any(|kind| numbered(file.strip_suffix(kind)))
        || ["MANIFEST-", "OPTIONS-"]
            .iter()
            .any(|kind| numbered(file.strip_prefix(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_nowhere_but_to_a_file_of_a_data_directory() {
        let names = BTreeSet::from(["dev"]);
        let body = "ab".repeat(32);
        for path in [
            "config.toml",
            "owner.key",
            "owner.token",
            "accounts/dev/log.vkey",
            "accounts/dev/policy.d/0.policy",
            "accounts/dev/db/000012.sst",
            "accounts/dev/db/CURRENT",
            "accounts/dev/seat.secret",
            &format!("accounts/dev/blobs/ab/{body}"),
        ] {
            assert!(is_ours(path, &names), "{path}");
        }
        for path in [
            "",
            "/etc/passwd",
            "../config.toml",
            "./config.toml",
            "lock",
            "backup.json",
            "accounts/other/policy",
            "accounts/dev",
            "accounts/dev/",
            "accounts/dev/../../x",
            "accounts//policy",
            "accounts/dev/db/..",
            "accounts/dev/db/a/b",
            "accounts/dev/db/.nfs000012",
            "accounts/dev/db/000012.sst~",
            "accounts/dev/db/.sst",
            "accounts/dev/db/LOCK",
            "accounts/dev/policy.d/0.policy~",
            "accounts/dev/db/",
            "accounts/dev/policy.d/00.policy",
            "accounts/dev/policy.d/../x",
            "accounts/dev/still/db",
            "accounts/dev/blobs/tmp/1",
            "witnesses/1/witness.key",
            &format!("accounts/dev/blobs/cd/{body}"),
        ] {
            assert!(!is_ours(path, &names), "{path}");
        }
    }

    #[test]
    fn what_is_no_backup_of_this_release_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let read = || Manifest::read(dir.path());
        assert!(matches!(read(), Err(BackupError::Place { .. })));
        let write = |text: &str| std::fs::write(dir.path().join("backup.json"), text).unwrap();
        for (text, newer) in [
            ("{", false),
            ("{\"format\":\"countersign.evidence/1\"}", false),
            ("{\"format\":\"countersign.backup/1\"}", false),
            ("{\"format\":\"countersign.backup/2\",\"x\":[]}", true),
        ] {
            write(text);
            match read() {
                Err(BackupError::Newer { .. }) => assert!(newer, "{text}"),
                Err(BackupError::Malformed { .. }) => assert!(!newer, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let row = |path: &str| FileRow {
            path: path.into(),
            bytes: 0,
            sha256: "00".repeat(32),
        };
        let needed = ["account.json", "log.vkey", "policy", "published"];
        let mut whole = Manifest {
            format: FORMAT.into(),
            made_at: "2026-11-29T13:00:00.000Z".into(),
            release: "1".into(),
            with_keys: false,
            left_out: Vec::new(),
            accounts: vec![AccountRow {
                name: "dev".into(),
                origin: "localhost/dev".into(),
                vkey: String::new(),
                size: 0,
                root: String::new(),
                checkpoint: None,
                bodies: 0,
            }],
            files: needed
                .map(|name| row(&format!("accounts/dev/{name}")))
                .into(),
        };
        std::fs::write(dir.path().join("backup.json"), whole.to_json()).unwrap();
        let (same, digest) = read().unwrap();
        assert_eq!((same, digest), (whole.clone(), sha256(&whole.to_json())));
        let says = |of: &Manifest, word: &str| {
            std::fs::write(dir.path().join("backup.json"), of.to_json()).unwrap();
            let said = read().unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        };
        // Who adds a token adds one that he knows.
        for secret in ["owner.token", "owner.key", "accounts/dev/log.key"] {
            let mut with = whole.clone();
            with.files.push(row(secret));
            says(&with, "no secret");
            with.with_keys = true;
            std::fs::write(dir.path().join("backup.json"), with.to_json()).unwrap();
            assert!(read().is_ok(), "{secret}");
        }
        let mut twice = whole.clone();
        twice.files.push(row("accounts/dev/policy"));
        says(&twice, "the file \"accounts/dev/policy\"");
        let mut twice = whole.clone();
        twice.accounts.push(whole.accounts[0].clone());
        says(&twice, "the account \"dev\"");
        whole.files.pop();
        says(&whole, "accounts/dev/published is not in it");
        whole.accounts.clear();
        says(&whole, "no account");
    }
}
