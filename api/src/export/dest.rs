//! The folder of a copy: files written whole or not at all, no link followed, one writer at a time.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::Hash,
    limits::{NOTE_BYTES_MAX, TILE_BYTES_MAX},
    policy::Eras,
    tile::{Bundle, Tile, WIDTH, level_hashes, parse_hashes, tiles},
    verdict::{Status, judge_checkpoint},
};
use serde_json::{Value, json};

use super::ExportError;
use crate::{audit::edge::Edge, files};

/// What the folder is, for whoever finds it, and for the next export: written first.
const ABOUT: &str = "log.json";
const FORMAT: &str = "countersign.copy/1";
/// Files are written here first. What an interrupted export left is overwritten.
const STAGE: &str = ".stage";
const ABOUT_BYTES_MAX: usize = 64 << 10;

/// A folder that this process alone writes to.
pub(super) struct Dest {
    root: PathBuf,
    /// The folder itself, locked.
    folder: File,
}

impl Dest {
    /// Makes the folder if need be, and takes it.
    pub(super) fn open(path: &Path) -> Result<Dest, ExportError> {
        let failed = |source| ExportError::Io {
            path: path.display().to_string(),
            source,
        };
        fs::create_dir_all(path).map_err(failed)?;
        // The folder that is meant may be reached over a link; inside of it there are none.
        let root = path.canonicalize().map_err(failed)?;
        let folder = File::open(&root).map_err(failed)?;
        match folder.try_lock() {
            Ok(()) => Ok(Dest { root, folder }),
            Err(fs::TryLockError::WouldBlock) => Err(ExportError::Busy {
                path: path.display().to_string(),
            }),
            Err(fs::TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Where a path of the copy is, for people.
    pub(super) fn at(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }

    fn failed(&self, path: &str) -> impl Fn(io::Error) -> ExportError {
        let path = self.at(path);
        move |source| ExportError::Io {
            path: path.clone(),
            source,
        }
    }

    fn taken(&self, why: impl Into<String>) -> ExportError {
        ExportError::Taken {
            path: self.root.display().to_string(),
            why: why.into(),
        }
    }

    /// Refuses a folder of something else, or of another log.
    pub(super) fn claim(&self, origin: &str) -> Result<(), ExportError> {
        let Some(bytes) = self.get(ABOUT, ABOUT_BYTES_MAX)? else {
            let mut names = fs::read_dir(&self.root).map_err(self.failed(""))?;
            let other =
                names.find(|entry| !entry.as_ref().is_ok_and(|entry| entry.file_name() == STAGE));
            return match other {
                None => Ok(()),
                Some(_) => Err(self.taken(format!("not empty, and no copy of a log ({ABOUT})"))),
            };
        };
        let about: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        match (about["format"].as_str(), about["origin"].as_str()) {
            (Some(FORMAT), Some(there)) if there == origin => Ok(()),
            (Some(FORMAT), Some(there)) => Err(self.taken(format!(
                "holds a copy of log {there:?}, and this is {origin:?}"
            ))),
            _ => Err(self.taken(format!("{ABOUT} is not that of a copy of this form"))),
        }
    }

    /// The head that the copy publishes; `None` as long as it publishes none.
    pub(super) fn published(
        &self,
        eras: &Eras,
        origin: &str,
    ) -> Result<Option<Checkpoint>, ExportError> {
        let Some(bytes) = self.get("checkpoint", NOTE_BYTES_MAX)? else {
            return Ok(None);
        };
        let note = String::from_utf8_lossy(&bytes);
        let judged = judge_checkpoint(&note, eras, None, None);
        let [signed, _] = judged.checks;
        match judged.checkpoint {
            Some(head) if signed.status == Status::Pass && head.origin == origin => Ok(Some(head)),
            Some(head) if signed.status == Status::Pass => {
                Err(self.taken(format!("its checkpoint is of log {:?}", head.origin)))
            }
            _ => Err(self.taken(format!("its checkpoint, by the policy: {}", signed.detail))),
        }
    }

    /// Says what the folder is, on the disk before anything else is.
    pub(super) fn describe(&self, origin: &str, vkey: &str) -> Result<(), ExportError> {
        let about = json!({"format": FORMAT, "origin": origin, "vkey": vkey});
        self.keep(ABOUT, format!("{about}\n").as_bytes())?;
        self.keep("log.vkey", format!("{vkey}\n").as_bytes())
    }

    /// Puts the files of the policy, durable on return.
    pub(super) fn judge_by(&self, policy: &[(String, Vec<u8>)]) -> Result<(), ExportError> {
        policy
            .iter()
            .try_for_each(|(path, bytes)| self.keep(path, bytes))
    }

    /// The edge of the tree that the copy publishes, out of its own tiles.
    pub(super) fn edge(&self, head: &Checkpoint) -> Result<Edge, ExportError> {
        let width = u64::from(WIDTH);
        let mut rows = Vec::new();
        for level in 0_u8.. {
            let hashes = level_hashes(head.size, level);
            if hashes == 0 {
                break;
            }
            let tile = Tile {
                level,
                index: hashes / width,
                // OK because it is a rest of a division by 256.
                width: u16::try_from(hashes % width).expect("Dest::edge"),
            };
            let row = if tile.width == 0 {
                Vec::new()
            } else {
                self.hashes(&tile)?
            };
            rows.push(row);
        }
        let edge = Edge::from_rows(rows).filter(|edge| edge.root() == head.root);
        edge.ok_or_else(|| {
            let why = "its tiles do not lead to its own checkpoint: --whole says which of them are other ones";
            self.taken(why)
        })
    }

    /// The hashes of a tile of the copy; of a partial one that is gone, the beginning of the full one.
    fn hashes(&self, tile: &Tile) -> Result<Vec<Hash>, ExportError> {
        let full = Tile {
            width: WIDTH,
            ..*tile
        };
        let differs = || ExportError::Differs {
            path: self.at(&tile.path()),
        };
        let (bytes, width) = match self.get(&tile.path(), TILE_BYTES_MAX)? {
            Some(bytes) => (Some(bytes), tile.width),
            None => (self.get(&full.path(), TILE_BYTES_MAX)?, WIDTH),
        };
        let bytes = bytes.ok_or_else(differs)?;
        let mut hashes = parse_hashes(&bytes, width).map_err(|_| differs())?;
        hashes.truncate(usize::from(tile.width));
        Ok(hashes)
    }

    /// Puts this note in the place of the one that is published; whether it is another one.
    pub(super) fn publish(&self, note: &str) -> Result<bool, ExportError> {
        if self.get("checkpoint", NOTE_BYTES_MAX)?.as_deref() == Some(note.as_bytes()) {
            return Ok(false);
        }
        let to = self.root.join("checkpoint");
        files::replace_by(&self.root.join(STAGE), &to, note.as_bytes(), files::PUBLIC)
            .map_err(self.failed("checkpoint"))?;
        Ok(true)
    }

    /// Returns when everything that was written is on the disk.
    pub(super) fn sync(&self) -> Result<(), ExportError> {
        rustix::fs::syncfs(&self.folder).map_err(|errno| self.failed("")(errno.into()))
    }

    /// Removes partial tiles and bundles, from this size on, in whose place the full ones are now: how many folders.
    pub(super) fn sweep(&self, from: u64, size: u64) -> Result<u64, ExportError> {
        let mut removed = 0;
        let first = |level| level_hashes(from, level) / u64::from(WIDTH);
        let full = tiles(size).filter(|tile| tile.is_full() && tile.index >= first(tile.level));
        for tile in full {
            let one = Tile { width: 1, ..tile }.path();
            removed += u64::from(self.remove(one.trim_end_matches("/1"))?);
            if tile.level == 0 {
                let bundle = Bundle {
                    index: tile.index,
                    width: 1,
                };
                removed += u64::from(self.remove(bundle.path().trim_end_matches("/1"))?);
            }
        }
        Ok(removed)
    }

    fn remove(&self, path: &str) -> Result<bool, ExportError> {
        match self.look(path)? {
            Some(meta) if meta.is_dir() => {
                fs::remove_dir_all(self.root.join(path)).map_err(self.failed(path))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// What is at a path; `None` if nothing is.
    fn look(&self, path: &str) -> Result<Option<Metadata>, ExportError> {
        let (mut at, mut found) = (self.root.clone(), None);
        for part in Path::new(path) {
            at.push(part);
            match fs::symlink_metadata(&at) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(self.failed(path)(e)),
                Ok(meta) if meta.is_symlink() => {
                    let path = at.display().to_string();
                    return Err(ExportError::Link { path });
                }
                Ok(meta) => found = Some(meta),
            }
        }
        Ok(found)
    }

    /// The bytes at a path, one more than `limit` of a longer file; `None` if there is none.
    pub(super) fn get(&self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, ExportError> {
        if self.look(path)?.is_none() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let file = files::open_plain(&self.root.join(path)).map_err(self.failed(path))?;
        let mut bounded = file.take(limit as u64 + 1);
        bounded.read_to_end(&mut bytes).map_err(self.failed(path))?;
        Ok(Some(bytes))
    }

    /// Puts a file, durable on return, unless it is there as it is.
    fn keep(&self, path: &str, bytes: &[u8]) -> Result<(), ExportError> {
        if self.get(path, bytes.len())?.as_deref() == Some(bytes) {
            return Ok(());
        }
        self.make_folder(path)?;
        let (stage, to) = (self.root.join(STAGE), self.root.join(path));
        files::replace_by(&stage, &to, bytes, files::PUBLIC).map_err(self.failed(path))
    }

    /// Makes the folder of a file.
    fn make_folder(&self, path: &str) -> Result<(), ExportError> {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        if self.look(&folder.to_string_lossy())?.is_none() {
            fs::create_dir_all(self.root.join(folder)).map_err(self.failed(path))?;
        }
        self.look(path).map(drop)
    }

    /// Puts a file, whole; it is on the disk after [`Dest::sync`].
    pub(super) fn put(&self, path: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let to = self.root.join(path);
        self.make_folder(path)?;
        let stage = self.root.join(STAGE);
        let write = || {
            match fs::remove_file(&stage) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            File::create_new(&stage)?.write_all(bytes)?;
            fs::rename(&stage, &to)
        };
        write().map_err(self.failed(path))
    }
}
