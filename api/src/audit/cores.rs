//! Work over all cores, in order.

use std::{num::NonZero, thread};

/// `work` of each item, in the order of the items; each core has a run of them.
pub(super) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let run = items.len().div_ceil(cores).max(1);
    if cores == 1 || items.len() < 2 {
        return items.iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items
            .chunks(run)
            .map(|run| scope.spawn(move || run.iter().map(work).collect::<Vec<R>>()))
            .collect();
        threads
            .into_iter()
            // OK because what is done here does not panic.
            .flat_map(|thread| thread.join().expect("cores::each"))
            .collect()
    })
}
