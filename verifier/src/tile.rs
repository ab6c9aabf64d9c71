//! Tiles and entry bundles: their names, extents and bytes (c2sp.org/tlog-tiles).
//!
//! Hash `i` of tile (level, index) is the root of the `256^level` leaves that begin at leaf
//! `(index * 256 + i) * 256^level`. Only full tiles are hashed upward. Not here: fetching, and whether
//! the bytes belong to the tree, which only a comparison with a signed root shows.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::limits::ENTRY_BYTES_MAX;

/// Levels of the tree that one tile spans.
pub const HEIGHT: u8 = 8;

/// Hashes of a full tile, entries of a full bundle.
pub const WIDTH: u16 = 256;

/// Levels of tiles that a 64-bit size can fill: 64 / 8.
const LEVELS: u8 = 8;

/// A hash tile: `width` hashes, 1..=256, of `level`, 0..=63, from hash `index * 256` of that level on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// Level in steps of eight tree levels; level 0 holds leaf hashes. Below 8 for any 64-bit size.
    pub level: u8,
    /// Position among the tiles of the level.
    pub index: u64,
    /// Hashes in it: 256 when full.
    pub width: u16,
}

/// An entry bundle: `width` entries, 1..=256, from entry `index * 256` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bundle {
    /// Position among the bundles; covers the leaves of the level-0 tile of this index.
    pub index: u64,
    /// Entries in it: 256 when full.
    pub width: u16,
}

/// Why a path, a tile or a bundle is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileError {
    /// Not the one spelling of a tile's or bundle's path.
    #[error("not the path of a tile or entry bundle")]
    Path,
    /// More than 256 hashes or entries asked for.
    #[error("width {width} is beyond 256")]
    Width {
        /// The width.
        width: u16,
    },
    /// A hash tile of another length than `width` hashes have.
    #[error("a tile of {width} hashes has {} bytes, not {bytes}", usize::from(*width) * 32)]
    Hashes {
        /// Bytes found.
        bytes: usize,
        /// Hashes due.
        width: u16,
    },
    /// A bundle that ends inside a length or an entry, or before `width` entries.
    #[error("entry bundle ends at byte {bytes}, inside entry {entry} of {width}")]
    Short {
        /// Bytes found.
        bytes: usize,
        /// The entry that is cut, from 0.
        entry: u16,
        /// Entries due.
        width: u16,
    },
    /// A bundle with bytes behind its last entry.
    #[error("entry bundle of {width} entries has {bytes} bytes too many")]
    Trailing {
        /// Bytes left over.
        bytes: usize,
        /// Entries due.
        width: u16,
    },
    /// An entry that no bundle can hold.
    #[error("an entry of {bytes} bytes is beyond the largest, 65535")]
    EntryTooLarge {
        /// Bytes of the entry.
        bytes: usize,
    },
}

impl Tile {
    /// Path below the log's prefix, `tile/<level>/<index>[.p/<width>]`.
    #[must_use]
    pub fn path(&self) -> String {
        alloc::format!("tile/{}/{}", self.level, Position(self.index, self.width))
    }

    /// Reads the path of a hash tile; only the one spelling that [`path`](Self::path) prints.
    ///
    /// # Errors
    /// [`TileError::Path`].
    pub fn parse(path: &str) -> Result<Self, TileError> {
        let rest = path.strip_prefix("tile/").ok_or(TileError::Path)?;
        let (level, rest) = rest.split_once('/').ok_or(TileError::Path)?;
        let (index, width) = parse_position(rest)?;
        let level = level
            .parse()
            .ok()
            .filter(|&level| level < 64)
            .ok_or(TileError::Path)?;
        let tile = Self {
            level,
            index,
            width,
        };
        if tile.path() == path {
            Ok(tile)
        } else {
            Err(TileError::Path)
        }
    }

    /// Whether it holds 256 hashes, so that its root is a hash of the next level.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.width == WIDTH
    }
}

impl Bundle {
    /// Path below the log's prefix, `tile/entries/<index>[.p/<width>]`.
    #[must_use]
    pub fn path(&self) -> String {
        alloc::format!("tile/entries/{}", Position(self.index, self.width))
    }

    /// Reads the path of an entry bundle; only the one spelling that [`path`](Self::path) prints.
    ///
    /// # Errors
    /// [`TileError::Path`].
    pub fn parse(path: &str) -> Result<Self, TileError> {
        let rest = path.strip_prefix("tile/entries/").ok_or(TileError::Path)?;
        let (index, width) = parse_position(rest)?;
        let bundle = Self { index, width };
        if bundle.path() == path {
            Ok(bundle)
        } else {
            Err(TileError::Path)
        }
    }

    /// Whether it holds 256 entries.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.width == WIDTH
    }
}

/// Index and width as a path writes them: `x001/x234/067`, `000.p/12`.
struct Position(u64, u16);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(index, width) = *self;
        let mut above = 1_000_000_000_000_000_000_u64; // 1000^6; an index has at most seven groups
        while above > 1 {
            if index >= above {
                write!(f, "x{:03}/", index / above % 1000)?;
            }
            above /= 1000;
        }
        write!(f, "{:03}", index % 1000)?;
        if width < WIDTH {
            write!(f, ".p/{width}")
        } else {
            Ok(())
        }
    }
}

