//! What has gone wrong for others in Merkle arithmetic, one test a case.

use countersign_verifier::hash::{EMPTY_ROOT, Hash, leaf_hash, node_hash, sha256};
use countersign_verifier::range::Range;
use countersign_verifier::tree::{
    ProofError, inclusion_path_len, verify_consistency, verify_inclusion,
};

use crate::support::Tree;

#[test]
fn b040_lengths_of_inclusion_paths() {
    let sizes = [1, 2, 255, 256, 257, 65_536, 65_537];
    assert_eq!(
        sizes.map(|size| inclusion_path_len(0, size)),
        [0, 1, 8, 8, 9, 16, 17]
    );
    assert_eq!(
        [257, 65_537].map(|size| inclusion_path_len(size - 1, size)),
        [1, 1]
    );
}

#[test]
fn b041_a_proof_for_a_larger_tree_than_the_head() {
    let tree = Tree::of((0..120).map(|i: u8| [i]));
    let path = tree.inclusion(110, 120);
    let error = verify_inclusion(&tree.0[110], 110, 100, &path, &tree.root(100)).unwrap_err();
    assert_eq!(
        error,
        ProofError::NotInTree {
            index: 110,
            size: 100
        }
    );
    let path = tree.inclusion(97, 120);
    let error = verify_inclusion(&tree.0[97], 97, 100, &path, &tree.root(100))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("size 100") && error.contains("sizes 113 to 128"),
        "{error}"
    );
}

#[test]
fn b048_an_inner_node_is_no_entry() {
    let entries = ["a", "b", "c"];
    let tree = Tree::of(entries);
    let plain = entries.map(|entry| sha256(entry.as_bytes()));
    let pair = |l: &Hash, r: &Hash| sha256(&[l.0, r.0].concat());
    let without_prefixes = pair(&pair(&plain[0], &plain[1]), &plain[2]);
    assert!(without_prefixes.to_hex().starts_with("7075152d"));
    assert_ne!(tree.root(3), without_prefixes);
    // Leaves a and b as one entry of 64 bytes: its leaf hash is not the node above them.
    let entry = [tree.0[0].0, tree.0[1].0].concat();
    let (node, root) = (node_hash(&tree.0[0], &tree.0[1]), tree.root(3));
    verify_inclusion(&node, 0, 2, &[tree.0[2]], &root).unwrap();
    assert_ne!(leaf_hash(&entry), node);
    for (index, size) in (1..5).flat_map(|size| (0..size).map(move |index| (index, size))) {
        for path in [&[][..], &[tree.0[2]], &[tree.0[2], tree.0[2]]] {
            assert!(verify_inclusion(&leaf_hash(&entry), index, size, path, &root).is_err());
        }
    }
}

#[test]
fn b049_an_empty_path_proves_only_a_single_leaf() {
    let tree = Tree::of(["a", "b", "c", "d"]);
    assert!(verify_inclusion(&tree.0[0], 0, 1, &[], &tree.0[0]).is_ok());
    assert!(verify_inclusion(&tree.0[0], 0, 1, &[], &tree.0[1]).is_err());
    assert!(verify_inclusion(&tree.root(4), 2, 4, &[], &tree.root(4)).is_err());
    assert!(verify_inclusion(&tree.0[2], 2, 4, &[], &tree.root(4)).is_err());
}

#[test]
fn b050_left_over_and_missing_hashes() {
    let tree = Tree::of((0..100).map(|i: u8| [i]));
    for index in [0, 41, 98, 99] {
        let (path, root, i) = (tree.inclusion(index, 100), tree.root(100), index as u64);
        verify_inclusion(&tree.0[index], i, 100, &path, &root).unwrap();
        let longer = [&path[..], &[root]].concat();
        let shorter = &path[..path.len() - 1];
        for path in [&longer[..], shorter] {
            let (have, want) = (path.len(), inclusion_path_len(i, 100));
            let error = ProofError::PathLength {
                index: i,
                size: 100,
                have,
                want,
            };
            assert_eq!(
                verify_inclusion(&tree.0[index], i, 100, path, &root),
                Err(error)
            );
        }
    }
}

#[test]
fn b052_evil_proofs_cost_nothing() {
    let hash = leaf_hash(b"x");
    let endless = vec![hash; 10_000];
    let error = verify_consistency(6, &hash, 8, &hash, &endless).unwrap_err();
    assert_eq!(
        error,
        ProofError::ConsistencyLength {
            old_size: 6,
            new_size: 8,
            have: 10_000,
            want: 3
        }
    );
    let (index, size) = ((1 << 63) - 1, 1 << 63);
    assert!(verify_inclusion(&hash, index, size, &endless, &hash).is_err());
    assert_eq!(inclusion_path_len(index, size), 63);
    assert!(matches!(
        verify_inclusion(&hash, index, size, &endless[..63], &hash),
        Err(ProofError::Root { .. })
    ));
    for (old, new) in [
        (1, u64::MAX),
        (1 << 63, u64::MAX),
        ((1 << 63) + 1, u64::MAX),
        (u64::MAX - 1, u64::MAX),
    ] {
        assert!(verify_consistency(old, &hash, new, &hash, &endless).is_err());
        assert!(verify_consistency(old, &hash, new, &hash, &[]).is_err());
    }
}

#[test]
fn b053_the_empty_tree_and_the_empty_entry() {
    assert_eq!(
        Range::new().root().to_base64(),
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    );
    assert_eq!(Range::new().root(), EMPTY_ROOT);
    let leaf = leaf_hash(b"");
    assert_eq!(
        leaf.to_hex(),
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    );
    let mut range = Range::new();
    range.push(leaf);
    assert_eq!(range.root(), leaf);
    verify_inclusion(&leaf, 0, 1, &[], &range.root()).unwrap();
}
