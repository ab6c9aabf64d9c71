//! One object of each kind changed, lost or exchanged, as by a disk: a check names its class, nobody is given it as good, and a repair
//! makes again what follows from the leaves, to the byte, and touches nothing else.

mod kinds;

use std::{collections::BTreeMap, sync::Arc};

use countersign_log::SystemClocks;
use countersign_verifier::verdict::{Options, Verifier};
use rocksdb::{DB, IteratorMode};

use super::*;
use crate::{config, query};

const FAMILIES: [&str; 5] = ["default", "entries", "tiles", "unique", "postings"];
const LEAVES: u64 = 303;
/// The leaf that is changed.
const LEAF: u64 = 9;

type Rows = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;
type Change = Box<dyn Fn(&Rig)>;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

impl Rig {
    /// Another one of the same bytes.
    fn twin(&self) -> Rig {
        let home = tempfile::tempdir().unwrap();
        copy(self.dir.root(), &home.path().join("data"));
        let dir = DataDir::new(home.path().join("data"));
        Rig { dir, home }
    }

    fn raw<T>(&self, work: impl FnOnce(&DB) -> T) -> T {
        let folder = self.dir.account("dev").db();
        let db = DB::open_cf(&rocksdb::Options::default(), folder, FAMILIES).unwrap();
        work(&db)
    }

    /// Every row of every family.
    fn rows(&self) -> Rows {
        self.raw(|db| {
            let mut all = Rows::new();
            for name in FAMILIES {
                let family = db.cf_handle(name).unwrap();
                for row in db.full_iterator_cf(family, IteratorMode::Start) {
                    let (key, value) = row.unwrap();
                    all.insert((name, key.into_vec()), value.into_vec());
                }
            }
            all
        })
    }

    fn row(&self, family: &str, key: &[u8]) -> Vec<u8> {
        self.raw(|db| {
            db.get_cf(db.cf_handle(family).unwrap(), key)
                .unwrap()
                .unwrap()
        })
    }

    fn put(&self, family: &str, key: &[u8], value: Option<&[u8]>) {
        self.raw(|db| {
            let family = db.cf_handle(family).unwrap();
            match value {
                Some(value) => db.put_cf(family, key, value).unwrap(),
                None => db.delete_cf(family, key).unwrap(),
            }
        });
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.store().snapshot().unwrap()
    }
}

/// How each class came out, in their order: p(ass), f(ail), u(nknown), s(kipped).
fn statuses(report: &Report) -> String {
    let statuses = report.checks.iter();
    statuses.map(|check| &check.status.as_str()[..1]).collect()
}

/// Whatever the service gives out of this directory and a verifier takes is what was committed; most often it says that it cannot.
/// How many of the leaves asked for were given.
fn given(rig: &Rig, leaves: &[Vec<u8>], eras: &Eras) -> Option<usize> {
    let settings = config::Witnesses::default();
    let clocks = Arc::new(SystemClocks);
    let account = Account::open(&rig.dir, "dev", &shared(), clocks, (&settings, false)).ok()?;
    let mut verifier = Verifier::new(eras.clone(), Options::default());
    let mut given = 0;
    for index in [0, 1, LEAF - 1, LEAF, LEAF + 1, 200, 255, 256, LEAVES - 1] {
        let Ok(evidence) = query::evidence(&account.reader(), index) else {
            continue;
        };
        let verdict = verifier.evidence(&evidence.to_json());
        if verdict.outcome == Verdict::Holds {
            given += 1;
            assert_eq!(evidence.leaf, leaves[usize::try_from(index).unwrap()]);
        }
    }
    account.log.close();
    Some(given)
}

