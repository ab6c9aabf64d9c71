//! Where live leases are looked for.

use countersign_verifier::hash::Hash;
use proptest::prelude::*;

use super::*;

fn resource(text: &str) -> Resource {
    Resource::parse(text).unwrap()
}

fn leases(texts: &[String]) -> Leases {
    let mut leases = Leases::default();
    for (index, text) in (0..).zip(texts) {
        let lease = Lease {
            index,
            fence: index,
            resource: text.clone(),
            exclusive: false,
            identity: IdentityId(Hash([1; 32])),
            role: "agent".into(),
            session: index % 7,
            acquired: 0,
            renewed: 0,
            ttl_ms: 1,
            expires: 1,
            reason: None,
            ended: None,
        };
        leases.put(lease).unwrap();
    }
    leases
}

fn overlap(a: &Resource, b: &Resource) -> bool {
    a.overlaps(b, &mut Steps::new(usize::MAX)).unwrap()
}

/// The indexes of the live leases that have something in common with `text`.
fn on(leases: &Leases, text: &str) -> Vec<u64> {
    let resource = resource(text);
    let on = leases.on(&resource).unwrap();
    on.map(|lease| lease.index).collect()
}

fn text() -> impl Strategy<Value = String> {
    let segment = "[ab?]|ab|a[*]|[*]{1,2}|[*]b|é";
    let glob = prop::collection::vec(segment, 1..5).prop_map(|segments| segments.join("/"));
    prop_oneof![
        8 => (prop::sample::select(vec!["r", "s", "r/a"]), glob).prop_map(|(r, g)| format!("path:{r}:{g}")),
        1 => "(item|role|run):[ab/:]{0,2}[ab]",
    ]
}

proptest! {
    #[test]
    fn what_is_found_is_what_reading_all_finds(
        all in prop::collection::vec(text(), 0..30),
        asked in text(),
        gone in prop::collection::vec(0_u64..30, 0..10),
    ) {
        let mut live = leases(&all);
        for index in &gone {
            live.end(*index, Ended { index: 100 + index, at: 2, how: End::Released });
        }
        let wanted = resource(&asked);
        let by_reading: Vec<u64> = (0..)
            .zip(&all)
            .filter(|(index, text)| !gone.contains(index) && overlap(&resource(text), &wanted))
            .map(|(index, _)| index)
            .collect();
        prop_assert_eq!(on(&live, &asked), by_reading);
    }
}

#[test]
fn thousands_in_other_folders_are_not_looked_at() {
    let all: Vec<String> = (0..3_000)
        .map(|n| format!("path:site:src/{n}/**"))
        .collect();
    let leases = leases(&all);
    for (asked, near, found) in [
        ("path:site:src/77/a.rs", 1, vec![77]),
        ("path:site:src/77/**", 1, vec![77]),
        ("path:site:docs/**", 0, vec![]),
        ("path:other:src/77/**", 0, vec![]),
        (
            "path:site:src/7*/a",
            3_000,
            (0..3_000)
                .filter(|n: &u64| n.to_string().starts_with('7'))
                .collect(),
        ),
    ] {
        assert_eq!(leases.near(&resource(asked)).count(), near, "{asked}");
        assert_eq!(on(&leases, asked), found, "{asked}");
    }
    let of = |session| leases.of(session).count() as u64;
    assert!((0..8).all(|session| leases.count_of(session) == of(session)));
}

#[test]
fn looking_ends_after_so_many_steps_whatever_is_held() {
    // As hard to tell from what is asked as a lease may be.
    let hard = |n: usize| format!("path:site:{}{}{n:04}", "*a".repeat(8), "a".repeat(200));
    let leases = leases(&(0..100).map(hard).collect::<Vec<String>>());
    let asked = resource(&format!("path:site:{}{}b", "*a".repeat(8), "a".repeat(200)));
    assert!(asked.may_be_held().is_ok());
    let mut left = Steps::new(LOOK_STEPS_MAX);
    assert_eq!(leases.look(&asked, &mut left), Err(TooMuch));
    assert_eq!(
        left,
        Steps::new(0),
        "every step was taken, and none after them"
    );
    assert!(leases.on(&asked).is_err());
    // Whoever says where is not in their way.
    assert_eq!(on(&leases, "path:site:src/main.rs"), Vec::<u64>::new());
}

#[test]
fn what_begins_otherwise_is_one_step_a_lease() {
    let all: Vec<String> = (0..3_000)
        .map(|n| format!("path:site:src/{n}/**"))
        .collect();
    let leases = leases(&all);
    let mut left = Steps::new(3_000);
    let asked = resource("path:site:**");
    assert_eq!(leases.look(&asked, &mut left).unwrap().len(), 3_000);
    assert_eq!(left, Steps::new(0));
}
