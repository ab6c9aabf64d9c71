//! ML-DSA-44: keys, cosignatures of type 0x06, and how policies count them (traps T23, T28, T48, T49).

use countersign_verifier::base64;
use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::cosign::subtree::{
    Message, NAME_BYTES_MAX, SubtreeCosignError, body, verify,
};
use countersign_verifier::hash::{Hash, leaf_hash};
use countersign_verifier::mldsa::{DETERMINISTIC, PublicKey, SecretKey, SecretKeyError};
use countersign_verifier::note::{Note, NoteError, join, open};
use countersign_verifier::policy::{Policy, PolicyError};
use countersign_verifier::sign_subtree::{SignSubtree, SignSubtreeError, SubtreeRefused, request};
use countersign_verifier::subtree::SubtreeError;
use countersign_verifier::verdict::{Outcome, Status};
use countersign_verifier::vkey::{Algorithm, CosignSigner, MlDsaSigner, VerifierKey, VkeyError};
use ed25519_dalek::SigningKey;
use serde_json::Value;

use crate::support::{
    LOG_VKEY, Tree, V1_TIME, log_signer, text, texts, unhex, v1_text, vectors, witness_signer,
};
use crate::vectors_tree::number;
use crate::world::{World, judge_under};

pub fn signer(name: &str, seed: u8) -> MlDsaSigner {
    MlDsaSigner::new(name, SecretKey::from_seed(&[seed; 32])).unwrap()
}

#[test]
fn cosignature_mldsa_message() {
    let all = vectors("cosignature_mldsa_message");
    assert_eq!(all.len(), 7);
    let (mut signed, mut refused) = (0, 0);
    for v in all {
        let id = text(&v, "id");
        let counted = |member| v[member].as_u64().unwrap_or(0);
        let message = Message {
            cosigner: text(&v, "cosigner_name"),
            time: counted("timestamp"),
            origin: text(&v, "log_origin"),
            start: counted("start"),
            end: counted("end"),
            hash: v["hash_hex"]
                .as_str()
                .map_or(Hash([0; 32]), |hash| Hash::from_hex(hash).unwrap()),
        };
        if v["valid"] == false {
            let error = message.to_bytes().unwrap_err();
            let by_length = matches!(
                error,
                SubtreeCosignError::Name { bytes: 0 | 256 }
                    | SubtreeCosignError::Origin { bytes: 256 }
            );
            assert!(by_length, "{id}: {error}");
            refused += 1;
            continue;
        }
        assert_eq!(
            message.to_bytes().unwrap(),
            unhex(text(&v, "message_hex")),
            "{id}"
        );
        if v["seed_hex"].is_string() {
            signs_and_verifies(&v, &message);
            signed += 1;
        }
    }
    assert_eq!((signed, refused), (3, 3));
}

/// A published signature verifies, and so do ours under the key of the published seed; never by their bytes.
fn signs_and_verifies(v: &Value, message: &Message<'_>) {
    let id = text(v, "id");
    let secret = SecretKey::from_seed(&unhex(text(v, "seed_hex")).try_into().unwrap());
    let public = PublicKey::from_bytes(&base64::decode(text(v, "public_key_b64")).unwrap());
    let public = public.expect(id);
    assert_eq!(secret.public(), &public, "{id}");
    let vkey = VerifierKey::new(message.cosigner, Algorithm::MlDsa44(public.clone())).unwrap();
    assert_eq!(vkey.id.to_string(), text(v, "key_id"), "{id}");
    let signature = base64::decode(text(v, "signature_b64")).unwrap();
    let line = body(message.time, &signature);
    assert_eq!(verify(&public, message, &line), Ok(message.time), "{id}");
    let bytes = message.to_bytes().unwrap();
    let [one, same, other] =
        [DETERMINISTIC, DETERMINISTIC, [7; 32]].map(|random| secret.sign(&bytes, &random));
    assert!(one == same && one != other, "{id}");
    for good in [&one, &other, &signature] {
        assert!(public.verify(&bytes, good), "{id}");
        for at in [0, 31, 32, 1_000, 2_335, 2_419] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(!public.verify(&bytes, &bad), "{id} {at}");
        }
        assert!(!public.verify(&bytes[1..], good) && !public.verify(&bytes, &good[1..]));
    }
}

