//! Reading what the arguments name. Nothing is created, and an absent file is an error.

use std::format;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::string::String;
use std::time::{SystemTime, UNIX_EPOCH};
use std::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::VerifyArgs;
use crate::decimal;
use crate::hash::Hash;
use crate::key::PublicKey;
use crate::limits;
use crate::policy::{Eras, Policy};
use crate::verdict::Options;
use crate::vkey::VerifierKey;

pub(super) fn options(args: &VerifyArgs) -> Result<Options, String> {
    let keys = match args.keys.as_slice() {
        [] => None,
        paths => Some(
            paths
                .iter()
                .map(|path| keys(path))
                .collect::<Result<Vec<_>, _>>()?
                .concat(),
        ),
    };
    // A clock before 1970 is no clock.
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .map(|since| since.as_secs());
    Ok(Options {
        keys,
        payload: args.payload.as_deref().map(file).transpose()?,
        artifact: args.artifact.as_deref().map(sha256_of).transpose()?,
        now_s,
    })
}

fn keys(path: &Path) -> Result<Vec<PublicKey>, String> {
    let keys = PublicKey::parse_all(&file(path)?).map_err(|error| told(path, &error))?;
    if keys.is_empty() {
        Err(format!("{}: no key", path.display()))
    } else {
        Ok(keys)
    }
}

/// A policy for all sizes, or a folder of policies by the size that they hold from.
pub(super) fn policy(path: &Path) -> Result<Eras, String> {
    let read = |path: &Path| {
        let policy = Policy::parse(file(path)?);
        policy.map_err(|error| format!("policy {}: {error}", path.display()))
    };
    if !fs::metadata(path)
        .map_err(|error| told(path, &error))?
        .is_dir()
    {
        return Ok(Eras::one(read(path)?));
    }
    let (mut policies, mut stolen) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(path).map_err(|error| told(path, &error))? {
        let entry = entry.map_err(|error| told(path, &error))?.path();
        if entry.file_name().is_some_and(|name| name == "stolen") {
            stolen = vkeys(&entry)?;
            continue;
        }
        if entry
            .extension()
            .is_none_or(|extension| extension != "policy")
        {
            continue;
        }
        let from_size = entry
            .file_stem()
            .and_then(|stem| decimal::parse(stem.to_str()?));
        let from_size = from_size
            .ok_or_else(|| format!("policy {}: not named <from_size>.policy", entry.display()))?;
        policies.push((from_size, read(&entry)?));
    }
    let eras =
        Eras::new(policies).map_err(|error| format!("policies in {}: {error}", path.display()))?;
    Ok(eras.without(&stolen))
}

/// One verifier key a line; empty lines and lines that start with `#` are passed over.
fn vkeys(path: &Path) -> Result<Vec<VerifierKey>, String> {
    let bytes = file(path)?;
    let text = str::from_utf8(&bytes).map_err(|error| told(path, &error))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| VerifierKey::parse(line).map_err(|error| told(path, &error)))
        .collect()
}

/// A whole file of at most [`limits::FILE_BYTES_MAX`].
pub(super) fn file(path: &Path) -> Result<Vec<u8>, String> {
    bounded(File::open(path).map_err(|error| told(path, &error))?, path)
}

/// A whole stream of at most [`limits::FILE_BYTES_MAX`].
pub(super) fn bounded(stream: impl Read, path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let limit = limits::FILE_BYTES_MAX;
    stream
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| told(path, &error))?;
    match u64::try_from(bytes.len()) {
        Ok(len) if len <= limit => Ok(bytes),
        _ => Err(format!("{}: more than {limit} bytes", path.display())),
    }
}

/// An artifact may be of any size, so it is read in pieces.
fn sha256_of(path: &Path) -> Result<Hash, String> {
    let mut file = File::open(path).map_err(|error| told(path, &error))?;
    let (mut hasher, mut piece) = (Sha256::new(), std::vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(Hash(hasher.finalize().into())),
            Ok(n) => hasher.update(&piece[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(told(path, &error)),
        }
    }
}

fn told(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
