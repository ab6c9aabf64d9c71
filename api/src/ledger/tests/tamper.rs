//! The operator as the attacker: he changes a leaf and signs the tree anew. An auditor's replay finds it, at that leaf.

use std::{collections::BTreeSet, path::Path};

use countersign_verifier::{
    hash::leaf_hash,
    leaf::{Decision, write_system},
    policy::{Eras, Policy},
    range::Range,
    tile::{bundles, hash_of, push_entry, tiles},
    verdict::Outcome as Verdict,
};

use super::{story::told, *};
use crate::{
    audit::{self, Class as Kind, Plan, Report},
    foreign::Foreign,
    state::{due, verb::VERBS},
};

/// The leaves of the story.
fn leaves() -> Vec<Vec<u8>> {
    told().store.entries(0, usize::MAX).unwrap()
}

/// The tree of these leaves as static tiles, with a checkpoint that the log's own key signed.
pub(super) fn publish(leaves: &[Vec<u8>], folder: &Path) {
    let put = |path: &str, bytes: &[u8]| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let size = leaves.len() as u64;
    let mut row: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
    let root = row.iter().copied().collect::<Range>().root();
    let mut entries = leaves.iter();
    for bundle in bundles(size) {
        let mut bytes = Vec::new();
        for entry in entries.by_ref().take(usize::from(bundle.width)) {
            push_entry(&mut bytes, entry).unwrap();
        }
        put(&bundle.path(), &bytes);
    }
    let mut level = 0;
    for tile in tiles(size) {
        while level < tile.level {
            row = row.chunks_exact(256).map(hash_of).collect();
            level += 1;
        }
        let first = usize::try_from(tile.index).unwrap() * 256;
        let hashes = &row[first..][..usize::from(tile.width)];
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
        put(&tile.path(), &bytes);
    }
    let text = format!("{ORIGIN}\n{size}\n{}\n", root.to_base64());
    let note = format!("{text}\n{}", signer().sign(&text));
    put("checkpoint", note.as_bytes());
}

/// `countersign audit --replay` of a folder.
pub(super) fn audited(folder: &Path) -> Report {
    let policy = format!("log {}\nquorum none\n", signer().vkey());
    let eras = Eras::new(vec![(0, Policy::parse(&policy).unwrap())]).unwrap();
    let log = Foreign::open(folder.to_str().unwrap(), None).unwrap();
    let plan = Plan {
        log: &log,
        eras: &eras,
        at: None,
        state: None,
        replay: true,
        now_s: None,
        progress: &|_, _| {},
    };
    audit::run(&plan).unwrap()
}

fn parse(leaf: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(leaf).unwrap();
    assert_eq!(value.to_string().as_bytes(), leaf, "written in one way");
    value
}

/// The same member with something else in it.
fn other(value: &Value) -> Vec<Value> {
    match value {
        Value::Number(n) => {
            let n = n.as_u64().unwrap();
            [n.checked_add(1), n.checked_sub(1)]
                .into_iter()
                .flatten()
                .map(Value::from)
                .collect()
        }
        Value::String(text) => vec![json!(format!("{text}x")), json!("")],
        Value::Bool(is) => vec![json!(!is)],
        Value::Null => vec![json!(1)],
        Value::Array(all) => {
            let mut more = all.clone();
            more.push(all.first().cloned().unwrap_or(json!("x")));
            let fewer = all.split_last().map(|(_, rest)| json!(rest));
            [Some(json!(more)), fewer].into_iter().flatten().collect()
        }
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| {
                other(member).into_iter().map(|changed| {
                    let mut members = members.clone();
                    members[name] = changed;
                    Value::Object(members)
                })
            })
            .collect(),
    }
}

/// Each way in which one member of this object is another one, or missing, or one too many. Not the sentence for people.
fn changed(object: &Value) -> Vec<Value> {
    let members = object.as_object().unwrap();
    let mut all = Vec::new();
    for (name, member) in members
        .iter()
        .filter(|(name, _)| *name != "message" && *name != "type")
    {
        for value in other(member) {
            let mut members = members.clone();
            members[name] = value;
            all.push(Value::Object(members));
        }
        let mut fewer = members.clone();
        fewer.shift_remove(name);
        all.push(Value::Object(fewer));
    }
    let mut more = members.clone();
    more.insert("zz".into(), 1.into());
    all.push(Value::Object(more));
    all
}

