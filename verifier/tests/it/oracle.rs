//! Every tree size to 300 against two independent implementations.

use countersign_verifier::hash::{EMPTY_ROOT, Hash, leaf_hash, node_hash};
use countersign_verifier::range::Range;
use countersign_verifier::tile::hash_of;
use countersign_verifier::tree::{
    consistency_proof_len, inclusion_path_len, sizes_of_path, verify_consistency, verify_inclusion,
};
use ct_merkle::mem_backed_tree::MemoryBackedTree;
use rs_merkle::{Hasher, MerkleTree};

use crate::support::Tree;

const SIZES: usize = 300;

/// RFC 6962 for rs_merkle, which by itself has no prefix for nodes (T2).
#[derive(Clone)]
struct Rfc6962;

impl Hasher for Rfc6962 {
    type Hash = [u8; 32];

    fn hash(entry: &[u8]) -> [u8; 32] {
        leaf_hash(entry).0
    }

    fn concat_and_hash(left: &[u8; 32], right: Option<&[u8; 32]>) -> [u8; 32] {
        right.map_or(*left, |right| node_hash(&Hash(*left), &Hash(*right)).0)
    }
}

fn entry(i: usize) -> Vec<u8> {
    format!("entry {i}").into_bytes()
}

#[test]
fn roots_and_inclusion_paths_equal_those_of_rs_merkle() {
    let mut range = Range::new();
    assert_eq!(range.root(), EMPTY_ROOT);
    let mut leaves: Vec<[u8; 32]> = vec![];
    for size in 1..=SIZES {
        leaves.push(leaf_hash(&entry(size - 1)).0);
        range.push(Hash(leaves[size - 1]));
        let oracle = MerkleTree::<Rfc6962>::from_leaves(&leaves);
        let root = Hash(oracle.root().unwrap());
        assert_eq!(range.root(), root, "{size}");
        assert_eq!(
            Range::from_parts(size as u64, range.nodes().to_vec())
                .unwrap()
                .root(),
            root
        );
        assert_eq!(
            hash_of(&leaves.iter().map(|leaf| Hash(*leaf)).collect::<Vec<_>>()),
            root
        );
        for (index, leaf) in leaves.iter().enumerate() {
            let proof = oracle.proof(&[index]);
            let path: Vec<Hash> = proof
                .proof_hashes()
                .iter()
                .map(|hash| Hash(*hash))
                .collect();
            let (index, size) = (index as u64, size as u64);
            assert_eq!(inclusion_path_len(index, size), path.len());
            verify_inclusion(&Hash(*leaf), index, size, &path, &root).unwrap();
        }
    }
}

#[test]
fn consistency_proofs_of_ct_merkle_hold() {
    let mut oracle = MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
    let mut roots = vec![EMPTY_ROOT];
    for new in 1..=SIZES {
        oracle.push(entry(new - 1));
        roots.push(Hash((*oracle.root().as_bytes()).into()));
        let mut own = Range::new();
        own.extend((0..new).map(|i| leaf_hash(&entry(i))));
        assert_eq!(own.root(), roots[new]);
        for old in 1..=new {
            let proof = oracle.prove_consistency(new - old);
            let path: Vec<Hash> = proof
                .as_bytes()
                .as_chunks::<32>()
                .0
                .iter()
                .map(|h| Hash(*h))
                .collect();
            let (m, n) = (old as u64, new as u64);
            assert_eq!(consistency_proof_len(m, n), path.len(), "{old} {new}");
            verify_consistency(m, &roots[old], n, &roots[new], &path)
                .unwrap_or_else(|error| panic!("{old} {new}: {error}"));
        }
    }
}

#[test]
fn no_other_index_size_or_root_takes_a_path() {
    let tree = Tree::of((0..40).map(entry));
    for size in 1..=40 {
        let root = tree.root(size);
        for index in 0..size {
            let path = tree.inclusion(index, size);
            for other in 0..=size {
                let holds =
                    verify_inclusion(&tree.0[index], other as u64, size as u64, &path, &root)
                        .is_ok();
                assert_eq!(holds, other == index, "{index} as {other} of {size}");
            }
            // A path says no more about the size than `sizes_of_path`; the root does the rest.
            let fits = sizes_of_path(index as u64, path.len()).unwrap();
            for other in 1..=80_u64 {
                let same =
                    inclusion_path_len(index as u64, other) == path.len() && other > index as u64;
                assert_eq!(fits.contains(&other), same, "{index} {size} {other}");
            }
            for other in (1..=40).filter(|&other| other != size) {
                let root = tree.root(other);
                assert!(
                    verify_inclusion(&tree.0[index], index as u64, size as u64, &path, &root)
                        .is_err()
                );
            }
        }
    }
}

#[test]
fn every_mutated_consistency_proof_fails() {
    let tree = Tree::of((0..33).map(entry));
    for new in 1..=33 {
        for old in 1..=new {
            let (m, n, path) = (old as u64, new as u64, tree.consistency(old, new));
            let (old_root, new_root) = (tree.root(old), tree.root(new));
            verify_consistency(m, &old_root, n, &new_root, &path).unwrap();
            let fails =
                |path: &[Hash]| verify_consistency(m, &old_root, n, &new_root, path).is_err();
            assert!(fails(&[&path[..], &[old_root]].concat()));
            for i in 0..path.len() {
                let mut changed = path.clone();
                changed[i].0[31] ^= 1;
                assert!(fails(&changed) && fails(&path[..i]), "{old} {new} {i}");
            }
            assert!(verify_consistency(m, &tree.root(old - 1), n, &new_root, &path).is_err());
            assert!(verify_consistency(m, &old_root, n, &tree.root(new - 1), &path).is_err());
        }
    }
}
