//! A directory at rest, its backup, and what is refused of one that was altered.

use countersign_log::{
    Head, Store as _,
    store::{
        Growth,
        blobs::BlobStore as _,
        rocks::{RocksStore, Row, Rows},
    },
};
use countersign_verifier::{
    blob::commitment, key::PrivateKey, tile::Tile, verdict::Outcome as Verdict,
};
use serde_json::json;

use super::{
    restore::{Plan, Restored},
    *,
};
use crate::account::{
    Account,
    tests::rig::{self, done, shared},
};

const SALT: [u8; 32] = [7; 32];
/// More than a full tile, so that a tile tells which leaf was changed.
const RECEIPTS: usize = 300;

struct Rig {
    dir: DataDir,
    home: tempfile::TempDir,
}

impl Rig {
    /// An account of some receipts, a body that is kept, and one that a leaf has erased.
    fn new() -> Rig {
        let (home, dir) = rig::development();
        let rig = Rig { dir, home };
        let (account, owner) = (rig.account(), rig.owner());
        done(&account, rig::receipts(&account, &owner, RECEIPTS));
        let arguments = json!({"commitment": named(b"erased").to_hex()});
        let erase = rig::operation(&account, &owner, ("blob_erase", arguments), 0);
        done(&account, vec![erase]);
        account.log.close();
        drop(account);
        rig.keep(b"kept");
        rig
    }

    fn owner(&self) -> PrivateKey {
        rig::owner(&self.dir)
    }

    fn account(&self) -> Account {
        rig::open(&self.dir)
    }

