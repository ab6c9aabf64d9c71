//! Pins: heads of logs that somebody keeps, to see later whether the log still has the history that it had.
//!
//! A folder of plain files, a folder a log: `log.json` says which log, under which key, and where it is read; `<size>.checkpoint`
//! is a head as the log signed it; `<size>.edge` holds the nodes of its tree's edge, without which a stranger could not be shown
//! that a later tree is none that it grew into; `<size>-<size>.<root>.fork.json` is
//! that evidence, and beside it `.now` the head that contradicts, by the beginning of its root.

mod compare;
mod store;

use countersign_verifier::{
    note::{self, Note},
    policy::Eras,
    vkey::VerifierKey,
};

pub use compare::{Finding, compare};
pub use store::{Head, LogFile, PinError, Pinned, Pins};

/// The key of these policies that has signed a note of log `origin`.
#[must_use]
pub fn signer<'e>(eras: &'e Eras, origin: &str, note: &str) -> Option<&'e VerifierKey> {
    let note = Note::parse(note.as_bytes()).ok()?;
    let logs = eras.iter().flat_map(|(_, policy)| policy.logs());
    logs.map(|log| &log.key)
        .filter(|key| key.name == origin)
        .find(|key| note::open(&note, [*key]).is_ok())
}
