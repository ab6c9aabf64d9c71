//! Files as the system keeps them: how many this process may have open, and putting one in the place of another.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt},
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
/// As [`open_plain`].
pub fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let kept = options.read(true).write(true).create(true).truncate(false);
    plain(
        kept.mode(SECRET)
            .custom_flags(NOFOLLOW | NONBLOCK)
            .open(path),
    )
}

/// Opens a plain file for more of it, made where it is not there, for its owner alone.
///
/// # Errors
/// As [`open_plain`].
pub fn append_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let more = options.append(true).create(true).mode(SECRET);
    plain(more.custom_flags(NONBLOCK).open(path))
}

// OK because these bits are an int in the system's own call.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// None of the small files of a data directory is nearly as large.
pub const SMALL_BYTES_MAX: u64 = 16 << 20;

/// Opens a plain file to read it. What waits for another end, or never ends, is refused and not waited for: a file that lies in a
/// folder is whatever those who may write there have put in its place.
///
/// # Errors
/// `IsADirectory`, `InvalidInput` for anything else that is no plain file; what the system says.
pub fn open_plain(path: &Path) -> io::Result<File> {
    plain(
        OpenOptions::new()
            .read(true)
            .custom_flags(NONBLOCK)
            .open(path),
    )
}

/// What was opened without waiting, if it is a plain file.
fn plain(opened: io::Result<File>) -> io::Result<File> {
    let none = |kind| Err(io::Error::new(kind, "no plain file"));
    let file = match opened {
        // So says the system of a socket, and of a pipe that would be written to and that nobody reads.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return none(io::ErrorKind::InvalidInput);
        }
        Err(e) if e.kind() == io::ErrorKind::IsADirectory => return none(e.kind()),
        opened => opened?,
    };
    let of = file.metadata()?;
    if of.is_file() {
        Ok(file)
    } else if of.is_dir() {
        none(io::ErrorKind::IsADirectory)
    } else {
        none(io::ErrorKind::InvalidInput)
    }
}

/// Reads one of the small files of a data directory, as text.
///
/// # Errors
/// As [`read_plain`]; `InvalidData` for what is not UTF-8.
pub fn read_small(path: &Path) -> io::Result<String> {
    read_text(path, SMALL_BYTES_MAX)
}

/// Reads a plain file of so many bytes of UTF-8 at most.
///
/// # Errors
/// As [`read_plain`]; `InvalidData` for what is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read_plain(path, bytes_max)?;
    // Not the error itself, which holds the bytes, and they may be a secret.
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Reads a plain file of so many bytes at most.
///
/// # Errors
/// As [`open_plain`]; `FileTooLarge`.
pub fn read_plain(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    // As large as it is: of a secret that outgrows its buffer, the buffer before is left behind.
    let length = file.metadata()?.len().min(bytes_max);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
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

/// Which file or folder it is, whatever it is called: device and inode.
pub type Identity = (u64, u64);

/// Which one lies at this path.
///
/// # Errors
/// What the system says.
pub fn identity(path: &Path) -> io::Result<Identity> {
    let of = fs::metadata(path)?;
    Ok((of.dev(), of.ino()))
}

/// Moves a folder that is whole to its place, which is absent or an empty folder, durable on return. Where that cannot be made durable it
/// is moved back: what is said not to be there is not.
///
/// # Errors
/// What the system says; nothing is there then, but where it cannot even be moved back.
pub fn move_into_place(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let parent = match to.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let synced = File::open(parent).and_then(|folder| folder.sync_all());
    synced.inspect_err(|_| {
        let _ = fs::rename(to, from);
    })
}

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

    #[test]
    fn what_is_no_plain_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        fs::create_dir(at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let places = [at("pipe"), at("folder"), at("socket"), "/dev/zero".into()];
        for path in &places {
            let errors = [
                open_plain(path).unwrap_err(),
                read_plain(path, 9).unwrap_err(),
                read_small(path).unwrap_err(),
                lock_file(path).unwrap_err(),
                append_plain(path).unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.to_string(), "no plain file", "{}", path.display());
            }
        }
        assert_eq!(
            read_small(&places[1]).unwrap_err().kind(),
            io::ErrorKind::IsADirectory
        );
        let missing = read_small(&at("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        // As large as may be, and larger; over a link; and no text.
        fs::write(at("text"), "123456789").unwrap();
        std::os::unix::fs::symlink(at("text"), at("link")).unwrap();
        assert_eq!(read_text(&at("link"), 9).unwrap(), "123456789");
        let large = read_text(&at("text"), 8).unwrap_err();
        assert_eq!(large.kind(), io::ErrorKind::FileTooLarge);
        fs::write(at("bytes"), [0xff]).unwrap();
        let bytes = read_small(&at("bytes")).unwrap_err();
        assert_eq!(bytes.kind(), io::ErrorKind::InvalidData);
    }
}
