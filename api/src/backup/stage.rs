//! A folder that is made beside its place, and moved there whole: what an interrupted command leaves is never taken for one.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::error::{BackupError, file, place};
use crate::{data_dir::sync_dir, files::move_into_place};

/// A folder on its way to its place; gone when it is dropped before.
#[derive(Debug)]
pub(super) struct Stage {
    path: PathBuf,
    place: PathBuf,
    /// Locked: who finds a folder of this name that nobody has locked may take it away.
    held: Option<File>,
}

impl Stage {
    /// Begins the folder for this place, which must be absent or empty, but for a `lock` that a process before left.
    /// What an interrupted attempt at the same place left is removed.
    ///
    /// # Errors
    /// `Place`, `InUse`, `File`.
    pub fn begin(at: &Path, what: &str) -> Result<Stage, BackupError> {
        let target = resolved(at)?;
        free(&target)?;
        let path = path_for(&target, what);
        match fs::symlink_metadata(&path) {
            // What a restore left has none.
            Ok(_) if what == "restore" && path.join("backup.json").exists() => {
                return Err(place(
                    &path,
                    "in the way: it is a backup, and is not removed",
                ));
            }
            Ok(left) if left.is_dir() => {
                let _held = locked(&path)?;
                fs::remove_dir_all(&path).map_err(file(&path))?;
            }
            Ok(_) => return Err(place(&path, "in the way")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(file(&path)(e)),
        }
        // For its owner alone: what is in it is as secret as the directory.
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(BackupError::InUse(path));
            }
            made => made.map_err(file(&path))?,
        }
        let held = Some(locked(&path)?);
        Ok(Stage {
            path,
            place: target,
            held,
        })
    }

    /// Where it is until it is done.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file of this path below it goes; the folders above are there afterwards.
    ///
    /// # Errors
    /// `File`.
    pub fn at(&self, below: &str) -> Result<PathBuf, BackupError> {
        let path = self.path.join(below);
        if let Some(parent) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(file(parent))?;
        }
        Ok(path)
    }

    /// Moves it to its place, durable on return.
    ///
    /// # Errors
    /// `File`, also where something has come to be there meanwhile.
    pub fn finish(mut self) -> Result<PathBuf, BackupError> {
        sync_folders(&self.path)?;
        match fs::remove_file(self.place.join("lock")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(file(&self.place)(e)),
            _ => {}
        }
        // A folder that is there gives its place only while it is empty.
        move_into_place(&self.path, &self.place).map_err(file(&self.place))?;
        self.held = None;
        Ok(self.place.clone())
    }
}

/// Where the folder for this place is made.
fn path_for(target: &Path, what: &str) -> PathBuf {
    // What is resolved and has no name is the root, which is not empty.
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".countersign-{what}-{name}"))
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.held.is_some() {
            // What is left where it cannot be removed is removed by the next attempt.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The place by its whole path. The folder that it is in must be there: one that is not is more likely a disk that is not mounted.
///
/// # Errors
/// `Place`, `File`.
pub(super) fn resolved(at: &Path) -> Result<PathBuf, BackupError> {
    if at.exists() {
        return at.canonicalize().map_err(file(at));
    }
    let parent = match at.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match (at.file_name(), parent.canonicalize()) {
        (Some(name), Ok(parent)) => Ok(parent.join(name)),
        (None, _) => Err(place(at, "names no folder")),
        (_, Err(e)) if e.kind() == io::ErrorKind::NotFound => Err(place(
            at,
            "the folder that it is to be in is not there, and is not made: is its disk mounted?",
        )),
        (_, Err(e)) => Err(file(parent)(e)),
    }
}

/// Whether a folder can be moved to this place.
fn free(target: &Path) -> Result<(), BackupError> {
    let Some(parent) = target.parent() else {
        return Err(place(target, "not empty"));
    };
    let there = match target.read_dir() {
        Ok(mut entries) => entries.any(|e| e.is_ok_and(|e| e.file_name() != "lock")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => true,
        Err(e) => return Err(file(target)(e)),
    };
    if there {
        return Err(place(
            target,
            "not empty: nothing is ever written over; name a folder that is not there",
        ));
    }
    let disk = |path: &Path| fs::metadata(path).map(|of| of.dev()).map_err(file(path));
    if disk(target)? != disk(parent)? {
        return Err(place(
            target,
            "a disk of its own, whose place nothing can be moved to: name a folder in it",
        ));
    }
    Ok(())
}

fn locked(path: &Path) -> Result<File, BackupError> {
    let folder = File::open(path).map_err(file(path))?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(folder),
        Err(_) => Err(BackupError::InUse(path.to_owned())),
    }
}

/// Makes the names in a folder and in all below it durable.
fn sync_folders(root: &Path) -> Result<(), BackupError> {
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().map_err(file(&folder))? {
            let entry = entry.map_err(file(&folder))?;
            if entry.file_type().map_err(file(&folder))?.is_dir() {
                open.push(entry.path());
            }
        }
        sync_dir(&folder).map_err(file(&folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: &BackupError) -> String {
        error.to_string()
    }

    #[test]
    fn a_folder_comes_whole_or_not_at_all_and_what_was_left_is_taken_away() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join("to");
        let names = || home.path().read_dir().unwrap().count();
        let stage = Stage::begin(&at, "backup").unwrap();
        fs::write(stage.at("a/b").unwrap(), "x").unwrap();
        let mode = fs::metadata(stage.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        // Two at once at one place.
        let second = Stage::begin(&at, "backup").unwrap_err();
        assert!(matches!(second, BackupError::InUse(_)), "{second}");
        drop(stage);
        assert_eq!(names(), 0, "given up, it leaves nothing");
        // As a kill leaves it.
        let left = home.path().join(".countersign-backup-to");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("backup.json"), "{}").unwrap();
        let stage = Stage::begin(&at, "backup").unwrap();
        fs::write(stage.at("a/b").unwrap(), "y").unwrap();
        let place = stage.finish().unwrap();
        assert_eq!(fs::read_to_string(place.join("a/b")).unwrap(), "y");
        assert!(!at.join("backup.json").exists());
        assert_eq!(names(), 1);
    }

    #[test]
    fn nothing_is_written_over_and_no_folder_is_made_that_should_be_there() {
        let home = tempfile::tempdir().unwrap();
        let at = home.path().join("to");
        fs::create_dir(&at).unwrap();
        fs::write(at.join("lock"), "1").unwrap();
        let stage = Stage::begin(&at, "restore").unwrap();
        fs::write(at.join("new"), "x").unwrap();
        let late = stage.finish().unwrap_err();
        assert!(matches!(late, BackupError::File { .. }), "{late}");
        assert!(at.join("new").exists());
        assert_eq!(home.path().read_dir().unwrap().count(), 1);
        let full = Stage::begin(&at, "restore").unwrap_err();
        assert!(text(&full).contains("not empty"), "{full}");
        let file = Stage::begin(&at.join("new"), "restore").unwrap_err();
        assert!(text(&file).contains("not empty"), "{file}");
        let far = Stage::begin(&home.path().join("a/b"), "restore").unwrap_err();
        assert!(text(&far).contains("mounted"), "{far}");
        let root = Stage::begin(Path::new("/"), "restore").unwrap_err();
        assert!(text(&root).contains("not empty"), "{root}");
        assert!(!home.path().join("a").exists());
    }
}
