//! A whole log of every kind of leaf, watched.

use std::{collections::BTreeSet, fs, path::Path};

use countersign_verifier::{
    base64,
    hash::{Hash, sha256},
    key::{IdentityId, PublicKey},
    leaf::Leaf,
    policy::Policy,
    tile::parse_bundle,
};
use serde_json::Value;

use super::*;

/// The log that is frozen for the tests of replays: 266 leaves.
fn frozen() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/frozen/rules-1/01-first")
}

fn entries() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (path, width) in [("tile/entries/000", 256), ("tile/entries/001.p/10", 10)] {
        let bytes = fs::read(frozen().join(path)).unwrap();
        let list = parse_bundle(&bytes, width).unwrap();
        all.extend(list.into_iter().map(<[u8]>::to_vec));
    }
    all
}

fn eras() -> Eras {
    let first: Value = serde_json::from_slice(&entries()[0]).unwrap();
    let vkey = first["event"]["log_vkey"].as_str().unwrap();
    Eras::one(Policy::parse(format!("log {vkey}\nquorum none\n")).unwrap())
}

/// An ear that goes deaf at some alert.
#[derive(Default)]
struct Heard {
    alerts: Vec<Alert>,
    complete: Vec<u64>,
    deaf_at: Option<usize>,
}

impl Ear for Heard {
    fn alert(&mut self, alert: &Alert) -> Result<(), Undelivered> {
        if self.deaf_at == Some(self.alerts.len()) {
            return Err(Undelivered::Webhook("deaf".into()));
        }
        self.alerts.push(alert.clone());
        Ok(())
    }

    fn complete(&mut self, done: u64, _: &Checkpoint) -> Result<(), Undelivered> {
        self.complete.push(done);
        Ok(())
    }
}

impl Heard {
    fn indexes(&self) -> BTreeSet<u64> {
        let all = self.alerts.iter();
        all.map(|alert| alert.json["index"].as_u64().unwrap())
            .collect()
    }
}

fn monitor(watched: Watched, state: Option<PathBuf>, from: u64) -> Monitor {
    let plan = Plan {
        watched,
        eras: eras(),
        state,
        from: Some(from),
    };
    Monitor::new(plan).unwrap()
}

fn heard(watched: Watched, from: u64) -> Result<Heard, Trouble> {
    let log = Foreign::open(frozen().to_str().unwrap(), None).unwrap();
    let mut heard = Heard::default();
    monitor(watched, None, from).step((&log, ""), None, &mut heard)?;
    Ok(heard)
}

/// The indexes of the leaves in whose bytes, or in the payload in them, one of these texts stands.
fn with(texts: &[&str]) -> BTreeSet<u64> {
    let holds = |entry: &[u8]| {
        let leaf = Leaf::parse(entry).unwrap();
        let payload = leaf
            .envelope()
            .map(|e| e.payload.clone())
            .unwrap_or_default();
        [entry, &payload].iter().any(|bytes| {
            texts
                .iter()
                .any(|t| String::from_utf8_lossy(bytes).contains(t))
        })
    };
    (0..)
        .zip(entries())
        .filter(|(_, entry)| holds(entry))
        .map(|(index, _)| index)
        .collect()
}

fn key_in(leaf: usize) -> (String, PublicKey) {
    let entries = entries();
    let leaf = Leaf::parse(&entries[leaf]).unwrap();
    let asked: Value = serde_json::from_slice(&leaf.envelope().unwrap().payload).unwrap();
    let spki = asked["arguments"]["public_key"]
        .as_str()
        .unwrap()
        .to_owned();
    let key = PublicKey::from_spki(&base64::decode(&spki).unwrap()).unwrap();
    (spki, key)
}

#[test]
fn an_identity_is_heard_of_by_id_by_name_and_by_key() {
    let (spki, key) = key_in(1);
    let id = key.identity();
    let due = with(&[&id.to_string(), &spki]);
    assert!(due.len() > 20 && due.len() < 266, "{due:?}");
    let by_id = Watched {
        ids: [id].into(),
        ..Watched::default()
    };
    let by_name = Watched {
        names: ["n1".to_owned()].into(),
        ..Watched::default()
    };
    let by_key = Watched {
        keys: [id.0].into(),
        ..Watched::default()
    };
    for watched in [by_id.clone(), by_name, by_key] {
        assert_eq!(heard(watched, 0).unwrap().indexes(), due);
    }
    // From a later leaf on: an id is enough, and a name is not.
    let later: BTreeSet<u64> = due.iter().copied().filter(|index| *index >= 100).collect();
    assert_eq!(heard(by_id, 100).unwrap().indexes(), later);
    for watched in [
        Watched {
            names: ["n1".to_owned()].into(),
            ..Watched::default()
        },
        Watched {
            keys: [id.0].into(),
            ..Watched::default()
        },
    ] {
        let refused = heard(watched, 100);
        assert!(matches!(refused, Err(Trouble::Unusable(_))));
    }
    // A later key of an identity's: heard of from the rotation on.
    let (_, rotated) = key_in(10);
    let leaver = key_in(6).1.identity();
    let watched = Watched {
        keys: [rotated.identity().0].into(),
        ..Watched::default()
    };
    let due = with(&[&leaver.to_string()]);
    let due: BTreeSet<u64> = due.into_iter().filter(|index| *index >= 10).collect();
    assert_eq!(heard(watched, 0).unwrap().indexes(), due);
}

