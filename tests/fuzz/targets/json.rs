//! Strict JSON: it takes nothing that another reader reads otherwise, and its canonical form is stable.
#![no_main]
use countersign_fuzz::{FIXTURE, RECEIPT, seed};
use countersign_verifier::json::{canonical, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([
        RECEIPT.1,
        &FIXTURE.leaves[0],
        br#" {"b" : [-1, 9007199254740991, true, null], "a":"\u00e9\ud83d\ude00\n", "\uFF00":{}} "#,
    ]),
    |data: &[u8]| {
        let Ok(value) = parse(data) else { return };
        let other: serde_json::Value = serde_json::from_slice(data).expect("serde_json reads what the strict reader reads");
        // By their canonical forms, because -0 is 0 here and a fraction there.
        let text = canonical(&value);
        assert_eq!(text, canonical(&other));
        let again = parse(text.as_bytes()).expect("the canonical form is read");
        assert_eq!(again, value);
        assert_eq!(canonical(&again), text);
    }
);
