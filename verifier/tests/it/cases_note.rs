//! What has gone wrong for others with notes, checkpoints and policies, one test a case.

use countersign_verifier::base64;
use countersign_verifier::checkpoint::{Checkpoint, CheckpointError};
use countersign_verifier::hash::leaf_hash;
use countersign_verifier::note::{Note, NoteError, join, open};
use countersign_verifier::policy::{Policy, PolicyError, Quorum};
use countersign_verifier::proof::{TlogProof, TlogProofError, UnprovenError};
use countersign_verifier::vkey::{NoteSigner, VerifierKey};
use ed25519_dalek::SigningKey;

use crate::support::{
    LOG_VKEY, Tree, V1, V1_TIME, WITNESS_VKEY, log_signer, v1_policy, v1_text, witness_signer,
};

/// Size, witnesses with their times, quorum.
type Outcome = (u64, Vec<(String, u64)>, Quorum);

fn check(policy: &str, note: &str) -> Result<Outcome, PolicyError> {
    let policy = Policy::parse(policy).unwrap();
    let accepted = policy.check(&Note::parse(note.as_bytes()).map_err(PolicyError::Note)?)?;
    let cosigned = accepted
        .cosignatures
        .iter()
        .map(|c| (c.name.to_string(), c.time))
        .collect();
    Ok((accepted.checkpoint.size, cosigned, accepted.quorum))
}

/// A signed checkpoint of a tree, by V1's log.
fn head(tree: &Tree, size: usize) -> String {
    let (origin, root) = ("log.example/a".to_owned(), tree.root(size));
    let text = Checkpoint {
        origin,
        size: size as u64,
        root,
        extensions: vec![],
    }
    .to_text();
    join(&text, [log_signer().sign(&text).as_str()])
}

#[test]
fn v1_is_what_its_published_seeds_sign() {
    let tree = Tree::of(["a", "b", "c"]);
    let (log, witness) = (log_signer(), witness_signer());
    assert_eq!(
        (log.vkey().to_string(), witness.vkey().to_string()),
        (LOG_VKEY.into(), WITNESS_VKEY.into())
    );
    let text = v1_text();
    assert_eq!(Checkpoint::parse(text).unwrap().root, tree.root(3));
    assert_eq!(
        join(text, [&*log.sign(text), &*witness.sign(text, V1_TIME)]),
        V1
    );
    assert_eq!(
        check(&v1_policy("w"), V1),
        Ok((3, vec![("w".into(), V1_TIME)], Quorum::Met))
    );
}

#[test]
fn b002_the_log_need_not_sign_first() {
    let (text, lines) = V1.split_once("\n\n").unwrap();
    let lines: Vec<&str> = lines.lines().rev().collect();
    let swapped = format!("{text}\n\n{}\n", lines.join("\n"));
    assert_ne!(swapped, V1);
    assert_eq!(check(&v1_policy("w"), &swapped), check(&v1_policy("w"), V1));
}

#[test]
fn b005_another_key_hint_is_an_unknown_key() {
    let note = V1.replace("log.example/a hwgG", "log.example/a iwgG");
    let error = check(&v1_policy("none"), &note).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no signature from a trusted key"),
        "{error}"
    );
    let note = Note::parse(note.as_bytes()).unwrap();
    let error = open(&note, [&VerifierKey::parse(LOG_VKEY).unwrap()]).unwrap_err();
    assert_eq!(error.to_string(), "no signature from a trusted key");
}

#[test]
fn b006_a_proof_for_another_size_does_not_lead_to_the_root() {
    let tree = Tree::of((0..12).map(|i: u8| [i]));
    let policy = Policy::parse(v1_policy("none")).unwrap();
    for (index, says) in [(8, "size 9 alone"), (3, "sizes 9 to 16")] {
        let (path, checkpoint) = (tree.inclusion(index, 9), head(&tree, 12));
        let proof = TlogProof {
            extra: None,
            index: index as u64,
            path,
            checkpoint,
        };
        let error = proof
            .verify(&tree.0[index], &policy)
            .unwrap_err()
            .to_string();
        let both = error.contains("size 12") && error.contains(says);
        assert!(
            both && error.contains("root does not follow from proof"),
            "{error}"
        );
        let right = TlogProof {
            checkpoint: head(&tree, 9),
            ..proof
        };
        right.verify(&tree.0[index], &policy).unwrap();
    }
}

#[test]
fn b007_the_origin_of_one_log_signed_by_another() {
    let other = NoteSigner::new("log.example/b", SigningKey::from_bytes(&[9; 32])).unwrap();
    let text = v1_text();
    let note = join(
        text,
        [&*other.sign(text), &*witness_signer().sign(text, V1_TIME)],
    );
    let policy = format!("log {}\n{}", other.vkey(), v1_policy("w"));
    let error = check(&policy, &note).unwrap_err();
    assert!(matches!(&error, PolicyError::Unsigned { origin, .. } if origin == "log.example/a"));
    assert_eq!(
        error.to_string(),
        format!(
            "no signature from a trusted key of log \"log.example/a\": the policy has log.example/a+870806f8, \
             the note is signed by log.example/b+{}, witness.example/w+cb1393dc",
            other.vkey().id
        )
    );
}

