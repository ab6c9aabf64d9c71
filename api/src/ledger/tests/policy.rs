//! Policies other than the starter: what the service says itself is said under any, and a role is nobody's by leaving a session out.

use super::{sessions::asked, *};

const OWNERS_ALONE: &str =
    r#"permit (principal, action, resource) when { principal.roles.contains("owner") };"#;

fn upsert(id: &str) -> Value {
    json!({"item": {"id": id, "title": "t"}})
}

#[test]
fn what_was_folded_is_counted_under_a_policy_that_knows_no_service() {
    let mut rig = Rig::of(&[1]);
    assert_eq!(
        rig.code(100, None, "policy_set", json!({"text": OWNERS_ALONE})),
        None
    );
    let mut firsts = Vec::new();
    // Two counts fall due at once: as refusals they would be alike.
    for item in ["a", "b"] {
        let (first, folded) = rig.call(1, "board_upsert", upsert(item)).unwrap();
        assert!(!folded);
        assert_eq!(rig.decided(first), Some(Code::NotAllowed));
        assert_eq!(
            rig.call(1, "board_upsert", upsert(item)).unwrap(),
            (first, true)
        );
        firsts.push(first);
    }
    *rig.clocks.0.lock().unwrap() += 61_000;
    let (index, _) = rig.call(100, "board_upsert", upsert("c")).unwrap();
    for (at, first) in [(index - 2, firsts[0]), (index - 1, firsts[1])] {
        assert_eq!(rig.decided(at), None, "{at}");
        let leaf = rig.store.entry(at).unwrap().unwrap();
        let envelope = Leaf::parse(&leaf).unwrap().envelope().cloned().unwrap();
        let counted = Operation::parse(&envelope.payload).unwrap();
        assert_eq!(counted.arguments, json!({"index": first, "count": 1}));
    }
    rig.check();
    rig.audit();
}

#[test]
fn a_role_is_not_shed_by_leaving_the_session_out() {
    let mut rig = Rig::of(&[1]);
    let agents = r#"
        permit (principal, action, resource);
        forbid (principal, action == Action::"ars_lease_acquire", resource) when { context.role == "agent" };"#;
    assert_eq!(
        rig.code(100, None, "policy_set", json!({"text": agents})),
        None
    );
    let checkin = asked(json!({}));
    assert_eq!(rig.code(1, None, "ars_session_checkin", checkin), None);
    let session = rig.state().sessions.of(&id(1)).next().unwrap().id();
    let item = json!({"resource": "item:1"});
    for named in [Some(session.as_str()), None] {
        let code = rig.code(1, named, "ars_lease_acquire", item.clone());
        assert_eq!(code, Some(Code::NotAllowed), "{named:?}");
    }
    rig.check();
    rig.audit();
}
