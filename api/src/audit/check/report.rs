//! What a check found: a line for each class of objects, and the faults.

use std::collections::BTreeSet;

use countersign_log::check::{Class as Kind, Found};
use countersign_verifier::{
    hash::Hash,
    verdict::{Outcome, Status},
};
use serde_json::{Value, json};

use super::{
    super::report::{Check, Class, Fault, Faults, fault_lines, fault_rows, outcome},
    Mended,
    ways::Way,
};

/// What was looked at.
#[derive(Default)]
pub(super) struct Looked {
    origin: String,
    head: Option<(u64, Hash)>,
    /// Why the leaves are not known to be those of the head, where they are not: then whatever follows from them is not known either.
    doubt: Option<&'static str>,
    /// Whether the leaves are those that were committed, as far as the store itself can say.
    leaves_hold: bool,
    /// Of a log with a successor: up to where it had signed more than is here.
    beyond: Option<u64>,
    tiles: u64,
    keys: u64,
    keys_untold: Option<&'static str>,
    /// Why it is not known whether the published checkpoint meets the account's policy, where it is not.
    pub(super) policy_untold: Option<String>,
    /// Whether there is a leaf 0 that says whose the account is.
    pub(super) opened: bool,
    pub(super) decisions: u64,
    pub(super) taken: u64,
    pub(super) signatures: u64,
    pub(super) bodies: u64,
    pub(super) stopped: Option<(u64, bool)>,
    pub(super) compared: Vec<String>,
    pub(super) keys_elsewhere: bool,
    /// What there is to do about what a repair leaves.
    pub(super) ways: BTreeSet<Way>,
}

impl Looked {
    pub(super) fn new(origin: &str) -> Looked {
        Looked {
            origin: origin.into(),
            ..Looked::default()
        }
    }

    pub(super) fn found(&mut self, found: &Found, has_successor: bool) {
        self.doubt = match found.tree {
            Some(tree) if tree == found.head => None,
            Some(_) => Some("the leaves do not lead to the stored head"),
            // Of no leaves every one can be read.
            None if found.head.size == 0 => Some("the head cannot be read"),
            None => Some("leaves are missing or cannot be read"),
        };
        let known = found.tree.is_some() || found.head.size > 0;
        self.head = known.then_some((found.head.size, found.head.root));
        self.leaves_hold = found.leaves_hold();
        (self.tiles, self.keys) = (found.tiles, found.keys);
        self.keys_untold = found.keys_untold;
        self.beyond = found.beyond.filter(|_| has_successor);
        let ends_early = found.beyond.is_some() && !has_successor;
        if ends_early {
            self.ways.insert(Way::End);
        }
        if found.mark_is_blank {
            self.ways.insert(Way::Mark);
        }
        let explained = ends_early || found.mark_is_blank;
        let rows = found.has(Kind::Entry) || found.has(Kind::Head) && !explained;
        if rows || self.doubt.is_some() {
            self.ways.insert(Way::Rows);
        }
    }

    /// Whether everything was looked at, and in words what for each class. Nothing passes that was not: where the leaves are in doubt, it
    /// is not known whether what was read is what was committed.
    fn told(&self, class: Class) -> (Status, String) {
        let size = self.head.map_or(0, |(size, _)| size);
        match class {
            Class::Entry => self.follows(format!("{size} leaves lead to the stored head")),
            Class::Tile => self.follows(format!("{} tiles follow from the leaves", self.tiles)),
            Class::Head => self.told_of_head(),
            Class::Index => match self.keys_untold {
                Some(why) => (Status::Unknown, why.to_owned()),
                None => {
                    let what = format!(
                        "{} lookup keys are those of the leaves, and no others",
                        self.keys
                    );
                    (Status::Pass, what)
                }
            },
            Class::State => {
                let mut what = vec![format!("{} decisions follow the rules", self.decisions)];
                if self.taken > 0 {
                    let taken = self.taken;
                    what.push(format!(
                        "what {taken} of them say of the log itself was taken as recorded"
                    ));
                }
                what.extend(self.compared.iter().cloned());
                self.judged(what.join("; "))
            }
            Class::Key => self.told_of_keys(),
            Class::Blob if self.bodies == 0 => {
                (Status::Skipped, "no body is kept beside the log".into())
            }
            Class::Blob => self.judged(format!(
                "{} bodies give their commitments, and no leaf has erased one of them",
                self.bodies
            )),
        }
    }

    /// Of what follows from the bytes of the leaves.
    fn follows(&self, what: String) -> (Status, String) {
        match self.doubt {
            Some(why) => (Status::Unknown, why.to_owned()),
            None => (Status::Pass, what),
        }
    }

    /// Of what the leaves say, which is known up to the first that says nothing.
    fn judged(&self, what: String) -> (Status, String) {
        match (self.doubt, self.stopped) {
            (Some(why), _) => (Status::Unknown, format!("{what}; but {why}")),
            (None, Some((at, _))) => {
                let what = format!("{what}; leaf {at} ends what is known");
                (Status::Unknown, what)
            }
            (None, None) => (Status::Pass, what),
        }
    }

    fn told_of_head(&self) -> (Status, String) {
        let what = "the head and every checkpoint follow from the leaves and are signed";
        match (self.doubt, &self.policy_untold, self.beyond) {
            (Some(why), ..) => {
                let what =
                    format!("{why}: so it is not known whether the checkpoints are of this tree");
                (Status::Unknown, what)
            }
            (None, Some(why), _) => {
                let what = format!("{what}; whether they meet the policy is not known: {why}");
                (Status::Unknown, what)
            }
            (None, None, Some(size)) => {
                let what = format!(
                    "{what}, as far as there are leaves: the log had signed up to size {size}, as its successor says"
                );
                (Status::Pass, what)
            }
            (None, None, None) => (Status::Pass, what.into()),
        }
    }

