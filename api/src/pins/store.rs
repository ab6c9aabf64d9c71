//! The folder of pins.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use countersign_verifier::{
    checkpoint::{Checkpoint, origin_hash},
    hash::Hash,
    limits::NOTE_BYTES_MAX,
    range::Range,
    signed,
    vkey::VerifierKey,
};
use serde::{Deserialize, Serialize};

use crate::files;

const FORMAT: &str = "countersign.pins/1";
/// An origin, a key and an address are far shorter.
const LOG_BYTES_MAX: u64 = 64 << 10;

/// Why pins cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// A file is not what was kept: somebody or something has changed it.
    #[error("{}: {what}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Which log, under which key, and where it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    format: String,
    /// The origin in its checkpoints.
    pub origin: String,
    /// The verifier key that must sign them.
    pub vkey: String,
    /// A URL or a folder.
    pub log: String,
}

/// A head that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The signed text.
    pub checkpoint: Checkpoint,
    /// The note, with whatever cosignatures it had.
    pub note: String,
    /// The edge of its tree, where it could be had.
    pub edge: Option<Range>,
    /// Its file.
    pub file: PathBuf,
}

/// A log and its heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Which.
    pub log: LogFile,
    /// Its key.
    pub key: VerifierKey,
    /// By size; one at least.
    pub heads: Vec<Head>,
    folder: PathBuf,
}

/// A folder of pins; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins(PathBuf);

impl LogFile {
    /// A log to be pinned.
    #[must_use]
    pub fn new(origin: &str, vkey: &VerifierKey, log: &str) -> LogFile {
        LogFile {
            format: FORMAT.into(),
            origin: origin.into(),
            vkey: vkey.to_string(),
            log: log.into(),
        }
    }
}

impl Pinned {
    /// A log of which one head is kept elsewhere than in a folder of pins; `folder` is where files beside it go.
    #[must_use]
    pub fn of(log: LogFile, key: VerifierKey, head: Head, folder: PathBuf) -> Pinned {
        let heads = vec![head];
        Pinned {
            log,
            key,
            heads,
            folder,
        }
    }

    /// The largest head.
    #[must_use]
    pub fn newest(&self) -> &Head {
        // OK because a log without heads is not read.
        self.heads.last().expect("Pinned::newest")
    }

    /// Keeps a file beside the heads. One of that name is left as it is: what shows a rewritten history is never lost to what shows
    /// it once more.
    ///
    /// # Errors
    /// [`PinError::Io`].
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, PinError> {
        let path = self.folder.join(name);
        if path.exists() {
            return Ok(path);
        }
        write(&path, bytes)
    }
}

impl Pins {
    /// The pins in this folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Pins {
        Pins(folder.into())
    }

    /// Every log, in the order of the folders' names.
    ///
    /// # Errors
    /// [`PinError`] of the first that cannot be read.
    pub fn all(&self) -> Result<Vec<Pinned>, PinError> {
        let entries = match self.0.read_dir() {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(io_error(&self.0, source)),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| io_error(&self.0, source))?.path();
            if path.join("log.json").is_file() {
                folders.push(path);
            }
        }
        folders.sort();
        let read = folders.iter().map(|folder| read(folder));
        // A log of which nothing is kept yet was never pinned to the end.
        read.filter(|pinned| !matches!(pinned, Ok(None)))
            .filter_map(Result::transpose)
            .collect()
    }

    /// The pins of the log of this origin.
    ///
    /// # Errors
    /// [`PinError`].
    pub fn of(&self, origin: &str) -> Result<Option<Pinned>, PinError> {
        let folder = self.folder(origin);
        if !folder.join("log.json").is_file() {
            return Ok(None);
        }
        read(&folder)
    }

    /// Keeps a head, durable on return. What is kept of another head of that size is left as it is.
    ///
    /// # Errors
    /// [`PinError`].
    pub fn add(
        &self,
        log: &LogFile,
        note: &str,
        checkpoint: &Checkpoint,
        edge: Option<&Range>,
    ) -> Result<PathBuf, PinError> {
        let folder = self.folder(&log.origin);
        fs::create_dir_all(&folder).map_err(|source| io_error(&folder, source))?;
        // OK because a struct of strings has no key that is not a string.
        let text = serde_json::to_string_pretty(log).expect("Pins::add");
        write(&folder.join("log.json"), (text + "\n").as_bytes())?;
        let size = checkpoint.size;
        if let Some(edge) = edge {
            let lines: String = edge.nodes().iter().map(|h| h.to_base64() + "\n").collect();
            write(&folder.join(format!("{size}.edge")), lines.as_bytes())?;
        }
        write(&folder.join(format!("{size}.checkpoint")), note.as_bytes())
    }

    /// A name that people can read and no two logs share.
    fn folder(&self, origin: &str) -> PathBuf {
        let readable = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name: String = origin.chars().take(60).map(readable).collect();
        let hash = origin_hash(origin).to_hex();
        self.0.join(format!("{name}-{}", &hash[..16]))
    }
}

