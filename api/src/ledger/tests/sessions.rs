//! Sessions: each way to begin, go on and end one, each refusal, and the keys that sign in them.

use countersign_verifier::operation::binding_message;

use super::*;
use crate::state::session::Session;

impl Rig {
    /// A rig with agents of these keys, enrolled as `n<key>`.
    pub(super) fn of(keys: &[u8]) -> Rig {
        let mut rig = Rig::new();
        for n in keys {
            let asked = enroll(&format!("n{n}"), *n, true);
            rig.call(100, "identity_enroll", asked).unwrap();
        }
        rig
    }

    pub(super) fn later(&self, ms: i128) {
        *self.clocks.0.lock().unwrap() += ms;
    }

    /// An operation within a session.
    pub(super) fn within(
        &mut self,
        by: u8,
        session: Option<&str>,
        tool: &str,
        arguments: Value,
    ) -> Result<(u64, bool), Problem> {
        let mut operation = self.operation(tool, arguments);
        operation.session = session.map(str::to_owned);
        self.send(by, &operation)
    }

    /// The code of what comes of it, a leaf or not; `None`: applied.
    pub(super) fn code(
        &mut self,
        by: u8,
        session: Option<&str>,
        tool: &str,
        arguments: Value,
    ) -> Option<Code> {
        match self.within(by, session, tool, arguments) {
            Ok((index, _)) => self.decided(index),
            Err(problem) => Some(problem.code),
        }
    }

    /// The detail of the refusal at `index`.
    pub(super) fn detail(&self, index: u64) -> Value {
        let bytes = self.store.entry(index).unwrap().unwrap();
        match decision_of(&Leaf::parse(&bytes).unwrap()).unwrap() {
            Recorded::Refused(_, detail) => Value::Object(detail),
            Recorded::Applied(effect) => panic!("applied: {effect:?}"),
        }
    }

    pub(super) fn checkin(&mut self, by: u8, more: Value) -> String {
        let (index, _) = self.call(by, "ars_session_checkin", asked(more)).unwrap();
        assert_eq!(self.decided(index), None, "{:?}", self.leaf(index));
        format!("s_{index}")
    }

    pub(super) fn session(&self, id: &str) -> Session {
        let index = crate::state::session::parse_id(id).unwrap();
        self.state().sessions.get(index).unwrap().clone()
    }

    pub(super) fn leaf(&self, index: u64) -> String {
        String::from_utf8(self.store.entry(index).unwrap().unwrap()).unwrap()
    }

    /// The events that the log has written by itself, by type.
    pub(super) fn events(&self) -> Vec<String> {
        let leaves = self.store.entries(0, usize::MAX).unwrap();
        let events = leaves.iter().filter_map(|leaf| match Leaf::parse(leaf) {
            Ok(Leaf::System(system)) => Some(system.event.to_owned()),
            _ => None,
        });
        events.skip(1).collect()
    }

    /// Something of no consequence, which lets what is due be written first.
    pub(super) fn tick(&mut self) {
        self.call(100, "receipt_policy", json!({})).unwrap();
    }

    /// Every decision of the log follows from the leaves before it.
    pub(super) fn audit(&self) {
        let mut state = State::default();
        for (index, bytes) in (0..).zip(self.store.entries(0, usize::MAX).unwrap()) {
            let leaf = Leaf::parse(&bytes).unwrap();
            follows_rules(&state, index, &leaf).unwrap_or_else(|why| panic!("leaf {index}: {why}"));
            state.apply(&leaf).unwrap();
        }
    }
}

pub(super) fn asked(more: Value) -> Value {
    let mut asked = json!({
        "role": "agent",
        "harness": {"name": "example"},
        "clock": "2026-11-29T13:00:00.000Z",
    });
    for (name, value) in more.as_object().unwrap() {
        asked[name] = value.clone();
    }
    asked
}

fn bind(by: u8, session_key: u8, role: &str, expires_at: u64, origin: &str) -> Value {
    let (key, ends) = (spki(session_key), Millis(expires_at));
    let message = binding_message(origin, &key, role, ends);
    json!({
        "role": role,
        "session_public_key": key,
        "binding": {"expires_at": ends.to_string(), "signature": base64::encode(&super::key(by).sign(&message))},
    })
}

