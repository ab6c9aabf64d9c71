//! Leases: one holder, rising fences, ends that are never early, and each refusal.

use super::{sessions::asked, *};
use crate::state::{
    Caller, Decided,
    lease::{Lease, Resource, Steps, Way, check_fence, holder_of, way},
};

impl Rig {
    fn acquire(&mut self, by: u8, session: &str, more: Value) -> Result<Lease, Code> {
        let (index, _) = self
            .within(by, Some(session), "ars_lease_acquire", more)
            .map_err(|problem| problem.code)?;
        match self.decided(index) {
            None => {
                let leaf = self.leaf(index);
                let id = leaf.split(r#""lease":"l_"#).nth(1).unwrap();
                let id: u64 = id.split('"').next().unwrap().parse().unwrap();
                Ok(self.state().leases.get(id).unwrap().clone())
            }
            Some(code) => Err(code),
        }
    }
}

fn item(n: u8) -> Value {
    json!({"resource": format!("item:{n}")})
}

#[test]
fn b125_one_holder_and_the_others_are_told_who() {
    let mut rig = Rig::of(&[1, 2]);
    let (one, two) = (rig.checkin(1, json!({})), rig.checkin(2, json!({})));
    let lease = rig.acquire(1, &one, item(1)).unwrap();
    assert_eq!(lease.fence, lease.index, "of the first log of its line");
    let (index, _) = rig
        .within(2, Some(&two), "ars_lease_acquire", item(1))
        .unwrap();
    assert_eq!(rig.decided(index), Some(Code::LeaseConflict));
    let detail = rig.detail(index);
    assert_eq!(detail["holder"]["session_id"], one.as_str());
    assert_eq!(detail["holder"]["identity"], id(1).to_string());
    assert_eq!(
        (
            detail["fence"].as_u64(),
            detail["mode"].as_str(),
            detail["resource"].as_str()
        ),
        (Some(lease.fence), Some("exclusive"), Some("item:1"))
    );
    // B134: the same identity in another session is somebody else.
    let other = rig.checkin(1, json!({}));
    assert_eq!(rig.acquire(1, &other, item(1)), Err(Code::LeaseConflict));
    // The same again folds; once somebody else holds it, it is another refusal.
    let again = rig
        .within(2, Some(&two), "ars_lease_acquire", item(1))
        .unwrap();
    assert_eq!(again, (index, true));
    let release = json!({"lease_id": lease.id(), "fence": lease.fence});
    assert_eq!(rig.code(1, Some(&one), "ars_lease_release", release), None);
    let next = rig.acquire(1, &other, item(1)).unwrap();
    assert!(next.fence > lease.fence);
    let (index, folded) = rig
        .within(2, Some(&two), "ars_lease_acquire", item(1))
        .unwrap();
    assert_eq!(
        (rig.detail(index)["fence"].as_u64(), folded),
        (Some(next.fence), false)
    );
    rig.audit();
    rig.check();
}

#[test]
fn the_same_again_renews_under_the_same_fence() {
    let mut rig = Rig::of(&[1]);
    let one = rig.checkin(1, json!({}));
    let lease = rig.acquire(1, &one, item(1)).unwrap();
    rig.later(60_000);
    let again = rig.acquire(1, &one, item(1)).unwrap();
    assert_eq!((again.index, again.fence), (lease.index, lease.fence));
    assert_eq!(again.expires, rig.now() + 900_000);
    let shared = json!({"resource": "item:1", "mode": "shared"});
    assert_eq!(
        rig.acquire(1, &one, shared),
        Err(Code::LeaseConflict),
        "in one mode at a time"
    );
    rig.later(10_000);
    let renew = json!({"lease_id": lease.id(), "fence": lease.fence, "ttl_s": 20});
    assert_eq!(rig.code(1, None, "ars_lease_renew", renew), None);
    let renewed = rig.state().leases.get(lease.index).unwrap().clone();
    assert_eq!(
        (renewed.fence, renewed.expires),
        (lease.fence, rig.now() + 20_000)
    );
    rig.audit();
    rig.check();
}

#[test]
fn what_overlaps_conflicts_and_what_is_shared_is_shared() {
    let mut rig = Rig::of(&[1, 2, 3]);
    let ids = [1, 2, 3].map(|n| rig.checkin(n, json!({})));
    let path =
        |glob: &str, mode: &str| json!({"resource": format!("path:site:{glob}"), "mode": mode});
    assert!(rig.acquire(1, &ids[0], path("src/**", "exclusive")).is_ok());
    for (asked, free) in [
        (path("src/a/b.rs", "exclusive"), false),
        (path("**/b.rs", "shared"), false),
        (path("docs/*", "exclusive"), true),
        (json!({"resource": "path:other:src/**"}), true),
    ] {
        let found = rig.acquire(2, &ids[1], asked.clone());
        assert_eq!(found.is_ok(), free, "{asked}");
    }
    assert!(
        rig.acquire(1, &ids[0], path("src/a/*", "exclusive"))
            .is_ok(),
        "one's own does not conflict"
    );
    let shared = json!({"resource": "item:9", "mode": "shared"});
    assert!(rig.acquire(1, &ids[0], shared.clone()).is_ok());
    assert!(rig.acquire(2, &ids[1], shared).is_ok());
    assert_eq!(rig.acquire(3, &ids[2], item(9)), Err(Code::LeaseConflict));
    rig.audit();
    rig.check();
}

#[test]
fn b132_who_returns_late_is_told_and_granted_nothing() {
    let mut rig = Rig::of(&[1, 2]);
    let (one, two) = (rig.checkin(1, json!({})), rig.checkin(2, json!({})));
    let short = json!({"resource": "item:1", "ttl_s": 30});
    let lease = rig.acquire(1, &one, short).unwrap();
    rig.later(29_999);
    rig.tick();
    assert!(rig.events().is_empty(), "never early");
    rig.later(1);
    rig.tick();
    let due = format!(
        r#"{{"type":"lease_expired","lease_id":"{}","resource":"item:1","session":"{one}"}}"#,
        lease.id()
    );
    assert_eq!(rig.events(), [due]);
    let late = json!({"lease_id": lease.id(), "fence": lease.fence});
    let (index, _) = rig
        .within(1, Some(&one), "ars_lease_renew", late.clone())
        .unwrap();
    assert_eq!(rig.decided(index), Some(Code::LeaseExpired));
    assert_eq!(rig.detail(index)["current"], Value::Null);
    let next = rig.acquire(2, &two, item(1)).unwrap();
    let (index, _) = rig
        .within(1, Some(&one), "ars_lease_release", late)
        .unwrap();
    assert_eq!(rig.decided(index), Some(Code::LeaseExpired));
    assert_eq!(rig.detail(index)["current"]["session_id"], two.as_str());
    assert_eq!(rig.detail(index)["current"]["fence"], next.fence);
    rig.audit();
    rig.check();
}

#[test]
fn b131_nobody_renews_or_releases_anothers() {
    let mut rig = Rig::of(&[1, 2]);
    let (one, two) = (rig.checkin(1, json!({})), rig.checkin(2, json!({})));
    let lease = rig.acquire(1, &one, item(1)).unwrap();
    let other = rig.checkin(1, json!({}));
    let is = |fence: u64| json!({"lease_id": lease.id(), "fence": fence});
    for tool in ["ars_lease_renew", "ars_lease_release"] {
        for (by, session, asked, code) in [
            (2, &two, is(lease.fence), Code::NotHolder),
            (1, &other, is(lease.fence), Code::NotHolder),
            (1, &one, is(lease.fence + 1), Code::StaleFence),
            (
                1,
                &one,
                json!({"lease_id": "l_999", "fence": 1}),
                Code::NotFound,
            ),
            (
                1,
                &one,
                json!({"lease_id": "999", "fence": 1}),
                Code::NotFound,
            ),
        ] {
            let before = rig.state().leases;
            assert_eq!(
                rig.code(by, Some(session), tool, asked.clone()),
                Some(code),
                "{tool} {asked}"
            );
            assert_eq!(rig.state().leases, before);
        }
    }
    rig.audit();
    rig.check();
}

#[test]
fn an_acquisition_is_refused_for_what_is_wrong_with_it() {
    let mut rig = Rig::of(&[1]);
    assert_eq!(
        rig.code(1, None, "ars_lease_acquire", item(1)),
        Some(Code::SessionRequired)
    );
    let one = rig.checkin(1, json!({}));
    for (asked, code) in [
        (json!({"resource": "file:a"}), Code::ResourceMalformed),
        (
            json!({"resource": "path:site:../a"}),
            Code::ResourceMalformed,
        ),
        (
            json!({"resource": "path:site:?????????"}),
            Code::ResourceMalformed,
        ),
        (
            json!({"resource": "item:1", "ttl_s": 9}),
            Code::TtlOutOfRange,
        ),
        (
            json!({"resource": "item:1", "ttl_s": 86_401}),
            Code::TtlOutOfRange,
        ),
        (
            json!({"resource": "item:1", "mode": "both"}),
            Code::Malformed,
        ),
        (
            json!({"resource": "item:1", "wait_ms": 50_001}),
            Code::Malformed,
        ),
        (
            json!({"resource": "item:1", "reason": "x".repeat(1_001)}),
            Code::Malformed,
        ),
        (json!({"resource": "item:1", "other": 1}), Code::Malformed),
    ] {
        let size = rig.state().size;
        assert_eq!(
            rig.code(1, Some(&one), "ars_lease_acquire", asked.clone()),
            Some(code),
            "{asked}"
        );
        assert_eq!(rig.state().size, size, "what cannot be read is no leaf");
    }
    assert!(
        rig.call(1, "ars_lease_acquire", item(1)).is_ok(),
        "in the only live session"
    );
    rig.check();
}

#[test]
fn whoever_waits_looks_at_what_was_in_the_way_and_at_nothing_else() {
    let mut rig = Rig::of(&[1, 2]);
    let (one, two) = (rig.checkin(1, json!({})), rig.checkin(2, json!({})));
    let held = rig.acquire(1, &one, item(1)).unwrap();
    let other = rig.acquire(1, &one, item(2)).unwrap();
    let mut operation = rig.operation("ars_lease_acquire", item(1));
    operation.session = Some(two.clone());
    let resource = Resource::parse("item:1").unwrap();
    let stands = |rig: &Rig, before| {
        let state = rig.state();
        let caller = Caller::from(state.identities.get(&id(2)).unwrap());
        way(&state, &caller, &operation, (&resource, before))
    };
    let taken = |lease: &Lease| Way::Taken(lease.index);
    assert_eq!(stands(&rig, Way::Free), taken(&held));
    // Nothing is compared as long as that is there, so that this one is believed.
    assert_eq!(stands(&rig, taken(&other)), taken(&other));
    for lease in [&other, &held] {
        let release = json!({"lease_id": lease.id(), "fence": lease.fence});
        assert_eq!(rig.code(1, Some(&one), "ars_lease_release", release), None);
        let still = if lease.index == held.index {
            Way::Free
        } else {
            taken(&held)
        };
        assert_eq!(stands(&rig, taken(&other)), still);
    }
    // What was answered before is found, and has nothing to wait for.
    let Request::Operation(request) = rig.request(2, &operation).unwrap() else {
        panic!("an operation")
    };
    let answered = |rig: &Rig| {
        rig.store
            .find(&crate::ledger::request_key(&request))
            .unwrap()
    };
    assert_eq!(answered(&rig), None);
    let (index, _) = rig.send(2, &operation).unwrap();
    assert_eq!(answered(&rig), Some(index));
    let out = json!({"outcome": "delivered"});
    assert_eq!(rig.code(2, Some(&two), "ars_session_checkout", out), None);
    assert_eq!(stands(&rig, taken(&held)), Way::Over);
}

#[test]
fn what_would_be_compared_with_too_much_is_refused() {
    let mut rig = Rig::of(&[1]);
    let one = rig.checkin(1, json!({}));
    let hard = |n: usize| {
        let glob = format!("{}{}{n:02}", "*a".repeat(8), "a".repeat(200));
        json!({"resource": format!("path:site:{glob}"), "mode": "shared"})
    };
    let mut codes = (0..50).map(|n| rig.code(1, Some(&one), "ars_lease_acquire", hard(n)));
    let refused = codes.find(Option::is_some).flatten();
    assert_eq!(refused, Some(Code::LimitReached));
    // What was had goes on, and who says where is not in the way of these.
    assert_eq!(rig.code(1, Some(&one), "ars_lease_acquire", hard(0)), None);
    let exact = json!({"resource": "path:site:src/main.rs"});
    assert_eq!(rig.code(1, Some(&one), "ars_lease_acquire", exact), None);
    rig.check();
}

#[test]
fn b133_leases_end_with_their_session_in_one_leaf_or_some() {
    let mut rig = Rig::of(&[1, 2]);
    let one = rig.checkin(1, json!({"ttl_s": 60}));
    let long = |n: u64| json!({"resource": format!("item:{n}"), "ttl_s": 86_400});
    for n in 0..130 {
        rig.acquire(1, &one, long(n)).unwrap();
    }
    rig.later(60_000);
    rig.tick();
    let events = rig.events();
    assert_eq!(events.len(), 2, "split, because one event holds so many");
    assert!(events[0].contains(r#""remaining":2,"#) && events[0].len() <= 4_096);
    assert!(!events[1].contains("remaining"));
    assert_eq!(rig.state().leases.live_count(), 0);
    let two = rig.checkin(2, json!({}));
    assert!(rig.acquire(2, &two, item(1)).is_ok());
    let (kept, out) = (
        rig.acquire(2, &two, item(2)).unwrap(),
        json!({"outcome": "incomplete", "release_leases": false}),
    );
    assert_eq!(rig.code(2, Some(&two), "ars_session_checkout", out), None);
    assert!(
        rig.state().leases.get(kept.index).unwrap().ended.is_none(),
        "as it was asked"
    );
    rig.later(900_000);
    rig.tick();
    assert_eq!(
        rig.state().leases.live_count(),
        0,
        "until their own time is over"
    );
    rig.audit();
    rig.check();
}

#[test]
fn a_heartbeat_renews_what_the_session_holds() {
    let mut rig = Rig::of(&[1]);
    let one = rig.checkin(1, json!({"ttl_s": 60}));
    let lease = rig
        .acquire(1, &one, json!({"resource": "item:1", "ttl_s": 30}))
        .unwrap();
    rig.later(20_000);
    assert_eq!(rig.code(1, None, "ars_session_heartbeat", json!({})), None);
    let ends = |rig: &Rig| rig.state().leases.get(lease.index).unwrap().expires;
    assert_eq!(ends(&rig), rig.now() + 30_000);
    rig.later(20_000);
    let only = json!({"renew_leases": false});
    assert_eq!(rig.code(1, None, "ars_session_heartbeat", only), None);
    assert_eq!(ends(&rig), rig.now() + 10_000);
    rig.audit();
    rig.check();
}

#[test]
fn a_fence_guards_what_is_written() {
    let mut rig = Rig::of(&[1, 2]);
    let (one, two) = (rig.checkin(1, json!({})), rig.checkin(2, json!({})));
    let lease = rig.acquire(1, &one, item(1)).unwrap();
    let state = rig.state();
    let resource = Resource::parse("item:1").unwrap();
    assert_eq!(
        holder_of(&state, &resource).unwrap().map(|l| l.index),
        Some(lease.index)
    );
    let free = Resource::parse("item:2").unwrap();
    let code = |by: u8, session: Option<&str>, on: &Resource, fence| {
        let identity = state.identities.get(&id(by)).unwrap();
        match check_fence(&state, &Caller::from(identity), session, on, fence) {
            Ok(()) => None,
            Err(Decided::Refused(code, ..)) => Some(code),
            Err(Decided::Applied(_)) => panic!("no refusal"),
        }
    };
    let fence = Some(lease.fence);
    for (by, session, on, fence, expected) in [
        (1, Some(one.as_str()), &resource, fence, None),
        (1, None, &resource, fence, None),
        (1, Some(one.as_str()), &resource, None, None),
        (1, Some("s_999"), &resource, fence, Some(Code::StaleFence)),
        (1, Some("s_999"), &resource, None, Some(Code::LeaseRequired)),
        (
            2,
            Some(two.as_str()),
            &resource,
            None,
            Some(Code::LeaseRequired),
        ),
        (
            2,
            Some(two.as_str()),
            &resource,
            fence,
            Some(Code::StaleFence),
        ),
        (2, Some(two.as_str()), &free, None, None),
        (1, Some(one.as_str()), &free, fence, Some(Code::StaleFence)),
    ] {
        assert_eq!(
            code(by, session, on, fence),
            expected,
            "{by} {session:?} {} {fence:?}",
            on.text
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Checkin(u8, bool, u64),
    Checkout(u8, bool),
    Beat(u8),
    Acquire(u8, u8, bool, u64),
    Renew(u8, u8),
    Release(u8, u8),
    Revoke(u8),
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 1..5u8;
    prop_oneof![
        3 => (who(), prop::bool::weighted(0.1), 10..200u64).prop_map(|(n, e, t)| Step::Checkin(n, e, t)),
        1 => (who(), any::<bool>()).prop_map(|(n, r)| Step::Checkout(n, r)),
        2 => who().prop_map(Step::Beat),
        8 => (who(), 0..8u8, prop::bool::weighted(0.7), 10..200u64).prop_map(|(n, r, e, t)| Step::Acquire(n, r, e, t)),
        2 => (who(), 0..8u8).prop_map(|(n, r)| Step::Renew(n, r)),
        2 => (who(), 0..8u8).prop_map(|(n, r)| Step::Release(n, r)),
        1 => (5..7u8).prop_map(Step::Revoke),
        4 => (0..90_000u32).prop_map(Step::Wait),
    ]
}

const RESOURCES: [&str; 8] = [
    "item:1",
    "item:2",
    "role:x",
    "path:a:src/**",
    "path:a:src/*.rs",
    "path:a:docs/**",
    "path:b:**",
    "path:a:**/x.rs",
];

/// What a plain rule says of the live leases, and of each end that the log has written.
fn hold(rig: &Rig) {
    let state = rig.state();
    let live: Vec<&Lease> = state.leases.live_after(None).collect();
    let read: Vec<Resource> = live
        .iter()
        .map(|l| Resource::parse(&l.resource).unwrap())
        .collect();
    for (i, a) in live.iter().enumerate() {
        for (j, b) in live.iter().enumerate().skip(i + 1) {
            let apart = a.session == b.session || (!a.exclusive && !b.exclusive);
            let overlap = read[i].overlaps(&read[j], &mut Steps::new(1_000));
            assert!(apart || overlap == Ok(false), "{a:?} {b:?}");
            assert!(a.fence < b.fence, "fences rise with the order of the log");
        }
        assert!(a.expires > state.at || state.next_due().is_some_and(|due| due.at <= state.at));
    }
    for lease in state.leases.ended_after(None) {
        let ended = lease.ended.unwrap();
        let expired = ended.how == crate::state::lease::End::Expired;
        assert!(
            !expired || ended.at >= lease.expires,
            "never early: {lease:?}"
        );
    }
    for session in state.sessions.after(None) {
        if let Some(ended) = &session.ended {
            assert!(
                ended.outcome.is_some() || ended.at >= session.expires,
                "{session:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_has_one_holder_and_replays_to_the_same_state(steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = Rig::of(&[1, 2, 3, 4, 5, 6]);
        for step in steps {
            let before = rig.state();
            let own = |n: u8| before.sessions.of(&id(n)).next().map(|s| s.id());
            let lease = |r: u8| {
                let resource = Resource::parse(RESOURCES[usize::from(r)]).unwrap();
                holder_of(&before, &resource).unwrap().map_or(json!({"lease_id": "l_1", "fence": 1}), |l| json!({"lease_id": l.id(), "fence": l.fence}))
            };
            let result = match step {
                Step::Checkin(n, exclusive, ttl) => rig.call(n, "ars_session_checkin", asked(json!({"exclusive": exclusive, "ttl_s": ttl}))),
                Step::Checkout(n, release) => rig.within(n, own(n).as_deref(), "ars_session_checkout", json!({"outcome": "delivered", "release_leases": release})),
                Step::Beat(n) => rig.within(n, own(n).as_deref(), "ars_session_heartbeat", json!({})),
                Step::Acquire(n, r, exclusive, ttl) => {
                    let mode = if exclusive { "exclusive" } else { "shared" };
                    rig.within(n, own(n).as_deref(), "ars_lease_acquire", json!({"resource": RESOURCES[usize::from(r)], "mode": mode, "ttl_s": ttl}))
                }
                Step::Renew(n, r) => rig.within(n, None, "ars_lease_renew", lease(r)),
                Step::Release(n, r) => rig.within(n, None, "ars_lease_release", lease(r)),
                Step::Revoke(n) => rig.call(100, "identity_revoke", json!({"identity": id(n).to_string()})),
                Step::Wait(ms) => {
                    rig.later(ms.into());
                    continue;
                }
            };
            hold(&rig);
            let after = rig.state();
            let quiet = after.size <= before.size + 1;
            if let Ok((index, false)) = result && quiet && rig.decided(index).is_some() {
                let unchanged = State { size: before.size, at: before.at, refusals: before.refusals.clone(), ..after };
                prop_assert_eq!(unchanged, before, "a refusal changes nothing but the refusals");
            }
        }
        rig.audit();
        rig.check();
    }
}