    fn told_of_keys(&self) -> (Status, String) {
        let files = match (self.opened, self.keys_elsewhere) {
            (false, _) => "there is no leaf 0 that says whose the key files must be",
            (true, true) => "the account's files are those of leaf 0, and the keys lie elsewhere",
            (true, false) => "the key files are those of leaf 0",
        };
        let what = format!(
            "{} signatures under keys that the leaves enrol; {files}",
            self.signatures
        );
        match self.judged(what) {
            (Status::Pass, what) if !self.opened => (Status::Skipped, what),
            told => told,
        }
    }
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The log's origin.
    pub origin: String,
    /// Size and root that the store names, where it opens.
    pub head: Option<(u64, Hash)>,
    /// One of each class, in order.
    pub checks: Vec<Check>,
    /// The first faults.
    pub faults: Vec<Fault>,
    /// How many there are.
    pub fault_count: u64,
    /// How many of them a repair mends.
    pub repairable: u64,
    /// Whether lookup keys can be made again.
    pub(super) keys_told: bool,
    /// Whether the snapshot is not what the leaves make.
    pub(super) snapshot_wrong: bool,
    /// Why nothing can be repaired, where there is something that follows from leaves.
    pub refused: Option<&'static str>,
    /// What there is to do about faults that a repair does not mend.
    pub to_do: Vec<&'static str>,
    /// What was mended before this check.
    pub mended: Option<Mended>,
}

/// Why nothing is made of leaves that may not be those that were committed.
const NO_GROUND: &str =
    "the leaves are not known to be those that were committed, so nothing is made of them";
const UNOPENED: &str = "the store, or the mark beside it, cannot be opened";
const NOTHING: &str = "none of this follows from the leaves";

impl Report {
    pub(super) fn new(looked: Looked, faults: Faults) -> Report {
        let check = |class: Class| match faults.of(class) {
            0 => {
                let (status, what) = looked.told(class);
                Check::new(class.name(), status, what)
            }
            n => Check::new(class.name(), Status::Fail, format!("{n} faults")),
        };
        let checks = Class::ALL.map(check).into();
        let derived: u64 = Class::ALL.iter().map(|class| faults.derived(*class)).sum();
        let snapshot_wrong = faults.derived(Class::State) > 0;
        let (fault_count, named) = (faults.count(), faults.into_named());
        Report {
            origin: looked.origin,
            head: looked.head,
            checks,
            faults: named,
            fault_count,
            repairable: if looked.leaves_hold { derived } else { 0 },
            keys_told: looked.keys_untold.is_none(),
            snapshot_wrong,
            refused: match (derived, fault_count) {
                (_, 0) => None,
                (0, _) => Some(NOTHING),
                _ => (!looked.leaves_hold).then_some(NO_GROUND),
            },
            to_do: looked.ways.into_iter().map(Way::text).collect(),
            mended: None,
        }
    }

    /// Of a store that does not open: nothing else can be told.
    pub(super) fn unopened(looked: Looked, faults: Faults) -> Report {
        let mut report = Report::new(looked, faults);
        report.refused = Some(UNOPENED);
        for check in &mut report.checks {
            if check.status != Status::Fail {
                (check.status, check.detail) = (Status::Skipped, "the store does not open".into());
            }
        }
        report
    }

    /// A failed check: does not hold. Else anything unknown: cannot be told. Else it holds.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.checks, self.fault_count)
    }

    /// Whether a repair mends this fault.
    fn mends(&self, fault: &Fault) -> bool {
        fault.derived && self.repairable > 0
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self, account: &str) -> Value {
        let checks = self.checks.iter().map(
            |check| json!({"name": check.name, "status": check.status.as_str(), "detail": check.detail}),
        );
        let mut faults = fault_rows(&self.faults);
        for (row, fault) in faults
            .as_array_mut()
            .into_iter()
            .flatten()
            .zip(&self.faults)
        {
            row["repairable"] = self.mends(fault).into();
        }
        json!({
            "account": account,
            "verdict": self.outcome().as_str(),
            "origin": self.origin,
            "size": self.head.map(|(size, _)| size),
            "root": self.head.map(|(_, root)| root.to_base64()),
            "checks": checks.collect::<Value>(),
            "faults": faults,
            "fault_count": self.fault_count,
            "repairable": self.repairable,
            "repair_refused": self.refused,
            "to_do": self.to_do,
            "repaired": self.mended.as_ref().map(Mended::to_json),
        })
    }

    /// Lines for people.
    #[must_use]
    pub fn to_lines(&self, account: &str) -> String {
        let mut lines = match &self.head {
            Some((size, root)) => {
                format!("{account}: {}, {size} leaves, root {root}\n", self.origin)
            }
            None => format!("{account}: {}\n", self.origin),
        };
        if let Some(mended) = &self.mended {
            lines += &mended.to_lines();
        }
        lines += &fault_lines(&self.checks, &self.faults, self.fault_count, &|fault| {
            self.mends(fault).then_some("; --repair mends it")
        });
        if self.repairable > 0 {
            let (some, all) = (self.repairable, self.fault_count);
            lines += &format!(
                "  {some} of {all} faults are mended by --repair, once no service runs on the directory\n"
            );
        }
        if let Some(why) = self.refused {
            lines += &format!("  --repair mends nothing: {why}\n");
        }
        for what in &self.to_do {
            lines += &format!("  to do: {what}\n");
        }
        lines
            + match self.outcome() {
                Outcome::Holds => "holds\n",
                Outcome::DoesNotHold => "does not hold\n",
                Outcome::CannotTell => "cannot tell\n",
            }
    }
}
