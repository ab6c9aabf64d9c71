//! Logs of others, read over HTTP, out of a folder (c2sp.org/tlog-tiles), or out of the store of an account that is not served.
//!
//! Whatever is answered is bounded, and believed of nobody: entries and tiles show nothing until they lead to a signed root. An
//! error names the place, and whose fault it is. Calls block; what was asked for ahead is fetched meanwhile.

mod error;
mod folder;
mod http;
mod past;
mod rounds;
mod stored;

use std::sync::Arc;

use countersign_verifier::{
    hash::Hash,
    limits::{BUNDLE_BYTES_MAX, NOTE_BYTES_MAX, TILE_BYTES_MAX},
    tile::{Bundle, Tile, WIDTH, parse_bundle, parse_hashes},
};
use tokio::{runtime::Runtime, sync::Semaphore, task::JoinHandle};

pub use error::ForeignError;
pub use past::{Past, apart, edge, edge_of, past};
pub use rounds::Rounds;

use crate::{
    client::Token,
    data_dir::{AccountDir, Held},
};
use folder::Folder;
use http::Http;
use stored::Stored;

/// Requests at once: enough that the distance to a log costs little, and few enough to be a polite reader.
const REQUESTS_MAX: usize = 8;

/// A log that somebody serves.
pub struct Foreign {
    place: Arc<Place>,
    requests: Arc<Semaphore>,
    // Last, so that whatever still runs on it goes first.
    runtime: Runtime,
}

enum Place {
    Http(Http),
    Folder(Folder),
    Stored(Box<Stored>),
}

/// A bundle with the tile of its leaf hashes.
pub struct Piece {
    /// The entries.
    pub entries: Entries,
    /// The hashes that the log's tile of level 0 says they have.
    pub hashes: Result<Vec<Hash>, ForeignError>,
}

/// Entries as they were served: a whole bundle, of which the first `width` were asked for.
pub struct Entries {
    /// Where they came from.
    pub place: String,
    bytes: Vec<u8>,
    /// Entries in `bytes`.
    held: u16,
    /// Entries that were asked for.
    width: u16,
}

/// What is on its way, in the order in which it was asked for.
pub struct Ahead<T = Piece>(Vec<JoinHandle<Result<T, ForeignError>>>);

impl Foreign {
    /// The log under a URL's prefix, or in a folder of static tiles. Connects to nothing yet.
    ///
    /// # Errors
    /// [`ForeignError::Address`], [`ForeignError::Setup`].
    pub fn open(text: &str, token: Option<&Token>) -> Result<Foreign, ForeignError> {
        let place = if text.starts_with("http://") || text.starts_with("https://") {
            Place::Http(Http::new(text, token)?)
        } else {
            Place::Folder(Folder::new(text)?)
        };
        Foreign::of(place)
    }

    /// The log of an account that no service runs on, read only. What is held is let go of with it.
    ///
    /// # Errors
    /// [`ForeignError::Malformed`] where the store is damaged, [`ForeignError::Unreachable`] where it cannot be read.
    pub fn stored(account: &AccountDir, held: Option<Held>) -> Result<Foreign, ForeignError> {
        Foreign::of(Place::Stored(Box::new(Stored::open(account, held)?)))
    }

