//! What a witness shows of its gossip: heads that are not settled, and how its peers fare. It decides nothing. What is not
//! settled is kept in a file (`unresolved.json`), so that a restart does not make it look new; how peers fare begins anew.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_verifier::hash::Hash;
use serde::{Deserialize, Serialize};

use crate::dir::{read_plain, replace};

/// Pairs of log and peer that are remembered as unresolved, of about 300 bytes. What comes when all places are taken is counted.
pub const UNRESOLVED_MAX: usize = 4_096;
/// Longest error of a peer that is kept, in characters.
const ERROR_MAX: usize = 200;
/// 4,096 rows of a hash, an address of at most 1,024 bytes and three numbers.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// A head of a peer that is neither consistent with ours nor a fork, as far as anybody would show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unresolved {
    /// Who showed it.
    pub peer: String,
    /// Since when no head of this peer could be settled, POSIX seconds.
    pub since: u64,
    /// Size of the newest of them.
    pub size: u64,
}

/// A row of the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    log: String,
    #[serde(flatten)]
    row: Unresolved,
}

/// How a peer fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its address.
    pub url: String,
    /// When it was last pulled without an error, POSIX seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled_at: Option<u64>,
    /// What went wrong the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when it goes wrong, POSIX seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<u64>,
}

#[derive(Default)]
struct Inside {
    unresolved: BTreeMap<(Hash, String), Unresolved>,
    dropped: u64,
    peers: BTreeMap<String, Peer>,
    /// Whether the file has other rows than these; their sizes do not matter.
    changed: bool,
}

/// The board.
#[derive(Default)]
pub struct Board {
    inside: Mutex<Inside>,
    /// Where rows are kept, held while they are written; nowhere in memory alone.
    file: Option<Mutex<PathBuf>>,
}

