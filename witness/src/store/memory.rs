//! A store in memory that can be told to fail, for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_verifier::hash::Hash;

use super::{Change, Store, StoreError};
use crate::record::Record;
use crate::tally::Tally;

/// What a store is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// [`Store::record`].
    Record,
    /// [`Store::commit`].
    Commit,
    /// [`Store::entry`].
    Entry,
    /// [`Store::put_entries`].
    PutEntries,
    /// [`Store::put_tallies`].
    PutTallies,
    /// [`Store::reload`].
    Reload,
}

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// At which step.
    pub step: Step,
    /// After it was done, and not before.
    pub after: bool,
    /// How many such steps go well before it.
    pub skip: usize,
}

#[derive(Default)]
struct Inside {
    records: BTreeMap<Hash, Vec<u8>>,
    entries: BTreeMap<Hash, Vec<u8>>,
    tallies: BTreeMap<Hash, Tally>,
    faults: Vec<Fault>,
    /// After a failed commit, until a reload.
    unknown: bool,
    commits: u64,
}

/// A store in memory.
#[derive(Default)]
pub struct Memory(Mutex<Inside>);

impl Memory {
    /// Plans a failure.
    pub fn fail(&self, fault: Fault) {
        self.inside().faults.push(fault);
    }

    /// How many commits were stored.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.inside().commits
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a step, or fails before or after it as planned.
    fn step<T>(
        &self,
        step: Step,
        work: impl FnOnce(&mut Inside) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut inside = self.inside();
        let mut due = None;
        for (at, fault) in inside.faults.iter_mut().enumerate() {
            if fault.step == step && due.is_none() {
                match fault.skip.checked_sub(1) {
                    Some(left) => fault.skip = left,
                    None => due = Some(at),
                }
            }
        }
        let due = due.map(|at| inside.faults.remove(at));
        let failed = || StoreError::Unavailable(format!("planned failure of {step:?}"));
        let answer = match due {
            Some(fault) if !fault.after => Err(failed()),
            _ => work(&mut inside),
        };
        let answer = match due {
            Some(_) if answer.is_ok() => Err(failed()),
            _ => answer,
        };
        if due.is_some() && step == Step::Commit {
            inside.unknown = true;
        }
        answer
    }
}

fn decode(bytes: &[u8]) -> Result<Record, StoreError> {
    Record::decode(bytes).map_err(|why| StoreError::Damaged(why.to_string()))
}

impl Store for Memory {
    fn record(&self, log: &Hash) -> Result<Option<Record>, StoreError> {
        self.step(Step::Record, |inside| {
            inside.records.get(log).map(|b| decode(b)).transpose()
        })
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.step(Step::Commit, |inside| {
            if inside.unknown {
                return Err(StoreError::Unavailable(
                    "the last commit's outcome is unknown".into(),
                ));
            }
            for change in changes {
                let expected = change.expected.as_ref().map(Record::encode);
                if inside.records.get(&change.log) != expected.as_ref() {
                    return Err(StoreError::Conflict { log: change.log });
                }
            }
            for change in changes {
                inside.records.insert(change.log, change.next.encode());
            }
            inside.commits += 1;
            Ok(())
        })
    }

    fn entry(&self, log: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.step(Step::Entry, |inside| Ok(inside.entries.get(log).cloned()))
    }

    fn put_entries(&self, entries: &[(Hash, Vec<u8>)]) -> Result<(), StoreError> {
        self.step(Step::PutEntries, |inside| {
            inside.entries.extend(entries.iter().cloned());
            Ok(())
        })
    }

    fn entries(
        &self,
        after: Option<&Hash>,
        limit: usize,
    ) -> Result<Vec<(Hash, Vec<u8>)>, StoreError> {
        let inside = self.inside();
        let behind = inside
            .entries
            .iter()
            .filter(|(log, _)| after.is_none_or(|after| *log > after));
        Ok(behind
            .take(limit)
            .map(|(log, entry)| (*log, entry.clone()))
            .collect())
    }

    fn tally(&self, log: &Hash) -> Result<Tally, StoreError> {
        Ok(self.inside().tallies.get(log).copied().unwrap_or_default())
    }

    fn put_tallies(&self, tallies: &[(Hash, Tally)]) -> Result<(), StoreError> {
        self.step(Step::PutTallies, |inside| {
            inside.tallies.extend(tallies.iter().copied());
            Ok(())
        })
    }

    fn reload(&self) -> Result<(), StoreError> {
        self.step(Step::Reload, |inside| {
            inside.unknown = false;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite;

    #[test]
    fn it_passes_the_suite() {
        suite::run(&|| Box::new(Memory::default()));
    }

    #[test]
    fn planned_failures_come_once_and_where_they_were_planned() {
        let store = Memory::default();
        let (log, record) = suite::record(1);
        store.fail(Fault {
            step: Step::Commit,
            after: true,
            skip: 1,
        });
        let first = suite::change(log, None, &record);
        assert_eq!(store.commit(&[first]), Ok(()));
        let next = suite::record(2).1;
        let second = suite::change(log, Some(&record), &next);
        assert!(store.commit(std::slice::from_ref(&second)).is_err());
        let blocked = suite::change(log, Some(&next), &record);
        assert!(store.commit(&[blocked]).is_err(), "until a reload");
        store.reload().unwrap();
        assert_eq!(store.record(&log), Ok(Some(next)), "it was stored");
        let twice = store.commit(&[second]);
        assert_eq!(twice, Err(StoreError::Conflict { log }));
    }
}
