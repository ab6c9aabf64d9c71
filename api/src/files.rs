//! Files as the system keeps them: how many this process may have open, and putting one in the place of another.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::process::{Resource, getrlimit, setrlimit};

/// Files beside connections: an account's database has up to 256 open, and there are sockets and the process's own.
const BESIDE: u64 = 512;

/// Raises the limit as far as this process may, and says so where that is too little for what it is configured to take: a
/// connection that finds no file waits to be accepted, and a database that finds none fails.
pub fn raise_limit(connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + BESIDE;
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit {
            current: limit.maximum,
            ..limit
        };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = raised,
            Err(error) => tracing::warn!(%error, "the limit of open files could not be raised"),
        }
    }
    // `None` is no limit.
    if let Some(current) = limit.current.filter(|current| *current < wanted) {
        tracing::warn!(
            limit = current,
            wanted,
            "too few files may be open for limits.connections: raise it (ulimit -n, LimitNOFILE=) or lower that"
        );
    }
}

/// Opens a file that is there to be locked, made where it is not there; what is in it stays. A symbolic link is refused: whoever may write
/// in the folder would otherwise choose which file is written to.
///
/// # Errors
/// What the system says.
pub fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(SECRET)
        .custom_flags(NOFOLLOW)
        .open(path)
}

// OK because these bits are an int in the system's own call.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// Reads a plain file of so many bytes at most. What waits for another end, or never ends, is refused and not waited for.
///
/// # Errors
/// `InvalidInput` for what is no plain file, `FileTooLarge`; what the system says.
pub fn read_plain(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(path)?;
    let of = file.metadata()?;
    if !of.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no plain file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Mode of a file that anybody may read.
pub const PUBLIC: u32 = 0o644;
/// Mode of a file that only its owner may read.
pub const SECRET: u32 = 0o600;

/// Puts a file where another one may be, whole or not at all and durable on return: it is written beside it first, under a hidden
/// name that two at once, in one process or in two, do not share.
///
/// # Errors
/// What the system says; what was there is then there still.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}.{count}.tmp", std::process::id()));
    replace_by(&path.with_file_name(name), path, bytes, mode)
}

/// The same by way of this path, on the same file system: for folders in which every file means something. What an interrupted
/// call left there is overwritten.
///
/// # Errors
/// As [`replace`].
pub fn replace_by(stage: &Path, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let written = remove(stage)
        .and_then(|()| {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(stage)?;
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(stage, path))
        .and_then(|()| {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        });
    if written.is_err() {
        // What is half written is worth nothing; if it cannot be removed, its name says what it is.
        let _ = remove(stage);
    }
    written
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        replace(&path, b"one", SECRET).unwrap();
        let stage = dir.path().join("stage");
        fs::write(&stage, "left by a crash").unwrap();
        replace_by(&stage, &path, b"two", PUBLIC).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777 & !0o644, 0);
        // A folder is in the way: it stays, and so does nothing else.
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        assert!(replace(&folder, b"three", PUBLIC).is_err());
        let names = dir.path().read_dir().unwrap().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["a", "folder"]);
    }
}
