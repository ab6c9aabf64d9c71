//! What the way through a log came to.

use countersign_verifier::{tile::WIDTH, verdict::Status};

use super::{
    own::Own,
    report::{Check, Class, Report},
    work::Work,
};

type Found = (Status, String);

const OPERATORS_WORD: &str = "the operator's word: --replay judges them again";
const NOT_ALL: &str = "not all entries are known to be those that were signed";

impl Work {
    /// The checks after that of the entries.
    pub(super) fn conclude(&mut self, entries: &Check, target: u64, report: &mut Report) {
        let tiles = self.tiles_check(entries.status);
        report.checks.push(tiles);
        let Some(own) = &self.own else {
            match entries.status {
                _ if target == 0 => report.skip_rest("the tree is empty"),
                Status::Pass => report
                    .skip_rest("entries of another application, taken as the bytes that they are"),
                _ => self.whose(report),
            }
            return;
        };
        for (name, (status, what)) in [
            ("leaves", self.leaves(own, entries.status)),
            ("signatures", self.signatures(own, entries.status)),
            ("decisions", self.decisions(own, entries.status)),
        ] {
            report.checks.push(Check::new(name, status, what));
        }
    }

    /// Where no leaf of a log of ours was seen, and the entries are not those that were signed: whose these are is not known either.
    fn whose(&self, report: &mut Report) {
        let why = match self.edge.size() {
            0 => "the entries cannot be read",
            _ => {
                "whose entries these are is not known: they are not known to be those that were signed"
            }
        };
        for name in ["leaves", "signatures"] {
            report.checks.push(Check::new(name, Status::Unknown, why));
        }
        let (status, what) = match self.replay {
            true => (Status::Unknown, why),
            false => (Status::Skipped, OPERATORS_WORD),
        };
        report.checks.push(Check::new("decisions", status, what));
    }

    fn leaves(&self, own: &Own, entries: Status) -> Found {
        let faults = self.faults.of(Class::Entry) + self.faults.of(Class::State);
        let so_far = own.state.size;
        match own.stopped {
            _ if faults > 0 => (
                Status::Fail,
                format!("{faults} faults in what the leaves say"),
            ),
            Some((at, true)) => (
                Status::Unknown,
                format!("leaf {at} is of a newer form than this release reads"),
            ),
            _ if entries != Status::Pass => (
                Status::Unknown,
                format!("the first {so_far} are well-formed; {NOT_ALL}"),
            ),
            _ => (
                Status::Pass,
                format!("{so_far} leaves, each in its one form"),
            ),
        }
    }

    fn signatures(&self, own: &Own, entries: Status) -> Found {
        let what = format!(
            "{} signatures under keys that the leaves enrol",
            own.signatures
        );
        match (self.faults.of(Class::Key), own.stopped) {
            (0, None) if entries != Status::Pass => (Status::Unknown, format!("{what}; {NOT_ALL}")),
            (0, None) => (Status::Pass, what),
            (0, Some((at, _))) => (
                Status::Unknown,
                format!("{what}; from leaf {at} on it is not known whose keys they are"),
            ),
            (bad, _) => (Status::Fail, format!("{bad} faults among {what}")),
        }
    }

    fn decisions(&self, own: &Own, entries: Status) -> Found {
        let faults = self.faults.of(Class::State);
        match (self.replay, own.stopped) {
            (false, _) => (Status::Skipped, OPERATORS_WORD.to_owned()),
            (true, _) if faults > 0 => (Status::Fail, format!("{faults} do not follow the rules")),
            (true, Some((at, _))) => (Status::Unknown, format!("leaf {at} ends what is known")),
            (true, None) => {
                let taken = match own.taken {
                    0 => String::new(),
                    n => format!("; what {n} of them say of the log itself was taken as recorded"),
                };
                let what = format!("{} follow the rules{taken}", own.decisions);
                match entries {
                    Status::Pass => (Status::Pass, what),
                    _ => (Status::Unknown, format!("{what}; {NOT_ALL}")),
                }
            }
        }
    }

    /// Says of each difference between tiles and entries who is wrong: the entries, if they do not lead to the signed root.
    fn tiles_check(&mut self, entries: Status) -> Check {
        let leaf_level = self.apart.iter().any(|(tile, _)| tile.level == 0);
        for (tile, place) in std::mem::take(&mut self.apart) {
            let (path, index) = (tile.path(), tile.index * u64::from(WIDTH) + place);
            match (entries, tile.level) {
                (Status::Fail, 0) => {
                    let what = format!("not the entry whose hash stands in {path}");
                    self.faults.add(Class::Entry, Some(index), what);
                }
                // What is above a changed entry is another one too.
                (Status::Fail, _) if leaf_level => {}
                (_, 0) => {
                    let what = format!("{path}: hash {place} is not that of the entry");
                    self.faults.add(Class::Tile, Some(index), what);
                }
                (_, level) => {
                    let what = format!(
                        "{path}: hash {place} does not follow from level {}",
                        level - 1
                    );
                    self.faults.add(Class::Tile, None, what);
                }
            }
        }
        if entries == Status::Fail && self.faults.count() == 0 {
            let what = "entries and tiles agree, and lead to another root than the log has signed";
            self.faults.add(Class::Head, None, what);
        }
        let compared = format!("{} tiles compared with the entries", self.tiles);
        let faults = self.faults.of(Class::Tile);
        match (&self.untold, entries) {
            _ if self.apart_count > 0 || faults > 0 => Check::new(
                "tiles",
                Status::Fail,
                format!("{compared}; {} hashes differ", self.apart_count),
            ),
            (Some(why), _) => Check::new("tiles", Status::Unknown, why.clone()),
            (None, Status::Pass) => Check::new("tiles", Status::Pass, compared + ", all alike"),
            (None, _) => {
                let what = format!("{compared}, all alike; {NOT_ALL}");
                Check::new("tiles", Status::Unknown, what)
            }
        }
    }
}
