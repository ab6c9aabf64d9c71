//! Starts, judged and taken in one after the other.

use countersign_verifier::{
    key::{Algorithm, PrivateKey},
    leaf::{Class, Millis},
};
use serde_json::{Map, Value, json};

use super::{
    first::{TooMany, search},
    *,
};
use crate::{
    code::Code,
    state::{
        Identity,
        board::{Item, holder},
        identity::Possession,
        verb,
    },
};

fn worker(n: u8) -> Identity {
    let key = PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).unwrap();
    Identity {
        id: key.public().identity(),
        name: format!("worker-{n}"),
        roles: vec!["agent".into()],
        class: Class::AgentKey,
        key: key.public().into(),
        retired: Vec::new(),
        possession: Possession::Proved,
        enrolled: None,
        rotations: Vec::new(),
        revoked: None,
    }
}

fn board() -> State {
    let mut state = State::default();
    (state.at, state.size) = (1_700_000_000_000, 1);
    state
}

/// Judges a call and takes it in at the next index.
fn ask(
    state: &mut State,
    by: &Identity,
    (tool, arguments, session): (&str, Value, Option<&str>),
) -> Result<Map<String, Value>, Code> {
    state.identities.insert(by.clone());
    let operation = Operation {
        tool: tool.into(),
        arguments,
        log: "localhost/dev".into(),
        session: session.map(str::to_owned),
        nonce: "0123456789abcdef".into(),
        issued_at: Millis(0),
        prev: Vec::new(),
        observed: None,
    };
    state.at += 1_000;
    let at = At {
        at: state.at,
        index: state.size,
    };
    let before = state.clone();
    let decided = state.decide(&Caller::from(by), &operation, at);
    assert_eq!(*state, before);
    match decided {
        Decided::Applied(effect) => {
            let verb = verb::find(tool).unwrap();
            (verb.apply)(state, by.id, &operation, &effect, at.index).unwrap();
            state.size += 1;
            Ok(effect)
        }
        Decided::Refused(code, ..) => Err(code),
    }
}

fn start(filter: Value) -> Value {
    let checkin =
        json!({"role": "agent", "harness": {"name": "x"}, "clock": "2026-11-29T13:00:00.000Z"});
    json!({"checkin": checkin, "filter": filter, "ttl_s": 60})
}

fn item(state: &mut State, by: &Identity, item: Value) {
    ask(state, by, ("board_upsert", json!({ "item": item }), None)).unwrap();
}

// B148
#[test]
fn one_leaf_begins_a_session_and_holds_the_first_item_that_fits() {
    let (mut state, a, b) = (board(), worker(1), worker(2));
    for (id, tag, priority) in [
        ("late", "docs", 3),
        ("first", "code", 1),
        ("second", "docs", 2),
    ] {
        item(
            &mut state,
            &a,
            json!({"id": id, "title": "t", "tags": [tag], "priority": priority}),
        );
    }
    let effect = ask(&mut state, &a, ("ars_start", start(Value::Null), None)).unwrap();
    assert_eq!(
        (&effect["item"], &effect["session"]),
        (&json!("first"), &json!("s_4"))
    );
    assert_eq!(effect["lease"]["lease"], "l_4");
    assert!(state.sessions.get(4).is_some());
    assert_eq!(holder(&state, "first").unwrap().session, 4);
    // What is held is offered to nobody else; a filter passes over what does not fit.
    let effect = ask(
        &mut state,
        &b,
        ("ars_start", start(json!({"tag": "docs"})), None),
    )
    .unwrap();
    assert_eq!(effect["item"], "second");
    // The next one, in the session that goes on.
    let next = json!({"filter": {"tag": "docs"}});
    let effect = ask(&mut state, &b, ("ars_start", next.clone(), Some("s_5"))).unwrap();
    assert_eq!(
        (&effect["item"], effect.get("checkin")),
        (&json!("late"), None)
    );
    let effect = ask(&mut state, &b, ("ars_start", next, Some("s_5"))).unwrap();
    assert_eq!(effect.get("item"), None, "nothing is left");
    assert_eq!(effect["session"], "s_5");
}

#[test]
fn whoever_holds_an_item_writes_it_and_nobody_else() {
    let (mut state, a, b) = (board(), worker(1), worker(2));
    item(&mut state, &a, json!({"id": "T", "title": "t"}));
    let effect = ask(&mut state, &a, ("ars_start", start(Value::Null), None)).unwrap();
    let fence = effect["lease"]["fence"].as_u64().unwrap();
    let write = |fence: Option<u64>| {
        let mut call = json!({"item": {"id": "T", "status": "active"}});
        if let Some(fence) = fence {
            call["fence"] = fence.into();
        }
        ("board_upsert", call)
    };
    let mut ask = |by: &Identity, (tool, call): (&str, Value), session| {
        super::tests::ask(&mut state, by, (tool, call, session))
    };
    assert_eq!(ask(&b, write(None), None), Err(Code::LeaseRequired));
    assert_eq!(ask(&b, write(Some(fence)), None), Err(Code::StaleFence));
    assert_eq!(
        ask(&a, write(Some(fence + 1)), Some("s_2")),
        Err(Code::StaleFence)
    );
    assert!(ask(&a, write(Some(fence)), Some("s_2")).is_ok());
    assert!(ask(&a, write(None), Some("s_2")).is_ok());
    // To speak of it nobody need hold it.
    let comment = ("board_comment", json!({"id": "T", "text": "well?"}));
    assert!(ask(&b, comment, None).is_ok());
    let resolve = |fence: u64| {
        (
            "board_resolve",
            json!({"id": "T", "outcome": "done", "fence": fence}),
        )
    };
    assert_eq!(ask(&b, resolve(fence), None), Err(Code::StaleFence));
    assert!(ask(&a, resolve(fence), Some("s_2")).is_ok());
}

