//! A disk: what was written to it stays, what was only told to the kernel is lost with the machine, any step may fail, and the
//! power may go at any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_log::{
    Head, Key, Store, StoreError,
    store::{
        Growth, Kept, Snapshot, Stage,
        memory::{MemoryStore, Step, When},
    },
};

/// What a disk does that none may: so that it can be seen that a run finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// A commit that was answered is gone after the machine's end.
    LosesLastCommit,
    /// Lookup keys are not written with their leaves.
    LosesKeys,
    /// A checkpoint that is to be kept before witnesses see it is not.
    LosesSigned,
}

/// One opening of it: what comes after a crash is another one.
pub struct Disk {
    /// What is durable.
    pub durable: Arc<MemoryStore>,
    flaw: Flaw,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The process or the machine that had it open is gone.
    off: bool,
    /// The next one of these steps is the last.
    cut: Option<(Step, When)>,
    faults: Vec<(Step, When)>,
    mark: Option<Head>,
    settled: Option<Head>,
    before_last: Option<Arc<MemoryStore>>,
}

fn gone() -> StoreError {
    StoreError::Unavailable("the power is off".into())
}

impl Disk {
    pub fn new(flaw: Flaw) -> Disk {
        Disk {
            durable: Arc::new(MemoryStore::new()),
            flaw,
            state: Mutex::default(),
        }
    }

    /// What a start finds once this opening is over: after the end of the process all that the kernel was told, after that of the
    /// machine only what was synced.
    pub fn after(&self, machine: bool) -> Disk {
        let mut state = self.state();
        state.off = true;
        let durable = match &state.before_last {
            Some(before) if machine => before.clone(),
            _ => self.durable.clone(),
        };
        let mark = if machine { state.settled } else { state.mark };
        Disk {
            durable,
            flaw: self.flaw,
            state: Mutex::new(State {
                mark,
                settled: state.settled,
                ..State::default()
            }),
        }
    }

    /// Takes the power away: whatever runs writes nothing more.
    pub fn off(&self) {
        self.state().off = true;
    }

    /// Takes it away before or after the next such step.
    pub fn cut_at(&self, step: Step, when: When) {
        self.state().cut = Some((step, when));
    }

    /// Makes the next such step fail.
    pub fn fail_next(&self, step: Step, when: When) {
        self.state().faults.push((step, when));
    }

    /// No fault is to come any more.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Whether nothing that was planned is still to come.
    pub fn is_well(&self) -> bool {
        let state = self.state();
        state.faults.is_empty() && state.cut.is_none()
    }

    /// Whether a start would know of a head of this size that it had left the process.
    pub fn knows_of(&self, size: u64) -> bool {
        let kept = |kept: &Kept| kept.head.size >= size;
        // In this order: what is published meanwhile is not among the signed ones any more.
        let signed = self.durable.signed().expect("signed");
        let published = self.durable.published().expect("published");
        let settled = self.state().settled;
        published.as_ref().is_some_and(kept)
            || signed.iter().any(kept)
            || settled.is_some_and(|head| head.size >= size)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a step, or does not, or does it and says that it failed.
    fn step<T>(
        &self,
        step: Step,
        work: impl FnOnce(&MemoryStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut state = self.state();
        if state.off {
            return Err(gone());
        }
        if let Some((_, when)) = state.cut.take_if(|(at, _)| *at == step) {
            state.off = true;
            if when == When::After {
                work(&self.durable)?;
            }
            return Err(gone());
        }
        let Some(at) = state.faults.iter().position(|(at, _)| *at == step) else {
            return work(&self.durable);
        };
        let (_, when) = state.faults.remove(at);
        if when == When::After {
            work(&self.durable)?;
        }
        Err(StoreError::Unavailable(format!("{step:?} fails")))
    }

    /// Small reads, which do not fail by themselves.
    fn read<T>(
        &self,
        work: impl FnOnce(&MemoryStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.state().off {
            true => Err(gone()),
            false => work(&self.durable),
        }
    }

    fn raise(&self, head: &Head, settle: bool) {
        let mut state = self.state();
        if state.mark.is_none_or(|mark| mark.size < head.size) {
            state.mark = Some(*head);
        }
        if settle {
            state.settled = state.mark;
        }
    }
}

impl Store for Disk {
    fn head(&self) -> Result<(Head, u64), StoreError> {
        self.read(MemoryStore::head)
    }

    fn commit(&self, previous: &Head, growth: &Growth) -> Result<(), StoreError> {
        if self.flaw == Flaw::LosesLastCommit {
            let before = Arc::new(self.durable.copy());
            self.state().before_last = Some(before);
        }
        let mut growth = growth.clone();
        if self.flaw == Flaw::LosesKeys {
            growth.unique.clear();
        }
        self.step(Step::Commit, |store| store.commit(previous, &growth))
    }

    fn entry(&self, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.step(Step::Read, |store| store.entry(index))
    }

    fn entries(&self, first: u64, count: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.step(Step::Read, |store| store.entries(first, count))
    }

    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.step(Step::Read, |store| store.tile(level, index))
    }

    fn find(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        self.step(Step::Read, |store| store.find(key))
    }

    fn postings(
        &self,
        key: &Key,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<u64>, StoreError> {
        self.step(Step::Read, |store| store.postings(key, after, limit))
    }

    fn keep(&self, stage: Stage, kept: &Kept) -> Result<(), StoreError> {
        let step = match stage {
            Stage::Signed { .. } if self.flaw == Flaw::LosesSigned => return Ok(()),
            Stage::Signed { .. } => Step::KeepSigned,
            Stage::Published => Step::KeepPublished,
        };
        self.step(step, |store| store.keep(stage, kept))?;
        if stage == Stage::Published {
            // A step of its own, and on the disk only once it is settled.
            self.mark(&kept.head)?;
        }
        Ok(())
    }

    fn mark(&self, head: &Head) -> Result<(), StoreError> {
        self.step(Step::Mark, |_| Ok(()))?;
        self.raise(head, false);
        Ok(())
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.read(|_| Ok(()))?;
        let mut state = self.state();
        state.settled = state.mark;
        Ok(())
    }

    fn published(&self) -> Result<Option<Kept>, StoreError> {
        self.read(MemoryStore::published)
    }

    fn signed(&self) -> Result<Vec<Kept>, StoreError> {
        self.read(MemoryStore::signed)
    }

    fn tidemark(&self) -> Result<Option<Head>, StoreError> {
        self.read(|_| Ok(()))?;
        Ok(self.state().mark)
    }

    fn keep_ahead(&self, ahead: &Kept) -> Result<(), StoreError> {
        self.read(|store| store.keep_ahead(ahead))
    }

    fn ahead(&self) -> Result<Option<Kept>, StoreError> {
        self.read(MemoryStore::ahead)
    }

    fn keep_snapshot(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.step(Step::Snapshot, |store| store.keep_snapshot(snapshot))
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        self.read(MemoryStore::snapshot)
    }

    fn reload(&self) -> Result<(), StoreError> {
        self.step(Step::Reload, MemoryStore::reload)
    }
}
