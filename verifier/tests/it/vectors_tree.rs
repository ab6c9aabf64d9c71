//! Every vector of the Merkle kinds.

use countersign_verifier::base64;
use countersign_verifier::hash::{Hash, leaf_hash, node_hash, sha256};
use countersign_verifier::range::Range;
use countersign_verifier::tree::{verify_consistency, verify_inclusion};
use serde_json::Value;

use crate::support::{Tree, text, texts, unhex, vectors};

/// Some consistency vectors hold roots of another length as plain wrong values, and two such that are
/// equal as equal: a hash of what they hold stands in for them.
pub fn root_or_stand_in(text: &str) -> Hash {
    Hash::from_base64(text).unwrap_or_else(|_| sha256(text.as_bytes()))
}

/// T5: a proof with an element of another length than 32 bytes is no proof.
pub fn proof(vector: &Value) -> Option<Vec<Hash>> {
    texts(vector, "proof")
        .into_iter()
        .map(|text| Hash::from_base64(text).ok())
        .collect()
}

pub fn number(vector: &Value, member: &str) -> u64 {
    vector[member].as_u64().unwrap()
}

/// A leaf or root of another length than 32 bytes cannot even be given.
fn inclusion_holds(vector: &Value, leaf: Option<Hash>) -> bool {
    let (index, size) = (number(vector, "leafIdx"), number(vector, "treeSize"));
    let root = Hash::from_base64(text(vector, "root")).ok();
    let (Some(leaf), Some(root), Some(path)) = (leaf, root, proof(vector)) else {
        return false;
    };
    verify_inclusion(&leaf, index, size, &path, &root).is_ok()
}

fn consistency_holds(vector: &Value) -> bool {
    let (old, new) = (number(vector, "size1"), number(vector, "size2"));
    let [old_root, new_root] = ["root1", "root2"].map(|root| root_or_stand_in(text(vector, root)));
    proof(vector)
        .is_some_and(|path| verify_consistency(old, &old_root, new, &new_root, &path).is_ok())
}

#[test]
fn merkle_hash() {
    let all = vectors("merkle_hash");
    assert_eq!(all.len(), 3);
    for v in all {
        let got = match text(&v, "op") {
            "leaf" => leaf_hash(&unhex(text(&v, "input_hex"))),
            // Its children are not 32 bytes long, so that only the prefix can be compared.
            "node" => sha256(
                &[
                    vec![1],
                    unhex(text(&v, "left_hex")),
                    unhex(text(&v, "right_hex")),
                ]
                .concat(),
            ),
            other => panic!("{other}"),
        };
        assert_eq!(got.to_hex(), text(&v, "want_hex"), "{}", v["id"]);
    }
    let (l, r) = (leaf_hash(b"l"), leaf_hash(b"r"));
    assert_eq!(
        node_hash(&l, &r),
        sha256(&[&[1], &l.0[..], &r.0[..]].concat())
    );
}

#[test]
fn merkle_inclusion() {
    let all = vectors("merkle_inclusion");
    assert_eq!(all.len(), 67);
    for v in all {
        let holds = inclusion_holds(&v, Hash::from_base64(text(&v, "leafHash")).ok());
        assert_eq!(holds, !v["wantErr"].as_bool().unwrap(), "{}", v["id"]);
    }
}

#[test]
fn merkle_consistency() {
    let all = vectors("merkle_consistency");
    assert_eq!(all.len(), 69);
    for v in all {
        assert_eq!(
            consistency_holds(&v),
            !v["wantErr"].as_bool().unwrap(),
            "{}",
            v["id"]
        );
    }
}

#[test]
fn merkle_real_ct() {
    let all = vectors("merkle_real_ct");
    assert_eq!(all.len(), 2);
    for v in all {
        let holds = match v["leaf_input_b64"].as_str() {
            Some(leaf) => inclusion_holds(&v, Some(leaf_hash(&base64::decode(leaf).unwrap()))),
            None => consistency_holds(&v),
        };
        assert_eq!(holds, !v["wantErr"].as_bool().unwrap(), "{}", v["id"]);
    }
}

#[test]
fn merkle_real_rekor() {
    let all = vectors("merkle_real_rekor");
    assert_eq!(all.len(), 17);
    for v in all {
        let leaf = leaf_hash(&base64::decode(text(&v, "leaf_b64")).unwrap());
        let holds = inclusion_holds(&v, Some(leaf));
        assert_eq!(holds, !v["wantErr"].as_bool().unwrap(), "{}", v["id"]);
    }
}

pub fn be64(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

pub fn dec(n: u64) -> Vec<u8> {
    n.to_string().into_bytes()
}

#[test]
fn merkle_roots() {
    let all = vectors("merkle_roots");
    assert_eq!(all.len(), 3);
    for v in all {
        let roots: Vec<(usize, &str)> = match v["roots_at"].as_object() {
            Some(roots) => roots
                .iter()
                .map(|(n, root)| (n.parse().unwrap(), root.as_str().unwrap()))
                .collect(),
            None => texts(&v, "roots_by_size_hex")
                .into_iter()
                .enumerate()
                .collect(),
        };
        let leaves: Vec<Vec<u8>> = match v["leaf_rule"].as_str() {
            Some("leaf i is the 8-byte big-endian encoding of i") => (0..500).map(be64).collect(),
            Some(other) => panic!("{other}"),
            None => texts(&v, "leaves_hex").into_iter().map(unhex).collect(),
        };
        let tree = Tree::of(&leaves);
        for (leaf, want) in tree.0.iter().zip(texts(&v, "leaf_hashes_hex")) {
            assert_eq!(leaf.to_hex(), want);
        }
        assert!(roots.len() >= 9);
        for (size, want) in roots {
            assert_eq!(tree.root(size).to_hex(), want, "{} {size}", v["id"]);
            let range: Range = tree.0[..size].iter().copied().collect();
            assert_eq!(range.root().to_hex(), want, "{} {size}", v["id"]);
        }
    }
}

#[test]
fn merkle_accumulated() {
    let mut run = 0;
    for v in vectors("merkle_accumulated") {
        let id = text(&v, "id");
        if id.starts_with("subtree-") {
            continue; // see subtrees.rs
        }
        let max = usize::try_from(number(&v, "max")).unwrap();
        let leaf = if id.contains("-be64-") { be64 } else { dec };
        let tree = Tree::of((0..max as u64).map(leaf));
        let mut feed = String::new();
        for n in 1..=max {
            for i in 0..n {
                let (first, path) = if id.starts_with("all-inclusion-") {
                    let (path, root) = (tree.inclusion(i, n), tree.root(n));
                    verify_inclusion(&tree.0[i], i as u64, n as u64, &path, &root).unwrap();
                    (i, path)
                } else {
                    let (m, path) = (i + 1, tree.consistency(i + 1, n));
                    let (old, new) = (tree.root(m), tree.root(n));
                    verify_consistency(m as u64, &old, n as u64, &new, &path).unwrap();
                    (m, path)
                };
                feed += &format!("{first} {n}");
                path.iter().for_each(|hash| feed += &format!(" {hash}"));
                feed += "\n";
            }
        }
        assert_eq!(
            sha256(feed.as_bytes()).to_hex(),
            text(&v, "want_sha256"),
            "{id}"
        );
        run += 1;
    }
    assert_eq!(run, 4);
}
