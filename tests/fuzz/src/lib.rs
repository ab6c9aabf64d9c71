//! What the targets share: a log of two leaves, and the files that it gives out.
//!
//! Random bytes never get past base64 and signatures, so each target starts from files that hold. And because
//! the keys sign nothing else, whatever a target accepts under them must be one of those.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::dsse::Envelope;
use countersign_verifier::evidence::{Evidence, EvidenceSet, Support};
use countersign_verifier::hash::{Hash, leaf_hash, node_hash};
use countersign_verifier::key::{Algorithm, IdentityId, PrivateKey};
use countersign_verifier::leaf::{By, Class, Millis, Signed, write_receipt, write_system};
use countersign_verifier::mldsa::SecretKey;
use countersign_verifier::note;
use countersign_verifier::policy::Policy;
use countersign_verifier::proof::TlogProof;
use countersign_verifier::vkey::{CosignSigner, MlDsaSigner, NoteSigner, VerifierKey};
use ed25519_dalek::SigningKey;

/// The log's name.
pub const ORIGIN: &str = "example.com/fuzz";
/// Type and bytes of the one receipt.
pub const RECEIPT: (&str, &[u8]) = (
    "application/vnd.in-toto+json",
    br#"{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}],"predicateType":"https://example.com/built/v1","predicate":{}}"#,
);
const COSIGNED_S: u64 = 1_796_000_000;

/// A log whose keys sign two leaves and one checkpoint, and the files that show it.
pub struct Fixture {
    /// Signs receipts.
    pub owner: PrivateKey,
    /// The log's key.
    pub log: VerifierKey,
    /// The witness's key.
    pub witness: VerifierKey,
    /// The witness's second key, ML-DSA-44.
    pub second: MlDsaSigner,
    /// Leaf 0 opened the log, leaf 1 is the receipt.
    pub leaves: [Vec<u8>; 2],
    /// The checkpoint's text.
    pub text: String,
    /// The same, signed and cosigned.
    pub note: String,
    /// A policy that asks for both.
    pub policy: String,
    /// The receipt as it was sent.
    pub envelope: Envelope,
}

/// The one fixture.
pub static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);

impl Fixture {
    fn new() -> Self {
        let secret = |n: u8| {
            PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).expect("a seed of 32 bytes")
        };
        let (owner, service) = (secret(3), secret(4));
        let log = NoteSigner::new(ORIGIN, SigningKey::from_bytes(&[1; 32])).expect("a name");
        let witness = CosignSigner::new("witness.example.com", SigningKey::from_bytes(&[2; 32]))
            .expect("a name");
        let envelope = Envelope::sign(RECEIPT.0, RECEIPT.1, std::slice::from_ref(&owner));
        let leaves = [
            opened(log.vkey(), &owner, &service),
            receipt(&owner, &envelope),
        ];
        let text = Checkpoint {
            origin: ORIGIN.into(),
            size: 2,
            root: node_hash(&leaf_hash(&leaves[0]), &leaf_hash(&leaves[1])),
            extensions: vec![],
        }
        .to_text();
        let second = MlDsaSigner::new("witness.example.com", SecretKey::from_seed(&[6; 32]))
            .expect("a short name");
        let lines = [log.sign(&text), witness.sign(&text, COSIGNED_S)];
        let note = note::join(&text, lines.iter().map(String::as_str));
        let (log, witness) = (log.vkey().clone(), witness.vkey().clone());
        let policy = format!("log {log}\nwitness w1 {witness}\ngroup g any w1\nquorum g\n");
        Self {
            owner,
            log,
            witness,
            second,
            leaves,
            text,
            note,
            policy,
            envelope,
        }
    }

    /// The checkpoint, signed by the log and cosigned with the witness's second key.
    pub fn second_note(&self) -> String {
        let line = self.second.sign(&self.text, COSIGNED_S, &[0; 32]);
        let line = line.expect("a checkpoint without extension lines");
        let log = self.note.lines().nth(4).expect("the log's line");
        format!("{}\n{log}\n{line}", self.text)
    }

    /// The policy with that key.
    pub fn second_policy(&self) -> String {
        let line = format!("witness w2 {}\ngroup g any w2 w1", self.second.vkey());
        self.policy.replace("group g any w1", &line)
    }

    /// The policy, read.
    pub fn parsed_policy(&self) -> Policy {
        Policy::parse(&self.policy).expect("a policy")
    }

    /// The proof of one of the leaves.
    pub fn proof(&self, index: usize) -> TlogProof {
        TlogProof {
            extra: None,
            index: index as u64,
            path: self.path(index),
            checkpoint: self.note.clone(),
        }
    }

    fn path(&self, index: usize) -> Vec<Hash> {
        vec![leaf_hash(&self.leaves[1 - index])]
    }

    fn support(&self) -> Vec<Support> {
        vec![Support {
            index: 0,
            leaf: self.leaves[0].clone(),
            path: self.path(0),
        }]
    }

    /// Evidence of the receipt, and of both leaves as a set.
    pub fn evidence(&self) -> [Vec<u8>; 2] {
        let one = Evidence {
            leaf: self.leaves[1].clone(),
            proof: self.proof(1),
            support: self.support(),
        };
        let set = EvidenceSet {
            checkpoint: self.note.clone(),
            leaves: vec![(1, self.leaves[1].clone())],
            multi: self.path(1),
            support: self.support(),
        };
        [one.to_json(), set.to_json()]
    }
}

fn opened(log: &VerifierKey, owner: &PrivateKey, service: &PrivateKey) -> Vec<u8> {
    let key = |key: &PrivateKey| countersign_verifier::base64::encode(&key.public().spki_der());
    let event = format!(
        r#"{{"type":"opened","origin":"{ORIGIN}","log_vkey":"{log}","owner":{{"public_key":"{}"}},"service":{{"public_key":"{}"}},"rules":1,"epoch":0}}"#,
        key(owner),
        key(service)
    );
    let mut leaf = vec![];
    write_system(&mut leaf, at(), &event).expect("a small leaf");
    leaf
}

fn receipt(owner: &PrivateKey, envelope: &Envelope) -> Vec<u8> {
    let by = By {
        identity: owner.public().identity(),
        class: Class::AgentKey,
        session: None,
    };
    let signatures: Vec<(IdentityId, &[u8])> = envelope
        .signatures
        .iter()
        .map(|s| (by.identity, s.sig.as_slice()))
        .collect();
    let signed = Signed {
        payload_type: RECEIPT.0,
        payload: RECEIPT.1,
        signatures: &signatures,
    };
    let mut leaf = vec![];
    write_receipt(&mut leaf, at(), &by, signed).expect("a small leaf");
    leaf
}

fn at() -> Millis {
    Millis((COSIGNED_S - 5) * 1000)
}

/// Puts files that hold into the corpus folder that `FUZZ_SEEDS` names, where libFuzzer then finds them.
pub fn seed<B: AsRef<[u8]>>(files: impl IntoIterator<Item = B>) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else {
        return;
    };
    for (i, file) in files.into_iter().enumerate() {
        let path = Path::new(&folder).join(format!("seed-{i}"));
        fs::write(&path, file.as_ref()).expect("the corpus folder can be written");
    }
}
