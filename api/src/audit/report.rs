//! What an audit found, for people and for programs.

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::Hash,
    leaf::Millis,
    verdict::{self, Cosigner, Outcome, Status},
};
use serde_json::{Value, json};

use crate::state::State;

/// Faults of a class that are named; more are counted.
const NAMED_MAX: u64 = 100;

/// What kind of thing is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The checkpoint, or the history that it signs.
    Head,
    /// A tile.
    Tile,
    /// An entry, or a bundle of them.
    Entry,
    /// A signature in a leaf, or who made it.
    Key,
    /// What the leaves say together: their order, and the decisions.
    State,
    /// A lookup key of a store.
    Index,
    /// A body beside the log.
    Blob,
}

impl Class {
    /// All of them, in the order in which `countersign check` names them.
    pub const ALL: [Class; 7] = [
        Class::Entry,
        Class::Tile,
        Class::Head,
        Class::Index,
        Class::State,
        Class::Blob,
        Class::Key,
    ];

    /// As JSON and people's output write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Head => "head",
            Class::Tile => "tile",
            Class::Entry => "entry",
            Class::Key => "key",
            Class::State => "state",
            Class::Index => "index",
            Class::Blob => "blob",
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which kind.
    pub class: Class,
    /// At which leaf, where it is at one.
    pub index: Option<u64>,
    /// What, in plain words.
    pub what: String,
    /// Of a store: whether it follows from the leaves, so that it can be made again where these are whole.
    pub derived: bool,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// Why, in plain words.
    pub detail: String,
}

impl Check {
    pub(super) fn new(name: &'static str, status: Status, detail: impl Into<String>) -> Check {
        let detail = detail.into();
        Check {
            name,
            status,
            detail,
        }
    }
}

impl From<verdict::Check> for Check {
    fn from(check: verdict::Check) -> Check {
        Check::new(check.name.as_str(), check.status, check.detail)
    }
}

/// What is checked, in this order.
const NAMES: [&str; 7] = [
    "checkpoint",
    "witnesses",
    "entries",
    "tiles",
    "leaves",
    "signatures",
    "decisions",
];

/// Faults as they are found: the first ones in full, all of them counted.
#[derive(Debug, Default)]
pub(super) struct Faults {
    named: Vec<Fault>,
    /// By class, in the order of its variants.
    counts: [u64; Class::ALL.len()],
    /// The same of those that are of what follows from the leaves.
    derived: [u64; Class::ALL.len()],
}

impl Faults {
    pub(super) fn add(&mut self, class: Class, index: Option<u64>, what: impl Into<String>) {
        self.name(class, index, what.into(), false);
    }

    /// The same of something that follows from the leaves.
    pub(super) fn add_derived(
        &mut self,
        class: Class,
        index: Option<u64>,
        what: impl Into<String>,
    ) {
        self.name(class, index, what.into(), true);
    }

    fn name(&mut self, class: Class, index: Option<u64>, what: String, derived: bool) {
        self.count_more(class, 1, derived);
        // Of each class some, so that many of one do not hide the others.
        if self.counts[class as usize] <= NAMED_MAX {
            self.named.push(Fault {
                class,
                index,
                what,
                derived,
            });
        }
    }

    /// So many more, which nobody names.
    pub(super) fn count_more(&mut self, class: Class, count: u64, derived: bool) {
        self.counts[class as usize] += count;
        self.derived[class as usize] += count * u64::from(derived);
    }

    /// How many of a class are of what follows from the leaves.
    pub(super) fn derived(&self, class: Class) -> u64 {
        self.derived[class as usize]
    }