fn read(folder: &Path) -> Result<Option<Pinned>, PinError> {
    let path = folder.join("log.json");
    let changed = |path: &Path, what: String| PinError::Changed {
        path: path.into(),
        what,
    };
    let read = files::read_plain(&path, LOG_BYTES_MAX);
    let bytes = read.map_err(|source| io_error(&path, source))?;
    let log: LogFile = serde_json::from_slice(&bytes).map_err(|e| changed(&path, e.to_string()))?;
    if log.format != FORMAT {
        let what = format!(
            "of format {:?}, and this release knows {FORMAT}",
            log.format
        );
        return Err(changed(&path, what));
    }
    let key = VerifierKey::parse(&log.vkey).map_err(|e| changed(&path, e.to_string()))?;
    let mut heads = Vec::new();
    for entry in folder
        .read_dir()
        .map_err(|source| io_error(folder, source))?
    {
        let path = entry.map_err(|source| io_error(folder, source))?.path();
        if path.extension().is_some_and(|e| e == "checkpoint") {
            heads.push(head(&path, &log.origin, &key)?);
        }
    }
    heads.sort_by_key(|head| head.checkpoint.size);
    Ok((!heads.is_empty()).then(|| Pinned {
        log,
        key,
        heads,
        folder: folder.into(),
    }))
}

/// A head, its signature verified again: whoever could write here could otherwise choose what is pinned.
fn head(path: &Path, origin: &str, key: &VerifierKey) -> Result<Head, PinError> {
    let changed = |path: &Path, what: String| PinError::Changed {
        path: path.into(),
        what,
    };
    let read = |path: &Path| match files::read_text(path, NOTE_BYTES_MAX as u64) {
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
            Err(changed(path, "longer than it can have been".into()))
        }
        read => read.map_err(|source| io_error(path, source)),
    };
    let note = read(path)?;
    let checkpoint =
        signed::open(&note, origin, key).map_err(|error| changed(path, error.to_string()))?;
    let file = path.with_extension("edge");
    let edge = if file.exists() {
        let nodes: Result<Vec<Hash>, _> = read(&file)?.lines().map(Hash::from_base64).collect();
        let nodes = nodes.map_err(|error| changed(&file, error.to_string()))?;
        let edge = Range::from_parts(checkpoint.size, nodes)
            .map_err(|error| changed(&file, error.to_string()))?;
        if edge.root() != checkpoint.root {
            let what = "it does not lead to the root of the checkpoint beside it".into();
            return Err(changed(&file, what));
        }
        Some(edge)
    } else {
        None
    };
    Ok(Head {
        checkpoint,
        note,
        edge,
        file: path.into(),
    })
}

fn write(path: &Path, bytes: &[u8]) -> Result<PathBuf, PinError> {
    files::replace(path, bytes, files::PUBLIC).map_err(|source| io_error(path, source))?;
    Ok(path.into())
}

fn io_error(path: &Path, source: io::Error) -> PinError {
    PinError::Io {
        path: path.into(),
        source,
    }
}
