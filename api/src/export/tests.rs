//! Copies of logs that a test makes in a folder, grow, are damaged, and lie.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    policy::Policy,
    range::Range,
    tile::{bundles, hash_of, push_entry, tiles},
    vkey::NoteSigner,
};
use tempfile::TempDir;

use super::*;

const ORIGIN: &str = "log.example.com/main";

/// A log in one folder, a copy of it in another.
struct Site {
    home: TempDir,
    signer: NoteSigner,
    entries: RefCell<Vec<Vec<u8>>>,
}

impl Site {
    fn new() -> Site {
        Site::of(ORIGIN, 1)
    }

    fn of(origin: &str, seed: u8) -> Site {
        let key = ed25519_dalek::SigningKey::from_bytes(&[seed; 32]);
        Site {
            home: tempfile::tempdir().unwrap(),
            signer: NoteSigner::new(origin, key).unwrap(),
            entries: RefCell::default(),
        }
    }

    fn source(&self) -> PathBuf {
        self.home.path().join("log")
    }

    fn dest(&self) -> PathBuf {
        self.home.path().join("copy")
    }

    /// The log has this many entries now. Its files, by path.
    fn grow(&self, size: usize) -> BTreeMap<String, Vec<u8>> {
        let mut entries = self.entries.borrow_mut();
        entries.truncate(size);
        for n in entries.len()..size {
            entries.push(format!("entry {n}").into_bytes());
        }
        let files = files_of(&entries);
        let _ = fs::remove_dir_all(self.source());
        for (path, bytes) in &files {
            put(&self.source().join(path), bytes);
        }
        let root = entries.iter().map(|entry| leaf_hash(entry));
        let root = root.collect::<Range>().root().to_base64();
        let text = format!("{}\n{size}\n{root}\n", self.signer.vkey().name);
        let note = format!("{text}\n{}", self.signer.sign(&text));
        put(&self.source().join("checkpoint"), note.as_bytes());
        files
    }

    fn export(&self) -> Result<Report, ExportError> {
        self.export_to(&self.dest(), false)
    }

    fn export_to(&self, dest: &Path, whole: bool) -> Result<Report, ExportError> {
        let policy = format!("log {}\nquorum none\n", self.signer.vkey());
        let eras = Eras::one(Policy::parse(&policy).unwrap());
        let log = Foreign::open(self.source().to_str().unwrap(), None)?;
        run(&Plan {
            log: &log,
            eras: &eras,
            policy: &[("policy".into(), policy.into_bytes())],
            dest,
            whole,
            now_s: None,
            progress: &|done, all| assert!(done <= all),
        })
    }

    fn has(&self, path: &str) -> bool {
        self.dest().join(path).exists()
    }

