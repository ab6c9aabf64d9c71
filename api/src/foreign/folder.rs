//! A log as a folder of static tiles.

use std::{io, path::PathBuf};

use super::ForeignError;
use crate::files;

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
        let file = self.0.join(path);
        let read = tokio::task::spawn_blocking(move || files::read_plain(&file, limit as u64));
        let read = read.await.unwrap_or_else(|e| Err(io::Error::other(e)));
        read.map_err(|error| {
            let (place, why) = (self.at(path), error.to_string());
            match error.kind() {
                // A folder where a file is due is none, as a file on the way to it is.
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory => ForeignError::Missing { place, why },
                io::ErrorKind::PermissionDenied => ForeignError::Denied { place, why },
                io::ErrorKind::FileTooLarge => ForeignError::Malformed {
                    place,
                    what: format!("longer than {limit} bytes, the most that such a file can have"),
                },
                _ => ForeignError::Unreachable { place, why },
            }
        })
    }
}
