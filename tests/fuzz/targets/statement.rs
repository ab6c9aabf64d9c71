//! in-toto statements: each speaks of its own subjects.
#![no_main]
use countersign_fuzz::{RECEIPT, seed};
use countersign_verifier::hash::Hash;
use countersign_verifier::statement::Statement;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([RECEIPT.1]),
    |data: &[u8]| {
        let Ok(statement) = Statement::parse(data) else { return };
        assert!(!statement.subjects.is_empty());
        for (algorithm, digest) in statement.subjects.iter().flat_map(|subject| &subject.digests) {
            if let (true, Ok(hash)) = (algorithm == "sha256", Hash::from_hex(digest)) {
                assert!(statement.speaks_of(&hash));
            }
        }
    }
);