#[test]
fn b008_a_checkpoint_without_signature_lines() {
    let text = v1_text();
    for (checkpoint, want) in [
        (format!("{text}\n"), NoteError::Unsigned),
        (text.into(), NoteError::Separator),
    ] {
        let path = Tree::of(["a", "b", "c"]).inclusion(0, 3);
        let proof = TlogProof {
            extra: None,
            index: 0,
            path,
            checkpoint,
        }
        .to_text();
        let proof = TlogProof::parse(proof.as_bytes()).unwrap();
        let policy = Policy::parse(v1_policy("none")).unwrap();
        assert_eq!(
            proof.verify(&leaf_hash(b"a"), &policy),
            Err(UnprovenError::Note(want))
        );
    }
}

#[test]
fn b009_a_proof_cut_behind_its_hashes() {
    let path = Tree::of(["a", "b", "c"]).inclusion(0, 3);
    let whole = TlogProof {
        extra: None,
        index: 0,
        path,
        checkpoint: V1.into(),
    }
    .to_text();
    let hashes = whole.find("\n\n").unwrap();
    for cut in [hashes, hashes + 1, hashes + 2] {
        let error = TlogProof::parse(&whole.as_bytes()[..cut]).unwrap_err();
        assert_eq!(error, TlogProofError::NoCheckpoint, "{cut}");
    }
    let policy = Policy::parse(v1_policy("none")).unwrap();
    for cut in 0..whole.len() {
        let proof = TlogProof::parse(&whole.as_bytes()[..cut]);
        let holds = proof.is_ok_and(|proof| proof.verify(&leaf_hash(b"a"), &policy).is_ok());
        // The witness's line may be missing, whole; the policy does not ask for it.
        assert!(
            !holds || whole[cut..].starts_with("\u{2014} witness.example/w "),
            "{cut}"
        );
    }
}

#[test]
fn b010_one_witness_twice_is_one_witness() {
    let text = v1_text();
    let line = witness_signer().sign(text, V1_TIME);
    assert_eq!(
        check(&v1_policy("w"), &format!("{V1}{line}")),
        check(&v1_policy("w"), V1)
    );
    let note = format!("{V1}{}", witness_signer().sign(text, V1_TIME + 1));
    let error = check(&v1_policy("w"), &note).unwrap_err();
    assert!(
        matches!(error, PolicyError::Note(NoteError::TwoSignatures { .. })),
        "{error}"
    );
}

#[test]
fn b013_converted_line_ends_are_named() {
    let note = V1.replace('\n', "\r\n");
    assert_eq!(
        Note::parse(note.as_bytes()).unwrap_err().to_string(),
        "carriage return in line 1"
    );
    let one = V1.replacen("sE=\n", "sE=\r\n", 1);
    assert_eq!(
        Note::parse(one.as_bytes()).unwrap_err().to_string(),
        "carriage return in line 3"
    );
}

#[test]
fn b016_sizes_that_are_no_number() {
    for size in [
        "03",
        "+3",
        " 3",
        "3 ",
        "-1",
        "0x3",
        "18446744073709551616",
        "",
        "3\u{a0}",
        "٣",
    ] {
        let text = v1_text().replace("\n3\n", &format!("\n{size}\n"));
        let error = Checkpoint::parse(&text).unwrap_err();
        assert_eq!(error, CheckpointError::Size { text: size.into() });
        let note = join(&text, [&*log_signer().sign(&text)]);
        // Signed all the same; an empty size line moves the end of the text.
        assert!(check(&v1_policy("none"), &note).is_err(), "{size:?}");
    }
}

#[test]
fn b017_roots_that_are_not_32_bytes_of_base64() {
    let root = Tree::of(["a", "b", "c"]).root(3);
    let unpadded = root.to_base64().trim_end_matches('=').to_owned();
    let url_safe = root.to_base64().replace('+', "-").replace('/', "_");
    let short = base64::encode(&root.0[..31]);
    let long = base64::encode(&[&root.0[..], &[0]].concat());
    for line in [
        unpadded,
        url_safe,
        short,
        long,
        root.to_hex(),
        String::new(),
        "*".into(),
    ] {
        let text = format!("log.example/a\n3\n{line}\n");
        assert!(
            matches!(Checkpoint::parse(&text), Err(CheckpointError::Root(_))),
            "{line}"
        );
    }
}

#[test]
fn b035_names_are_compared_by_octets() {
    let policy = format!("witness \u{212a} {WITNESS_VKEY}\nquorum K\n");
    let error = Policy::parse(&policy).unwrap_err();
    assert_eq!(
        error.to_string(),
        "policy, line 2: K not defined in an earlier line"
    );
    Policy::parse(policy.replace("quorum K", "quorum \u{212a}")).unwrap();
}