/// The numbers of a position, in any spelling; callers print them again and compare.
fn parse_position(text: &str) -> Result<(u64, u16), TileError> {
    let (groups, width) = match text.split_once(".p/") {
        None => (text, WIDTH),
        Some((groups, width)) => {
            let width = width
                .parse()
                .ok()
                .filter(|width| (1..WIDTH).contains(width));
            (groups, width.ok_or(TileError::Path)?)
        }
    };
    let mut index = 0_u64;
    for group in groups.split('/') {
        let digits = group.trim_start_matches('x');
        let group: u64 = digits.parse().map_err(|_| TileError::Path)?;
        index = index
            .checked_mul(1000)
            .and_then(|i| i.checked_add(group))
            .ok_or(TileError::Path)?;
    }
    Ok((index, width))
}

/// Number of hashes at tile level `level` of a tree of `size`: of subtrees of `256^level` leaves that
/// are complete.
#[must_use]
pub fn level_hashes(size: u64, level: u8) -> u64 {
    size.checked_shr(u32::from(HEIGHT) * u32::from(level))
        .unwrap_or(0)
}

/// The tile that holds hash `hash` of `level` in a tree of `size`, as wide as that tree makes it;
/// `None` when the tree has no such hash.
#[must_use]
pub fn tile_at(size: u64, level: u8, hash: u64) -> Option<Tile> {
    let hashes = level_hashes(size, level);
    let index = hash / u64::from(WIDTH);
    (hash < hashes).then(|| Tile {
        level,
        index,
        width: width_at(hashes, index),
    })
}

/// Every tile of a tree of `size`, by level and index: the full ones, then the partial one if any.
pub fn tiles(size: u64) -> impl Iterator<Item = Tile> + Clone {
    (0..LEVELS).flat_map(move |level| {
        positions(level_hashes(size, level)).map(move |(index, width)| Tile {
            level,
            index,
            width,
        })
    })
}

/// Every entry bundle of a tree of `size`, by index: the full ones, then the partial one if any.
pub fn bundles(size: u64) -> impl Iterator<Item = Bundle> + Clone {
    positions(size).map(|(index, width)| Bundle { index, width })
}

fn positions(count: u64) -> impl Iterator<Item = (u64, u16)> + Clone {
    (0..count.div_ceil(u64::from(WIDTH))).map(move |index| (index, width_at(count, index)))
}

#[expect(clippy::cast_possible_truncation, reason = "a minimum with 256")]
fn width_at(count: u64, index: u64) -> u16 {
    (count - index * u64::from(WIDTH)).min(u64::from(WIDTH)) as u16
}

/// Root of the tree whose leaf hashes, or equal complete subtrees, are `hashes` (RFC 6962 section
/// 2.1); that of the empty tree for none. Of a full tile's hashes: the hash one level up.
#[must_use]
pub fn hash_of(hashes: &[Hash]) -> Hash {
    if hashes.is_empty() {
        return EMPTY_ROOT;
    }
    let mut row = hashes.to_vec();
    while row.len() > 1 {
        let pairs = row.len() / 2;
        for i in 0..pairs {
            row[i] = node_hash(&row[2 * i], &row[2 * i + 1]);
        }
        if row.len() % 2 == 1 {
            row[pairs] = row[2 * pairs]; // an unpaired last node moves up unchanged
        }
        row.truncate(row.len().div_ceil(2));
    }
    row[0]
}

/// The `width` hashes, 0..=256, of a hash tile's bytes.
///
/// # Errors
/// [`TileError::Width`], [`TileError::Hashes`].
pub fn parse_hashes(bytes: &[u8], width: u16) -> Result<Vec<Hash>, TileError> {
    check_width(width)?;
    let (hashes, rest) = bytes.as_chunks::<32>();
    if hashes.len() != usize::from(width) || !rest.is_empty() {
        return Err(TileError::Hashes {
            bytes: bytes.len(),
            width,
        });
    }
    Ok(hashes.iter().map(|hash| Hash(*hash)).collect())
}

/// The `width` entries, 0..=256, of a bundle's bytes, in order and without their length prefixes.
///
/// # Errors
/// [`TileError::Width`], [`TileError::Short`], [`TileError::Trailing`].
pub fn parse_bundle(bytes: &[u8], width: u16) -> Result<Vec<&[u8]>, TileError> {
    check_width(width)?;
    let mut entries = Vec::with_capacity(usize::from(width));
    let mut rest = bytes;
    for entry in 0..width {
        let split = rest.split_first_chunk().and_then(|(length, rest)| {
            rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
        });
        let Some((data, after)) = split else {
            return Err(TileError::Short {
                bytes: bytes.len(),
                entry,
                width,
            });
        };
        entries.push(data);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(TileError::Trailing {
            bytes: rest.len(),
            width,
        });
    }
    Ok(entries)
}

/// Appends `entry`, 0..=65,535 bytes, to a bundle: its length in two bytes, big-endian, then itself.
///
/// # Errors
/// [`TileError::EntryTooLarge`]; `bundle` is then unchanged.
pub fn push_entry(bundle: &mut Vec<u8>, entry: &[u8]) -> Result<(), TileError> {
    const { assert!(ENTRY_BYTES_MAX == u16::MAX as usize) }
    let length = u16::try_from(entry.len());
    let length = length.map_err(|_| TileError::EntryTooLarge { bytes: entry.len() })?;
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
    Ok(())
}

fn check_width(width: u16) -> Result<(), TileError> {
    if width > WIDTH {
        Err(TileError::Width { width })
    } else {
        Ok(())
    }
}