/// Decisions that this one is not.
fn decisions(decision: &Value) -> Vec<Value> {
    let refused =
        |code: &str, detail: &Value| json!({"outcome": "refused", "code": code, "detail": detail});
    if decision["outcome"] == "applied" {
        let effects = changed(&decision["effect"]).into_iter();
        let effects = effects.map(|effect| json!({"outcome": "applied", "effect": effect}));
        let no = refused("NOT_ALLOWED", &json!({"message": "no"}));
        return effects.chain([no]).collect();
    }
    let code = decision["code"].as_str().unwrap();
    let details = changed(&decision["detail"]).into_iter();
    let other = ["NOT_ALLOWED", "NOT_FOUND"]
        .into_iter()
        .filter(|other| *other != code);
    let granted = [
        "{}",
        r#"{"lease":"l_1","expires_at":"2026-01-01T00:00:00.000Z"}"#,
    ];
    let granted = granted.map(|effect| json!({"outcome": "applied", "effect": serde_json::from_str::<Value>(effect).unwrap()}));
    details
        .map(|detail| refused(code, &detail))
        .chain(other.map(|other| refused(other, &decision["detail"])))
        .chain(granted)
        .collect()
}

/// Why a leaf cannot stand there.
fn refused(state: &State, index: u64, leaf: &[u8]) -> Option<String> {
    let leaf = match Leaf::parse(leaf) {
        Ok(leaf) => leaf,
        Err(error) => return Some(error.to_string()),
    };
    let mut state = state.clone();
    follows_rules(&state, index, &leaf)
        .err()
        .or_else(|| state.apply(&leaf).err())
}

#[test]
fn whatever_is_changed_in_any_decision_or_event_is_found_where_it_stands() {
    let leaves = leaves();
    let (mut state, mut tried, mut tools) = (State::default(), 0, BTreeSet::new());
    for (index, bytes) in (0..).zip(&leaves) {
        let whole = parse(bytes);
        let leaf = Leaf::parse(bytes).unwrap();
        assert_eq!(refused(&state, index, bytes), None, "as it is");
        let member = match &leaf {
            Leaf::System(system) if due::is_derived(system.event_type) => "event",
            Leaf::System(_) => "",
            Leaf::Operation(_) | Leaf::Receipt(_) => "decision",
        };
        let forged = match member {
            "event" => changed(&whole["event"]),
            "decision" => decisions(&whole["decision"]),
            _ => Vec::new(),
        };
        for forged in forged {
            let mut whole = whole.clone();
            whole[member] = forged;
            let text = whole.to_string();
            let found = refused(&state, index, text.as_bytes());
            assert!(found.is_some(), "leaf {index} would pass as {text}");
            tried += 1;
        }
        if let Leaf::Operation(operation) = &leaf
            && matches!(operation.decision, Decision::Applied { .. })
        {
            tools.insert(Operation::parse(&operation.envelope.payload).unwrap().tool);
        }
        state.apply(&leaf).unwrap();
    }
    assert!(tried > 500, "{tried}");
    let all: BTreeSet<String> = VERBS.iter().map(|verb| verb.tool.to_owned()).collect();
    let untold: Vec<_> = all.difference(&tools).collect();
    assert!(untold.is_empty(), "the story applies none of {untold:?}");
}

/// A tree that was changed and signed anew: the first fault is this leaf's, and of this kind.
fn found(leaves: &[Vec<u8>], kind: Kind, index: usize, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    publish(leaves, folder.path());
    let report = audited(folder.path());
    assert_eq!(report.outcome(), Verdict::DoesNotHold, "{what}");
    let first = report
        .faults
        .iter()
        .min_by_key(|fault| fault.index)
        .unwrap();
    assert_eq!(
        (first.class, first.index),
        (kind, Some(index as u64)),
        "{what}: {first:?}"
    );
}

fn position(leaves: &[Vec<u8>], words: &[&str]) -> usize {
    let holds = |leaf: &Vec<u8>| {
        let text = String::from_utf8_lossy(leaf).into_owned();
        let payload = Leaf::parse(leaf)
            .unwrap()
            .envelope()
            .map(|e| String::from_utf8_lossy(&e.payload).into_owned());
        let all = text + &payload.unwrap_or_default();
        words.iter().all(|word| all.contains(word))
    };
    let found = leaves.iter().position(holds);
    found.unwrap_or_else(|| panic!("no leaf with {words:?}"))
}