    /// How many are of anything else.
    pub(super) fn not_derived(&self) -> u64 {
        self.count() - self.derived.iter().sum::<u64>()
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn of(&self, class: Class) -> u64 {
        self.counts[class as usize]
    }

    pub(super) fn into_named(self) -> Vec<Fault> {
        self.named
    }
}

/// A failed check, or any fault: does not hold. Else anything unknown: cannot be told. Else it holds.
pub(super) fn outcome(checks: &[Check], fault_count: u64) -> Outcome {
    let any = |status| checks.iter().any(|check| check.status == status);
    if any(Status::Fail) || fault_count > 0 {
        Outcome::DoesNotHold
    } else if any(Status::Unknown) {
        Outcome::CannotTell
    } else {
        Outcome::Holds
    }
}

/// Faults as JSON.
pub(super) fn fault_rows(faults: &[Fault]) -> Value {
    let rows = faults.iter().map(|fault| {
        let mut row = json!({"class": fault.class.name(), "what": fault.what});
        if let Some(index) = fault.index {
            row["index"] = index.into();
        }
        row
    });
    rows.collect()
}

/// Checks and faults as lines; `remark` may add to what is said of a fault.
pub(super) fn fault_lines(
    checks: &[Check],
    faults: &[Fault],
    count: u64,
    remark: &dyn Fn(&Fault) -> Option<&'static str>,
) -> String {
    let mut lines = String::new();
    for check in checks {
        let (name, status) = (check.name, check.status.as_str());
        lines += &format!("  {name:<11} {status:<8} {}\n", check.detail);
    }
    for fault in faults {
        let (class, remark) = (fault.class.name(), remark(fault).unwrap_or_default());
        lines += &match fault.index {
            Some(index) => format!("  fault: {class}, leaf {index}: {}{remark}\n", fault.what),
            None => format!("  fault: {class}: {}{remark}\n", fault.what),
        };
    }
    let unnamed = count - faults.len() as u64;
    if unnamed > 0 {
        lines += &format!("  and {unnamed} faults more\n");
    }
    lines
}

/// What the leaves make of an empty state, every decision judged again: a stranger's view, taken from nobody.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Leaves that it reflects.
    pub size: u64,
    /// The root of these leaves, which is that of the signed tree at this size.
    pub root: Hash,
    /// What they make.
    pub state: State,
}

/// What an audit found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The log's address.
    pub source: String,
    /// The checkpoint's note, as it was served.
    pub checkpoint: String,
    /// The tree head, where a log of the policy signed it: origin, size, root.
    pub head: Option<(String, u64, Hash)>,
    /// One of each name, in order.
    pub checks: Vec<Check>,
    /// The first faults.
    pub faults: Vec<Fault>,
    /// How many there are.
    pub fault_count: u64,
    /// The witnesses that counted.
    pub cosigners: Vec<Cosigner>,
    /// How many leaves an earlier audit had done.
    pub resumed_from: Option<u64>,
    /// What a replay came to, of a log of ours in which nothing is wrong.
    pub replayed: Option<Replayed>,
}

impl Report {
    pub(super) fn new(source: String, checkpoint: String, cosigners: Vec<Cosigner>) -> Report {
        Report {
            source,
            checkpoint,
            head: None,
            checks: Vec::new(),
            faults: Vec::new(),
            fault_count: 0,
            cosigners,
            resumed_from: None,
            replayed: None,
        }
    }

    pub(super) fn of(&mut self, checkpoint: &Checkpoint) {
        self.head = Some((checkpoint.origin.clone(), checkpoint.size, checkpoint.root));
    }

    /// What has not been checked is skipped, for this reason.
    pub(super) fn skip_rest(&mut self, why: &str) {
        for name in &NAMES[self.checks.len()..] {
            self.checks.push(Check::new(name, Status::Skipped, why));
        }
    }

    pub(super) fn take(&mut self, faults: Faults) {
        self.fault_count = faults.count();
        self.faults = faults.into_named();
    }

    /// A failed check, or any fault: does not hold. Else anything unknown: cannot be told. Else it holds.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.checks, self.fault_count)
    }

    /// One JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let checks = self.checks.iter().map(
            |check| json!({"name": check.name, "status": check.status.as_str(), "detail": check.detail}),
        );
        let cosigners = self.cosigners.iter().map(|c| {
            let at = Millis(c.time.saturating_mul(1_000)).to_string();
            json!({"name": c.name, "key": c.key, "at": at})
        });
        let head = self.head.as_ref();
        json!({
            "source": self.source,
            "verdict": self.outcome().as_str(),
            "origin": head.map(|(origin, ..)| origin),
            "size": head.map(|(_, size, _)| size),
            "root": head.map(|(.., root)| root.to_base64()),
            "checks": checks.collect::<Value>(),
            "faults": fault_rows(&self.faults),
            "fault_count": self.fault_count,
            "cosigners": cosigners.collect::<Value>(),
            "resumed_from": self.resumed_from,
        })
    }

    /// Lines for people.
    #[must_use]
    pub fn to_lines(&self) -> String {
        let mut lines = match &self.head {
            Some((origin, size, root)) => {
                format!("{}: {origin}, {size} leaves, root {root}\n", self.source)
            }
            None => format!("{}\n", self.source),
        };
        if let Some(size) = self.resumed_from {
            lines += &format!("  goes on after {size} leaves that were audited before\n");
        }
        lines += &fault_lines(&self.checks, &self.faults, self.fault_count, &|_| None);
        lines += match self.outcome() {
            Outcome::Holds => "holds\n",
            Outcome::DoesNotHold => "does not hold\n",
            Outcome::CannotTell => "cannot tell\n",
        };
        lines
    }
}
