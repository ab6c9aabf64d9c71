//! Evidence of forks: written is read again, and a log that signed one head has not forked.
#![no_main]
use countersign_fuzz::{FIXTURE, ORIGIN, seed};
use countersign_verifier::fork::{Fork, Node};
use countersign_verifier::hash::leaf_hash;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        let [one, other] = [0, 1].map(|i| leaf_hash(&FIXTURE.leaves[i]));
        let checkpoints = [FIXTURE.note.clone(), FIXTURE.second_note()];
        let node = Node {
            level: 0,
            index: 1,
            hashes: [one, other],
            paths: [vec![other], vec![one]],
        };
        let with = |node| Fork { checkpoints: checkpoints.clone(), node }.to_json();
        seed([with(None), with(Some(node))]);
    },
    |data: &[u8]| {
        if let Ok(fork) = Fork::parse(data) {
            assert_eq!(Fork::parse(&fork.to_json()).as_ref(), Ok(&fork));
            let _ = fork.origin();
            assert!(fork.verify(ORIGIN, [&FIXTURE.log]).is_err());
        }
    }
);
