//! Settings: who may change them, what they change, and that a log without them decides as before.

use super::{sessions::asked, *};
use crate::state::{Settings, lease::Resource};

impl Rig {
    fn set(&mut self, by: u8, set: Value) -> Option<Code> {
        self.code(by, None, "settings_set", set)
    }
}

fn item(n: u8) -> Value {
    json!({"resource": format!("item:{n}")})
}

#[test]
fn the_owner_alone_changes_them_and_what_is_absent_stays() {
    let mut rig = Rig::of(&[1]);
    assert_eq!(rig.state().settings, Settings::default());
    let set = json!({"lease_ttl_s_max": 60, "lease_ttl_s": 30});
    assert_eq!(rig.set(1, set.clone()), Some(Code::NotAllowed));
    assert_eq!(rig.state().settings, Settings::default());
    assert_eq!(rig.set(100, set), None);
    assert_eq!(rig.set(100, json!({"requests_per_minute": 5})), None);
    let now = rig.state().settings;
    assert_eq!(
        (
            now.lease_ttl_s_max,
            now.lease_ttl_s,
            now.requests_per_minute
        ),
        (60, 30, 5)
    );
    assert_eq!(now.session_ttl_s, 900);
    for wrong in [
        json!({"lease_ttl_s": 61}),
        json!({"leases_max": 0}),
        json!({"leases_max": "1"}),
        json!({"lease": 1}),
    ] {
        let size = rig.state().size;
        assert_eq!(rig.set(100, wrong), Some(Code::Malformed));
        assert_eq!(rig.state().size, size, "no leaf");
    }
    rig.check();
}

#[test]
fn leases_and_sessions_keep_to_them() {
    let mut rig = Rig::of(&[1, 2]);
    let one = rig.checkin(1, json!({}));
    assert_eq!(rig.code(1, Some(&one), "ars_lease_acquire", item(1)), None);
    let set = json!({
        "lease_ttl_s_min": 20, "lease_ttl_s_max": 60, "lease_ttl_s": 30,
        "session_ttl_s_min": 100, "session_ttl_s_max": 200, "session_ttl_s": 150,
        "sessions_per_identity_max": 2, "sessions_max": 3, "leases_per_session_max": 2,
    });
    assert_eq!(rig.set(100, set), None);
    for (ttl_s, code) in [
        (19, Some(Code::TtlOutOfRange)),
        (61, Some(Code::TtlOutOfRange)),
        (60, None),
    ] {
        let asked = json!({"resource": "item:2", "ttl_s": ttl_s});
        assert_eq!(rig.code(1, Some(&one), "ars_lease_acquire", asked), code);
    }
    let third = rig.code(1, Some(&one), "ars_lease_acquire", item(3));
    assert_eq!(third, Some(Code::LimitReached));
    let wrong = rig.code(1, None, "ars_session_checkin", asked(json!({"ttl_s": 99})));
    assert_eq!(wrong, Some(Code::TtlOutOfRange));
    let other = rig.checkin(1, json!({}));
    let session = rig.state();
    let session = session.sessions.of(&id(1)).last().unwrap();
    assert_eq!((session.id(), session.ttl_ms), (other.clone(), 150_000));
    let lease = rig.code(1, Some(&other), "ars_lease_acquire", item(4));
    assert_eq!(lease, None);
    let (state, resource) = (rig.state(), Resource::parse("item:4").unwrap());
    assert_eq!(
        state.leases.on(&resource).unwrap().next().unwrap().ttl_ms,
        30_000
    );
    let more = rig.code(1, None, "ars_session_checkin", asked(json!({})));
    assert_eq!(more, Some(Code::LimitReached), "two of one identity");
    rig.checkin(2, json!({}));
    let more = rig.code(2, None, "ars_session_checkin", asked(json!({})));
    assert_eq!(more, Some(Code::LimitReached), "three of the account");
    // What ran longer before is renewed for as long as can be had.
    let resumed = asked(json!({"resume": one}));
    assert_eq!(rig.code(1, None, "ars_session_checkin", resumed), None);
    let state = rig.state();
    let first = state.sessions.of(&id(1)).next().unwrap();
    assert_eq!(first.ttl_ms, 200_000);
    rig.check();
}

#[test]
fn one_identity_has_a_part_of_the_leases_and_not_all_of_them() {
    let mut rig = Rig::of(&[1, 2]);
    let set = json!({"leases_per_identity_max": 2, "leases_max": 3});
    assert_eq!(rig.set(100, set), None);
    let (one, again) = (rig.checkin(1, json!({})), rig.checkin(1, json!({})));
    let other = rig.checkin(2, json!({}));
    for (who, session, n, code) in [
        (1, &one, 1, None),
        (1, &again, 2, None),
        (1, &one, 3, Some(Code::LimitReached)),
        // What it has already is renewed, whatever the bound is.
        (1, &one, 1, None),
        (2, &other, 3, None),
        (2, &other, 4, Some(Code::LimitReached)),
    ] {
        let acquired = rig.code(who, Some(session), "ars_lease_acquire", item(n));
        assert_eq!(acquired, code, "{who} {n}");
    }
    rig.check();
}

#[test]
fn the_board_keeps_to_them() {
    let mut rig = Rig::new();
    assert_eq!(rig.set(100, json!({"board_items_max": 2})), None);
    for (n, code) in [
        (1, None),
        (2, None),
        (3, Some(Code::LimitReached)),
        (2, None),
    ] {
        let item = json!({"item": {"id": format!("i{n}"), "title": "t"}});
        assert_eq!(rig.code(100, None, "board_upsert", item), code, "{n}");
    }
    rig.check();
}
