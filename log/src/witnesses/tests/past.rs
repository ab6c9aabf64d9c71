//! What an earlier era's witnesses are asked, and what a long outage costs.

use super::*;

#[test]
fn a_dropped_second_key_of_a_witness_does_not_shut_the_guard() {
    let mut world = World::new(2, 2, 0);
    // The first witness has two keys at one address. The era of the newest published head counts the one, the present era the other.
    let old = world.policy.clone();
    world.ready();
    world.witnessed("a");
    wait(|| world.published().1.len() == 2);
    world.log = None;
    let second = CosignSigner::new("w1b.example", key(150)).unwrap();
    let line = format!("witness w1b {} {}\n", second.vkey(), url(1));
    let before = old.replace("group q", &format!("{line}group q"));
    let first = before
        .lines()
        .find(|l| l.starts_with("witness w1 "))
        .unwrap();
    let after = before.replace(&format!("{first}\n"), "");
    let after = after.replace("group q 2 w1 w2", "group q 1 w1b w2");
    let [before, after] = [before, after].map(|text| Policy::parse(&text).unwrap());
    let eras = Eras::new(vec![(0, before), (3, after)]).unwrap();
    let log = world.open_with(world.store.clone(), eras);
    wait(|| log.status().stop.is_none());
    let written = world.write_to(&log, "b", Until::Sequenced, Duration::from_secs(30));
    assert_eq!(written.map(|(index, _)| index), Ok(2));
}

#[test]
fn a_long_outage_does_not_spin_the_publisher() {
    let mut world = World::new(2, 2, 0);
    // Due again and again while a round is open that nobody answers.
    world.refresh = Duration::from_millis(1);
    world.ready();
    world.witnessed("a");
    for n in 1..=2 {
        world.net.set(n, Mood::Silent);
    }
    world.write("b", Until::Sequenced).unwrap();
    wait(|| world.log().status().witnesses.quorum_lost_since.is_some());
    // Each look at what is to be done reads the clock while the quorum is lost; one without a pause does so some thousands of times.
    let before = world.reads.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(300));
    let looks = world.reads.load(Ordering::SeqCst) - before;
    assert!(looks < 500, "{looks} looks in an outage");
}