#[test]
fn owner_and_service_are_those_of_leaf_0() {
    let first: Value = serde_json::from_slice(&entries()[0]).unwrap();
    for name in ["owner", "service"] {
        let spki = first["event"][name]["public_key"].as_str().unwrap();
        let id: IdentityId = PublicKey::from_spki(&base64::decode(spki).unwrap())
            .unwrap()
            .identity();
        let watched = Watched {
            names: [name.to_owned()].into(),
            ..Watched::default()
        };
        let due = with(&[&id.to_string(), spki]);
        assert!(due.contains(&0));
        assert_eq!(heard(watched, 0).unwrap().indexes(), due, "{name}");
    }
}

#[test]
fn types_and_subjects_are_heard_of() {
    let kind = |of: &str| Watched {
        types: [of.to_owned()].into(),
        ..Watched::default()
    };
    for (of, due) in [
        ("identity_revoke", with(&["\"tool\":\"identity_revoke\""])),
        ("lease_expired", with(&["\"type\":\"lease_expired\""])),
        ("opened", BTreeSet::from([0])),
        (
            "application/vnd.example.receipt+json",
            with(&["\"payloadType\":\"application/vnd.example.receipt+json\""]),
        ),
    ] {
        assert!(!due.is_empty(), "{of}");
        assert_eq!(heard(kind(of), 0).unwrap().indexes(), due, "{of}");
    }
    let entries = entries();
    let leaf = Leaf::parse(&entries[200]).unwrap();
    let subject: Hash = sha256(&leaf.envelope().unwrap().payload);
    let watched = Watched {
        subjects: [subject].into(),
        ..Watched::default()
    };
    assert!(heard(watched, 0).unwrap().indexes().contains(&200));
    let alert = heard(kind("identity_revoke"), 0)
        .unwrap()
        .alerts
        .pop()
        .unwrap();
    let json = &alert.json;
    assert_eq!(alert.id, "localhost/dev#14");
    for (member, is) in [
        ("format", "countersign.alert/1"),
        ("id", "localhost/dev#14"),
        ("kind", "operation"),
        ("type", "identity_revoke"),
        ("outcome", "refused NOT_FOUND"),
        ("origin", "localhost/dev"),
    ] {
        assert_eq!(json[member], is, "{json}");
    }
    assert_eq!(json["checkpoint"]["size"], 266);
    assert_eq!(json["leaf_hash"], leaf_hash(&entries[14]).to_hex());
}

#[test]
fn an_alert_that_nobody_heard_is_told_again_and_nothing_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let watched = Watched {
        types: ["application/vnd.example.receipt+json".to_owned()].into(),
        ..Watched::default()
    };
    let log = Foreign::open(frozen().to_str().unwrap(), None).unwrap();
    let place = (&log, "");
    let mut first = Heard {
        deaf_at: Some(50),
        ..Heard::default()
    };
    let mut stopped = monitor(watched.clone(), Some(state.clone()), 0);
    let step = stopped.step(place, None, &mut first);
    assert!(matches!(step, Err(Trouble::Undelivered(_))));
    assert_eq!((stopped.done(), first.complete.len()), (0, 0));
    // The same again, in another process.
    let mut second = Heard::default();
    let mut again = monitor(watched.clone(), Some(state.clone()), 9);
    again.step(place, None, &mut second).unwrap();
    assert_eq!(second.alerts[..50], first.alerts[..]);
    assert_eq!(second.complete, [266]);
    let due = with(&["\"payloadType\":\"application/vnd.example.receipt+json\""]);
    assert_eq!(second.indexes(), due);
    // And nothing once it was heard.
    let mut third = Heard::default();
    again.step(place, None, &mut third).unwrap();
    assert!(third.alerts.is_empty() && third.complete.is_empty());
    let mut fourth = Heard::default();
    let mut fresh = monitor(watched, Some(state), 0);
    fresh.step(place, None, &mut fourth).unwrap();
    assert!(fourth.alerts.is_empty());
    assert_eq!(fourth.complete, [266]);
}

#[test]
fn complete_is_said_of_what_was_looked_for_alone() {
    let dir = tempfile::tempdir().unwrap();
    let log = Foreign::open(frozen().to_str().unwrap(), None).unwrap();
    let kinds = |kinds: &[&str]| Watched {
        types: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        ..Watched::default()
    };
    let state = dir.path().join("state");
    let step = |watched: Watched, state: &Path, from| {
        let mut heard = Heard::default();
        let mut monitor = monitor(watched, Some(state.to_owned()), from);
        let step = monitor.step((&log, ""), None, &mut heard);
        step.map(|()| heard.complete)
    };
    assert_eq!(step(kinds(&["a", "b"]), &state, 0).unwrap(), [266]);
    // Less is no less complete; what was left out once was not looked for since.
    assert_eq!(step(kinds(&["b"]), &state, 0).unwrap(), [266]);
    for more in [kinds(&["a", "b"]), kinds(&["b", "c"])] {
        let refused = step(more, &state, 0).unwrap_err();
        assert!(matches!(refused, Trouble::Unusable(_)), "{refused}");
    }
    assert_eq!(step(kinds(&["b"]), &state, 0).unwrap(), [266]);
    let fresh = dir.path().join("fresh");
    assert_eq!(step(kinds(&["b", "c"]), &fresh, 266).unwrap(), [266]);
}

#[test]
fn without_anything_to_watch_for_entries_are_bytes() {
    let heard = heard(Watched::default(), 0).unwrap();
    assert!(heard.alerts.is_empty());
    assert_eq!(heard.complete, [266]);
}
