//! The file of an audit, to go on from: how far it came, and nothing that was not found good.
//!
//! It is the auditor's own: whoever can write it can make a later audit believe it. The sum in it is there to find what a disk
//! or an editor did.

use std::path::{Path, PathBuf};

use countersign_verifier::{base64, hash::Hash};
use serde::{Deserialize, Serialize};

use super::edge::Edge;
use crate::{
    sealed::{self, Sealed},
    state::State,
};

/// Why the file of an earlier audit cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct KeptError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

/// How far an audit came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) origin: String,
    pub(super) edge: Edge,
    /// What the leaves say, in a log of ours.
    pub(super) state: Option<State>,
    /// Whether every decision so far was judged again.
    pub(super) replay: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    format: String,
    /// SHA-256 of the file with this member empty.
    sha256: String,
    origin: String,
    size: u64,
    root: String,
    /// One a level, base64 of its hashes.
    rows: Vec<String>,
    /// Base64 of a snapshot.
    state: Option<String>,
    replay: bool,
}

impl Sealed for Form {
    const FORMAT: &'static str = "countersign.audit/1";
    const WHAT: &'static str = "the file of an audit";
    /// Eight rows of 255 hashes are 90 KB; the state of a large account has some ten thousand identities.
    const BYTES_MAX: u64 = 256 << 20;

    fn format(&self) -> &str {
        &self.format
    }

    fn seal(&mut self) -> &mut String {
        &mut self.sha256
    }
}

impl Form {
    fn edge(&self) -> Option<Edge> {
        let row = |text: &String| {
            let bytes = base64::decode(text).ok()?;
            let (hashes, rest) = bytes.as_chunks::<32>();
            rest.is_empty()
                .then(|| hashes.iter().map(|hash| Hash(*hash)).collect())
        };
        let edge = Edge::from_rows(self.rows.iter().map(row).collect::<Option<_>>()?)?;
        (edge.size() == self.size && edge.root().to_hex() == self.root).then_some(edge)
    }
}

/// Reads the file; `None` if there is none yet.
///
/// # Errors
/// It is not whole, of a newer release, of another log, or was made without what is asked for now.
pub(super) fn load(path: &Path, origin: &str, replay: bool) -> Result<Option<Kept>, KeptError> {
    let error = |what: &dyn std::fmt::Display| KeptError {
        path: path.into(),
        what: what.to_string(),
    };
    let Some(form) = sealed::load::<Form>(path).map_err(|e| error(&e))? else {
        return Ok(None);
    };
    if form.origin != origin {
        let what = format!("the audit of log {:?}, and this is {origin:?}", form.origin);
        return Err(error(&what));
    }
    if replay && !form.replay && form.size > 0 {
        return Err(error(&"made without --replay: begin another one for it"));
    }
    let edge = form
        .edge()
        .ok_or_else(|| error(&"its tree has another root than it says"))?;
    let state = match &form.state {
        None => None,
        Some(text) => {
            let bytes = base64::decode(text).map_err(|e| error(&e))?;
            let state = State::from_snapshot(&bytes).filter(|state| state.size == form.size);
            Some(state.ok_or_else(|| error(&"made by another release: begin a new one"))?)
        }
    };
    let (origin, replay) = (form.origin, form.replay);
    Ok(Some(Kept {
        origin,
        edge,
        state,
        replay,
    }))
}

/// Puts a file in the place of the one before, durable on return: under another name first, so that there is never half of one.
///
/// # Errors
/// What the system says.
pub(super) fn save(path: &Path, kept: &Kept) -> Result<(), KeptError> {
    let row = |row: &Vec<Hash>| base64::encode(&row.iter().flat_map(|h| h.0).collect::<Vec<u8>>());
    let form = Form {
        format: Form::FORMAT.into(),
        sha256: String::new(),
        origin: kept.origin.clone(),
        size: kept.edge.size(),
        root: kept.edge.root().to_hex(),
        rows: kept.edge.rows().iter().map(row).collect(),
        state: kept
            .state
            .as_ref()
            .map(|state| base64::encode(&state.to_snapshot())),
        replay: kept.replay,
    };
    sealed::save(path, form).map_err(|e| KeptError {
        path: path.into(),
        what: e.to_string(),
    })
}
