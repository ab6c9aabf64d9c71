//! tlog-proof files: one spelling each, and a proof shows only what is in the tree.
#![no_main]
use std::sync::LazyLock;

use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::policy::Policy;
use countersign_verifier::proof::TlogProof;
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(|| FIXTURE.parsed_policy());

fuzz_target!(
    init: seed([
        FIXTURE.proof(0).to_text(),
        TlogProof { extra: Some(b"extra".to_vec()), ..FIXTURE.proof(1) }.to_text(),
    ]),
    |data: &[u8]| {
        let Ok(proof) = TlogProof::parse(data) else { return };
        assert_eq!(proof.to_text().as_bytes(), data);
        for (index, leaf) in (0..).zip(&FIXTURE.leaves) {
            if proof.verify(&leaf_hash(leaf), &POLICY).is_ok() {
                assert_eq!(proof.index, index);
            }
        }
        assert!(proof.verify(&leaf_hash(b"never logged"), &POLICY).is_err());
    }
);