    /// That the copy has all of these files, and the log's checkpoint.
    fn has_all(&self, files: &BTreeMap<String, Vec<u8>>) {
        for (path, bytes) in files {
            assert_eq!(&fs::read(self.dest().join(path)).unwrap(), bytes, "{path}");
        }
        let note = |folder: PathBuf| fs::read(folder.join("checkpoint")).unwrap();
        assert_eq!(note(self.dest()), note(self.source()));
    }
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The tiles and bundles of a tree, made another way than the product makes them.
fn files_of(entries: &[Vec<u8>]) -> BTreeMap<String, Vec<u8>> {
    let (mut files, size) = (BTreeMap::new(), entries.len() as u64);
    let mut left = entries.iter();
    for bundle in bundles(size) {
        let mut bytes = Vec::new();
        for entry in left.by_ref().take(usize::from(bundle.width)) {
            push_entry(&mut bytes, entry).unwrap();
        }
        files.insert(bundle.path(), bytes);
    }
    let mut rows: Vec<Vec<Hash>> = vec![entries.iter().map(|entry| leaf_hash(entry)).collect()];
    for tile in tiles(size) {
        while rows.len() <= usize::from(tile.level) {
            let above = rows.last().unwrap().chunks_exact(256).map(hash_of);
            rows.push(above.collect());
        }
        let first = usize::try_from(tile.index).unwrap() * 256;
        let row = &rows[usize::from(tile.level)][first..][..usize::from(tile.width)];
        files.insert(tile.path(), row.iter().flat_map(|hash| hash.0).collect());
    }
    files
}

#[test]
fn a_copy_grows_with_its_log_and_each_size_is_whole() {
    let site = Site::new();
    let mut before = 0;
    for size in [0, 1, 2, 255, 256, 257, 300, 511, 700, 1024] {
        let files = site.grow(size);
        let report = site.export().unwrap();
        assert_eq!((report.from, report.size), (before as u64, size as u64));
        site.has_all(&files);
        // Again: there is nothing to do, and nothing is touched.
        let again = site.export().unwrap();
        assert_eq!((again.written, again.removed), (0, 0), "{again:?}");
        let whole = site.export_to(&site.dest(), true).unwrap();
        assert_eq!(
            (whole.written, whole.kept),
            (0, files.len() as u64),
            "{size}"
        );
        before = size;
    }
    assert!(!site.has(".stage"));
    for name in ["log.json", "log.vkey", "policy"] {
        assert!(site.has(name), "{name}");
    }
}

#[test]
fn partial_tiles_stay_until_the_full_ones_are_there() {
    let site = Site::new();
    let at_300 = site.grow(300);
    site.export().unwrap();
    site.grow(400);
    assert_eq!(site.export().unwrap().removed, 0);
    // Whoever still has the older checkpoint finds all of its tiles.
    for (path, bytes) in at_300.iter().filter(|(path, _)| path.contains(".p/")) {
        assert_eq!(&fs::read(site.dest().join(path)).unwrap(), bytes, "{path}");
    }
    let at_600 = site.grow(600);
    assert_eq!(site.export().unwrap().removed, 2);
    assert!(!site.has("tile/0/001.p") && !site.has("tile/entries/001.p"));
    assert!(site.has("tile/1/000.p/1") && site.has("tile/1/000.p/2"));
    site.has_all(&at_600);
}

#[test]
fn more_than_one_tile_of_level_1() {
    let site = Site::new();
    site.grow(65_400);
    site.export().unwrap();
    let files = site.grow(66_000);
    assert!(files.contains_key("tile/2/000.p/1"));
    site.export().unwrap();
    site.has_all(&files);
}

#[test]
fn an_interrupted_export_is_gone_on_with_and_publishes_nothing_meanwhile() {
    let site = Site::new();
    let files = site.grow(3_000);
    let lost = site.source().join("tile/entries/010");
    let bytes = fs::read(&lost).unwrap();
    fs::remove_file(&lost).unwrap();
    let error = site.export().unwrap_err();
    assert!(
        matches!(error, ExportError::Foreign(ForeignError::Missing { .. })),
        "{error}"
    );
    assert!(site.has("tile/entries/002") && !site.has("checkpoint"));
    put(&lost, &bytes);
    // What a crash may leave of a file that nobody was told of is written anew.
    fs::write(site.dest().join("tile/entries/000"), b"").unwrap();
    fs::write(site.dest().join("tile/0/001"), b"torn").unwrap();
    let report = site.export().unwrap();
    assert!(report.kept > 0 && report.from == 0, "{report:?}");
    site.has_all(&files);
}

#[test]
fn what_does_not_lead_to_the_signed_root_is_not_written() {
    for (path, at) in [
        ("tile/entries/001", 30),
        ("tile/entries/002.p/88", 5),
        ("tile/1/000.p/2", 40),
        ("tile/0/002.p/88", 9),
        ("checkpoint", 30),
    ] {
        let site = Site::new();
        site.grow(600);
        let file = site.source().join(path);
        let mut bytes = fs::read(&file).unwrap();
        bytes[at] ^= 1;
        fs::write(&file, &bytes).unwrap();
        let error = site.export().unwrap_err();
        let told = match &error {
            ExportError::Foreign(error) => error.is_the_logs(),
            ExportError::Head { .. } => path == "checkpoint",
            _ => false,
        };
        assert!(told, "{path}: {error}");
        assert!(!site.has(path) && !site.has("checkpoint"), "{path}");
    }
    // Leaf tiles of full bundles are not even asked for: they follow from the entries.
    let site = Site::new();
    let files = site.grow(600);
    fs::remove_file(site.source().join("tile/0/000")).unwrap();
    site.export().unwrap();
    assert_eq!(
        fs::read(site.dest().join("tile/0/000")).unwrap(),
        files["tile/0/000"]
    );
}

#[test]
fn a_published_file_is_never_written_over() {
    let site = Site::new();
    site.grow(600);
    site.export().unwrap();
    let (file, lost) = (
        site.dest().join("tile/0/001"),
        site.dest().join("tile/entries/000"),
    );
    let right = fs::read(&file).unwrap();
    fs::write(&file, vec![7; 8192]).unwrap();
    let files = site.grow(700);
    // Only what is new is looked at, and that is as it must be.
    site.export().unwrap();
    let error = site.export_to(&site.dest(), true).unwrap_err();
    assert!(
        matches!(&error, ExportError::Differs { path } if path.ends_with("tile/0/001")),
        "{error}"
    );
    assert_eq!(fs::read(&file).unwrap(), vec![7; 8192]);
    fs::write(&file, right).unwrap();
    fs::remove_file(lost).unwrap();
    assert_eq!(site.export_to(&site.dest(), true).unwrap().written, 1);
    site.has_all(&files);
    // Its own edge is what a copy goes on from.
    fs::write(site.dest().join("tile/1/000.p/2"), [9; 64]).unwrap();
    site.grow(800);
    let error = site.export().unwrap_err();
    assert!(matches!(error, ExportError::Taken { .. }), "{error}");
}

#[test]
fn another_history_an_older_head_and_another_log_are_refused() {
    let site = Site::new();
    let files = site.grow(600);
    site.export().unwrap();
    let note = fs::read(site.dest().join("checkpoint")).unwrap();
    site.grow(500);
    let older = site.export().unwrap_err();
    assert!(
        matches!(
            older,
            ExportError::Older {
                shown: 500,
                copied: 600
            }
        ),
        "{older}"
    );
    site.entries.borrow_mut()[3] = b"another".to_vec();
    for (size, at) in [(600, 600), (900, 600), (500, 500)] {
        site.grow(size);
        let rewritten = site.export().unwrap_err();
        assert!(
            matches!(rewritten, ExportError::Rewritten { size, .. } if size == at),
            "{rewritten}"
        );
    }
    assert_eq!(fs::read(site.dest().join("checkpoint")).unwrap(), note);
    for (path, bytes) in &files {
        assert_eq!(&fs::read(site.dest().join(path)).unwrap(), bytes, "{path}");
    }
    let other = Site::of("log.example.com/other", 1);
    other.grow(5);
    let taken = other.export_to(&site.dest(), false).unwrap_err();
    assert!(matches!(taken, ExportError::Taken { .. }), "{taken}");
    // The same name, and another key.
    let same = Site::of(ORIGIN, 2);
    same.grow(5);
    let taken = same.export_to(&site.dest(), false).unwrap_err();
    assert!(matches!(taken, ExportError::Taken { .. }), "{taken}");
}

#[test]
fn a_folder_of_something_else_a_link_and_a_second_writer_are_refused() {
    let site = Site::new();
    site.grow(300);
    put(&site.dest().join("holiday.jpg"), b"x");
    let taken = site.export().unwrap_err();
    assert!(matches!(taken, ExportError::Taken { .. }), "{taken}");
    fs::remove_file(site.dest().join("holiday.jpg")).unwrap();
    let held = fs::File::open(site.dest()).unwrap();
    held.lock().unwrap();
    let busy = site.export().unwrap_err();
    assert!(matches!(busy, ExportError::Busy { .. }), "{busy}");
    drop(held);
    site.export().unwrap();
    // A link to elsewhere, as a folder and as a file.
    let elsewhere = site.home.path().join("elsewhere");
    fs::rename(site.dest().join("tile"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, site.dest().join("tile")).unwrap();
    site.grow(400);
    let link = site.export().unwrap_err();
    assert!(matches!(link, ExportError::Link { .. }), "{link}");
    fs::remove_file(site.dest().join("tile")).unwrap();
    fs::rename(&elsewhere, site.dest().join("tile")).unwrap();
    let full = site.dest().join("tile/entries/001.p/144");
    std::os::unix::fs::symlink("/dev/null", &full).unwrap();
    let link = site.export().unwrap_err();
    assert!(matches!(link, ExportError::Link { .. }), "{link}");
    fs::remove_file(&full).unwrap();
    site.export().unwrap();
}