#[test]
fn a_start_is_refused_as_its_parts_are() {
    let (mut state, a) = (board(), worker(1));
    let mut other_role = start(Value::Null);
    other_role["checkin"]["role"] = "reviewer".into();
    let mut unknown_role = start(Value::Null);
    unknown_role["checkin"]["role"] = "nobody".into();
    let mut short = start(Value::Null);
    short["ttl_s"] = 1.into();
    item(&mut state, &a, json!({"id": "T", "title": "t"}));
    for (call, session, expected) in [
        (json!({}), None, Code::Malformed),
        (json!({"checkin": {"role": "agent"}}), None, Code::Malformed),
        (json!({"filter": {"unknown": 1}}), None, Code::Malformed),
        (other_role, None, Code::NotAllowed),
        (unknown_role, None, Code::RoleUnknown),
        (short, None, Code::TtlOutOfRange),
        (json!({}), Some("s_99"), Code::NotFound),
    ] {
        let shown = call.to_string();
        assert_eq!(
            ask(&mut state, &a, ("ars_start", call, session)),
            Err(expected),
            "{shown}"
        );
    }
    assert_eq!(state.sessions.live_count(), 0);
    // In a session there is no second check-in.
    ask(&mut state, &a, ("ars_start", start(Value::Null), None)).unwrap();
    let again = ask(
        &mut state,
        &a,
        ("ars_start", start(Value::Null), Some("s_2")),
    );
    assert_eq!(again, Err(Code::Malformed));
}

#[test]
fn what_the_policy_keeps_from_somebody_it_keeps_from_him_here_too() {
    use crate::policy::{Policy, STARTER};
    let forbids = |rule: &str| {
        let mut state = board();
        item(&mut state, &worker(1), json!({"id": "A", "title": "t"}));
        let text = format!("{STARTER}\nforbid (principal, {rule});");
        state.rules.policy = Policy::parse(&text).unwrap();
        ask(
            &mut state,
            &worker(2),
            ("ars_start", start(json!({})), None),
        )
    };
    assert!(forbids("action == Action::\"board_comment\", resource").is_ok());
    for rule in [
        "action == Action::\"ars_lease_acquire\", resource == Resource::\"item:A\"",
        "action == Action::\"ars_session_checkin\", resource",
        "action == Action::\"ars_start\", resource",
    ] {
        assert_eq!(forbids(rule), Err(Code::NotAllowed), "{rule}");
    }
}

/// The least number of looks with which a search comes to an end, and what it finds then.
fn looks<'s>(state: &'s State, wanted: &Wanted) -> (usize, Option<&'s Item>) {
    let found = |most| search(state, wanted, most);
    let mut enough = (0..).skip_while(|most| found(*most) == Err(TooMany));
    let least = enough.next().unwrap();
    (least, found(least).unwrap())
}

#[test]
fn the_first_item_is_found_by_the_shortest_way() {
    let (mut state, a) = (board(), worker(1));
    for n in 0..60 {
        let tag = if n % 20 == 7 { "few" } else { "many" };
        let owner = if n % 2 == 0 { "even" } else { "odd" };
        let new = json!({"id": format!("n{n:02}"), "title": "t", "tags": [tag], "owner": owner, "priority": (60 - n) % 5});
        item(&mut state, &a, new);
    }
    item(
        &mut state,
        &a,
        json!({"id": "wait", "title": "t", "tags": ["few"], "depends_on": ["n00"]}),
    );
    let wanted = |filter: Value| serde_json::from_value::<Wanted>(filter).unwrap();
    for (filter, most) in [
        (json!({}), 1),
        (json!({"id": "n59"}), 0),
        (json!({"id": "wait"}), 0),
        (json!({"id": "nobody"}), 0),
        (json!({"tag": "none"}), 2),
        (json!({"tag": "many", "workstream": "none"}), 3),
        // Four have the tag, and then the list is at its end.
        (json!({"tag": "few"}), 10),
        (json!({"tag": "few", "owner": "odd"}), 15),
        (json!({"tag": "few", "owner": "even"}), 15),
    ] {
        let wanted = wanted(filter.clone());
        let fits = |item: &&Item| {
            let is = |asked: &Option<String>, has: Option<&str>| {
                asked.is_none() || asked.as_deref() == has
            };
            let tagged = |tag: &String| item.tags.iter().any(|own| **own == **tag);
            is(&wanted.id, Some(&item.id))
                && is(&wanted.owner, item.owner.as_deref())
                && is(&wanted.workstream, item.workstream.as_deref())
                && wanted.tag.as_ref().is_none_or(tagged)
        };
        let (looks, found) = looks(&state, &wanted);
        assert!(looks <= most, "{filter}: {looks} looks");
        assert_eq!(found, state.board.ready(None).find(fits), "{filter}");
    }
}

#[test]
fn a_search_among_what_others_hold_ends() {
    let (mut state, a) = (board(), worker(1));
    for n in 0..9 {
        item(&mut state, &a, json!({"id": format!("n{n}"), "title": "t"}));
    }
    ask(&mut state, &a, ("ars_start", start(Value::Null), None)).unwrap();
    let session = format!("s_{}", state.size - 1);
    for _ in 0..7 {
        ask(&mut state, &a, ("ars_start", json!({}), Some(&session))).unwrap();
    }
    let wanted = Wanted::default();
    assert_eq!(search(&state, &wanted, 8), Err(TooMany));
    assert_eq!(
        search(&state, &wanted, 9).unwrap().map(|item| &*item.id),
        Some("n8")
    );
}
