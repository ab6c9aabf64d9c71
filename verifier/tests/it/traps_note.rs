//! The traps of keys, notes, checkpoints, cosignatures and proof files, by number; those that a vector, a
//! case or a unit test meets are not repeated.

use countersign_verifier::checkpoint::{Checkpoint, CheckpointError, MAX_SIZE};
use countersign_verifier::cosign;
use countersign_verifier::hash::{EMPTY_ROOT, Hash, leaf_hash};
use countersign_verifier::note::{LineError, Note, NoteError, join, open, parse_signatures};
use countersign_verifier::policy::{Policy, PolicyError, PolicyFault};
use countersign_verifier::proof::{TlogProof, TlogProofError};
use countersign_verifier::vkey::{CosignSigner, NoteSigner, VerifierKey, VkeyError};
use ed25519_dalek::SigningKey;

use crate::support::{
    LOG_VKEY, V1, V1_TIME, WITNESS_VKEY, log_signer, v1_policy, v1_text, witness_signer,
};

fn key(text: &str) -> VerifierKey {
    VerifierKey::parse(text).unwrap()
}

fn signer(name: &str, seed: u8) -> NoteSigner {
    NoteSigner::new(name, SigningKey::from_bytes(&[seed; 32])).unwrap()
}

#[test]
fn t10_the_text_may_hold_empty_lines() {
    let text = "one\n\n\ntwo\n";
    let note = join(text, [&*log_signer().sign(text)]);
    let parsed = Note::parse(note.as_bytes()).unwrap();
    assert_eq!(parsed.text, text);
    assert_eq!(open(&parsed, [log_signer().vkey()]).unwrap().len(), 1);
    assert_eq!(
        Note::parse(format!("{note}\n").as_bytes()),
        Err(NoteError::Unsigned)
    );
    assert_eq!(
        Note::parse(V1.replace("\n\n", "\n").as_bytes()),
        Err(NoteError::Separator)
    );
}

#[test]
fn t11_only_an_em_dash_begins_a_signature_line() {
    for dash in ["-", "\u{2013}", "\u{2015}", "", " \u{2014}"] {
        let note = V1.replacen('\u{2014}', dash, 1);
        let want = NoteError::Line {
            line: 5,
            what: LineError::Dash,
        };
        assert_eq!(Note::parse(note.as_bytes()), Err(want), "{dash:?}");
    }
}

#[test]
fn t12_a_bad_line_behind_a_good_one_refuses_the_note() {
    let keys = [key(LOG_VKEY), key(WITNESS_VKEY)];
    let bad = V1.replace("yxOT3AAAAABlU/EAzmzt", "yxOT3AAAAABlU/EAzmzu");
    let bad = Note::parse(bad.as_bytes()).unwrap();
    assert_eq!(open(&bad, &keys[..1]).unwrap().len(), 1);
    assert!(
        matches!(open(&bad, &keys), Err(NoteError::Signature { name, .. }) if name == "witness.example/w")
    );
    let twice = [key(LOG_VKEY), key(LOG_VKEY)];
    assert!(matches!(
        open(&bad, &twice),
        Err(NoteError::Ambiguous { .. })
    ));
}

#[test]
fn t13_signature_lines_take_one_spelling_of_base64() {
    let line = V1.lines().nth(4).unwrap();
    for bad in [
        line.trim_end_matches('=').into(),
        line.replace('+', "-"),
        format!("{line}="),
        line.replace("c=", "d="),
    ] {
        let note = V1.replace(line, &bad);
        let error = Note::parse(note.as_bytes()).unwrap_err();
        assert!(
            matches!(
                error,
                NoteError::Line {
                    line: 5,
                    what: LineError::Base64(_)
                }
            ),
            "{bad}: {error}"
        );
    }
}

#[test]
fn t14_t15_a_vkey_is_split_at_two_pluses_and_its_id_recomputed() {
    let plus = (0..=255).map(|i| signer("plus.example", i).vkey().to_string());
    let with_plus: Vec<String> = plus.filter(|vkey| vkey.matches('+').count() > 2).collect();
    assert!(!with_plus.is_empty());
    for vkey in with_plus {
        assert_eq!(key(&vkey).to_string(), vkey);
        let (stated, rest) = (&vkey[13..21], &vkey[21..]);
        let wrong = if stated == "00000000" {
            "00000001"
        } else {
            "00000000"
        };
        let error = VerifierKey::parse(&format!("plus.example+{wrong}{rest}")).unwrap_err();
        assert!(matches!(error, VkeyError::Mismatch { .. }), "{error}");
    }
}