/// The private key of the seed 00 01 … 1f, as RFC 9881 appendix C.1 prints it.
const RFC_PEM: &str = "-----BEGIN PRIVATE KEY-----
MDQCAQAwCwYJYIZIAWUDBAMRBCKAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZ
GhscHR4f
-----END PRIVATE KEY-----
";

#[test]
fn a_key_file_holds_the_seed() {
    let seed: [u8; 32] = std::array::from_fn(|i| i as u8);
    let key = SecretKey::from_seed(&seed);
    assert_eq!(key.to_pem().as_str(), RFC_PEM);
    assert_eq!(SecretKey::parse(RFC_PEM).unwrap().public(), key.public());
    assert!(!format!("{key:?}").contains("0, 1, 2"));
    // The form with both, as OpenSSL writes it: the expanded key begins with 32 bytes of the public one.
    let block = |label: &str, der: &[u8]| {
        let lines = base64::encode(der);
        format!("-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
    };
    let mut both = unhex(
        "30820a3e020100300b0609608648016503040311 04820a2a30820a260420"
            .replace(' ', "")
            .as_str(),
    );
    both.extend(seed);
    both.extend(unhex("04820a00"));
    both.extend(&key.public().to_bytes()[..32]);
    both.resize(both.len() + 2_528, 0);
    let parsed =
        |der: &[u8]| SecretKey::parse(&block("PRIVATE KEY", der)).map(|key| key.public().clone());
    assert_eq!(parsed(&both), Err(SecretKeyError::Mismatch));
    for wrong in [&both[..both.len() - 1], &both[..60], b"", b"\x30"] {
        assert_eq!(parsed(wrong), Err(SecretKeyError::Malformed));
    }
    let encrypted = block("ENCRYPTED PRIVATE KEY", b"x");
    assert_eq!(
        SecretKey::parse(&encrypted).unwrap_err(),
        SecretKeyError::Encrypted
    );
    for wrong in [
        RFC_PEM.repeat(2),
        block("PUBLIC KEY", &both),
        "x".into(),
        String::new(),
    ] {
        assert_eq!(
            SecretKey::parse(&wrong).unwrap_err(),
            SecretKeyError::Malformed
        );
    }
    let ed25519 = crate::keys::ed25519(3).to_pem();
    assert_eq!(
        SecretKey::parse(&ed25519).unwrap_err(),
        SecretKeyError::Malformed
    );
}

#[test]
fn t28_names_and_origins_that_cannot_be_signed_are_refused() {
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    let key = SecretKey::from_seed(&[6; 32]);
    assert!(MlDsaSigner::new(&long[1..], key.clone()).is_ok());
    let error = MlDsaSigner::new(&long, key.clone()).unwrap_err();
    assert_eq!(error, VkeyError::LongName { bytes: 256 });
    // Ed25519 signs under any name; only here is the name part of the message.
    assert!(CosignSigner::new(&long, SigningKey::from_bytes(&[6; 32])).is_ok());
    let good = MlDsaSigner::new(&long[1..], key).unwrap();
    let vkey = good.vkey().to_string();
    assert_eq!(VerifierKey::parse(&vkey).as_ref(), Ok(good.vkey()));
    assert_eq!(
        VerifierKey::parse(&format!("n{vkey}")),
        Err(VkeyError::LongName { bytes: 256 })
    );
    let text = |origin: &str| format!("{origin}\n3\n{}\n", leaf_hash(b"a").to_base64());
    assert!(good.sign(&text(&long[1..]), 1, &DETERMINISTIC).is_ok());
    assert_eq!(
        good.sign(&text(&long), 1, &DETERMINISTIC),
        Err(SubtreeCosignError::Origin { bytes: 256 })
    );
}

#[test]
fn times_of_trees_and_subtrees() {
    let signer = signer("w", 6);
    let Algorithm::MlDsa44(key) = &signer.vkey().algorithm else {
        panic!()
    };
    let time = |time, start| SubtreeCosignError::Time { time, start };
    assert_eq!(signer.sign(v1_text(), 0, &DETERMINISTIC), Err(time(0, 0)));
    let beyond = 1 << 63;
    assert_eq!(
        signer.sign(v1_text(), beyond, &DETERMINISTIC),
        Err(time(beyond, 0))
    );
    assert!(signer.sign("a\nb\n", 1, &DETERMINISTIC).is_err());
    let root = leaf_hash(b"a");
    assert_eq!(
        signer.sign_subtree("o", (1, 3), root, &DETERMINISTIC),
        Err(SubtreeCosignError::Subtree { start: 1, end: 3 })
    );
    // Signed by other code or not: a time cannot stand with a subtree that begins behind leaf 0.
    let message = |time, start, end| Message {
        cosigner: "w",
        time,
        origin: "o",
        start,
        end,
        hash: root,
    };
    let secret = SecretKey::from_seed(&[6; 32]);
    let signed = |message: &Message<'_>| {
        let signature = secret.sign(&message.to_bytes().unwrap(), &DETERMINISTIC);
        verify(key, message, &body(message.time, &signature))
    };
    assert_eq!(signed(&message(5, 4, 8)), Err(time(5, 4)));
    assert_eq!(signed(&message(beyond, 0, 8)), Err(time(beyond, 0)));
    assert_eq!(signed(&message(0, 4, 8)), Ok(0));
    assert_eq!(signed(&message(5, 0, 8)), Ok(5));
    // The time in the line is the time in the message.
    let signature = secret.sign(&message(5, 0, 8).to_bytes().unwrap(), &DETERMINISTIC);
    let later = verify(key, &message(5, 0, 8), &body(6, &signature));
    assert_eq!(later, Err(SubtreeCosignError::Signature));
    for bytes in [0, 7, 8, 72, 2_427, 2_429] {
        let length = Err(SubtreeCosignError::Length { bytes });
        assert_eq!(verify(key, &message(0, 0, 8), &vec![0; bytes]), length);
    }
}

