//! What was chosen by hand: leases and sessions over hours, restarts and ends of the machine, under a clock that is set by hand.

use serde_json::{Value, json};

use crate::{
    disk::Flaw,
    story::Story,
    world::{Told, World, key},
};

const MIN_MS: u64 = 60_000;

fn quiet() -> Story<'static> {
    Story::new(0, false, Flaw::None, &|_| {})
}

/// The leaf that was written for it.
fn index(told: Told) -> u64 {
    match told {
        Told::Leaf(index, _) => index,
        other => panic!("{other:?}"),
    }
}

fn checkin(story: &mut Story<'_>, by: u8, ttl_s: u64) -> String {
    let asked = json!({"role": "agent", "harness": {"name": "sim"}, "clock": "2026-11-29T13:00:00.000Z", "ttl_s": ttl_s});
    let index = index(story.call(by, None, "ars_session_checkin", asked));
    format!("s_{index}")
}

fn acquire(story: &mut Story<'_>, by: u8, session: &str, ttl_s: u64) -> u64 {
    let asked = json!({"resource": "item:a", "ttl_s": ttl_s});
    index(story.call(by, Some(session.into()), "ars_lease_acquire", asked))
}

fn is_live(world: &World, lease: u64) -> bool {
    world.state().leases.is_live(lease)
}

/// The events that the log wrote by itself, by type.
fn events(world: &World, kind: &str) -> Vec<Value> {
    use countersign_log::Store;
    let leaves = world
        .disk
        .durable
        .entries(0, usize::MAX)
        .expect("the leaves");
    let events = leaves.iter().filter_map(|leaf| {
        let leaf = countersign_verifier::leaf::Leaf::parse(leaf).expect("a leaf");
        match leaf {
            countersign_verifier::leaf::Leaf::System(system) if system.event_type == kind => {
                serde_json::from_str(system.event).ok()
            }
            _ => None,
        }
    });
    events.collect()
}

#[test]
fn b129_a_lease_of_hours_is_there_until_its_time_and_its_end_is_an_entry() {
    let mut story = quiet();
    let session = checkin(&mut story, 1, 86_400);
    let lease = acquire(&mut story, 1, &session, 3 * 3_600);
    for minute in 1..180 {
        story.world.clocks.pass(MIN_MS);
        match minute {
            30 => story.world.restart(false),
            50 => story.world.crash(false),
            51 => story.world.crash(true),
            _ => {}
        }
        story.calm();
        assert!(is_live(&story.world, lease), "gone after {minute} min");
    }
    assert!(events(&story.world, "lease_expired").is_empty());
    story.world.clocks.pass(MIN_MS);
    story.calm();
    assert!(!is_live(&story.world, lease));
    let ended = events(&story.world, "lease_expired");
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0]["lease_id"], format!("l_{lease}"));
    story.world.check();
}

#[test]
fn b119_what_is_left_of_a_lease_is_left_after_a_restart() {
    for machine in [None, Some(false), Some(true)] {
        let mut story = quiet();
        let (one, two) = (checkin(&mut story, 1, 3_600), checkin(&mut story, 2, 3_600));
        let lease = acquire(&mut story, 1, &one, 10);
        story.world.clocks.pass(5_000);
        match machine {
            None => story.world.restart(false),
            Some(machine) => story.world.crash(machine),
        }
        story.world.clocks.pass(4_999);
        story.calm();
        assert!(is_live(&story.world, lease), "it ended early: {machine:?}");
        story.world.clocks.pass(1);
        story.calm();
        assert!(
            !is_live(&story.world, lease),
            "it outlived its time: {machine:?}"
        );
        let next = acquire(&mut story, 2, &two, 10);
        assert!(
            is_live(&story.world, next),
            "nobody can have it: {machine:?}"
        );
        story.world.check();
    }
}

#[test]
fn b138_sessions_that_nobody_ended_are_swept_by_whatever_comes_next() {
    let mut story = quiet();
    let sessions: Vec<String> = (0..20)
        .map(|n| checkin(&mut story, 1 + n % 4, 60 + u64::from(n)))
        .collect();
    story.world.crash(true);
    // The service sleeps over all their ends; one call after it finds them ended, each in an entry of its own.
    story.world.clocks.pass(60 * MIN_MS);
    story.call(1, None, "board_comment", json!({"id": "a", "text": "back"}));
    let state = story.world.state();
    assert_eq!(state.sessions.live_count(), 0);
    let swept: Vec<Value> = events(&story.world, "session_expired");
    let swept: Vec<&str> = swept
        .iter()
        .filter_map(|event| event["session"].as_str())
        .collect();
    assert_eq!(swept, sessions, "in order of their ends");
    for by in 1..=4 {
        assert_eq!(state.sessions.count_of(&key(by).public().identity()), 0);
    }
    story.world.check();
}

#[test]
fn b134_another_instance_of_the_same_agent_is_somebody_else() {
    let mut story = quiet();
    let (one, two) = (checkin(&mut story, 1, 3_600), checkin(&mut story, 1, 3_600));
    let lease = acquire(&mut story, 1, &one, 600);
    let refused = acquire(&mut story, 1, &two, 600);
    assert!(is_live(&story.world, lease) && !is_live(&story.world, refused));
    let held = json!({"lease_id": format!("l_{lease}"), "fence": lease});
    story.call(1, Some(two.clone()), "ars_lease_release", held.clone());
    assert!(
        is_live(&story.world, lease),
        "it is not the other's to give back"
    );
    story.call(1, Some(one), "ars_lease_release", held);
    let next = acquire(&mut story, 1, &two, 600);
    assert!(
        next > lease && is_live(&story.world, next),
        "another fence a grant"
    );
    story.world.check();
}