    /// Keeps a body as the service does.
    fn keep(&self, body: &[u8]) {
        let blobs = FileBlobs::open(&self.dir.account("dev").blobs()).unwrap();
        let by = self.owner().public().identity().to_string();
        let about = json!({"salt": Hash(SALT).to_hex(), "media_type": "text/plain", "by": by});
        let mut coming = blobs.begin(about.to_string().as_bytes()).unwrap();
        coming.write(body).unwrap();
        assert!(coming.keep(&named(body)).unwrap());
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn backup(&self, to: &str, with_keys: bool) -> Result<Made, BackupError> {
        let at = self.at(to);
        let begun = Backup::begin(&self.dir, &at, (with_keys, "now".into()));
        let mut backup = begun?;
        let files = self.dir.account("dev");
        backup.account("dev", (&files.db(), &files.tidemark()), &|_, _| {})?;
        backup.finish()
    }

    fn restore(&self, from: &str, to: &str) -> Result<Restored, BackupError> {
        restore::run(&Plan {
            backup: &self.at(from),
            dir: &DataDir::new(self.at(to)),
            sha256: None,
            now_s: None,
            bytes: &|_, _| {},
            leaves: &|_, _| {},
        })
    }

    /// Refused, and said in these words; nothing is there.
    fn refuses(&self, from: &str, word: &str) {
        let said = match self.restore(from, "refused") {
            Ok(restored) => {
                assert_eq!(restored.outcome(), Verdict::DoesNotHold, "{word}");
                assert!(restored.place.is_none());
                let accounts = restored.accounts.iter();
                let told = accounts.map(|of| format!("{:?} {:?}", of.apart, of.report.faults));
                restored.faults.join("\n") + &told.collect::<String>()
            }
            Err(error) => {
                let is_refusal = matches!(
                    error,
                    BackupError::Damaged { .. } | BackupError::Malformed { .. }
                );
                assert!(is_refusal, "{word}: {error}");
                error.to_string()
            }
        };
        assert!(said.contains(word), "{word}: {said}");
        assert!(!self.at("refused").exists());
        assert!(!self.at(".countersign-restore-refused").exists());
    }

    /// A copy of a backup in which `path` has other bytes, and `backup.json` says so too if `known`.
    fn altered(&self, path: &str, known: bool, change: impl FnOnce(&mut Vec<u8>)) {
        let _ = fs::remove_dir_all(self.at("altered"));
        copy_all(&self.at("backup"), &self.at("altered"));
        let file = self.at("altered").join(path);
        let mut bytes = fs::read(&file).unwrap();
        change(&mut bytes);
        fs::write(&file, &bytes).unwrap();
        if known {
            let (mut manifest, _) = Manifest::read(&self.at("altered")).unwrap();
            let row = manifest.files.iter_mut().find(|row| row.path == path);
            let row = row.unwrap();
            (row.bytes, row.sha256) = (bytes.len() as u64, sha256(&bytes).to_hex());
            fs::write(self.at("altered/backup.json"), manifest.to_json()).unwrap();
        }
    }
}

fn named(body: &[u8]) -> Hash {
    commitment(&SALT, body)
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_all(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn what_is_restored_is_what_was_there_and_keys_come_only_where_they_were_asked_for() {
    let rig = Rig::new();
    let made = rig.backup("backup", true).unwrap();
    assert_eq!(made.place, rig.at("backup").canonicalize().unwrap());
    let row = &made.manifest.accounts[0];
    assert_eq!((row.size, row.bodies), (RECEIPTS as u64 + 2, 1));
    let restored = rig.restore("backup", "again").unwrap();
    assert_eq!(restored.outcome(), Verdict::Holds);
    assert_eq!(restored.sha256, made.sha256);
    assert!(restored.missing.is_empty());
    for row in &made.manifest.files {
        let [was, is] = ["data", "again"].map(|of| fs::read(rig.at(of).join(&row.path)).unwrap());
        assert!(was == is, "{}", row.path);
    }
    let again = Rig {
        dir: DataDir::new(rig.at("again")),
        home: tempfile::tempdir().unwrap(),
    };
    let account = again.account();
    assert_eq!(account.log.status().committed.size, RECEIPTS as u64 + 2);
    account.log.close();
    // Nobody takes it for a directory, and nothing is written over.
    let lock = DataDir::new(rig.at("backup")).lock();
    assert!(lock.unwrap_err().to_string().contains("restore"));
    for taken in ["backup", "data"] {
        let refused = rig.restore("backup", taken).err().unwrap();
        assert!(matches!(refused, BackupError::Place { .. }), "{refused}");
        let refused = rig.backup(taken, true).err().unwrap();
        assert!(matches!(refused, BackupError::Place { .. }), "{refused}");
    }
    for inside in ["data/backup", "data/accounts/dev/db/backup"] {
        let refused = rig.backup(inside, true).err().unwrap();
        assert!(
            refused.to_string().contains("in the directory"),
            "{refused}"
        );
    }
    let inside = rig.restore("backup", "backup/data").err().unwrap();
    assert!(inside.to_string().contains("in the backup"), "{inside}");

    rig.backup("keyless", false).unwrap();
    let kept = |path: &str| rig.at("keyless").join(path).exists();
    let secrets = KEYS.map(|key| format!("accounts/dev/{key}"));
    assert!(secrets.iter().all(|secret| !kept(secret)));
    assert!(TOKENS.iter().all(|token| !kept(token)) && kept("config.toml"));
    let restored = rig.restore("keyless", "public").unwrap();
    assert_eq!(restored.outcome(), Verdict::Holds);
    let missing: Vec<&str> = restored.missing.iter().map(|of| of.file.as_str()).collect();
    assert_eq!(missing.len(), 5, "{missing:?}");
    assert!(missing.contains(&"accounts/dev/log.key") && missing.contains(&"owner.key"));
    for path in secrets.iter().map(String::as_str).chain(["owner.token"]) {
        fs::copy(rig.at("data").join(path), rig.at("public").join(path)).unwrap();
    }
    let public = Rig {
        dir: DataDir::new(rig.at("public")),
        home: tempfile::tempdir().unwrap(),
    };
    public.account().log.close();
}

#[test]
fn a_byte_in_any_file_is_found_and_so_is_a_file_too_many_or_too_few() {
    let rig = Rig::new();
    let made = rig.backup("backup", true).unwrap();
    for row in &made.manifest.files {
        rig.altered(&row.path, false, |bytes| {
            let middle = bytes.len() / 2;
            match bytes.get_mut(middle) {
                Some(byte) => *byte ^= 1,
                None => bytes.push(0),
            }
        });
        let word = if row.bytes > 0 {
            "its SHA-256"
        } else {
            "it has"
        };
        rig.refuses("altered", &format!("{}: {word}", row.path));
    }
    let path = "accounts/dev/policy";
    rig.altered(path, false, |bytes| bytes.push(b'\n'));
    rig.refuses("altered", "accounts/dev/policy: it has");
    rig.altered(path, false, |_| {});
    fs::remove_file(rig.at("altered").join(path)).unwrap();
    rig.refuses("altered", "accounts/dev/policy: it is not there");
    rig.altered(path, false, |_| {});
    fs::write(rig.at("altered/accounts/dev/more"), "x").unwrap();
    rig.refuses("altered", "accounts/dev/more: backup.json does not name it");
    rig.altered(path, false, |_| {});
    fs::remove_file(rig.at("altered").join(path)).unwrap();
    std::os::unix::fs::symlink(rig.at("data").join(path), rig.at("altered").join(path)).unwrap();
    rig.refuses("altered", "accounts/dev/policy: no plain file");
    rig.altered(path, false, |_| {});
    fs::write(rig.at("altered/backup.json"), "{}").unwrap();
    rig.refuses("altered", "backup.json");
    fs::remove_file(rig.at("altered/backup.json")).unwrap();
    let none = rig.restore("altered", "refused").err().unwrap();
    assert!(none.to_string().contains("no backup"), "{none}");
}

#[test]
fn a_backup_json_that_was_altered_with_a_file_does_not_hide_it() {
    let rig = Rig::new();
    let other = Rig::new();
    let made = rig.backup("backup", true).unwrap();
    let theirs = |path: &str| fs::read(other.dir.root().join(path)).unwrap();
    for (name, word) in [
        ("account.json", "the owner's key"),
        ("log.vkey", "log.key"),
        ("log.key", "log.key"),
        ("service.key", "the key of the service"),
        ("policy", "policy"),
    ] {
        let path = format!("accounts/dev/{name}");
        rig.altered(&path, true, |bytes| *bytes = theirs(&path));
        rig.refuses("altered", word);
    }
    rig.altered("accounts/dev/seat.secret", true, |bytes| {
        *bytes = b"AAAA".into()
    });
    rig.refuses("altered", "seat.secret");
    rig.altered("accounts/dev/published", true, |bytes| bytes.fill(1));
    rig.refuses("altered", "does not open");
    let body = format!(
        "accounts/dev/blobs/{}/{}",
        &named(b"kept").to_hex()[..2],
        named(b"kept").to_hex()
    );
    rig.altered(&body, true, |bytes| *bytes.last_mut().unwrap() ^= 1);
    rig.refuses("altered", "other bytes than were kept");
    let tables = made.manifest.files.iter().filter(|row| {
        // Two that nothing rests on.
        let beside = ["OPTIONS", "IDENTITY"]
            .iter()
            .any(|name| row.path.contains(name));
        row.path.contains("/db/") && !beside && row.bytes > 0
    });
    for row in tables {
        rig.altered(&row.path, true, |bytes| bytes.truncate(bytes.len() / 2));
        rig.refuses("altered", "");
    }
    // What it says of the account itself.
    let change = |change: &dyn Fn(&mut AccountRow)| {
        rig.altered("config.toml", false, |_| {});
        let (mut manifest, _) = Manifest::read(&rig.at("altered")).unwrap();
        change(&mut manifest.accounts[0]);
        fs::write(rig.at("altered/backup.json"), manifest.to_json()).unwrap();
    };
    change(&|row| row.size -= 1);
    rig.refuses("altered", "size: backup.json says");
    change(&|row| row.root = Hash([0; 32]).to_base64());
    rig.refuses("altered", "root: backup.json says");
    change(&|row| row.checkpoint = None);
    rig.refuses("altered", "checkpoint: backup.json says none");
    change(&|row| row.origin = "localhost/odd".into());
    rig.refuses("altered", "origin: backup.json says localhost/odd");
    // Noted elsewhere, the one digest finds all of it.
    let refused = restore::run(&Plan {
        backup: &rig.at("altered"),
        dir: &DataDir::new(rig.at("refused")),
        sha256: Some(made.sha256),
        now_s: None,
        bytes: &|_, _| {},
        leaves: &|_, _| {},
    });
    assert!(matches!(refused.err(), Some(BackupError::Another { .. })));
}

#[test]
fn b118_a_payload_that_was_altered_under_untouched_hashes_is_named() {
    let rig = Rig::new();
    let files = rig.dir.account("dev");
    let (db, mark) = (files.db(), files.tidemark());
    // All of the store but that one leaf, written anew, so that no checksum of the database's own tells.
    let store = RocksStore::open(&db, &mark, &shared()).unwrap();
    let (head, at) = store.head().unwrap();
    let mut entries = store.entries(0, 1_000).unwrap();
    let text = String::from_utf8(entries[9].clone()).unwrap();
    let (before, payload) = text.split_once("\"payload\":\"").unwrap();
    let payload = payload.replacen("eyJ", "eXJ", 1);
    entries[9] = format!("{before}\"payload\":\"{payload}").into_bytes();
    assert_ne!(entries[9], text.as_bytes());
    let tile = Tile {
        level: 0,
        index: 0,
        width: 256,
    };
    let (mut unique, mut postings) = (Vec::new(), Vec::new());
    for rows in [Rows::Unique, Rows::Postings] {
        let scanned = store.scan(rows, |row| {
            match row {
                Row::Unique(key, index) => unique.push((key, index)),
                Row::Posting(key, index) => postings.push((key, index)),
                _ => panic!("{row:?}"),
            }
            true
        });
        scanned.unwrap();
    }
    let growth = Growth {
        entries,
        tiles: vec![(tile, store.tile(0, 0).unwrap().unwrap())],
        unique,
        postings,
        head,
        at,
        published: store.published().unwrap(),
    };
    drop(store);
    fs::remove_dir_all(&db).unwrap();
    fs::remove_file(&mark).unwrap();
    let store = RocksStore::create(&db, &mark, &shared()).unwrap();
    store.commit(&Head::EMPTY, &growth).unwrap();
    store.mark(&head).unwrap();
    store.settle().unwrap();
    drop(store);
    rig.backup("backup", true).unwrap();
    rig.refuses(
        "backup",
        "class: Entry, index: Some(9), what: \"another leaf than the one that was committed\"",
    );
}

#[test]
fn b117_an_erased_body_is_not_in_a_backup_and_not_in_what_is_restored() {
    let rig = Rig::new();
    // A disk that was put back: the leaf says erased, and the body is here.
    rig.keep(b"erased");
    let made = rig.backup("clean", true).unwrap();
    assert_eq!(
        (made.manifest.accounts[0].bodies, made.left_out.len()),
        (1, 0)
    );
    // And a backup that holds it all the same.
    let name = named(b"erased").to_hex();
    let path = format!("accounts/dev/blobs/{}/{name}", &name[..2]);
    rig.backup("backup", true).unwrap();
    let (mut manifest, _) = Manifest::read(&rig.at("backup")).unwrap();
    let bytes = fs::read(rig.dir.root().join(&path)).unwrap();
    let to = rig.at("backup").join(&path);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(&to, &bytes).unwrap();
    manifest.files.push(FileRow {
        path: path.clone(),
        bytes: bytes.len() as u64,
        sha256: sha256(&bytes).to_hex(),
    });
    let write = |manifest: &Manifest| {
        fs::write(rig.at("backup/backup.json"), manifest.to_json()).unwrap();
    };
    // One more than it says it has: what is lost of a backup must not pass either.
    write(&manifest);
    let other = rig.restore("backup", "other").unwrap();
    assert_eq!(other.outcome(), Verdict::DoesNotHold);
    assert!(other.accounts[0].apart[0].contains("bodies"));
    manifest.accounts[0].bodies += 1;
    write(&manifest);
    let restored = rig.restore("backup", "again").unwrap();
    assert_eq!(restored.outcome(), Verdict::Holds);
    assert_eq!(restored.accounts[0].erased, 1);
    assert!(!rig.at("again").join(&path).exists());
}

#[test]
fn a_damaged_body_is_left_out_and_named_and_one_that_goes_is_not_missed() {
    let rig = Rig::new();
    for body in [&b"going"[..], b"damaged", b"zeroed"] {
        rig.keep(body);
    }
    let bodies = FileBlobs::to_look_at(&rig.dir.account("dev").blobs());
    let spoil = |body: &[u8], change: &dyn Fn(&mut Vec<u8>)| {
        let path = bodies.path_of(&named(body));
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    };
    spoil(b"damaged", &|bytes| *bytes.last_mut().unwrap() ^= 1);
    // As an erasure leaves it on its way, and as a disk does: the former is gone a moment later.
    spoil(b"zeroed", &|bytes| bytes[..20].fill(0));
    spoil(b"going", &|bytes| bytes.fill(0));
    let path = bodies.path_of(&named(b"going"));
    let erasing = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        fs::remove_file(path).unwrap();
    });
    let made = rig.backup("backup", false).unwrap();
    erasing.join().unwrap();
    assert_eq!(made.manifest.accounts[0].bodies, 1);
    assert_eq!(made.left_out.len(), 2, "{:?}", made.left_out);
    for body in [&b"damaged"[..], b"zeroed"] {
        let hex = named(body).to_hex();
        assert!(made.left_out.iter().any(|what| what.contains(&hex)));
    }
    assert_eq!(
        rig.restore("backup", "again").unwrap().outcome(),
        Verdict::Holds
    );
}

#[test]
fn a_store_that_does_not_open_gives_no_backup() {
    let rig = Rig::new();
    fs::remove_file(rig.dir.account("dev").db().join("CURRENT")).unwrap();
    let refused = rig.backup("backup", false).err().unwrap();
    assert!(matches!(refused, BackupError::Damaged { .. }), "{refused}");
    let left = rig.home.path().read_dir().unwrap().count();
    assert_eq!(left, 1, "and nothing is left of it");
}

#[test]
fn a_backup_is_one_that_restore_takes() {
    let rig = Rig::new();
    let files = rig.dir.account("dev");
    // NFS and editors leave files that are none of a database.
    for stray in [".nfs0001", "000012.sst~", "core"] {
        fs::write(files.db().join(stray), "x").unwrap();
    }
    rig.backup("backup", false).unwrap();
    assert_eq!(
        rig.restore("backup", "again").unwrap().outcome(),
        Verdict::Holds
    );
    fs::create_dir_all(files.policies()).unwrap();
    let stray = files.policies().join("0.policy~");
    fs::write(&stray, "x").unwrap();
    let refused = rig.backup("second", false).err().unwrap();
    assert!(refused.to_string().contains("0.policy~"), "{refused}");
    fs::remove_file(stray).unwrap();
    // It lies where a restore would be made: it is not taken for what an earlier one left.
    rig.backup(".countersign-restore-home", false).unwrap();
    let refused = rig.restore(".countersign-restore-home", "home");
    assert!(refused.is_err());
    assert!(rig.at(".countersign-restore-home/backup.json").exists());
    // What waits for another end is not waited for.
    let fifo = rig.at("backup/backup.json");
    fs::remove_file(&fifo).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let refused = rig.restore("backup", "third").err().unwrap();
    assert!(refused.to_string().contains("no plain file"), "{refused}");
}

#[test]
fn a_block_that_cannot_be_read_gives_no_backup() {
    let rig = Rig::new();
    let db = rig.dir.account("dev").db();
    let tables = db.read_dir().unwrap().flatten().map(|entry| entry.path());
    let tables = tables.filter(|path| path.extension().is_some_and(|kind| kind == "sst"));
    let mut count = 0;
    for table in tables {
        let whole = fs::read(&table).unwrap();
        let mut bytes = whole.clone();
        bytes[40] ^= 1;
        fs::write(&table, bytes).unwrap();
        let refused = rig.backup("backup", false).err();
        assert!(
            matches!(refused, Some(BackupError::Damaged { .. })),
            "{}: {refused:?}",
            table.display()
        );
        fs::write(&table, whole).unwrap();
        count += 1;
    }
    assert!(count > 0);
    rig.backup("backup", false).unwrap();
}