impl Board {
    /// The board with what the file at `path` has, if there is one. One that cannot be read is passed over: it holds no evidence.
    #[must_use]
    pub fn open(path: PathBuf) -> Board {
        let unresolved = match read(&path) {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "what was unresolved is counted from now on");
                BTreeMap::new()
            }
        };
        let inside = Inside {
            unresolved,
            ..Inside::default()
        };
        Board {
            inside: Mutex::new(inside),
            file: Some(Mutex::new(path)),
        }
    }

    /// Writes what is not settled, durable on return, if that is not what the file has.
    pub fn write(&self) {
        let Some(file) = &self.file else { return };
        let path = file.lock().unwrap_or_else(PoisonError::into_inner);
        let rows: Vec<Kept> = {
            let mut inside = self.inside();
            if !std::mem::take(&mut inside.changed) {
                return;
            }
            let kept = |((log, _), row): (&(Hash, String), &Unresolved)| Kept {
                log: log.to_hex(),
                row: row.clone(),
            };
            inside.unresolved.iter().map(kept).collect()
        };
        let bytes = serde_json::to_vec(&rows).map_err(io::Error::other);
        if let Err(error) = bytes.and_then(|bytes| replace(&path, &bytes, 0o600)) {
            tracing::warn!(%error, "since when heads are unresolved is written later");
            self.inside().changed = true;
        }
    }

    /// Forgets what peers showed that are not asked any more: nobody would settle it.
    pub fn keep_peers(&self, asked: &BTreeSet<String>) {
        let mut inside = self.inside();
        let before = inside.unresolved.len();
        inside
            .unresolved
            .retain(|(_, peer), _| asked.contains(peer));
        inside.changed |= inside.unresolved.len() != before;
    }

    /// A head of `size` that a peer showed cannot be settled.
    pub fn unresolved(&self, log: &Hash, peer: &str, size: u64, now: u64) {
        let mut inside = self.inside();
        let key = (*log, peer.to_owned());
        let full = inside.unresolved.len() >= UNRESOLVED_MAX;
        match inside.unresolved.get_mut(&key) {
            Some(row) => row.size = size,
            None if full => inside.dropped += 1,
            None => {
                let row = Unresolved {
                    peer: peer.to_owned(),
                    since: now,
                    size,
                };
                inside.unresolved.insert(key, row);
                inside.changed = true;
            }
        }
    }

    /// A head that a peer showed is settled.
    pub fn settled(&self, log: &Hash, peer: &str) {
        let mut inside = self.inside();
        let removed = inside.unresolved.remove(&(*log, peer.to_owned()));
        inside.changed |= removed.is_some();
    }

    /// Nothing of this log is open any more.
    pub fn forget(&self, log: &Hash) {
        let mut inside = self.inside();
        inside.unresolved.retain(|(of, _), _| of != log);
        inside.changed = true;
    }

    /// What is unresolved of a log.
    #[must_use]
    pub fn of(&self, log: &Hash) -> Vec<Unresolved> {
        let inside = self.inside();
        let rows = inside.unresolved.range((*log, String::new())..);
        let rows = rows.take_while(|((of, _), _)| of == log);
        rows.map(|(_, row)| row.clone()).collect()
    }

    /// How many pairs of log and peer are unresolved, those included that had no place; and since when the oldest is.
    #[must_use]
    pub fn open_rows(&self) -> (u64, Option<u64>) {
        let inside = self.inside();
        let oldest = inside.unresolved.values().map(|row| row.since).min();
        (inside.unresolved.len() as u64, oldest)
    }

    /// Heads that found no place among the unresolved, since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inside().dropped
    }

    /// A peer was pulled.
    pub fn pulled(&self, url: &str, outcome: Result<(), String>, now: u64) {
        let mut inside = self.inside();
        let peer = inside.peers.entry(url.to_owned()).or_insert_with(|| Peer {
            url: url.to_owned(),
            ..Peer::default()
        });
        match outcome {
            Ok(()) => {
                peer.pulled_at = Some(now);
                peer.error = None;
                peer.failing_since = None;
            }
            Err(why) => {
                peer.error = Some(why.chars().take(ERROR_MAX).collect());
                peer.failing_since = peer.failing_since.or(Some(now));
            }
        }
    }

    /// The peers that were pulled.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        self.inside().peers.values().cloned().collect()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> io::Result<BTreeMap<(Hash, String), Unresolved>> {
    let bytes = match read_plain(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read?,
    };
    let rows: Vec<Kept> = serde_json::from_slice(&bytes)?;
    let row = |kept: Kept| {
        let log = Hash::from_hex(&kept.log).map_err(io::Error::other)?;
        Ok(((log, kept.row.peer.clone()), kept.row))
    };
    rows.into_iter().take(UNRESOLVED_MAX).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_the_first_of_an_unbroken_run() {
        let (board, log) = (Board::default(), Hash([1; 32]));
        board.unresolved(&log, "a", 5, 100);
        board.unresolved(&log, "a", 9, 200);
        board.unresolved(&log, "b", 7, 150);
        let rows = board.of(&log);
        assert_eq!((rows[0].since, rows[0].size, rows.len()), (100, 9, 2));
        assert_eq!(board.open_rows(), (2, Some(100)));
        board.settled(&log, "a");
        board.unresolved(&log, "a", 9, 300);
        assert_eq!(board.open_rows(), (2, Some(150)));
        board.forget(&log);
        assert_eq!(board.open_rows(), (0, None));
    }

    #[test]
    fn a_restart_does_not_make_it_look_new() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("unresolved.json");
        let (log, other) = (Hash([1; 32]), Hash([2; 32]));
        let board = Board::open(path.clone());
        board.write();
        assert!(!path.exists(), "nothing to write");
        board.unresolved(&log, "a", 5, 100);
        board.unresolved(&other, "gone", 5, 90);
        board.write();
        let again = Board::open(path.clone());
        again.unresolved(&log, "a", 9, 200);
        assert_eq!(again.open_rows(), (2, Some(90)));
        again.keep_peers(&["a".to_owned()].into());
        assert_eq!(again.open_rows(), (1, Some(100)));
        again.write();
        let again = Board::open(path.clone());
        assert_eq!(again.of(&log)[0].since, 100);
        again.settled(&log, "a");
        again.write();
        assert_eq!(Board::open(path.clone()).open_rows(), (0, None));
        std::fs::write(&path, "[{\"log\":1}]").unwrap();
        assert_eq!(Board::open(path).open_rows(), (0, None));
    }

    #[test]
    fn it_is_bounded_whatever_peers_show() {
        let board = Board::default();
        for n in 0..UNRESOLVED_MAX as u64 + 10 {
            let mut log = Hash([0; 32]);
            log.0[..8].copy_from_slice(&n.to_be_bytes());
            board.unresolved(&log, "a", 1, 1);
        }
        assert_eq!(
            (board.open_rows().0, board.dropped()),
            (UNRESOLVED_MAX as u64, 10)
        );
        board.pulled("a", Err("x".repeat(9_999)), 5);
        board.pulled("a", Err("y".into()), 6);
        assert_eq!(board.peers()[0].failing_since, Some(5));
        board.pulled("a", Ok(()), 7);
        assert_eq!(
            (board.peers()[0].pulled_at, &board.peers()[0].error),
            (Some(7), &None)
        );
    }
}
