//! Work over all cores, in order.

use std::{
    num::NonZero,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

/// Items that go from one thread to another at once: a signature costs some 40 us, and handing one over a few.
const BATCH: usize = 32;

fn count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// `work` of each item, in the order of the items; each core has a run of them.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = count();
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

/// `work` of each item that `make` makes, in the order in which it makes them: on the other cores while it goes on, and on this
/// one too as soon as it is done.
pub(crate) fn beside<T: Send, R: Send>(
    make: impl FnOnce(&mut dyn FnMut(T)),
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    beside_on(count(), make, work)
}

fn beside_on<T: Send, R: Send>(
    cores: usize,
    make: impl FnOnce(&mut dyn FnMut(T)),
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let (sender, receiver) = mpsc::channel::<(usize, Vec<T>)>();
    let receiver = Mutex::new(receiver);
    let take = || {
        receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv()
    };
    let run = || {
        let mut done = Vec::new();
        // Until nothing is left and nobody makes more.
        while let Ok((number, batch)) = take() {
            done.push((number, batch.into_iter().map(&work).collect::<Vec<R>>()));
        }
        done
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..cores).map(|_| scope.spawn(run)).collect();
        let (mut number, mut batch) = (0, Vec::with_capacity(BATCH));
        let mut send = |batch: &mut Vec<T>| {
            let full = std::mem::replace(batch, Vec::with_capacity(BATCH));
            // OK because the receiver lives as long as this function.
            sender.send((number, full)).expect("cores::beside: send");
            number += 1;
        };
        make(&mut |item| {
            batch.push(item);
            if batch.len() == BATCH {
                send(&mut batch);
            }
        });
        send(&mut batch);
        drop(sender);
        let mut all = run();
        for other in others {
            // OK because what is done here does not panic.
            all.extend(other.join().expect("cores::beside"));
        }
        all
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().flat_map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_worked_on_in_order_on_any_number_of_cores() {
        for cores in [1, 2, 5] {
            for items in [0_usize, 1, 31, 32, 33, 1_000] {
                let squares = beside_on(
                    cores,
                    |give| (0..items).for_each(give),
                    |item: usize| item * item,
                );
                let due: Vec<usize> = (0..items).map(|item| item * item).collect();
                assert_eq!(squares, due, "{cores} {items}");
            }
        }
    }
}