#[test]
fn t16_a_witness_key_of_type_1_is_converted_only_when_asked() {
    let published = signer("witness.example/w", 2).vkey().clone();
    let note = Note::parse(V1.as_bytes()).unwrap();
    assert_eq!(open(&note, [&published]), Err(NoteError::Untrusted));
    let converted = published.as_cosigner().unwrap();
    assert_eq!(converted.to_string(), WITNESS_VKEY);
    assert_eq!(open(&note, [&converted]).unwrap().len(), 1);
    let error = Policy::parse(format!("witness w {published}\nquorum w\n")).unwrap_err();
    assert_eq!(
        error.what,
        PolicyFault::KeyType {
            kind: 1,
            of: "witness"
        }
    );
}

#[test]
fn t17_one_key_under_two_names_is_one_witness() {
    // The name is not signed: a line of one name moves to the other with nothing but its key ID.
    let other = CosignSigner::new("other.example/w", SigningKey::from_bytes(&[2; 32])).unwrap();
    let signature = Note::parse(V1.as_bytes()).unwrap().signatures[1]
        .signature
        .clone();
    assert!(other.vkey().verify(v1_text(), &signature).is_ok());
    let policy = format!(
        "witness a {WITNESS_VKEY}\nwitness b {}\nquorum none\n",
        other.vkey()
    );
    assert_eq!(
        Policy::parse(policy).unwrap_err().what,
        PolicyFault::DuplicateKey
    );
}

#[test]
fn t18_t19_an_origin_may_hold_spaces_and_another_name_than_the_key() {
    let text = "go.sum database tree\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";
    let checkpoint = Checkpoint::parse(text).unwrap();
    assert_eq!(
        (checkpoint.origin.as_str(), checkpoint.size),
        ("go.sum database tree", 0)
    );
    let log = signer("sum.example", 7);
    let note = join(text, [&*log.sign(text)]);
    assert_eq!(
        open(&Note::parse(note.as_bytes()).unwrap(), [log.vkey()])
            .unwrap()
            .len(),
        1
    );
    // T57: a policy's log is named as its origin, so such a log cannot be written there.
    let policy = Policy::parse(format!("log {}\nquorum none\n", log.vkey())).unwrap();
    let error = policy
        .check(&Note::parse(note.as_bytes()).unwrap())
        .unwrap_err();
    assert_eq!(
        error,
        PolicyError::UnknownLog {
            origin: "go.sum database tree".into()
        }
    );
}

#[test]
fn t20_sizes_beyond_the_bound_are_read_and_refused() {
    let text = format!(
        "log.example/a\n{}\n{EMPTY}\n",
        MAX_SIZE + 1,
        EMPTY = EMPTY_ROOT.to_base64()
    );
    let checkpoint = Checkpoint::parse(&text).unwrap();
    assert_eq!(
        checkpoint.check_size(),
        Err(CheckpointError::TooLarge { size: MAX_SIZE + 1 })
    );
    let note = join(&text, [&*log_signer().sign(&text)]);
    let policy = Policy::parse(v1_policy("none")).unwrap();
    let error = policy
        .check(&Note::parse(note.as_bytes()).unwrap())
        .unwrap_err();
    assert!(
        matches!(
            error,
            PolicyError::Checkpoint(CheckpointError::TooLarge { .. })
        ),
        "{error}"
    );
}

#[test]
fn t21_a_hexadecimal_root_is_base64_of_48_bytes() {
    let text = format!("log.example/a\n1\n{}\n", leaf_hash(b"x"));
    let error = Checkpoint::parse(&text).unwrap_err().to_string();
    assert!(
        error.contains("base64 of 48 bytes where 32 are due"),
        "{error}"
    );
}

#[test]
fn t22_size_0_takes_the_empty_root() {
    let text = v1_text().replace("\n3\n", "\n0\n");
    let checkpoint = Checkpoint::parse(&text).unwrap();
    assert_eq!(
        checkpoint.check_size(),
        Err(CheckpointError::EmptyRoot {
            root: checkpoint.root
        })
    );
    let empty = Checkpoint {
        root: EMPTY_ROOT,
        ..checkpoint
    };
    assert_eq!(empty.check_size(), Ok(()));
}

