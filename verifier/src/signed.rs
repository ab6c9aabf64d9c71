//! A tree head under the one key that is trusted to sign for its origin.

use alloc::string::String;

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::note::{self, Note, NoteError};
use crate::vkey::{Algorithm, VerifierKey};

/// Why a note is no head of that log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignedError {
    /// Not a note, or not signed by the key.
    #[error("{0}")]
    Note(#[from] NoteError),
    /// Signed, and not an acceptable checkpoint.
    #[error("{0}")]
    Checkpoint(#[from] CheckpointError),
    /// Of another log.
    #[error("it is of log {stated:?}, not of {origin:?}")]
    Origin {
        /// The origin in it.
        stated: String,
        /// The origin that was asked for.
        origin: String,
    },
    /// A key whose signatures are not those of a log.
    #[error(transparent)]
    Kind(#[from] KindError),
}

/// A key of a kind that signs no tree heads, or whose signatures are not judged here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys of type 0x{kind:02x} {why}")]
pub struct KindError {
    /// The type byte.
    pub kind: u8,
    why: &'static str,
}

/// Whether a key can be that of a log: Ed25519 (0x01), ECDSA P-256 (0x02), or of RFC 6962 tree heads (0x05).
///
/// # Errors
/// [`KindError`].
pub fn check_kind(key: &VerifierKey) -> Result<(), KindError> {
    let kind = key.algorithm.kind();
    let why = match key.algorithm {
        Algorithm::Ed25519(_) | Algorithm::EcdsaP256(_) | Algorithm::Other { kind: 0x05, .. } => {
            return Ok(());
        }
        Algorithm::CosignatureV1(_) | Algorithm::MlDsa44(_) => "cosign, and are no log's",
        Algorithm::Other { .. } => "are of a kind whose signatures are not judged",
    };
    Err(KindError { kind, why })
}

/// Opens a checkpoint's note: signed by `key`, of the log `origin`, of a size that can be reckoned with. The key's name need not be
/// the origin; which key may sign for which is the caller's knowledge.
///
/// # Errors
/// [`SignedError`].
pub fn open(note: &str, origin: &str, key: &VerifierKey) -> Result<Checkpoint, SignedError> {
    check_kind(key)?;
    let note = Note::parse(note.as_bytes())?;
    note::open(&note, [key])?;
    let checkpoint = Checkpoint::parse(note.text)?;
    if checkpoint.origin != origin {
        return Err(SignedError::Origin {
            stated: checkpoint.origin,
            origin: origin.into(),
        });
    }
    checkpoint.check_size()?;
    Ok(checkpoint)
}
