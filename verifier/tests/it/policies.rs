//! Policies: comments (T56), partial results, eras.

use countersign_verifier::note::{Note, join};
use countersign_verifier::policy::{Eras, ErasError, Policy, PolicyError};
use countersign_verifier::vkey::{Algorithm, CosignSigner, VerifierKey};
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

#[test]
fn a_stolen_key_counts_in_no_era() {
    let [x, y] = ["x", "y"].map(|name| {
        let key = SigningKey::from_bytes(&[name.as_bytes()[0]; 32]);
        CosignSigner::new(&format!("witness.example/{name}"), key).unwrap()
    });
    let policy = |quorum: &str| {
        Policy::parse(format!(
            "log {LOG_VKEY}\nwitness w {WITNESS_VKEY}\nwitness x {}\nwitness y {}\n\
             group any any x w\ngroup two 2 any y\nquorum {quorum}\n",
            x.vkey(),
            y.vkey()
        ))
        .unwrap()
    };
    let lines = [
        log_signer().sign(v1_text()),
        crate::support::witness_signer().sign(v1_text(), V1_TIME),
        y.sign(v1_text(), V1_TIME),
    ];
    let note = join(v1_text(), lines.iter().map(String::as_str));
    let note = Note::parse(note.as_bytes()).unwrap();
    // Stolen as published under type 0x01 and under another name: the key is what counts.
    let w = VerifierKey::parse(WITNESS_VKEY).unwrap();
    let Algorithm::CosignatureV1(key) = w.algorithm else {
        panic!()
    };
    let renamed = VerifierKey::new("someone", Algorithm::Ed25519(key)).unwrap();
    for (quorum, stolen, accepted) in [
        ("two", vec![], true),
        ("two", vec![renamed.clone()], false),
        ("two", vec![x.vkey().clone()], true),
        ("any", vec![renamed.clone(), x.vkey().clone()], false),
        ("w", vec![], true),
        ("w", vec![renamed.clone()], false),
        ("y", vec![renamed.clone(), x.vkey().clone()], true),
        ("none", vec![renamed.clone(), y.vkey().clone()], true),
    ] {
        let eras = Eras::new(vec![(0, policy(quorum)), (9, policy("none"))]).unwrap();
        let eras = eras.without(&stolen);
        assert_eq!(eras.check(&note).is_ok(), accepted, "{quorum} {stolen:?}");
        for (_, policy) in eras.iter() {
            assert_eq!(policy.witnesses().len(), 3 - stolen.len());
        }
        let (_, first) = eras.iter().next().unwrap();
        assert_eq!(
            first
                .quorum()
                .map(ToString::to_string)
                .as_deref()
                .unwrap_or("none"),
            quorum
        );
    }
    let log = VerifierKey::parse(LOG_VKEY).unwrap();
    let without = Eras::one(policy("none")).without(&[log]);
    assert!(matches!(
        without.check(&note),
        Err(PolicyError::UnknownLog { .. })
    ));
}
