//! Operations: printed and read again they are the same.
#![no_main]
use countersign_fuzz::{FIXTURE, ORIGIN, seed};
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::leaf::Millis;
use countersign_verifier::operation::{Observed, Operation};
use libfuzzer_sys::fuzz_target;

fn example() -> Operation {
    let hash = leaf_hash(&FIXTURE.leaves[1]);
    Operation {
        tool: "board_post".into(),
        arguments: serde_json::from_str(r#"{"title":"a","n":[1,-2,{"x":null}]}"#).expect("JSON"),
        log: ORIGIN.into(),
        session: Some("s".into()),
        nonce: "0123456789abcdef".into(),
        issued_at: Millis(1_796_000_000_000),
        prev: vec![hash],
        observed: Some(Observed {
            size: 2,
            root: hash,
        }),
    }
}

fuzz_target!(
    init: seed([example().to_json()]),
    |data: &[u8]| {
        if let Ok(operation) = Operation::parse(data) {
            assert_eq!(Operation::parse(&operation.to_json()), Ok(operation));
        }
    }
);