#[test]
fn a_session_begins_goes_on_and_ends() {
    let mut rig = Rig::of(&[1]);
    let id = rig.checkin(1, json!({"ttl_s": 60, "model": "m"}));
    let begun = rig.session(&id);
    assert_eq!(
        (begun.expires, begun.class),
        (rig.now() + 60_000, Class::AgentKey)
    );
    rig.later(30_000);
    let beat = json!({"note": "half", "progress": 50});
    assert_eq!(rig.code(1, Some(&id), "ars_session_heartbeat", beat), None);
    let going = rig.session(&id);
    assert_eq!(going.expires, rig.now() + 60_000);
    assert_eq!(
        (going.note.as_deref(), going.progress),
        (Some("half"), Some(50))
    );
    let out =
        json!({"outcome": "delivered", "evidence": [{"name": "a", "sha256": "0".repeat(64)}]});
    assert_eq!(rig.code(1, None, "ars_session_checkout", out), None);
    let ended = rig.session(&id).ended.unwrap();
    assert_eq!(ended.outcome.as_deref(), Some("delivered"));
    rig.later(120_000);
    rig.tick();
    assert!(
        rig.events().is_empty(),
        "what was checked out does not expire"
    );
    rig.audit();
    rig.check();
}

#[test]
fn a_session_that_is_not_heard_of_expires_in_its_leaf_and_says_so() {
    let mut rig = Rig::of(&[1]);
    let id = rig.checkin(1, json!({"ttl_s": 60}));
    rig.later(59_999);
    rig.tick();
    assert!(rig.events().is_empty(), "never early");
    rig.later(1);
    rig.tick();
    let due = format!(r#"{{"type":"session_expired","leases":[],"session":"{id}"}}"#);
    assert_eq!(rig.events(), [due]);
    for (tool, asked) in [
        ("ars_session_heartbeat", json!({})),
        ("ars_session_checkout", json!({"outcome": "failed"})),
        ("ars_lease_acquire", json!({"resource": "item:1"})),
    ] {
        assert_eq!(
            rig.code(1, Some(&id), tool, asked),
            Some(Code::SessionExpired),
            "{tool}"
        );
    }
    let again = rig.checkin(1, json!({"resume": id}));
    assert_eq!(
        Some(format!("s_{}", rig.session(&again).resumed.unwrap())),
        Some(id)
    );
    rig.audit();
    rig.check();
}

#[test]
fn resuming_a_live_session_renews_it() {
    let mut rig = Rig::of(&[1, 2]);
    let id = rig.checkin(1, json!({"ttl_s": 60, "exclusive": true}));
    rig.later(10_000);
    let (index, _) = rig
        .call(1, "ars_session_checkin", asked(json!({"resume": id})))
        .unwrap();
    assert!(rig.leaf(index).contains(&format!(r#""session":"{id}""#)));
    let renewed = rig.session(&id);
    assert_eq!(
        (renewed.expires, renewed.exclusive),
        (rig.now() + 60_000, true)
    );
    let code = |rig: &mut Rig, by, more| rig.code(by, None, "ars_session_checkin", asked(more));
    assert_eq!(
        code(&mut rig, 2, json!({"resume": id})),
        Some(Code::NotYours)
    );
    assert_eq!(
        code(&mut rig, 1, json!({"resume": "s_999"})),
        Some(Code::NotFound)
    );
    rig.check();
}

#[test]
fn a_check_in_is_refused_for_what_is_wrong_with_it() {
    let mut rig = Rig::of(&[1, 2]);
    let roles = json!({"name": "n3", "public_key": spki(3), "possession": proof(3, id(3)), "roles": ["builder"]});
    rig.call(100, "identity_enroll", roles).unwrap();
    for (more, code) in [
        (json!({"role": "nobody"}), Code::RoleUnknown),
        (json!({"role": "builder"}), Code::NotAllowed),
        (json!({"role": "owner"}), Code::NotAllowed),
        (json!({"class": "run"}), Code::ClassNotAllowed),
        (json!({"class": "other"}), Code::Malformed),
        (json!({"dispatch": "csa1.x"}), Code::Malformed),
        (json!({"clock": "yesterday"}), Code::Malformed),
        (json!({"ttl_s": 9}), Code::TtlOutOfRange),
        (json!({"ttl_s": 86_401}), Code::TtlOutOfRange),
        (json!({"harness": {"name": "a\u{202e}b"}}), Code::Malformed),
        (json!({"harness": {"name": ""}}), Code::Malformed),
        (json!({"model": "x".repeat(129)}), Code::Malformed),
        (json!({"session_public_key": spki(9)}), Code::Malformed),
    ] {
        let before = rig.state();
        let found = rig.code(1, None, "ars_session_checkin", asked(more.clone()));
        assert_eq!(found, Some(code), "{more}");
        let after = rig.state();
        assert_eq!(
            (after.sessions, after.leases),
            (before.sessions, before.leases)
        );
        assert_eq!(code.is_unread(), after.size == before.size, "{more}");
    }
    rig.checkin(3, json!({"role": "builder"}));
    rig.checkin(100, json!({"role": "builder"}));
    rig.audit();
    rig.check();
}

#[test]
fn a_role_is_had_alone_or_not_at_all() {
    let mut rig = Rig::of(&[1, 2]);
    let alone = json!({"exclusive": true});
    let first = rig.checkin(1, json!({}));
    let (index, _) = rig
        .call(2, "ars_session_checkin", asked(alone.clone()))
        .unwrap();
    assert_eq!(rig.decided(index), Some(Code::SeatTaken));
    assert_eq!(rig.detail(index)["holder"]["session_id"], first.as_str());
    rig.within(
        1,
        Some(&first),
        "ars_session_checkout",
        json!({"outcome": "no_action"}),
    )
    .unwrap();
    let second = rig.checkin(2, alone.clone());
    // The same request again, refused because of another holder: it does not fold into the refusal before.
    for by in [1, 2] {
        let (index, folded) = rig
            .call(by, "ars_session_checkin", asked(json!({})))
            .unwrap();
        assert_eq!((rig.decided(index), folded), (Some(Code::SeatTaken), false));
        assert_eq!(rig.detail(index)["holder"]["session_id"], second.as_str());
    }
    assert_eq!(
        rig.code(
            1,
            None,
            "ars_session_checkin",
            asked(json!({"role": "reader"}))
        ),
        Some(Code::NotAllowed)
    );
    rig.audit();
    rig.check();
}

#[test]
fn a_session_is_used_by_whose_it_is_and_by_nobody_else() {
    let mut rig = Rig::of(&[1, 2]);
    let id = rig.checkin(1, json!({}));
    assert_eq!(
        rig.code(2, None, "ars_session_heartbeat", json!({})),
        Some(Code::SessionRequired)
    );
    rig.checkin(1, json!({}));
    let (index, _) = rig.call(1, "ars_session_heartbeat", json!({})).unwrap();
    assert_eq!(rig.decided(index), Some(Code::SessionRequired));
    assert_eq!(rig.detail(index)["sessions"].as_array().unwrap().len(), 2);
    for (tool, asked) in [
        ("ars_session_heartbeat", json!({})),
        ("ars_session_checkout", json!({"outcome": "failed"})),
        ("ars_lease_acquire", json!({"resource": "item:1"})),
        ("receipt_policy", json!({})),
    ] {
        assert_eq!(
            rig.code(2, Some(&id), tool, asked),
            Some(Code::NotYours),
            "{tool}"
        );
    }
    assert_eq!(
        rig.code(2, Some("s_999"), "ars_session_heartbeat", json!({})),
        Some(Code::NotFound)
    );
    assert_eq!(
        rig.code(2, Some("mine"), "ars_session_heartbeat", json!({})),
        Some(Code::NotFound)
    );
    assert_eq!(
        rig.code(100, Some("a label"), "receipt_policy", json!({})),
        None,
        "what was a label before there were sessions still is"
    );
    for (tool, asked) in [
        ("ars_session_heartbeat", json!({"progress": 101})),
        ("ars_session_heartbeat", json!({"note": "x".repeat(1_001)})),
        ("ars_session_checkout", json!({"outcome": "done"})),
        (
            "ars_session_checkout",
            json!({"outcome": "failed", "evidence": [{"name": "a", "sha256": "A"}]}),
        ),
    ] {
        assert_eq!(
            rig.code(1, Some(&id), tool, asked),
            Some(Code::Malformed),
            "{tool}"
        );
    }
    rig.audit();
    rig.check();
}

#[test]
fn the_key_of_a_session_signs_in_it_and_nowhere_else() {
    let mut rig = Rig::of(&[1, 2]);
    let ends = rig.now() + 300_000;
    let id = rig.checkin(1, bind(1, 50, "agent", ends, ORIGIN));
    assert_eq!(rig.session(&id).class, Class::SessionKey);
    let (index, _) = rig
        .within(
            50,
            Some(&id),
            "ars_lease_acquire",
            json!({"resource": "item:1"}),
        )
        .unwrap();
    assert_eq!(rig.decided(index), None);
    let bytes = rig.store.entry(index).unwrap().unwrap();
    let by = Leaf::parse(&bytes).unwrap().by().cloned().unwrap();
    assert_eq!(
        (by.identity, by.class, by.session.as_deref()),
        (super::id(1), Class::SessionKey, Some(id.as_str()))
    );
    // Without its session, or in another one, the key is nobody's.
    let other = rig.checkin(2, json!({}));
    for session in [None, Some(other.as_str()), Some("s_999")] {
        assert_eq!(
            rig.code(50, session, "ars_session_heartbeat", json!({})),
            Some(Code::SignerUnknown)
        );
    }
    for (tool, asked) in [
        (
            "identity_rotate",
            json!({"identity": super::id(1).to_string(), "public_key": spki(9)}),
        ),
        (
            "token_new",
            json!({"identity": super::id(1).to_string(), "token_sha256": "0".repeat(64)}),
        ),
        ("ars_session_checkin", asked(json!({}))),
    ] {
        assert_eq!(
            rig.code(50, Some(&id), tool, asked),
            Some(Code::AttributionTooLow),
            "{tool}"
        );
    }
    assert_eq!(
        rig.code(
            50,
            Some(&id),
            "ars_session_checkin",
            asked(json!({"resume": id}))
        ),
        None
    );
    rig.later(300_000);
    assert_eq!(
        rig.code(50, Some(&id), "ars_session_heartbeat", json!({})),
        Some(Code::SessionExpired),
        "the binding has ended"
    );
    assert_eq!(
        rig.code(
            1,
            Some(&id),
            "ars_session_checkout",
            json!({"outcome": "delivered"})
        ),
        None
    );
    assert_eq!(
        rig.code(50, Some(&id), "ars_session_heartbeat", json!({})),
        Some(Code::SessionExpired)
    );
    rig.audit();
    rig.check();
}

#[test]
fn the_key_of_a_session_ends_with_the_key_that_bound_it() {
    let mut rig = Rig::of(&[1]);
    let day = 86_400_000;
    let long = bind(1, 50, "agent", rig.now() + 8 * day, ORIGIN);
    let long = rig.code(1, None, "ars_session_checkin", asked(long));
    assert_eq!(long, Some(Code::BindingInvalid), "seven days at most");
    let id = rig.checkin(1, bind(1, 50, "agent", rig.now() + 7 * day, ORIGIN));
    let beat = json!({"note": "here"});
    assert_eq!(
        rig.code(50, Some(&id), "ars_session_heartbeat", beat.clone()),
        None
    );
    let rotate = json!({"identity": super::id(1).to_string(), "public_key": spki(9), "possession": proof(9, super::id(1))});
    assert_eq!(rig.code(100, None, "identity_rotate", rotate), None);
    assert_eq!(
        rig.code(50, Some(&id), "ars_session_heartbeat", beat.clone()),
        Some(Code::KeyRevoked)
    );
    // The identity itself goes on in its session, by its new key.
    assert_eq!(rig.code(9, Some(&id), "ars_session_heartbeat", beat), None);
    rig.audit();
    rig.check();
}

#[test]
fn a_binding_is_refused_that_is_not_for_this() {
    let mut rig = Rig::of(&[1, 2]);
    let ends = rig.now() + 300_000;
    let mut other_role = bind(1, 50, "reader", ends, ORIGIN);
    other_role["role"] = "agent".into();
    let mut other_key = bind(1, 50, "agent", ends, ORIGIN);
    other_key["session_public_key"] = spki(51).into();
    let mut other_end = bind(1, 50, "agent", ends, ORIGIN);
    other_end["binding"]["expires_at"] = Millis(ends + 1).to_string().into();
    for (more, code) in [
        (other_role, Code::BindingInvalid),
        (other_key, Code::BindingInvalid),
        (other_end, Code::BindingInvalid),
        (bind(2, 50, "agent", ends, ORIGIN), Code::BindingInvalid),
        (
            bind(1, 50, "agent", ends, "example.com/other"),
            Code::BindingInvalid,
        ),
        (
            bind(1, 50, "agent", rig.now(), ORIGIN),
            Code::BindingInvalid,
        ),
        (bind(1, 2, "agent", ends, ORIGIN), Code::KeyEnrolled),
    ] {
        // Beyond folding: each refusal has its own leaf.
        rig.later(61_000);
        assert_eq!(
            rig.code(1, None, "ars_session_checkin", asked(more.clone())),
            Some(code),
            "{more}"
        );
    }
    rig.audit();
    rig.check();
}

#[test]
fn revoking_an_identity_ends_its_sessions_and_leases_and_nobody_elses() {
    let mut rig = Rig::of(&[1, 2]);
    let (one, two) = (rig.checkin(1, json!({})), rig.checkin(2, json!({})));
    rig.within(
        1,
        Some(&one),
        "ars_lease_acquire",
        json!({"resource": "item:1"}),
    )
    .unwrap();
    rig.call(
        100,
        "identity_revoke",
        json!({"identity": super::id(1).to_string()}),
    )
    .unwrap();
    assert_eq!(
        rig.code(
            2,
            Some(&two),
            "ars_lease_acquire",
            json!({"resource": "item:1"})
        ),
        None,
        "its work is free at once"
    );
    assert!(rig.session(&one).ended.is_some() && rig.session(&two).ended.is_none());
    rig.audit();
    rig.check();
}
