//! One log in which every tool is asked, with and without success, and everything that ends by itself does: for tests that change
//! leaves of it, and for the one that freezes it. The same bytes at every run.

use countersign_verifier::hash::sha256;

use super::{sessions::asked, *};
use crate::{
    policy::Policy,
    state::board::{Mode, file},
};

/// The story, up to the close of its log.
pub(super) fn told() -> Rig {
    let mut rig = Rig::of(&[1, 2, 3]);
    identities(&mut rig);
    rules(&mut rig);
    receipts(&mut rig);
    tokens(&mut rig);
    heads(&mut rig);
    blobs(&mut rig);
    let sessions = [1, 2].map(|n| rig.checkin(n, json!({"ttl_s": 3_600})));
    leases(&mut rig, &sessions);
    board(&mut rig, &sessions);
    starts(&mut rig);
    ends(&mut rig, &sessions);
    let successor = json!({"successor": "log.example.com/next"});
    rig.refused(1, None, "log_close", successor.clone(), Code::NotAllowed);
    rig.done(100, None, "log_close", successor);
    rig
}

impl Rig {
    /// Applied; the leaf's index.
    fn done(&mut self, by: u8, session: Option<&str>, tool: &str, arguments: Value) -> u64 {
        self.later(1_000);
        let (index, _) = self
            .within(by, session, tool, arguments)
            .unwrap_or_else(|problem| panic!("{tool}: {problem:?}"));
        assert_eq!(self.decided(index), None, "{}", self.leaf(index));
        index
    }

    /// Refused in a leaf, with this code.
    fn refused(&mut self, by: u8, session: Option<&str>, tool: &str, arguments: Value, code: Code) {
        self.later(1_000);
        let found = self.code(by, session, tool, arguments.clone());
        assert_eq!(found, Some(code), "{tool} {arguments}");
    }

    /// The last leaf's lease and fence.
    fn held(&self, index: u64) -> Value {
        let state = self.state();
        let lease = state.leases.get(index).expect("a lease");
        json!({"lease_id": lease.id(), "fence": lease.fence})
    }
}

fn identities(rig: &mut Rig) {
    let enroll_as = |name: &str, n: u8, more: Value| {
        let mut arguments = enroll(name, n, true);
        for (member, value) in more.as_object().expect("an object") {
            arguments[member] = value.clone();
        }
        arguments
    };
    let reviewer = enroll_as("reviewer", 6, json!({"roles": ["reviewer"]}));
    rig.done(100, None, "identity_enroll", reviewer);
    rig.done(100, None, "identity_enroll", enroll("stated", 4, false));
    rig.done(100, None, "identity_enroll", enroll("leaver", 5, true));
    rig.refused(
        100,
        None,
        "identity_enroll",
        enroll("N1", 9, true),
        Code::NameTaken,
    );
    rig.refused(
        100,
        None,
        "identity_enroll",
        enroll("new", 1, true),
        Code::KeyEnrolled,
    );
    rig.refused(
        1,
        None,
        "identity_enroll",
        enroll("x", 9, true),
        Code::NotAllowed,
    );
    let other = json!({"identity": id(5).to_string(), "public_key": spki(15), "possession": proof(15, id(5))});
    rig.done(5, None, "identity_rotate", other);
    let itself = json!({"identity": id(4).to_string(), "public_key": spki(4), "possession": proof(4, id(4))});
    rig.done(100, None, "identity_rotate", itself);
    let leaver = json!({"identity": id(5).to_string()});
    rig.refused(1, None, "identity_revoke", leaver.clone(), Code::NotAllowed);
    rig.done(100, None, "identity_revoke", leaver);
    let nobody = json!({"identity": id(77).to_string()});
    rig.refused(100, None, "identity_revoke", nobody, Code::NotFound);
}

fn rules(rig: &mut Rig) {
    let set = json!({"lease_ttl_s": 600, "requests_per_minute": 6_000});
    rig.refused(1, None, "settings_set", set.clone(), Code::NotAllowed);
    rig.done(100, None, "settings_set", set);
    let text = format!("{}\n// As it was.\n", Policy::default().text());
    rig.done(100, None, "policy_set", json!({"text": text}));
    rig.refused(
        2,
        None,
        "policy_set",
        json!({"text": text}),
        Code::NotAllowed,
    );
    // The same twice more: they fold into the first, and their number is a leaf a minute later.
    for _ in 0..2 {
        rig.later(500);
        let again = rig
            .within(2, None, "policy_set", json!({"text": text}))
            .unwrap();
        assert!(again.1, "folded");
    }
    rig.later(61_000);
    rig.tick();
}

