//! A small file system of a test's own, and what fills it.

use std::{fs, io::Write as _, path::Path};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

/// A small file system of its own.
pub struct Disk {
    folder: TempDir,
}

impl Disk {
    /// `None` where the system does not let us: said, not passed over in silence.
    pub fn of(mib: u64) -> Option<Disk> {
        let folder = tempfile::tempdir().expect("a small file system");
        let size = std::ffi::CString::new(format!("size={mib}m")).expect("a small file system");
        match mount(
            "tmpfs",
            folder.path(),
            "tmpfs",
            MountFlags::empty(),
            Some(size.as_c_str()),
        ) {
            Ok(()) => Some(Disk { folder }),
            Err(why) => {
                eprintln!("SKIPPED: a file system of its own cannot be mounted here ({why})");
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still has files open there loses nothing: it is detached, and goes with the last of them.
        let _ = unmount(self.folder.path(), UnmountFlags::DETACH);
    }
}

/// Writes until nothing fits any more.
pub fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("a small file system");
    for size in [1 << 20, 4_096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}
