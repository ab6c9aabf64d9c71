//! Policies: comments (T56), partial results, eras.

use countersign_verifier::note::{Note, join};
use countersign_verifier::policy::{Eras, ErasError, Policy, PolicyError};
use countersign_verifier::vkey::CosignSigner;
use ed25519_dalek::SigningKey;

use crate::support::{LOG_VKEY, V1, V1_TIME, WITNESS_VKEY, log_signer, v1_policy, v1_text};

#[test]
fn a_quorum_that_is_not_met_shows_what_verified() {
    let other = CosignSigner::new("witness.example/x", SigningKey::from_bytes(&[4; 32])).unwrap();
    let policy = format!(
        "log {LOG_VKEY}\nwitness w {WITNESS_VKEY}\nwitness x {}\ngroup both all w x\nquorum both\n",
        other.vkey()
    );
    let policy = Policy::parse(policy).unwrap();
    let note = Note::parse(V1.as_bytes()).unwrap();
    let error = policy.check(&note).unwrap_err();
    assert_eq!(
        error.to_string(),
        "signed by log.example/a, but quorum both has 1 of 2"
    );
    let PolicyError::Quorum(unmet) = error else {
        panic!()
    };
    assert_eq!(
        (
            unmet.checkpoint.size,
            unmet.cosignatures.len(),
            unmet.have,
            unmet.need
        ),
        (3, 1, 1, 2)
    );
    assert_eq!(unmet.cosignatures[0].time, V1_TIME);
    // Any one of two that must both sign meets every quorum; one of two that may, does not.
    assert!(policy.in_every_quorum(&[true, false]) && !policy.in_every_quorum(&[]));
    let any = v1_policy("none").replace(
        "quorum none",
        &format!("witness x {}\ngroup g any w x\nquorum g", other.vkey()),
    );
    let any = Policy::parse(any).unwrap();
    assert!(any.in_every_quorum(&[true, true]) && !any.in_every_quorum(&[true, false]));
    assert!(
        !Policy::parse(v1_policy("none"))
            .unwrap()
            .in_every_quorum(&[true])
    );
}

#[test]
fn a_note_is_judged_by_the_era_of_its_size() {
    let none = Policy::parse(v1_policy("none")).unwrap();
    let one = Policy::parse(v1_policy("w")).unwrap();
    let unwitnessed = join(v1_text(), [&*log_signer().sign(v1_text())]);
    let note = Note::parse(unwitnessed.as_bytes()).unwrap();
    let eras = Eras::new(vec![(4, one.clone()), (0, none.clone())]).unwrap();
    assert_eq!(
        (eras.for_size(3), eras.for_size(4)),
        (Some(&none), Some(&one))
    );
    assert!(eras.check(&note).is_ok());
    let earlier = Eras::new(vec![(3, one.clone()), (0, none.clone())]).unwrap();
    assert!(matches!(earlier.check(&note), Err(PolicyError::Quorum(_))));
    let later = Eras::new(vec![(4, none.clone())]).unwrap();
    assert_eq!(later.check(&note), Err(PolicyError::NoEra { size: 3 }));
    assert_eq!(Eras::new(vec![]), Err(ErasError::Empty));
    assert_eq!(
        Eras::new(vec![(2, none), (2, one)]),
        Err(ErasError::Twice { from_size: 2 })
    );
}

#[test]
fn t56_a_policy_has_no_comments_behind_its_lines() {
    for line in [
        format!("log {LOG_VKEY} # ours"),
        format!("log {LOG_VKEY} #ours"),
        "quorum none #".into(),
    ] {
        assert!(
            Policy::parse(format!("{line}\nquorum none\n")).is_err(),
            "{line}"
        );
    }
    let commented = format!("# ours\n \t # theirs\n{}", v1_policy("w"));
    assert_eq!(Policy::parse(commented), Policy::parse(v1_policy("w")));
}
