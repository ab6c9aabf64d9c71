//! How many identities and keys there may be, and in which order keys are tried.

use countersign_verifier::{
    base64,
    hash::sha256,
    key::{Algorithm, PrivateKey},
    leaf::Millis,
    operation::Operation,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    code::Code,
    state::{At, Caller, Decided, State},
};

fn key(n: u8) -> PublicKey {
    let secret = PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).unwrap();
    secret.public()
}

/// An account of an owner, key 1, and its service, key 2.
fn account() -> State {
    let opened = Opened {
        origin: "localhost/dev".into(),
        log_vkey: String::new(),
        owner: key(1),
        service: key(2),
        rules: 1,
        epoch: 0,
        predecessor: None,
    };
    let mut state = State::default();
    state.identities.open(&opened).unwrap();
    state.opened = Some(opened);
    state
}

/// One of many, all with one key: what counts is that they are there.
fn enrolled(n: usize, key: &PublicKey) -> Identity {
    Identity {
        id: IdentityId(sha256(&n.to_be_bytes())),
        name: format!("worker-{n}"),
        class: Class::AgentKey,
        roles: vec![ROLE_BY_DEFAULT.into()],
        key: key.clone().into(),
        retired: Vec::new(),
        possession: Possession::Stated,
        enrolled: None,
        rotations: Vec::new(),
        revoked: None,
    }
}

/// What is decided of a call by the owner.
fn ask(state: &State, tool: &str, arguments: Value) -> Decided {
    let operation = Operation {
        tool: tool.into(),
        arguments,
        log: "localhost/dev".into(),
        session: None,
        nonce: "0123456789abcdef".into(),
        issued_at: Millis(0),
        prev: Vec::new(),
        observed: None,
    };
    let owner = state.identities.get(&key(1).identity()).unwrap();
    state.decide(&Caller::from(owner), &operation, At { at: 1, index: 1 })
}

fn is_full(decided: &Decided, limit: usize) -> bool {
    matches!(decided, Decided::Refused(Code::LimitReached, _, detail) if detail["limit"] == json!(limit))
}

#[test]
fn an_account_has_so_many_identities_and_no_more() {
    let (mut state, all) = (account(), key(3));
    for n in 2..IDENTITIES_MAX - 1 {
        state.identities.insert(enrolled(n, &all));
    }
    let new = json!({"name": "another", "public_key": base64::encode(&key(4).spki_der())});
    assert_eq!(state.identities.count(), IDENTITIES_MAX - 1);
    let last = ask(&state, "identity_enroll", new.clone());
    assert!(matches!(last, Decided::Applied(_)), "{last:?}");
    // One that is revoked counts too: it is never forgotten.
    state.identities.insert(Identity {
        revoked: Some(1),
        ..enrolled(1, &all)
    });
    let refused = ask(&state, "identity_enroll", new);
    assert!(is_full(&refused, IDENTITIES_MAX), "{refused:?}");
}

#[test]
fn an_identity_has_another_key_so_often_and_no_more() {
    let (mut state, own) = (account(), key(3));
    let mut worker = enrolled(1, &own);
    let change = Change {
        index: 1,
        by: worker.id,
    };
    worker.rotations = vec![change; ROTATIONS_MAX - 1];
    state.identities.insert(worker.clone());
    let spki = base64::encode(&key(4).spki_der());
    let rotate = json!({"identity": worker.id.to_string(), "public_key": spki});
    let last = ask(&state, "identity_rotate", rotate.clone());
    assert!(matches!(last, Decided::Applied(_)), "{last:?}");
    worker.rotations.push(change);
    state.identities.insert(worker);
    let refused = ask(&state, "identity_rotate", rotate);
    assert!(is_full(&refused, ROTATIONS_MAX), "{refused:?}");
}

#[test]
fn every_current_key_is_tried_before_any_retired_one() {
    let (mut state, all) = (account(), key(3));
    for n in 1..=TRIED_MAX - 2 {
        let retired = vec![all.clone().into(); 300];
        let worker = enrolled(n, &all);
        state.identities.insert(Identity { retired, ..worker });
    }
    let identities = &state.identities;
    assert_eq!(identities.count(), TRIED_MAX);
    let hinted = identities.iter().last();
    for hinted in [None, hinted] {
        let order: Vec<bool> = identities
            .tried(hinted)
            .map(|(identity, key)| std::ptr::eq(&raw const identity.key, key))
            .collect();
        assert_eq!(order.len(), TRIED_MAX + (TRIED_MAX - 2) * 300);
        let current = order.iter().take_while(|current| **current).count();
        assert_eq!(current, TRIED_MAX, "whoever has many keys behind it");
    }
    let first = identities.tried(hinted).next().map(|(i, _)| i.id);
    assert_eq!(first, hinted.map(|i| i.id));
    // Where they are many, only those of whom the keyid names.
    state.identities.insert(enrolled(99, &all));
    assert_eq!(state.identities.tried(None).count(), 0);
    let hinted = state.identities.iter().next();
    assert!(
        state
            .identities
            .tried(hinted)
            .all(|(i, _)| Some(i.id) == hinted.map(|h| h.id))
    );
}