#[test]
fn each_kind_of_object_is_found_by_its_class_given_to_nobody_and_mended_if_it_follows_from_leaves()
{
    let sound = Rig::new();
    let before = sound.rows();
    let snapshot = sound.snapshot();
    let leaves: Vec<Vec<u8>> = sound.store().entries(0, 1_000).unwrap();
    assert_eq!(leaves.len() as u64, LEAVES);
    let eras = {
        let account = sound.twin().account();
        account.log.close();
        account.eras.clone()
    };
    assert_eq!(given(&sound.twin(), &leaves, &eras), Some(9));
    let derived_rows = |rows: &Rows| {
        let mut rows = rows.clone();
        rows.retain(|(family, key), _| *family != "default" || !key.starts_with(b"snapshot"));
        rows
    };
    for (kind, class, derived, changes) in kinds::kinds(&sound) {
        for (what, change) in changes {
            let due = kinds::statuses(kind, what);
            let rig = sound.twin();
            change(&rig);
            // An account without its key is nobody's: it is refused by whoever is asked.
            let Ok(report) = rig.planned(None, run) else {
                assert_eq!(kind, "log.vkey");
                continue;
            };
            assert_eq!(report.outcome(), Verdict::DoesNotHold, "{kind}, {what}");
            let statuses = statuses(&report);
            // Where it depends on which bit it is: it fails, or is not known, and never passes.
            let is = |(due, status): (char, char)| match due {
                'x' => "fu".contains(status),
                due => due == status,
            };
            assert!(
                due.len() == statuses.len() && due.chars().zip(statuses.chars()).all(is),
                "{kind}, {what}: {due} {statuses} {report:#?}"
            );
            let mended = report.repairable == report.fault_count;
            assert_eq!(report.to_do.is_empty(), mended, "{kind}, {what}");
            let named = report.faults.iter().any(|fault| fault.class == class);
            assert!(named, "{kind}, {what}: {:#?}", report.faults);
            assert_eq!(
                report.repairable > 0,
                derived,
                "{kind}, {what}: {report:#?}"
            );
            let told = report.to_json("dev");
            let says = told["faults"].as_array().unwrap().iter();
            assert!(says.clone().any(|fault| fault["repairable"] == derived));
            let got = given(&rig.twin(), &leaves, &eras);
            eprintln!("{kind}, {what}: {got:?} of 9 leaves given");
            let changed = rig.rows();
            let mended = rig.planned(None, |plan| repair(plan, &report)).unwrap();
            assert_eq!(mended.is_some(), derived, "{kind}, {what}");
            let Some(mended) = mended else {
                assert!(rig.rows() == changed, "{kind}, {what}: it was touched");
                assert!(
                    !rig.dir
                        .account("dev")
                        .root()
                        .join("before-repair-1")
                        .exists()
                );
                continue;
            };
            let after = rig.check(None);
            assert_eq!(
                after.outcome(),
                Verdict::Holds,
                "{kind}, {what}: {after:#?}"
            );
            assert!(
                derived_rows(&rig.rows()) == derived_rows(&before),
                "{kind}, {what}: {mended:?}"
            );
            assert_eq!(rig.snapshot(), snapshot, "{kind}, {what}");
            // What was there is kept as it was.
            let old = RocksStore::open_behind(
                &mended.copy.join("db"),
                &mended.copy.join("published"),
                &shared(),
                false,
            );
            assert_eq!(old.unwrap().head().unwrap().0.size, LEAVES);
            assert_eq!(given(&rig, &leaves, &eras), Some(9), "{kind}, {what}");
        }
    }
}

#[test]
fn a_repair_says_what_it_did_and_does_nothing_where_the_leaves_are_doubted() {
    let rig = Rig::new();
    let tile = [vec![0], 0_u64.to_be_bytes().to_vec()].concat();
    rig.put("tiles", &tile, None);
    rig.put("default", b"snapshot-parts", Some(b"short"));
    let report = rig.check(None);
    assert_eq!((report.fault_count, report.repairable), (2, 2));
    let lines = report.to_lines("dev");
    assert!(lines.contains("--repair mends it"), "{lines}");
    let mended = rig
        .planned(None, |plan| repair(plan, &report))
        .unwrap()
        .unwrap();
    assert!(
        mended.snapshot && mended.repaired.tiles_made == 1,
        "{mended:?}"
    );
    let told = (mended.to_json(), mended.to_lines());
    assert_eq!(told.0["tiles_made"], 1);
    assert!(told.1.contains("1 tiles made again") && told.1.contains("before-repair-1"));
    assert_eq!(rig.check(None).outcome(), Verdict::Holds);
    assert_eq!(rig.snapshot().unwrap().size, LEAVES);
    // A tile is wrong as well as a leaf, or the mark speaks of more: what was committed is not known.
    rig.put("tiles", &tile, None);
    let worse: [fn(&Rig); 2] = [
        |rig| rig.put("entries", &LEAF.to_be_bytes(), Some(b"{}")),
        |rig| {
            let store = rig.store();
            let (head, _) = store.head().unwrap();
            let size = head.size + 1;
            store.mark(&Head { size, ..head }).unwrap();
        },
    ];
    for worse in worse {
        let rig = rig.twin();
        worse(&rig);
        let report = rig.check(None);
        assert_eq!(report.repairable, 0, "{report:#?}");
        assert!(report.refused.is_some());
        let ways = &report.to_do;
        assert!(ways.iter().any(|way| way.contains("recover")), "{ways:?}");
        assert_eq!(
            rig.planned(None, |plan| repair(plan, &report)).unwrap(),
            None
        );
    }
}