#[test]
fn t23_extension_lines_are_not_covered_and_not_signed() {
    let signer = signer("witness.example/pq", 6);
    let line = signer.sign(v1_text(), V1_TIME, &DETERMINISTIC).unwrap();
    let extended = format!("{}extension\n", v1_text());
    assert_eq!(
        signer.sign(&extended, V1_TIME, &DETERMINISTIC),
        Err(SubtreeCosignError::Extensions { lines: 1 })
    );
    // Anyone can add them under the same line: whoever trusts that key alone is told that it says nothing of them.
    let note = join(&extended, [&*line]);
    let note = Note::parse(note.as_bytes()).unwrap();
    let verified = open(&note, [signer.vkey()]).unwrap();
    assert!(!verified[0].key.covers_text());
    assert!(log_signer().vkey().covers_text() && witness_signer().vkey().covers_text());
    // In a policy the log's own signature covers them.
    let note = join(&extended, [&*line, &*log_signer().sign(v1_text())]);
    let policy = Policy::parse(format!(
        "log {LOG_VKEY}\nwitness w {}\nquorum w\n",
        signer.vkey()
    ));
    assert!(matches!(
        policy
            .unwrap()
            .check(&Note::parse(note.as_bytes()).unwrap()),
        Err(PolicyError::Note(NoteError::Signature { .. }))
    ));
    // A text that is no checkpoint has no such signature.
    let note = join("no checkpoint\n", [&*line]);
    assert!(open(&Note::parse(note.as_bytes()).unwrap(), [signer.vkey()]).is_err());
}

/// One witness, two keys under one name, and another witness.
fn two_keys(quorum: &str) -> Policy {
    let other = CosignSigner::new("other.example/w", SigningKey::from_bytes(&[4; 32])).unwrap();
    let policy = format!(
        "log {LOG_VKEY}\nwitness w-ed {}\nwitness w-pq {}\nwitness x {}\n\
         group w any w-ed w-pq\ngroup both 2 w x\nquorum {quorum}\n",
        witness_signer().vkey(),
        signer("witness.example/w", 6).vkey(),
        other.vkey()
    );
    Policy::parse(policy).unwrap()
}

