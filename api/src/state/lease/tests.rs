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

/// The indexes of the live leases that have something in common with `text`.
fn on(leases: &Leases, text: &str) -> Vec<u64> {
    let resource = resource(text);
    leases.on(&resource).map(|lease| lease.index).collect()
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
            .filter(|(index, text)| !gone.contains(index) && resource(text).overlaps(&wanted))
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
