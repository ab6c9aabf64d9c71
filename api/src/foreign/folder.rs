//! A log as a folder of static tiles.

use std::{io, path::PathBuf};

use tokio::io::AsyncReadExt as _;

use super::ForeignError;

/// The folder that holds `checkpoint` and `tile/`.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(text: &str) -> Result<Folder, ForeignError> {
        let path = PathBuf::from(text);
        if path.is_dir() {
            return Ok(Folder(path));
        }
        Err(ForeignError::Address {
            place: text.to_owned(),
            why: "it is neither a folder nor begins with http:// or https://".into(),
        })
    }

    pub(super) fn at(&self, path: &str) -> String {
        self.0.join(path).display().to_string()
    }

    pub(super) async fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, ForeignError> {
        let place = || self.at(path);
        let failed = |error: io::Error| match error.kind() {
            // A folder where a file is due is none, as a file on the way to it is.
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory => ForeignError::Missing {
                place: place(),
                why: error.to_string(),
            },
            io::ErrorKind::PermissionDenied => ForeignError::Denied {
                place: place(),
                why: error.to_string(),
            },
            _ => ForeignError::Unreachable {
                place: place(),
                why: error.to_string(),
            },
        };
        let file = tokio::fs::File::open(self.0.join(path))
            .await
            .map_err(failed)?;
        let mut bytes = Vec::new();
        let mut bounded = file.take(limit as u64 + 1);
        bounded.read_to_end(&mut bytes).await.map_err(failed)?;
        if bytes.len() > limit {
            return Err(ForeignError::Malformed {
                place: place(),
                what: format!("longer than {limit} bytes, the most that such a file can have"),
            });
        }
        Ok(bytes)
    }
}