#[test]
fn t24_the_printed_example_verifies_only_under_its_true_names() {
    let sum = key("sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8");
    let printed = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";
    assert_eq!(
        open(&Note::parse(printed.as_bytes()).unwrap(), [&sum]),
        Err(NoteError::Untrusted)
    );
    let renamed = printed
        .replacen("example.com/behind-the-sofa", "go.sum database tree", 1)
        .replacen("example.com/behind-the-sofa", "sum.golang.org", 1);
    assert_eq!(
        open(&Note::parse(renamed.as_bytes()).unwrap(), [&sum])
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn t25_t26_t27_what_a_cosignature_signs() {
    let text = format!("{}extension\n", v1_text());
    let message = cosign::message(&text, 5);
    assert_eq!(message, format!("cosignature/v1\ntime 5\n{text}"));
    let line = witness_signer().sign(&text, V1_TIME);
    let body = parse_signatures(line.as_bytes()).unwrap()[0]
        .signature
        .clone();
    let witness = key(WITNESS_VKEY);
    assert!(witness.verify(&text, &body).is_ok());
    // T25: not with the empty line behind the text, nor without the text's last LF.
    assert!(witness.verify(&format!("{text}\n"), &body).is_err());
    assert!(witness.verify(text.trim_end(), &body).is_err());
    // T26: the time in the line is the time in the message.
    let mut later = body.clone();
    later[7] ^= 1;
    assert!(witness.verify(&text, &later).is_err());
    // T27: extension lines are signed.
    assert!(witness.verify(v1_text(), &body).is_err());
    // Any time reads to 2^63 - 1, none beyond, no other length.
    let times = [0, cosign::TIME_MAX]
        .map(|time| cosign::parse_body(&cosign::body(time, &[0; 64])).unwrap().0);
    assert_eq!(times, [0, cosign::TIME_MAX]);
    let beyond = cosign::body(cosign::TIME_MAX + 1, &[0; 64]);
    assert_eq!(
        cosign::parse_body(&beyond),
        Err(cosign::CosignError::Time { time: 1 << 63 })
    );
    for bytes in [0, 7, 8, 64, 71, 73] {
        assert_eq!(
            cosign::parse_body(&vec![0; bytes]),
            Err(cosign::CosignError::Length { bytes })
        );
    }
}

#[test]
fn t54_a_tree_of_one_leaf_has_no_hash_lines() {
    let text = format!("log.example/a\n1\n{}\n", leaf_hash(b"a").to_base64());
    let checkpoint = join(&text, [&*log_signer().sign(&text)]);
    let file = format!("c2sp.org/tlog-proof@v1\nindex 0\n\n{checkpoint}");
    let proof = TlogProof::parse(file.as_bytes()).unwrap();
    assert_eq!((proof.index, proof.path.len()), (0, 0));
    let policy = Policy::parse(v1_policy("none")).unwrap();
    assert!(proof.verify(&leaf_hash(b"a"), &policy).is_ok());
    assert!(proof.verify(&leaf_hash(b"b"), &policy).is_err());
}

#[test]
fn t55_a_proof_keeps_its_checkpoint_byte_for_byte() {
    let file = format!(
        "c2sp.org/tlog-proof@v1\nindex 0\n\n{}",
        V1.replace('\n', "\r\n")
    );
    let proof = TlogProof::parse(file.as_bytes()).unwrap();
    assert_eq!(proof.checkpoint.matches('\r').count(), V1.lines().count());
    let policy = Policy::parse(v1_policy("none")).unwrap();
    let error = proof
        .verify(&leaf_hash(b"a"), &policy)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "checkpoint: carriage return in line 1");
    let mut bytes = file.into_bytes();
    bytes.push(0xff);
    let offset = bytes.len() - 1;
    assert_eq!(
        TlogProof::parse(&bytes),
        Err(TlogProofError::Utf8 { offset })
    );
    let path = vec![Hash([7; 32]); 65];
    let proof = TlogProof {
        extra: None,
        index: 0,
        path,
        checkpoint: V1.into(),
    }
    .to_text();
    assert_eq!(
        TlogProof::parse(proof.as_bytes()),
        Err(TlogProofError::TooManyHashes)
    );
}