#[test]
fn each_noun_and_each_kind_of_lie_is_named_by_the_audit_of_a_tree_that_was_signed_anew() {
    let leaves = leaves();
    let folder = tempfile::tempdir().unwrap();
    publish(&leaves, folder.path());
    let report = audited(folder.path());
    assert_eq!(report.outcome(), Verdict::Holds, "{:#?}", report.faults);
    // Of each noun a decision that was changed, and one that was turned round.
    for tool in [
        "identity_enroll",
        "identity_rotate",
        "ars_session_checkin",
        "ars_session_checkout",
        "ars_lease_acquire",
        "ars_lease_release",
        "ars_start",
        "board_upsert",
        "board_import",
        "policy_set",
        "settings_set",
        "token_new",
        "head_submit",
        "receipt_policy",
        "blob_erase",
    ] {
        let asked = format!("\"tool\":\"{tool}\"");
        let index = position(&leaves, &[&asked, "\"outcome\":\"applied\""]);
        let whole = parse(&leaves[index]);
        let forged = decisions(&whole["decision"]);
        for decision in [&forged[0], forged.last().unwrap()] {
            let mut whole = whole.clone();
            whole["decision"] = decision.clone();
            let mut leaves = leaves.clone();
            leaves[index] = whole.to_string().into_bytes();
            found(&leaves, Kind::State, index, tool);
        }
    }
    // A refusal that should have been a grant, and a grant that should have been a refusal.
    for (code, tool) in [
        ("LEASE_CONFLICT", "ars_lease_acquire"),
        ("VERSION_MISMATCH", "board_upsert"),
    ] {
        let index = position(&leaves, &[code, tool]);
        let mut whole = parse(&leaves[index]);
        whole["decision"] = json!({"outcome": "applied", "effect": {"lease": format!("l_{index}"), "expires_at": "2027-01-01T00:00:00.000Z"}});
        let mut leaves = leaves.clone();
        leaves[index] = whole.to_string().into_bytes();
        found(&leaves, Kind::State, index, code);
    }
    // A fence that is one too many.
    let index = position(&leaves, &["LEASE_CONFLICT"]);
    let mut whole = parse(&leaves[index]);
    let fence = whole["decision"]["detail"]["fence"].as_u64().unwrap();
    whole["decision"]["detail"]["fence"] = (fence + 1).into();
    let mut changed = leaves.clone();
    changed[index] = whole.to_string().into_bytes();
    found(&changed, Kind::State, index, "a fence");
}

#[test]
fn an_end_that_is_early_missing_or_out_of_order_is_named() {
    let leaves = leaves();
    let derived: Vec<usize> = (0..leaves.len())
        .filter(|index| match Leaf::parse(&leaves[*index]) {
            Ok(Leaf::System(system)) => due::is_derived(system.event_type),
            _ => false,
        })
        .collect();
    assert!(derived.len() > 4, "{derived:?}");
    for index in derived {
        let leaf = Leaf::parse(&leaves[index]).unwrap();
        let Leaf::System(system) = &leaf else {
            panic!("an event")
        };
        // Missing: whatever comes after it says so.
        let mut missing = leaves.clone();
        missing.remove(index);
        found(&missing, Kind::State, index, "missing");
        // Early: at the time of the leaf before, one place sooner.
        let before = Leaf::parse(&leaves[index - 1]).unwrap();
        let mut early = leaves.clone();
        let mut written = Vec::new();
        if before.at().0 < leaf.at().0 {
            write_system(&mut written, before.at(), system.event).unwrap();
            early[index] = written;
            found(&early, Kind::State, index, "early");
        }
        // Out of order.
        let next = leaves.get(index + 1).map(|leaf| Leaf::parse(leaf).unwrap());
        if let Some(Leaf::System(next)) = next
            && due::is_derived(next.event_type)
            && next.at == leaf.at()
        {
            let mut swapped = leaves.clone();
            swapped.swap(index, index + 1);
            found(&swapped, Kind::State, index, "out of order");
        }
    }
}

#[test]
fn a_receipt_that_no_policy_takes_and_one_of_nobody_are_named() {
    let leaves = leaves();
    // Two must sign now: a receipt of one that stood before.
    let single = position(&leaves, &["\"kind\":\"receipt\""]);
    let two = position(&leaves, &["\"kind\":\"receipt\"", "{\"by\":2}"]);
    let mut forged = leaves.clone();
    let at = parse(&leaves[two])["at"].clone();
    let mut whole = parse(&leaves[single]);
    whole["at"] = at;
    forged[two] = whole.to_string().into_bytes();
    found(&forged, Kind::State, two, "too few signatures");
    // Nobody signed this.
    let mut whole = parse(&leaves[single]);
    whole["envelope"]["payload"] = "eyJuIjo5fQ==".into();
    let mut forged = leaves.clone();
    forged[single] = whole.to_string().into_bytes();
    found(&forged, Kind::Key, single, "another payload");
}
