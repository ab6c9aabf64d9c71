//! Those who keep others waiting, in the order in which they began to: who has to give way is asked for longest first.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// All of them.
#[derive(Default)]
pub struct Late(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    last: u64,
    by_turn: BTreeMap<u64, Arc<Notify>>,
}

impl Late {
    /// One more; `wanted` is told when it has to give way. The number is for [`Late::remove`].
    pub fn add(&self, wanted: Arc<Notify>) -> u64 {
        let mut turns = self.lock();
        turns.last += 1;
        let turn = turns.last;
        turns.by_turn.insert(turn, wanted);
        turn
    }

    /// It keeps nobody waiting any more.
    pub fn remove(&self, turn: u64) {
        self.lock().by_turn.remove(&turn);
    }

    /// Tells the one that has been there for longest; `false` where there is none.
    pub fn ask_longest(&self) -> bool {
        let longest = self.lock().by_turn.pop_first();
        longest.is_some_and(|(_, wanted)| {
            wanted.notify_one();
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