#[test]
fn two_keys_of_one_witness_count_once_through_a_group() {
    let text = v1_text();
    let log = log_signer().sign(text);
    let ed = witness_signer().sign(text, V1_TIME);
    let pq = signer("witness.example/w", 6);
    let [pq, timeless] = [
        pq.sign(text, V1_TIME + 1, &[9; 32]).unwrap(),
        pq.sign_subtree(
            "log.example/a",
            (0, 3),
            Checkpoint::parse(text).unwrap().root,
            &[9; 32],
        )
        .unwrap(),
    ];
    let check = |quorum: &str, lines: &[&str]| {
        let note = join(text, lines.iter().copied());
        let (policy, note) = (two_keys(quorum), Note::parse(note.as_bytes()).unwrap());
        match policy.check(&note) {
            Ok(accepted) => Ok(accepted.cosignatures.iter().map(|c| c.time).collect()),
            Err(PolicyError::Quorum(unmet)) => Err((unmet.have, unmet.need)),
            Err(other) => panic!("{other}"),
        }
    };
    let times = |times: &[u64]| Ok::<Vec<u64>, _>(times.to_vec());
    assert_eq!(check("w", &[&log, &ed]), times(&[V1_TIME]));
    assert_eq!(check("w", &[&log, &pq]), times(&[V1_TIME + 1]));
    assert_eq!(
        check("w", &[&pq, &ed, &log]),
        times(&[V1_TIME, V1_TIME + 1])
    );
    assert_eq!(check("both", &[&log, &ed, &pq]), Err((1, 2)));
    assert_eq!(check("w-pq", &[&log, &ed]), Err((0, 1)));
    // A cosignature of time 0 verifies, and is no word on larger trees.
    assert_eq!(check("w-pq", &[&log, &timeless]), Err((0, 1)));
    assert_eq!(check("w", &[&log, &ed, &timeless]), times(&[V1_TIME]));
    // A log's key of this type is not taken: it would leave extension lines unsigned.
    let as_log = format!("log {}\nquorum none\n", signer("log.example/a", 6).vkey());
    assert!(Policy::parse(as_log).is_err());
}

#[test]
fn evidence_cosigned_by_ml_dsa_alone_holds() {
    let mut world = World::with_agent();
    world.agent_receipt(b"a payload");
    let (log, pq) = (log_signer(), signer("witness.example/w", 6));
    let head = world.head();
    let lines = [log.sign(&head), pq.sign(&head, V1_TIME, &[1; 32]).unwrap()];
    let checkpoint = join(&head, lines.iter().map(String::as_str));
    let evidence = world.evidence_under(2, &[0, 1], &checkpoint).to_json();
    for (quorum, outcome, status) in [
        ("w", Outcome::Holds, Status::Pass),
        ("w-pq", Outcome::Holds, Status::Pass),
        ("w-ed", Outcome::DoesNotHold, Status::Fail),
    ] {
        let verdict = judge_under(&evidence, two_keys(quorum));
        assert_eq!(verdict.outcome, outcome, "{quorum}");
        let witnesses = verdict
            .checks
            .iter()
            .find(|c| c.name.as_str() == "witnesses");
        assert_eq!(witnesses.unwrap().status, status, "{quorum}");
    }
}

#[test]
fn sign_subtree_proof() {
    let all = vectors("sign_subtree_proof");
    assert_eq!(all.len(), 6);
    let pq = signer("witness.example/w", 6);
    for v in all {
        let id = text(&v, "id");
        let hash = |member| Hash::from_base64(text(&v, member)).unwrap();
        let proof: Vec<Hash> = texts(&v, "proof")
            .into_iter()
            .map(|hash| Hash::from_base64(hash).unwrap())
            .collect();
        let [start, end, size] = ["start", "end", "size"].map(|member| number(&v, member));
        let head = format!("log.example/a\n{size}\n{}\n", hash("root").to_base64());
        let note = join(&head, [&*pq.sign(&head, V1_TIME, &DETERMINISTIC).unwrap()]);
        let body = request((start, end), &hash("subtree_hash"), &proof, &note);
        // T49: the printed example is of the right form, and its proof does not fit.
        let parsed = SignSubtree::parse(body.as_bytes()).expect(id);
        assert_eq!(
            (parsed.start, parsed.end, &parsed.proof),
            (start, end, &proof),
            "{id}"
        );
        let checked = parsed.check([pq.vkey()]);
        assert_eq!(checked.is_ok(), v["valid"].as_bool().unwrap(), "{id}");
        match checked {
            Ok(checkpoint) => assert_eq!(checkpoint.size, size),
            Err(error) => assert!(matches!(error, SubtreeRefused::Proof(_)), "{id}: {error}"),
        }
    }
}

