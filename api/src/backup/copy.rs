//! Files, copied and hashed in one reading: what is known of a copy is known of the bytes that were written.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use countersign_verifier::hash::Hash;
use sha2::{Digest as _, Sha256};

use super::error::{BackupError, file};
use crate::files;

/// Read so many bytes at a time.
const PIECE: usize = 1 << 20;

/// Bytes of a copy, and their SHA-256.
pub(super) type Copied = (u64, Hash);

/// Copies a file to where there is none, for its owner alone and durable on return; `None` where there is nothing to copy. What is
/// no plain file is not followed and not read.
///
/// # Errors
/// `File`.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    told: &mut dyn FnMut(u64),
) -> Result<Option<Copied>, BackupError> {
    match from.symlink_metadata() {
        Ok(what) if what.is_file() => {}
        Ok(_) => {
            let source = std::io::Error::other("no plain file");
            return Err(file(from)(source));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(file(from)(e)),
    }
    let mut source = match files::open_plain(from) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(file(from))?,
    };
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .map_err(file(to))?;
    let (mut bytes, mut hash) = (0, Sha256::new());
    let mut piece = vec![0; PIECE];
    loop {
        let n = match source.read(&mut piece) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => read.map_err(file(from))?,
        };
        if n == 0 {
            break;
        }
        target.write_all(&piece[..n]).map_err(file(to))?;
        hash.update(&piece[..n]);
        bytes += n as u64;
        told(n as u64);
    }
    target.sync_all().map_err(file(to))?;
    Ok(Some((bytes, Hash(hash.finalize().into()))))
}
