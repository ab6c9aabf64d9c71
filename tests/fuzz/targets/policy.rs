//! Policies: more cosignatures never make a quorum fail.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::note::Note;
use countersign_verifier::policy::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([
        FIXTURE.policy.clone(),
        FIXTURE.second_policy(),
        FIXTURE.policy.replace("quorum g", "quorum none"),
    ]),
    |data: &[u8]| {
        let Ok(policy) = Policy::parse(data) else { return };
        let count = policy.witnesses().len();
        let none = vec![false; count];
        assert!(!policy.quorum_met(&none) || policy.quorum_met(&vec![true; count]));
        assert!(policy.quorum().is_some() || policy.quorum_met(&none));
        for i in 0..count {
            let mut one = none.clone();
            one[i] = true;
            assert!(!policy.quorum_met(&none) || policy.quorum_met(&one));
            let _ = policy.in_every_quorum(&one);
        }
        let note = Note::parse(FIXTURE.note.as_bytes()).expect("the fixture is a note");
        let _ = policy.check(&note);
        let keys: Vec<_> = policy.witnesses().iter().map(|w| w.key.clone()).collect();
        let without = policy.clone().without(&keys);
        assert!(without.witnesses().is_empty() && without.quorum() == policy.quorum());
        assert!(without.quorum().is_none() || !without.quorum_met(&[]));
    }
);
