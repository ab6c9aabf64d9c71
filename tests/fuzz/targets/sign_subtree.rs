//! Requests to cosign a subtree: one spelling each, and nothing is given without proof and cosignature.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::note;
use countersign_verifier::sign_subtree::{SignSubtree, request};
use countersign_verifier::subtree::verify_consistency;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        let [one, other] = [0, 1].map(|i| leaf_hash(&FIXTURE.leaves[i]));
        seed([
            request((0, 1), &one, &[other], &FIXTURE.second_note()),
            request((1, 2), &other, &[one], &FIXTURE.second_note()),
            request((1, 2), &other, &[one], &FIXTURE.note),
        ]);
    },
    |data: &[u8]| {
        let Ok(read) = SignSubtree::parse(data) else { return };
        let lines: Vec<String> = read.note.signatures.iter().map(ToString::to_string).collect();
        let note = note::join(read.note.text, lines.iter().map(String::as_str));
        let bounds = (read.start, read.end);
        assert_eq!(request(bounds, &read.hash, &read.proof, &note).as_bytes(), data);
        if let Ok(checkpoint) = read.check([FIXTURE.second.vkey(), &FIXTURE.witness]) {
            let head = format!("{}\n2\n{}\n", checkpoint.origin, checkpoint.root.to_base64());
            assert_eq!(FIXTURE.text, head);
            assert!(verify_consistency(bounds, &read.hash, 2, &checkpoint.root, &read.proof).is_ok());
        }
    }
);