#[test]
fn t48_a_subtree_is_signed_for_an_ml_dsa_cosignature_only() {
    let tree = Tree::of((0..14u8).map(|n| [n]));
    let (ed, pq) = (witness_signer(), signer("witness.example/w", 6));
    let head = |size: usize| format!("log.example/a\n{size}\n{}\n", tree.root(size).to_base64());
    let line = pq.sign(&head(14), V1_TIME, &DETERMINISTIC).unwrap();
    let (hash, proof) = (tree.subtree(8, 12), tree.subtree_proof(8, 12, 14));
    let check = |text: &str, line: &str| {
        let note = join(text, [line]);
        let body = request((8, 12), &hash, &proof, &note);
        let parsed = SignSubtree::parse(body.as_bytes()).unwrap();
        parsed.check([ed.vkey(), pq.vkey()]).map(|_| ())
    };
    assert_eq!(check(&head(14), &line), Ok(()));
    let ed_line = ed.sign(&head(14), V1_TIME);
    assert_eq!(check(&head(14), &ed_line), Err(SubtreeRefused::Unsigned));
    assert_eq!(check(&head(13), &line), Err(SubtreeRefused::Unsigned));
    let small = pq.sign(&head(9), V1_TIME, &DETERMINISTIC).unwrap();
    assert_eq!(
        check(&head(9), &small),
        Err(SubtreeRefused::NotInTree {
            start: 8,
            end: 12,
            size: 9
        })
    );
    let other = pq.sign(&head(13), V1_TIME, &DETERMINISTIC).unwrap();
    assert!(matches!(
        check(&head(13), &other),
        Err(SubtreeRefused::Proof(
            SubtreeError::Root | SubtreeError::Length { .. }
        ))
    ));
    let log_only = log_signer().sign(&head(14));
    assert_eq!(check(&head(14), &log_only), Err(SubtreeRefused::Unsigned));
}

#[test]
fn sign_subtree_requests_say_what_is_wrong() {
    let (hash, note) = (leaf_hash(b"x"), crate::support::V1);
    let good = request((8, 12), &hash, &[hash; 63], note);
    let parsed = SignSubtree::parse(good.as_bytes()).unwrap();
    let printed = parsed.note.to_string();
    assert_eq!(
        request(
            (parsed.start, parsed.end),
            &parsed.hash,
            &parsed.proof,
            &printed
        ),
        good
    );
    let many = request((8, 12), &hash, &[hash; 64], note);
    assert_eq!(
        SignSubtree::parse(many.as_bytes()),
        Err(SignSubtreeError::TooManyHashes)
    );
    let one = request((8, 12), &hash, &[], note);
    for first in [
        "subtree 8",
        "subtree 8 012",
        "subtree +8 12",
        "subtree  8 12",
        "subtree 8 12 ",
        "old 8 12",
        "",
        "subtree 8 12 4",
    ] {
        let body = one.replacen("subtree 8 12", first, 1);
        assert_eq!(
            SignSubtree::parse(body.as_bytes()),
            Err(SignSubtreeError::Bounds),
            "{first:?}"
        );
    }
    let body = one.replacen("8 12", "9 12", 1);
    assert_eq!(
        SignSubtree::parse(body.as_bytes()),
        Err(SignSubtreeError::Subtree { start: 9, end: 12 })
    );
    let line = hash.to_base64();
    let no_hash = one.replacen(&format!("{line}\n"), "", 1);
    assert!(matches!(
        SignSubtree::parse(no_hash.as_bytes()),
        Err(SignSubtreeError::Hash { line: 2, .. })
    ));
    let bad =
        request((8, 12), &hash, &[hash], note).replacen(&format!("{line}\n\n"), "abc=\n\n", 1);
    assert!(matches!(
        SignSubtree::parse(bad.as_bytes()),
        Err(SignSubtreeError::Hash { line: 3, .. })
    ));
    assert_eq!(
        SignSubtree::parse(b"subtree 0 0\n"),
        Err(SignSubtreeError::Separator)
    );
    let cut = one.trim_end();
    assert!(matches!(
        SignSubtree::parse(cut.as_bytes()),
        Err(SignSubtreeError::Note { first: 4, .. })
    ));
    let large = vec![b'a'; 128 * 1024 + 1];
    assert_eq!(
        SignSubtree::parse(&large),
        Err(SignSubtreeError::TooLarge { bytes: large.len() })
    );
}
