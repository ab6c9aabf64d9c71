//! Checkpoint texts: one spelling each.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::checkpoint::Checkpoint;
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed([FIXTURE.text.clone(), format!("{}extension line\n", FIXTURE.text)]),
    |text: &str| {
        if let Ok(checkpoint) = Checkpoint::parse(text) {
            assert_eq!(checkpoint.to_text(), text);
            let _ = checkpoint.check_size();
        }
    }
);