fn receipts(rig: &mut Rig) {
    // So many that there is a full tile, and one above it.
    for n in 0..180u8 {
        rig.receipt(&format!("{{\"n\":{n}}}"), &[1 + n % 3])
            .unwrap();
    }
    rig.done(100, None, "receipt_policy", json!({"threshold": 2}));
    rig.receipt("{\"by\":2}", &[3, 1]).unwrap();
    rig.refused(
        1,
        None,
        "receipt_policy",
        json!({"threshold": 1}),
        Code::NotAllowed,
    );
    rig.done(100, None, "receipt_policy", json!({"threshold": 1}));
}

fn tokens(rig: &mut Rig) {
    let token = |n: u8| json!({"token_sha256": sha256(&[n]).to_hex()});
    for (n, ttl) in [(1, Some(3_600)), (2, None)] {
        let mut new = token(n);
        new["identity"] = id(1).to_string().into();
        if let Some(ttl) = ttl {
            new["ttl_s"] = ttl.into();
        }
        rig.done(100, None, "token_new", new);
    }
    let mut again = token(1);
    again["identity"] = id(2).to_string().into();
    let code = rig.code(100, None, "token_new", again);
    assert!(code.is_some());
    rig.done(100, None, "token_revoke", token(2));
    rig.refused(100, None, "token_revoke", token(9), Code::NotFound);
}

fn heads(rig: &mut Rig) {
    let PrivateKey::Ed25519(secret) = key(50) else {
        panic!("an Ed25519 key")
    };
    let other = NoteSigner::new("other.example/log", secret).unwrap();
    let head = |size: u64, root: u8| {
        let root = Hash([root; 32]).to_base64();
        let text = format!("other.example/log\n{size}\n{root}\n");
        let note = countersign_verifier::note::join(&text, [other.sign(&text).as_str()]);
        json!({"checkpoint": note})
    };
    rig.refused(1, None, "head_submit", head(1, 1), Code::NotFound);
    let track = json!({"vkey": other.vkey().to_string()});
    rig.done(100, None, "head_track", track.clone());
    rig.refused(100, None, "head_track", track, Code::HeadTracked);
    rig.done(1, None, "head_submit", head(3, 1));
    rig.done(1, None, "head_submit", head(5, 2));
    rig.done(2, None, "head_submit", head(2, 3));
    // Another root than a head of the same size: evidence of a fork.
    rig.done(2, None, "head_submit", head(3, 4));
}

fn blobs(rig: &mut Rig) {
    let body = |n: u8| json!({"commitment": sha256(&[n]).to_hex(), "reason": "asked to"});
    rig.refused(1, None, "blob_erase", body(1), Code::NotAllowed);
    rig.done(100, None, "blob_erase", body(1));
    rig.refused(100, None, "blob_erase", body(1), Code::BlobErased);
    rig.done(100, None, "blob_erase", body(2));
}

fn leases(rig: &mut Rig, [one, two]: &[String; 2]) {
    let (one, two) = (Some(one.as_str()), Some(two.as_str()));
    let on = |resource: &str, mode: &str, ttl_s: u64| json!({"resource": resource, "mode": mode, "ttl_s": ttl_s});
    let a = rig.done(1, one, "ars_lease_acquire", on("item:a", "exclusive", 600));
    rig.refused(
        2,
        two,
        "ars_lease_acquire",
        on("item:a", "exclusive", 600),
        Code::LeaseConflict,
    );
    rig.done(
        1,
        one,
        "ars_lease_acquire",
        on("path:site:src/**", "shared", 600),
    );
    rig.done(
        2,
        two,
        "ars_lease_acquire",
        on("path:site:src/*.rs", "shared", 60),
    );
    rig.refused(
        2,
        two,
        "ars_lease_acquire",
        on("path:site:**", "exclusive", 60),
        Code::LeaseConflict,
    );
    rig.refused(
        2,
        two,
        "ars_lease_acquire",
        on("item:b", "exclusive", 1),
        Code::TtlOutOfRange,
    );
    let held = rig.held(a);
    rig.done(1, one, "ars_lease_renew", held.clone());
    rig.refused(2, two, "ars_lease_renew", held.clone(), Code::NotHolder);
    let mut stale = held.clone();
    stale["fence"] = (held["fence"].as_u64().unwrap() + 1).into();
    rig.refused(1, one, "ars_lease_renew", stale, Code::StaleFence);
    rig.refused(2, two, "ars_lease_release", held.clone(), Code::NotHolder);
    rig.done(1, one, "ars_lease_release", held.clone());
    rig.refused(1, one, "ars_lease_release", held, Code::LeaseExpired);
    let beat = json!({"note": "at it", "progress": 40});
    rig.done(1, one, "ars_session_heartbeat", beat);
    // A lease ends by itself.
    rig.later(70_000);
    rig.tick();
}

