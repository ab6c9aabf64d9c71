//! Keys and values as the database holds them.

use countersign_verifier::hash::Hash;
use rocksdb::{DB, WriteBatch};

use super::open::{ENTRIES, POSTINGS, TILES, UNIQUE, damaged, family, trouble};
use crate::{
    judge::Key,
    store::{Growth, Head, Kept, StoreError},
};

/// Of the default column family.
pub(super) mod meta {
    pub const FORMAT: &[u8] = b"format";
    /// How far a change of format has come: see `migrate`. Not there while none is under way.
    pub const MIGRATING: &[u8] = b"migrating";
    /// Size u64, root, log time of the last leaf u64.
    pub const HEAD: &[u8] = b"head";
    /// Size u64, then the judge's bytes: as the first release kept one, in one piece with a commit.
    pub const SNAPSHOT: &[u8] = b"snapshot";
    /// Which snapshot there is: its size, its number, and how many parts it has, each u64.
    pub const SNAPSHOT_PARTS: &[u8] = b"snapshot-parts";
    /// Followed by the number of the snapshot and that of the part, each u64 big-endian; the value as the judge gave it.
    pub const SNAPSHOT_PART: &[u8] = b"snapshot/";
    /// Size u64, root, then the note.
    pub const PUBLISHED: &[u8] = b"published";
    /// As `PUBLISHED`: what a witness showed and is not here.
    pub const AHEAD: &[u8] = b"ahead";
    /// Followed by the size, u64 big-endian; the value as `PUBLISHED`.
    pub const SIGNED: &[u8] = b"signed/";

    /// Whether there is a row of this name.
    pub fn is_known(key: &[u8]) -> bool {
        let one = [
            FORMAT,
            MIGRATING,
            HEAD,
            SNAPSHOT,
            SNAPSHOT_PARTS,
            PUBLISHED,
            AHEAD,
        ];
        let numbered = |of: &[u8], bytes| key.len() == of.len() + bytes && key.starts_with(of);
        one.contains(&key) || numbered(SNAPSHOT_PART, 16) || numbered(SIGNED, 8)
    }
}

pub(super) fn batch(db: &DB, first: u64, growth: &Growth) -> WriteBatch {
    let mut batch = WriteBatch::default();
    let entries = family(db, ENTRIES);
    for (index, leaf) in (first..).zip(&growth.entries) {
        batch.put_cf(entries, index.to_be_bytes(), leaf);
    }
    for (tile, bytes) in &growth.tiles {
        batch.put_cf(family(db, TILES), tile_key(tile.level, tile.index), bytes);
    }
    // In order, because an insertion begins its search where the one before it ended. Stable: of two equal keys the later counts.
    let unique = family(db, UNIQUE);
    for (key, index) in sorted(&growth.unique) {
        batch.put_cf(unique, key.bytes(), index.to_be_bytes());
    }
    let postings = family(db, POSTINGS);
    for (key, index) in sorted(&growth.postings) {
        let mut posting = [0; 25];
        posting[..17].copy_from_slice(&key.bytes());
        posting[17..].copy_from_slice(&index.to_be_bytes());
        batch.put_cf(postings, posting, []);
    }
    let mut head = growth.head.size.to_be_bytes().to_vec();
    head.extend(growth.head.root.0);
    head.extend(growth.at.to_be_bytes());
    batch.put(meta::HEAD, head);
    if let Some(kept) = &growth.published {
        batch.put(meta::PUBLISHED, checkpoint(kept));
    }
    batch
}

fn sorted(keys: &[(Key, u64)]) -> Vec<(Key, u64)> {
    let mut keys = keys.to_vec();
    keys.sort_by_key(|(key, _)| *key);
    keys
}

pub(super) fn committed(db: &DB) -> Result<(Head, u64), StoreError> {
    let Some(bytes) = db.get_pinned(meta::HEAD).map_err(|e| trouble(&e))? else {
        return Ok((Head::EMPTY, 0));
    };
    if bytes.len() != 48 {
        return Err(damaged(format!("the head has {} bytes", bytes.len())));
    }
    Ok((head(&bytes[..40])?, number(&bytes[40..], "head")?))
}

/// The other way round from [`kept`].
pub(super) fn checkpoint(kept: &Kept) -> Vec<u8> {
    let mut value = kept.head.size.to_be_bytes().to_vec();
    value.extend(kept.head.root.0);
    value.extend(kept.note.as_bytes());
    value
}

pub(super) fn kept(bytes: &[u8]) -> Result<Kept, StoreError> {
    let (front, note) = bytes
        .split_at_checked(40)
        .ok_or_else(|| damaged("a checkpoint is cut short"))?;
    let note =
        String::from_utf8(note.to_vec()).map_err(|_| damaged("a checkpoint is not UTF-8"))?;
    Ok(Kept {
        head: head(front)?,
        note,
    })
}

pub(super) fn head(bytes: &[u8]) -> Result<Head, StoreError> {
    let root = bytes[8..]
        .try_into()
        .map_err(|_| damaged("a root has not 32 bytes"))?;
    Ok(Head {
        size: number(&bytes[..8], "head")?,
        root: Hash(root),
    })
}

pub(super) fn number(bytes: &[u8], what: &str) -> Result<u64, StoreError> {
    let bytes = bytes
        .try_into()
        .map_err(|_| damaged(format!("a {what} has {} bytes for a number", bytes.len())))?;
    Ok(u64::from_be_bytes(bytes))
}

pub(super) fn tile_key(level: u8, index: u64) -> [u8; 9] {
    let mut key = [level; 9];
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

pub(super) fn part_key(snapshot: u64, part: u64) -> Vec<u8> {
    let numbers = [snapshot.to_be_bytes(), part.to_be_bytes()].concat();
    [meta::SNAPSHOT_PART, &numbers].concat()
}

/// Which snapshot there is: its size, its number, and how many parts it has.
pub(super) fn parts(db: &DB) -> Result<Option<[u64; 3]>, StoreError> {
    let Some(bytes) = db.get(meta::SNAPSHOT_PARTS).map_err(|e| trouble(&e))? else {
        return Ok(None);
    };
    let mut numbers = bytes.chunks(8).map(|bytes| number(bytes, "part"));
    let mut next = || numbers.next().unwrap_or_else(|| number(&[], "part"));
    Ok(Some([next()?, next()?, next()?]))
}

pub(super) fn signed_key(size: u64) -> Vec<u8> {
    [meta::SIGNED, &size.to_be_bytes()].concat()
}
