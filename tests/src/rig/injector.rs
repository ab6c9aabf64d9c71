//! Faults of disks and clocks in the executables as they are: a library in C (`faults.c`) that is loaded into the process before the
//! system's own, and a file of shared memory that tells it what to do.

use std::{
    ffi::OsStr,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use rustix::io::Errno;

use super::{Rig, Start};

/// fsync and fdatasync.
pub const SYNC: i32 = 1;
/// Bytes into files.
pub const WRITE: i32 = 2;
/// Files made, opened to be written, renamed, linked and removed.
pub const NAMES: i32 = 4;
/// All of these.
pub const ALL: i32 = SYNC | WRITE | NAMES;

/// As many as there are.
pub const EVERY: i32 = 1 << 30;

/// Where the members of `struct control` lie.
mod at {
    pub const WALL_NS: u64 = 0;
    pub const CALLS: u64 = 8;
    pub const ERROR: u64 = 12;
    pub const GOOD: u64 = 16;
    pub const BAD: u64 = 20;
    pub const LOSE: u64 = 24;
    pub const DELAY_US: u64 = 28;
    pub const SEEN: u64 = 32;
    pub const FAILED: u64 = 40;
    pub const PART: u64 = 48;
    pub const PART_BYTES: usize = 64;
    pub const BYTES: u64 = 128;
}

/// What fails, and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Kinds of calls.
    pub calls: i32,
    /// With what.
    pub error: Errno,
    /// Only files with this in their path.
    pub part: &'static str,
    /// So many are good first.
    pub good: i32,
    /// So many fail then.
    pub bad: i32,
    /// A failed sync of a write-ahead log loses what was not synced.
    pub lose: bool,
}

impl Fault {
    /// Every call of these kinds, with this.
    pub fn every(calls: i32, error: Errno) -> Fault {
        Fault {
            calls,
            error,
            part: "",
            good: 0,
            bad: EVERY,
            lose: false,
        }
    }

    /// The one call after so many good ones.
    pub fn once(self, good: i32) -> Fault {
        Fault {
            good,
            bad: 1,
            ..self
        }
    }

    /// Only of files with this in their path.
    pub fn of(self, part: &'static str) -> Fault {
        Fault { part, ..self }
    }
}

/// So many of `all` calls, one of which is to fail in each run: the last ten, in which things become final, and places of the rest, spread
/// evenly.
pub fn places(all: i64, count: i64) -> Vec<i32> {
    let count = count.min(all);
    let last = count.min(10);
    let rest = all - last;
    let spread = (0..count - last).map(|n| rest * n / (count - last).max(1));
    let places = spread.chain(rest..all);
    // OK because no command makes so many calls.
    places
        .map(|at| i32::try_from(at).expect("a place"))
        .collect()
}

/// What decides over the disk and the wall clock of one process.
pub struct Faults {
    control: File,
}

impl Faults {
    /// For what this starts from now on: files of its data directory alone.
    pub fn of(start: &mut Start) -> Faults {
        let path = start.dir.with_extension("faults");
        let (faults, variables) = Faults::below(&start.dir, &path);
        start.variables.extend(variables);
        faults
    }

    /// For whatever is started with these variables: files of this folder alone. They are told by the file at `path`.
    pub fn below(folder: &Path, path: &Path) -> (Faults, [(String, String); 3]) {
        let control = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .expect("a control file");
        control.set_len(at::BYTES).expect("its length");
        let variables = [
            ("LD_PRELOAD", library()),
            ("FAULTS_CONTROL", path),
            ("FAULTS_UNDER", folder),
        ];
        let text = |value: &Path| value.to_str().expect("a path that is text").to_owned();
        let variables = variables.map(|(name, value)| (name.to_owned(), text(value)));
        (Faults { control }, variables)
    }

    /// For a rig, which is started again under them.
    pub fn on(rig: &mut Rig) -> Faults {
        let faults = Faults::of(&mut rig.start);
        rig.restart();
        faults
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.control.write_all_at(bytes, at).expect("shared memory");
    }

    fn number(&self, at: u64, number: i32) {
        self.put(at, &number.to_ne_bytes());
    }

    fn count(&self, at: u64) -> i64 {
        let mut bytes = [0; 8];
        self.control
            .read_exact_at(&mut bytes, at)
            .expect("shared memory");
        i64::from_ne_bytes(bytes)
    }

    /// From now on.
    pub fn begin(&self, fault: Fault) {
        self.count_only(fault.calls, fault.part);
        self.number(at::GOOD, fault.good);
        self.number(at::BAD, fault.bad);
        self.number(at::LOSE, fault.lose.into());
        self.number(at::ERROR, fault.error.raw_os_error());
    }

    /// Counts calls of these kinds, and fails none.
    pub fn count_only(&self, calls: i32, part: &str) {
        self.heal();
        let mut name = [0; at::PART_BYTES];
        name[..part.len()].copy_from_slice(part.as_bytes());
        self.put(at::PART, &name);
        self.put(at::SEEN, &0_i64.to_ne_bytes());
        self.put(at::FAILED, &0_i64.to_ne_bytes());
        self.number(at::CALLS, calls);
    }

    /// The disk is as any other.
    pub fn heal(&self) {
        self.number(at::ERROR, 0);
        self.number(at::CALLS, 0);
        self.number(at::DELAY_US, 0);
    }

    /// Each sync takes so long.
    pub fn slow(&self, us: i32) {
        self.number(at::DELAY_US, us);
    }

    /// Sets the wall clock so far from that of the machine, in milliseconds.
    pub fn wall(&self, ms: i64) {
        self.put(at::WALL_NS, &(ms * 1_000_000).to_ne_bytes());
    }

    /// How many calls of the kinds there were.
    pub fn seen(&self) -> i64 {
        self.count(at::SEEN)
    }

    /// How many failed.
    pub fn failed(&self) -> i64 {
        self.count(at::FAILED)
    }
}

/// The library, compiled once a run beside the executables that it goes into.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("the test's own path");
        let folder = test.parent().expect("a folder");
        let (source, path) = (folder.join("faults.c"), folder.join("faults.so"));
        let fresh = folder.join(format!("faults-{}.so", std::process::id()));
        std::fs::write(&source, include_str!("faults.c")).expect("its source");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([fresh.as_os_str(), source.as_os_str(), OsStr::new("-ldl")])
            .output()
            .expect("cc, which the linker of this test is too");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}");
        // Whole or not at all, whoever else runs these tests.
        std::fs::rename(&fresh, &path).expect("its place");
        path
    })
}