fn board(rig: &mut Rig, [one, _]: &[String; 2]) {
    let one = Some(one.as_str());
    for (n, more) in [
        json!({"priority": 0, "tags": ["docs"], "description": "a\r\nb\u{2028}c"}),
        json!({"depends_on": ["T-0"], "links": [{"rel": "relates", "target": "https://example.com/1"}]}),
        json!({"review_required": true, "acceptance_criteria": ["it works"]}),
        json!({"workstream": "w", "owner": "n1"}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut item = json!({"id": format!("T-{n}"), "title": format!("Item {n}: cafe\u{301}")});
        for (name, value) in more.as_object().unwrap() {
            item[name] = value.clone();
        }
        rig.done(1, one, "board_upsert", json!({"item": item}));
    }
    let patch = |id: &str, more: Value| {
        let mut asked = json!({"item": {"id": id}});
        for (name, value) in more.as_object().unwrap() {
            asked[name] = value.clone();
        }
        asked
    };
    rig.done(
        2,
        None,
        "board_upsert",
        json!({"item": {"title": "named by its leaf"}}),
    );
    let wrong = patch("T-0", json!({"if_version": 9}));
    rig.refused(2, None, "board_upsert", wrong, Code::VersionMismatch);
    let cycle = json!({"item": {"id": "T-0", "depends_on": ["T-1"]}});
    rig.refused(2, None, "board_upsert", cycle, Code::DependencyCycle);
    let held = rig.done(1, one, "ars_lease_acquire", json!({"resource": "item:T-3"}));
    let held = rig.held(held);
    rig.refused(
        2,
        None,
        "board_upsert",
        json!({"item": {"id": "T-3", "title": "x"}}),
        Code::LeaseRequired,
    );
    let fenced = json!({"item": {"id": "T-3", "status": "active"}, "fence": held["fence"]});
    rig.done(1, one, "board_upsert", fenced);
    rig.done(
        2,
        None,
        "board_comment",
        json!({"id": "T-0", "text": "one\r\ntwo"}),
    );
    rig.refused(
        2,
        None,
        "board_comment",
        json!({"id": "nothing", "text": "x"}),
        Code::NotFound,
    );
    rig.done(
        1,
        one,
        "board_resolve",
        json!({"id": "T-2", "outcome": "done"}),
    );
    let accepted = json!({"id": "T-2", "outcome": "done", "note": "good"});
    rig.done(6, None, "board_resolve", accepted);
    let item = |id: &str| {
        let item = json!({"id": id, "title": id, "version": 4, "later": [1], "comments": [{"id": "c", "author": "a", "at": "2026-01-02T03:04:05.678Z", "text": "t"}]});
        item.as_object().unwrap().clone()
    };
    let digest = sha256(b"a file");
    for chunk in file::cut(
        &digest,
        Mode::Merge,
        vec![item("I-1"), item("I-2")],
        Vec::new(),
    ) {
        rig.done(2, None, "board_import", chunk);
    }
}

fn starts(rig: &mut Rig) {
    let checkin = json!({"checkin": asked(json!({"ttl_s": 300}))});
    let index = rig.done(3, None, "ars_start", checkin);
    let session = format!("s_{index}");
    let next = rig.done(
        3,
        Some(&session),
        "ars_start",
        json!({"filter": {"tag": "nothing"}}),
    );
    assert!(next > index);
    let strange = json!({"checkin": asked(json!({"role": "pilot"}))});
    rig.refused(3, None, "ars_start", strange, Code::RoleUnknown);
}

/// What runs ends: by a word, and by itself. Between, the wall clock is set ahead and accepted.
fn ends(rig: &mut Rig, [one, two]: &[String; 2]) {
    for resource in ["item:x", "item:y", "role:z"] {
        let asked = json!({"resource": resource, "ttl_s": 3_000});
        rig.done(2, Some(two), "ars_lease_acquire", asked);
    }
    rig.set_ahead(3_600_000);
    let delivered =
        json!({"outcome": "delivered", "evidence": [{"name": "log", "sha256": "00".repeat(32)}]});
    rig.done(1, Some(one), "ars_session_checkout", delivered);
    rig.refused(
        1,
        Some(one),
        "ars_session_heartbeat",
        json!({}),
        Code::SessionExpired,
    );
    rig.refused(
        1,
        None,
        "ars_session_checkin",
        asked(json!({"role": "pilot"})),
        Code::RoleUnknown,
    );
    rig.later(8_000_000);
    rig.tick();
}
