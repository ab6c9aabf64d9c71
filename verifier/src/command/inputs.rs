//! Reading what the arguments name. Nothing is created, and an absent file is an error.

use std::format;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::string::String;
use std::time::{SystemTime, UNIX_EPOCH};
use std::vec::Vec;

use sha2::{Digest as _, Sha256};

use super::VerifyArgs;
use crate::blob::commitment;
use crate::decimal;
use crate::hash::Hash;
use crate::key::PublicKey;
use crate::limits;
use crate::policy::{Eras, Policy};
use crate::verdict::{Body, Erasure, Options, Verifier};
use crate::vkey::VerifierKey;

pub(super) fn options(args: &VerifyArgs, eras: &Eras) -> Result<Options, String> {
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
    let bare = Options {
        keys,
        now_s,
        ..Options::default()
    };
    Ok(Options {
        payload: args.payload.as_deref().map(file).transpose()?,
        artifact: args.artifact.as_deref().map(sha256_of).transpose()?,
        body: body(args)?,
        erased: erased(&args.erased, eras, &bare)?,
        ..bare
    })
}

/// The body given, by what it and its salt give.
fn body(args: &VerifyArgs) -> Result<Option<Body>, String> {
    let (Some(path), Some(salt)) = (&args.body, &args.salt) else {
        return Ok(None);
    };
    let salt = Hash::from_hex(salt).map_err(|_| "--salt: 64 lowercase hexadecimal digits")?;
    let body = file(path)?;
    Ok(Some(Body {
        commitment: commitment(&salt.0, &body),
        bytes: body.len() as u64,
    }))
}

/// What the leaves of these files erased. One that does not show it would leave the reader with another answer than he asked for.
fn erased(paths: &[PathBuf], eras: &Eras, options: &Options) -> Result<Vec<Erasure>, String> {
    let mut verifier = Verifier::new(eras.clone(), options.clone());
    let mut erasure = |path: &PathBuf| {
        let shown = verifier.erasure(&file(path)?);
        shown.map_err(|why| format!("--erased {}: {why}", path.display()))
    };
    paths.iter().map(&mut erasure).collect()
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
            plain(&entry)?;
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
        plain(&entry)?;
        policies.push((from_size, read(&entry)?));
    }
    let eras =
        Eras::new(policies).map_err(|error| format!("policies in {}: {error}", path.display()))?;
    Ok(eras.without(&stolen))
}

/// Refuses what is no plain file. A file that is named may be a pipe; one that lies in a folder would be waited for for ever.
fn plain(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(of) if of.is_file() => Ok(()),
        Ok(_) => Err(told(path, &"no plain file")),
        Err(error) => Err(told(path, &error)),
    }
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
