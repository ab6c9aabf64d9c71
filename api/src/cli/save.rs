//! Evidence files on disk: whole or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use countersign_verifier::{evidence, hash::leaf_hash, limits::FILE_BYTES_MAX};

use crate::{client::EvidenceFile, files};

/// Why an evidence file was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Evidence of something else lies there: of another log, or of one that had another history.
    #[error("{}: holds the evidence of another leaf, {there}; it is left as it is: choose another folder", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The hash of the leaf in it.
        there: String,
    },
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

/// The name of the evidence file of a leaf.
pub fn file_name(index: u64) -> String {
    format!("{index}.evidence.json")
}

/// Makes the folder, if it is not there.
pub fn make_folder(folder: &Path) -> Result<(), SaveError> {
    fs::create_dir_all(folder).map_err(|source| SaveError::Io {
        path: folder.into(),
        source,
    })
}

/// Writes `<index>.evidence.json` into a folder, durable on return: under another name first, so that nobody ever sees half of it.
/// Newer evidence of the same leaf replaces older.
pub fn save(folder: &Path, evidence: &EvidenceFile) -> Result<PathBuf, SaveError> {
    let path = folder.join(file_name(evidence.index));
    if let Some(there) = leaf_in(&path)
        && there != evidence.leaf_hash.to_hex()
    {
        return Err(SaveError::Other { path, there });
    }
    let written = files::replace(&path, &evidence.bytes, files::PUBLIC);
    written.map_err(|source| SaveError::Io {
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

/// The hash of the leaf whose evidence lies there. A file of another kind under this name is not evidence and may be replaced
/// no more than evidence of another leaf; one that does not exist is nobody's.
fn leaf_in(path: &Path) -> Option<String> {
    let bytes = match files::read_plain(path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("which cannot be read ({error})")),
    };
    Some(match evidence::File::parse(&bytes) {
        Ok(evidence::File::One(evidence)) => leaf_hash(&evidence.leaf).to_hex(),
        _ => "or something else".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::evidence_of;

    #[test]
    fn a_file_is_whole_and_never_of_another_leaf() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        make_folder(&folder).unwrap();
        let one = evidence_of(7, b"one");
        let path = save(&folder, &one).unwrap();
        assert_eq!(path.file_name().unwrap(), "7.evidence.json");
        assert_eq!(fs::read(&path).unwrap(), one.bytes);
        save(&folder, &one).unwrap();
        assert!(matches!(
            save(&folder, &evidence_of(7, b"two")),
            Err(SaveError::Other { .. })
        ));
        fs::write(folder.join("8.evidence.json"), "notes").unwrap();
        assert!(matches!(
            save(&folder, &evidence_of(8, b"two")),
            Err(SaveError::Other { .. })
        ));
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            2,
            "no temporary file is left"
        );
        assert!(matches!(
            save(&dir.path().join("none"), &one),
            Err(SaveError::Io { .. })
        ));
    }
}
