//! Snapshots of the state: made and written by a thread of their own, because a large state takes seconds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use crate::store::{Snapshot, Store};

/// A snapshot is kept every so many leaves.
const EVERY: u64 = 16_384;
/// And of a large state every so many of its bytes one leaf later, so that snapshots write at most as many bytes a leaf. A start
/// replays fewer than twice as many leaves as lie between two.
const BYTES_A_LEAF: u64 = 2_048;

/// The work of writing a state out.
type Work = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// The writer's end of it.
pub(super) struct Snapshots {
    /// The leaves that the newest attempt at one was to reflect: who could not write does not try again at once.
    tried: u64,
    thread: Option<JoinHandle<()>>,
    kept: Arc<Kept>,
}

struct Kept {
    store: Arc<dyn Store>,
    /// The leaves that the newest one reflects.
    at: AtomicU64,
    /// The bytes of the newest one made here.
    bytes: AtomicU64,
}

impl Kept {
    fn keep(&self, size: u64, work: Work) {
        let bytes = work();
        self.bytes.store(bytes.len() as u64, Ordering::Relaxed);
        match self.store.keep_snapshot(&Snapshot { size, bytes }) {
            Ok(()) => self.at.store(size, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "no snapshot was kept; the next start replays"),
        }
    }
}

impl Snapshots {
    /// Of a log of which the newest reflects `at` leaves.
    pub(super) fn new(store: Arc<dyn Store>, at: u64) -> Snapshots {
        Snapshots {
            tried: at,
            thread: None,
            kept: Arc::new(Kept {
                store,
                at: at.into(),
                bytes: 0.into(),
            }),
        }
    }

    /// Whether one is due of a log of so many leaves, and none is being made.
    pub(super) fn is_time(&self, size: u64) -> bool {
        let every = EVERY.max(self.kept.bytes.load(Ordering::Relaxed) / BYTES_A_LEAF);
        size.saturating_sub(self.tried) >= every
            && self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Has one made of the state after `size` committed leaves.
    pub(super) fn make(&mut self, size: u64, work: Work) {
        self.finish();
        self.tried = size;
        let kept = self.kept.clone();
        let thread = std::thread::Builder::new().name("log-snapshot".into());
        match thread.spawn(move || kept.keep(size, work)) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => tracing::warn!(%error, "no snapshot was kept; the next start replays"),
        }
    }

    /// What was read again after a failure has replayed from here.
    pub(super) fn loaded(&mut self, at: u64) {
        self.tried = at;
        self.kept.at.store(at, Ordering::Relaxed);
    }

    /// At a clean end: keeps one more, so that the next start replays nothing.
    pub(super) fn end(&mut self, size: u64, work: Work) {
        self.finish();
        if size > self.kept.at.load(Ordering::Relaxed) {
            self.kept.keep(size, work);
        }
    }

    /// Waits for the one that is being made. Before its store is read anew, above all: what it has written in parts so far would be
    /// named whole by it afterwards.
    pub(super) fn finish(&mut self) {
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("a snapshot was not made: its thread ended in a panic");
        }
    }
}

impl Drop for Snapshots {
    /// A writer that ends leaves nothing behind that still writes to its store.
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::store::memory::{MemoryStore, Step, When};

    #[test]
    fn one_at_a_time_and_the_larger_the_state_the_rarer() {
        let store = Arc::new(MemoryStore::new());
        let mut snapshots = Snapshots::new(store.clone(), 10);
        assert!(!snapshots.is_time(EVERY + 9));
        assert!(snapshots.is_time(EVERY + 10));
        let (go, wait) = mpsc::channel::<()>();
        snapshots.make(
            EVERY + 10,
            Box::new(move || {
                wait.recv().unwrap();
                vec![7; 3 * 2_048 * 16_384]
            }),
        );
        // The writer goes on meanwhile, and asks for no other.
        assert!(!snapshots.is_time(10 * EVERY));
        assert_eq!(store.snapshot(), Ok(None));
        go.send(()).unwrap();
        snapshots.finish();
        assert_eq!(store.snapshot().unwrap().unwrap().size, EVERY + 10);
        assert!(!snapshots.is_time(EVERY + 9 + 3 * EVERY));
        assert!(snapshots.is_time(EVERY + 10 + 3 * EVERY));
    }

    #[test]
    fn one_that_could_not_be_kept_is_tried_again_later_and_the_end_keeps_the_last() {
        let store = Arc::new(MemoryStore::new());
        let mut snapshots = Snapshots::new(store.clone(), 0);
        store.fail_next(Step::Snapshot, When::Before);
        snapshots.make(EVERY, Box::new(|| b"lost".to_vec()));
        snapshots.finish();
        assert_eq!(store.snapshot(), Ok(None));
        assert!(!snapshots.is_time(EVERY + 1));
        assert!(snapshots.is_time(2 * EVERY));
        snapshots.end(EVERY + 1, Box::new(|| b"last".to_vec()));
        let kept = store.snapshot().unwrap().unwrap();
        assert_eq!((kept.size, &*kept.bytes), (EVERY + 1, &b"last"[..]));
    }

    #[test]
    fn an_end_without_anything_new_writes_nothing() {
        let store = Arc::new(MemoryStore::new());
        let mut snapshots = Snapshots::new(store.clone(), 5);
        snapshots.end(5, Box::new(|| unreachable!("nothing is new")));
        assert_eq!(store.snapshot(), Ok(None));
    }
}
