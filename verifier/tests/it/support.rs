//! What the tests share: vector files, a plain proof builder, and the published keys of the cases.

use countersign_verifier::hash::{Hash, leaf_hash};
use countersign_verifier::note::Note;
use countersign_verifier::tile::hash_of;
use countersign_verifier::vkey::{CosignSigner, NoteSigner};
use ed25519_dalek::SigningKey;
use serde_json::Value;

/// Every vector of a kind; the file's own count must agree with what it holds.
pub fn vectors(kind: &str) -> Vec<Value> {
    let path = format!(
        "{}/../tests/vectors/{kind}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["kind"], kind);
    let vectors = file["vectors"].as_array().unwrap().clone();
    assert_eq!(file["count"], vectors.len(), "{kind}");
    vectors
}

/// A string member that must be there.
pub fn text<'v>(vector: &'v Value, member: &str) -> &'v str {
    vector[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} of {vector}"))
}

/// The strings of an array member; none when it is absent.
pub fn texts<'v>(vector: &'v Value, member: &str) -> Vec<&'v str> {
    let list = vector[member].as_array();
    list.into_iter()
        .flatten()
        .map(|item| item.as_str().unwrap())
        .collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2));
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

pub fn seed(text: &str) -> SigningKey {
    SigningKey::from_bytes(&unhex(text).try_into().unwrap())
}

/// Proofs by the definitions of RFC 6962 section 2.1, recursively; slow and plain.
pub struct Tree(pub Vec<Hash>);

impl Tree {
    pub fn of(entries: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        Self(
            entries
                .into_iter()
                .map(|entry| leaf_hash(entry.as_ref()))
                .collect(),
        )
    }

    pub fn root(&self, size: usize) -> Hash {
        hash_of(&self.0[..size])
    }

    pub fn inclusion(&self, index: usize, size: usize) -> Vec<Hash> {
        path(&self.0[..size], index)
    }

    pub fn subtree(&self, start: usize, end: usize) -> Hash {
        hash_of(&self.0[start..end])
    }

    /// By the definition in draft-ietf-plants-merkle-tree-certs section 4.4.
    pub fn subtree_proof(&self, start: usize, end: usize, size: usize) -> Vec<Hash> {
        if start == end {
            return vec![];
        }
        subtree_subproof(&self.0[..size], start, end, true)
    }

    pub fn consistency(&self, old: usize, new: usize) -> Vec<Hash> {
        subproof(&self.0[..new], old, true)
    }
}

/// The largest power of two below `n`.
fn split(n: usize) -> usize {
    n.next_power_of_two() / 2
}

fn path(leaves: &[Hash], index: usize) -> Vec<Hash> {
    if leaves.len() < 2 {
        return vec![];
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut below, sibling) = if index < left.len() {
        (path(left, index), right)
    } else {
        (path(right, index - left.len()), left)
    };
    below.push(hash_of(sibling));
    below
}

fn subproof(leaves: &[Hash], old: usize, whole: bool) -> Vec<Hash> {
    if old == leaves.len() {
        return if whole { vec![] } else { vec![hash_of(leaves)] };
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut below, sibling) = if old <= left.len() {
        (subproof(left, old, whole), right)
    } else {
        (subproof(right, old - left.len(), false), left)
    };
    below.push(hash_of(sibling));
    below
}

fn subtree_subproof(leaves: &[Hash], start: usize, end: usize, whole: bool) -> Vec<Hash> {
    if (start, end) == (0, leaves.len()) {
        return if whole { vec![] } else { vec![hash_of(leaves)] };
    }
    let k = split(leaves.len());
    let (left, right) = leaves.split_at(k);
    let (mut below, sibling) = if end <= k {
        (subtree_subproof(left, start, end, whole), right)
    } else if start >= k {
        (subtree_subproof(right, start - k, end - k, whole), left)
    } else {
        (subtree_subproof(right, 0, end - k, false), left)
    };
    below.push(hash_of(sibling));
    below
}

/// The checkpoint that the cases call V1: log, size 3 ("a", "b", "c"), one witness.
pub const V1: &str = "\
log.example/a
3
NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=

\u{2014} log.example/a hwgG+BDUBAP5ab86fbtCZvTYbhjGlo+akvxc7N8sq1SOZQiwHn+rsCi00wvOM0jgClyAvRgT98pZo/D2AV0Gvcyhbgc=
\u{2014} witness.example/w yxOT3AAAAABlU/EAzmztFAMjDINAc5TNBkvUiCL9HvkK5f9R5w6osP9T5U0++KqgzG8wF/jYw48oTB10c+O2IRaRFHEem/UsoWVSBA==
";
pub const LOG_VKEY: &str = "log.example/a+870806f8+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
pub const WITNESS_VKEY: &str =
    "witness.example/w+cb1393dc+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU";
pub const V1_TIME: u64 = 1_700_000_000;

/// V1's signed text.
pub fn v1_text() -> &'static str {
    Note::parse(V1.as_bytes()).unwrap().text
}

pub fn log_signer() -> NoteSigner {
    NoteSigner::new("log.example/a", SigningKey::from_bytes(&[1; 32])).unwrap()
}

pub fn witness_signer() -> CosignSigner {
    CosignSigner::new("witness.example/w", SigningKey::from_bytes(&[2; 32])).unwrap()
}

/// A policy of V1's log and witness with the given quorum line.
pub fn v1_policy(quorum: &str) -> String {
    format!("log {LOG_VKEY}\nwitness w {WITNESS_VKEY}\nquorum {quorum}\n")
}
