//! Whose clock is right: ours against those of a quorum of witnesses.

use super::*;
use crate::clock::ClockFault;

impl World {
    /// Seconds by which the clocks of all witnesses differ from the start.
    fn set_clocks(&self, seconds: i64) {
        for n in 1..=3 {
            self.net.with(n, |fake| fake.clock = seconds);
        }
    }

    /// Our wall clock, by so many milliseconds.
    fn shift(&self, ms: i128) {
        self.clocks.0.lock().unwrap().1 = ms;
    }

    /// Writes until that is disputed.
    fn disputed(&self) {
        wait(|| {
            let written = self.write("x", Until::Sequenced);
            matches!(written, Err(Stop::Clock(ClockFault::Disputed { .. })))
        });
    }

    fn leaves(&self) -> Vec<String> {
        let leaves = self.store.entries(0, 10_000).unwrap();
        let text = |leaf: &Vec<u8>| String::from_utf8_lossy(leaf).into_owned();
        leaves.iter().map(text).collect()
    }
}

#[test]
fn a_dispute_ends_by_itself_when_a_quorum_agrees_again() {
    // Theirs ahead of ours, and behind: the former's cosignatures publish nothing meanwhile, the latter's do.
    for seconds in [3_600, -3_600] {
        let mut world = World::new(2, 3, 0);
        world.ready();
        world.witnessed("a");
        world.set_clocks(seconds);
        world.disputed();
        // As long as they all say so, it stays.
        let size = world.store.head().unwrap().0.size;
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(100));
            assert!(world.write("b", Until::Sequenced).is_err(), "{seconds}");
        }
        // One that agrees is no quorum of two.
        world.net.with(1, |fake| fake.clock = 0);
        std::thread::sleep(Duration::from_millis(300));
        assert!(world.write("b", Until::Sequenced).is_err(), "{seconds}");
        assert_eq!(world.store.head().unwrap().0.size, size);
        world.net.with(2, |fake| fake.clock = 0);
        wait(|| world.write("b", Until::Sequenced).is_ok());
        world.witnessed("c");
        assert!(world.log().status().stop.is_none());
        assert!(world.leaves().iter().all(|leaf| !leaf.starts_with("clock")));
        world.check();
    }
}

#[test]
fn a_dispute_is_seen_and_a_quorum_published_however_slow_the_answers() {
    let mut world = World::new(2, 3, 0);
    world.ready();
    world.witnessed("a");
    world.net.set(3, Mood::Dead);
    for seconds in [0, 3_600] {
        // The second line comes long after the head would be asked for again, had the clocks not agreed.
        world.net.set(2, Mood::Silent);
        world.set_clocks(seconds);
        assert!(
            world
                .write(&format!("b {seconds}"), Until::Sequenced)
                .is_ok()
        );
        std::thread::sleep(Duration::from_millis(400));
        world.net.set(2, Mood::Good);
        if seconds == 0 {
            wait(|| world.published().0 == 3);
        } else {
            world.disputed();
        }
    }
}

#[test]
fn our_clock_set_right_ends_a_dispute_without_another_start() {
    // An hour wrong when it was started; the leaves from before it carry a time within ten minutes.
    for ms in [-3_600_000, 3_600_000] {
        let mut world = World::new(2, 3, 0);
        world.ready();
        world.witnessed("a");
        world.log = None;
        let (_, last_at) = world.store.head().unwrap();
        world.set_clocks(i64::try_from(-ms / 1_000).unwrap());
        world.start();
        world.disputed();
        let (size, at) = (
            world.store.head().unwrap().0.size,
            world.store.head().unwrap().1,
        );
        world.set_clocks(0);
        wait(|| world.write("b", Until::Sequenced).is_ok());
        // And by setting ours, with theirs as they are.
        world.set_clocks(i64::try_from(ms / 1_000).unwrap());
        world.disputed();
        world.shift(ms);
        if ms > 0 {
            wait(|| world.write("c", Until::Sequenced).is_ok());
        } else {
            // Behind the last leaf by an hour: that it must not go back to.
            wait(|| {
                let written = world.write("c", Until::Sequenced);
                matches!(written, Err(Stop::Clock(ClockFault::Behind { .. })))
            });
        }
        let head = world.store.head().unwrap();
        assert!(head.0.size > size && head.1 >= at && at >= last_at, "{ms}");
    }
}

#[test]
fn an_accepted_clock_writes_on_through_a_dispute_and_a_leaf_says_so() {
    let mut world = World::new(2, 3, 0);
    world.accept_clock = true;
    world.ready();
    world.witnessed("a");
    // They all are an hour behind: what they cosign is published, and each writing would stop.
    world.set_clocks(-3_600);
    for n in 0..50 {
        assert!(
            world
                .write(&format!("leaf {n}"), Until::Witnessed)
                .unwrap()
                .1
        );
    }
    let said = |world: &World| {
        let leaves = world.leaves();
        leaves
            .iter()
            .filter(|leaf| leaf.starts_with("clock"))
            .count()
    };
    wait(|| {
        assert!(world.write("more", Until::Sequenced).is_ok());
        said(&world) == 1
    });
    // Once, however often it is disputed.
    world.set_clocks(0);
    world.witnessed("agreed");
    world.set_clocks(-3_600);
    for n in 0..50 {
        assert!(
            world
                .write(&format!("again {n}"), Until::Witnessed)
                .unwrap()
                .1
        );
    }
    assert_eq!(said(&world), 1);
    assert!(world.log().status().stop.is_none());
    world.check();
}
