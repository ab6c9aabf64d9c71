//! What leaf 0 of a successor says of the log before it.

use countersign_verifier::predecessor::{Predecessor, PredecessorError};
use serde_json::{Value, json};

use crate::support::V1;

/// As a successor's leaf 0 has it, of the log in [`V1`], which has three leaves.
fn stated(recovered: u64, lost: Option<Value>) -> Value {
    let mut value =
        json!({"origin": "log.example/a", "checkpoint": V1, "recovered_size": recovered});
    if let Some(lost) = lost {
        value["lost"] = lost;
    }
    value
}

#[test]
fn what_is_lost_is_what_the_head_covers_and_was_not_recovered() {
    for (recovered, lost) in [(0, Some((0, 3))), (2, Some((2, 3))), (3, None), (9, None)] {
        let made = Predecessor::new(V1, recovered).unwrap();
        assert_eq!(made.lost, lost, "{recovered}");
        let read = Predecessor::parse(&stated(recovered, lost.map(|l| json!(l))));
        assert_eq!(read.unwrap(), made);
        assert_eq!(made.head().unwrap().size, 3);
    }
}

#[test]
fn what_contradicts_itself_or_is_of_another_form_is_refused() {
    let contradiction = |value: &Value| {
        let error = Predecessor::parse(value).unwrap_err();
        assert!(
            matches!(error, PredecessorError::Contradiction(_)),
            "{error}"
        );
    };
    contradiction(&stated(2, None));
    contradiction(&stated(3, Some(json!([2, 3]))));
    contradiction(&stated(2, Some(json!([1, 3]))));
    let mut other = stated(3, None);
    other["origin"] = "log.example/b".into();
    contradiction(&other);
    for (name, bad) in [
        ("origin", json!(1)),
        ("checkpoint", json!(null)),
        ("recovered_size", json!("3")),
        ("recovered_size", json!(1_u64 << 63)),
        ("lost", json!([2])),
        ("lost", json!([2, 3, 4])),
    ] {
        let mut value = stated(2, Some(json!([2, 3])));
        value[name] = bad;
        let error = Predecessor::parse(&value).unwrap_err();
        assert_eq!(error, PredecessorError::Member(name));
    }
    let mut note = stated(3, None);
    note["checkpoint"] = "log.example/a\n3\n".into();
    let error = Predecessor::parse(&note).unwrap_err();
    assert!(matches!(error, PredecessorError::Note(_)), "{error}");
}
