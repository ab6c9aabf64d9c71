//! The file of a monitor, to go on from: up to where everything was read and told, under which head, and what names meant so far.
//!
//! It is whoever watches' own: whoever can write it can keep alerts from being made. The sum in it is there to find what a disk or
//! an editor did. A file that is gone is an error, and never a beginning: to begin is asked for with `--from`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use countersign_verifier::{checkpoint::Checkpoint, hash::Hash, note::Note, range::Range};
use serde::{Deserialize, Serialize};

use super::learned::Learned;
use crate::sealed::{self, Sealed, SealedError};

/// Why the file of a monitor cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// There is none, and where to begin was not said.
    #[error(
        "{}: the cursor is lost: there is no such file. What was read and told before is not known; to begin, or to begin anew, say \
         from which leaf on: --from 0 reads everything",
        path.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// It is not one, was damaged, is of another log, or cannot be read or written.
    #[error("{}: {what}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// A head that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) checkpoint: Checkpoint,
    pub(super) note: String,
    /// The edge of its tree, where it could be had: what evidence of a fork is made with.
    pub(super) edge: Option<Range>,
}

/// How far a monitor came.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    /// The largest head so far, whose tree begins with `read`.
    pub(super) head: Seen,
    /// The tree of the leaves that were read and told.
    pub(super) read: Range,
    pub(super) learned: Learned,
    /// What was watched for up to there: "complete" is said of nothing else. `None` in the files of earlier releases.
    pub(super) asked: Option<BTreeSet<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    format: String,
    /// SHA-256 of the file with this member empty.
    sha256: String,
    origin: String,
    /// Leaves that were read and told.
    size: u64,
    root: String,
    /// The nodes of the edge of their tree, in base64.
    nodes: Vec<String>,
    /// The largest head, as it was signed.
    checkpoint: String,
    /// The nodes of the edge of its tree.
    edge: Option<Vec<String>>,
    names: BTreeMap<String, Option<String>>,
    keys: BTreeMap<String, Option<String>>,
    #[serde(default)]
    asked: Option<BTreeSet<String>>,
}

impl Sealed for Form {
    const FORMAT: &'static str = "countersign.watch/1";
    const WHAT: &'static str = "the file of a monitor";
    /// Two edges of at most 63 hashes, a note, and a line a name or a key that is watched.
    const BYTES_MAX: u64 = 16 << 20;

    fn format(&self) -> &str {
        &self.format
    }

    fn seal(&mut self) -> &mut String {
        &mut self.sha256
    }
}

impl Form {
    fn kept(self) -> Result<Kept, String> {
        let range = |size: u64, nodes: &[String]| {
            let nodes: Result<Vec<Hash>, _> = nodes.iter().map(|n| Hash::from_base64(n)).collect();
            Range::from_parts(size, nodes.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
        };
        let note = Note::parse(self.checkpoint.as_bytes()).map_err(|e| e.to_string())?;
        let checkpoint = Checkpoint::parse(note.text).map_err(|e| e.to_string())?;
        let read = range(self.size, &self.nodes)?;
        let edge = match &self.edge {
            Some(nodes) => Some(range(checkpoint.size, nodes)?),
            None => None,
        };
        let apart = read.root().to_hex() != self.root
            || edge.as_ref().is_some_and(|e| e.root() != checkpoint.root)
            || checkpoint.origin != self.origin
            || checkpoint.size < self.size;
        if apart {
            return Err("what it says does not fit together".into());
        }
        Ok(Kept {
            head: Seen {
                checkpoint,
                note: self.checkpoint,
                edge,
            },
            read,
            learned: Learned::from_texts(&self.names, &self.keys)
                .ok_or("an identity in it is none")?,
            asked: self.asked,
        })
    }
}

/// Reads the file.
///
/// # Errors
/// [`KeptError::Lost`] if it is not there; [`KeptError::Unusable`] if it is not whole, or of another form.
pub(super) fn load(path: &Path) -> Result<Kept, KeptError> {
    let unusable = |what: &dyn std::fmt::Display| KeptError::Unusable {
        path: path.into(),
        what: what.to_string(),
    };
    let form = match sealed::load::<Form>(path) {
        Ok(Some(form)) => form,
        Ok(None) => return Err(KeptError::Lost { path: path.into() }),
        Err(error @ (SealedError::Form(..) | SealedError::Sum)) => {
            return Err(unusable(&format!("the cursor is lost: {error}")));
        }
        Err(error) => return Err(unusable(&error)),
    };
    form.kept().map_err(|what| unusable(&what))
}

/// Puts a file in the place of the one before, whole or not at all and durable on return.
///
/// # Errors
/// What the system says.
pub(super) fn save(path: &Path, kept: &Kept) -> Result<(), KeptError> {
    let nodes = |range: &Range| range.nodes().iter().map(Hash::to_base64).collect();
    let (names, keys) = kept.learned.to_texts();
    let form = Form {
        format: Form::FORMAT.into(),
        sha256: String::new(),
        origin: kept.head.checkpoint.origin.clone(),
        size: kept.read.size(),
        root: kept.read.root().to_hex(),
        nodes: nodes(&kept.read),
        checkpoint: kept.head.note.clone(),
        edge: kept.head.edge.as_ref().map(nodes),
        names,
        keys,
        asked: kept.asked.clone(),
    };
    sealed::save(path, form).map_err(|e| KeptError::Unusable {
        path: path.into(),
        what: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use countersign_verifier::hash::leaf_hash;

    fn kept() -> Kept {
        let read: Range = (0..5_u8).map(|n| leaf_hash(&[n])).collect();
        let edge: Range = (0..9_u8).map(|n| leaf_hash(&[n])).collect();
        let note = format!(
            "example.com/log\n9\n{}\n\n\u{2014} example.com/log AAAAAAAA\n",
            edge.root().to_base64()
        );
        let text = note.split("\n\n").next().unwrap().to_owned() + "\n";
        let names = BTreeMap::from([("ci".to_owned(), None)]);
        Kept {
            head: Seen {
                checkpoint: Checkpoint::parse(&text).unwrap(),
                note,
                edge: Some(edge),
            },
            read,
            learned: Learned::from_texts(&names, &BTreeMap::new()).unwrap(),
            asked: Some(["name ci".to_owned()].into()),
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_refused_when_it_was_changed_or_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert!(matches!(load(&path), Err(KeptError::Lost { .. })));
        save(&path, &kept()).unwrap();
        assert_eq!(load(&path).unwrap(), kept());
        let good = fs::read_to_string(&path).unwrap();
        for bad in [
            String::new(),
            good[..good.len() - 9].to_owned(),
            good.replacen("\"size\":5", "\"size\":4", 1),
            good.replacen(Form::FORMAT, "countersign.watch/2", 1),
            good.replacen("\"names\"", "\"more\":1,\"names\"", 1),
        ] {
            fs::write(&path, &bad).unwrap();
            let error = load(&path).unwrap_err();
            assert!(matches!(error, KeptError::Unusable { .. }), "{bad}");
        }
        // Whole by its sum, and about trees that are none.
        let mut other = kept();
        other.read = (0..10_u8).map(|n| leaf_hash(&[n])).collect();
        save(&path, &other).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("fit together"), "{error}");
    }
}
