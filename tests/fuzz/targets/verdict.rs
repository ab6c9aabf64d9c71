//! The whole chain: nothing holds but the two leaves that the log has.
#![no_main]
use std::sync::LazyLock;

use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::hash::{Hash, leaf_hash};
use countersign_verifier::policy::{Eras, Policy};
use countersign_verifier::verdict::{Options, Outcome, Verifier};
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(|| FIXTURE.parsed_policy());

fn verifier() -> Verifier {
    Verifier::new(Eras::one(POLICY.clone()), Options::default())
}

fuzz_target!(
    init: {
        for file in FIXTURE.evidence() {
            let verdict = verifier().evidence(&file);
            assert_eq!(verdict.outcome, Outcome::Holds, "{}", verdict.to_lines("the fixture"));
        }
        seed(FIXTURE.evidence());
    },
    |data: &[u8]| {
        let verdict = verifier().evidence(data);
        let _ = (verdict.to_json("file"), verdict.to_lines("file"));
        if verdict.outcome == Outcome::Holds {
            let logged: Vec<Hash> = FIXTURE.leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
            assert!(!verdict.subjects.is_empty());
            for subject in &verdict.subjects {
                assert_eq!(Some(&subject.leaf_hash), usize::try_from(subject.index).ok().and_then(|i| logged.get(i)));
            }
        }
    }
);