    fn of(place: Place) -> Result<Foreign, ForeignError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|e| ForeignError::Setup(e.to_string()))?;
        Ok(Foreign {
            place: Arc::new(place),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            runtime,
        })
    }

    /// Where a path below the log's prefix is.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        self.place.at(path)
    }

    /// The newest checkpoint's note: UTF-8, not verified.
    ///
    /// # Errors
    /// [`ForeignError`].
    pub fn checkpoint(&self) -> Result<String, ForeignError> {
        let bytes = self
            .runtime
            .block_on(self.place.get("checkpoint", NOTE_BYTES_MAX))?;
        String::from_utf8(bytes).map_err(|e| ForeignError::Malformed {
            place: self.at("checkpoint"),
            what: e.to_string(),
        })
    }

    /// The hashes of a tile: as many as it is wide.
    ///
    /// # Errors
    /// [`ForeignError`].
    pub fn tile(&self, tile: &Tile) -> Result<Vec<Hash>, ForeignError> {
        self.runtime.block_on(self.place.tile(*tile))
    }

    /// Begins to fetch these bundles, each with its tile.
    #[must_use]
    pub fn ahead(&self, bundles: impl IntoIterator<Item = Bundle>) -> Ahead {
        let fetch = |bundle| {
            let (place, requests) = (self.place.clone(), self.requests.clone());
            self.runtime.spawn(async move {
                // OK because nobody closes it.
                let _permit = requests.acquire().await.expect("Foreign::ahead: open");
                let entries = place.bundle(bundle).await?;
                let tile = Tile {
                    level: 0,
                    index: bundle.index,
                    width: bundle.width,
                };
                let hashes = place.tile(tile).await;
                Ok(Piece { entries, hashes })
            })
        };
        Ahead(bundles.into_iter().map(fetch).collect())
    }

    /// The same without the tiles.
    #[must_use]
    pub fn entries_ahead(&self, bundles: impl IntoIterator<Item = Bundle>) -> Ahead<Entries> {
        let fetch = |bundle| {
            let (place, requests) = (self.place.clone(), self.requests.clone());
            self.runtime.spawn(async move {
                // OK because nobody closes it.
                let permit = requests.acquire().await;
                let _permit = permit.expect("Foreign::entries_ahead: open");
                place.bundle(bundle).await
            })
        };
        Ahead(bundles.into_iter().map(fetch).collect())
    }

    /// Waits for them: up to the first that cannot be had, with why.
    #[must_use]
    pub fn arrived<T>(&self, ahead: Ahead<T>) -> (Vec<T>, Option<ForeignError>) {
        let mut all = Vec::with_capacity(ahead.0.len());
        for fetching in ahead.0 {
            // OK because a fetch does not panic, and nobody aborts it.
            match self.runtime.block_on(fetching).expect("Foreign::arrived") {
                Ok(piece) => all.push(piece),
                Err(error) => return (all, Some(error)),
            }
        }
        (all, None)
    }
}

impl Place {
    fn at(&self, path: &str) -> String {
        match self {
            Place::Http(http) => http.at(path),
            Place::Folder(folder) => folder.at(path),
            Place::Stored(stored) => stored.at(path),
        }
    }

    async fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, ForeignError> {
        match self {
            Place::Http(http) => http.get(path, limit).await,
            Place::Folder(folder) => folder.get(path, limit).await,
            // Blocks for milliseconds, on a runtime where nothing but such fetches waits.
            Place::Stored(stored) => stored.get(path),
        }
    }

    async fn bundle(&self, bundle: Bundle) -> Result<Entries, ForeignError> {
        let full = Bundle {
            width: WIDTH,
            ..bundle
        };
        let (path, bytes, held) = self
            .either(
                (&bundle.path(), bundle.width),
                &full.path(),
                BUNDLE_BYTES_MAX,
            )
            .await?;
        let place = self.at(&path);
        // Read once here, so that whoever takes it has entries to take.
        parse_bundle(&bytes, held).map_err(|error| ForeignError::Malformed {
            place: place.clone(),
            what: error.to_string(),
        })?;
        Ok(Entries {
            place,
            bytes,
            held,
            width: bundle.width,
        })
    }

    async fn tile(&self, tile: Tile) -> Result<Vec<Hash>, ForeignError> {
        let full = Tile {
            width: WIDTH,
            ..tile
        };
        let (path, bytes, held) = self
            .either((&tile.path(), tile.width), &full.path(), TILE_BYTES_MAX)
            .await?;
        let mut hashes = parse_hashes(&bytes, held).map_err(|error| ForeignError::Malformed {
            place: self.at(&path),
            what: error.to_string(),
        })?;
        hashes.truncate(usize::from(tile.width));
        Ok(hashes)
    }

    /// What is at a path, or where a partial one is gone, at that of the full one, which a log may have put in its place.
    async fn either(
        &self,
        (path, width): (&str, u16),
        full: &str,
        limit: usize,
    ) -> Result<(String, Vec<u8>, u16), ForeignError> {
        match self.get(path, limit).await {
            Err(missing @ ForeignError::Missing { .. }) if path != full => {
                match self.get(full, limit).await {
                    Ok(bytes) => Ok((full.into(), bytes, WIDTH)),
                    Err(ForeignError::Missing { .. }) => Err(missing),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
            Ok(bytes) => Ok((path.into(), bytes, width)),
        }
    }
}

impl Entries {
    /// The entries that were asked for, without their lengths.
    #[must_use]
    pub fn list(&self) -> Vec<&[u8]> {
        // OK because they were read when they came.
        let mut entries = parse_bundle(&self.bytes, self.held).expect("Entries::list");
        entries.truncate(usize::from(self.width));
        entries
    }

    /// The same with their lengths: the bundle as wide as it was asked for.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let length = self.list().iter().map(|entry| 2 + entry.len()).sum();
        &self.bytes[..length]
    }
}

#[cfg(test)]
mod tests;
