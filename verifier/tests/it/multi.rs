//! Multi-proofs against an independent checker, the library's own proofs, and the known forgeries.

use countersign_verifier::hash::{Hash, leaf_hash, node_hash};
use countersign_verifier::limits;
use countersign_verifier::multi::{MultiError, nodes, verify};
use countersign_verifier::tile::hash_of;
use rs_merkle::{Hasher, MerkleProof, MerkleTree, utils};

#[derive(Clone)]
struct Rfc6962;

impl Hasher for Rfc6962 {
    type Hash = [u8; 32];

    fn hash(data: &[u8]) -> [u8; 32] {
        leaf_hash(data).0
    }

    fn concat_and_hash(left: &[u8; 32], right: Option<&[u8; 32]>) -> [u8; 32] {
        right.map_or(*left, |right| node_hash(&Hash(*left), &Hash(*right)).0)
    }
}

pub fn leaves(n: u64) -> Vec<Hash> {
    (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect()
}

/// A proof made from ranges of leaves alone, as a log makes it from its tiles.
pub fn prove(leaves: &[Hash], indexes: &[u64]) -> Vec<Hash> {
    let size = leaves.len() as u64;
    let range = |(start, end): (u64, u64)| hash_of(&leaves[start as usize..end as usize]);
    nodes(indexes, size)
        .unwrap()
        .into_iter()
        .map(|node| range(node.leaves(size)))
        .collect()
}

fn pairs(leaves: &[Hash], indexes: &[u64]) -> Vec<(u64, Hash)> {
    indexes.iter().map(|&i| (i, leaves[i as usize])).collect()
}

/// Written from the description of the order alone: level by level, folding what is known.
fn check(size: u64, known: &[(u64, Hash)], proof: &[Hash]) -> Option<Hash> {
    let (mut known, mut width, mut proof) = (known.to_vec(), size, proof.iter());
    while width > 1 {
        let mut up: Vec<(u64, Hash)> = Vec::new();
        let find = |i: u64| {
            known
                .iter()
                .find(|(index, _)| *index == i)
                .map(|(_, hash)| *hash)
        };
        for &(i, hash) in &known {
            let sibling = i ^ 1;
            let parent = match find(sibling) {
                Some(_) if i % 2 == 1 => continue,
                Some(right) => node_hash(&hash, &right),
                None if sibling >= width => hash,
                None if i % 2 == 0 => node_hash(&hash, proof.next()?),
                None => node_hash(proof.next()?, &hash),
            };
            up.push((i / 2, parent));
        }
        known = up;
        width = width.div_ceil(2);
    }
    (proof.next().is_none() && known.len() == 1).then(|| known[0].1)
}

/// A small generator, so that the sets are the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn set(&mut self, size: u64) -> Vec<u64> {
        let count = 1 + self.below(size.min(40));
        let mut set: Vec<u64> = (0..count).map(|_| self.below(size)).collect();
        set.sort_unstable();
        set.dedup();
        set
    }
}

#[test]
fn every_pair_of_small_trees() {
    for size in 1..=33 {
        let leaves = leaves(size);
        let root = hash_of(&leaves);
        for a in 0..size {
            for b in a..size {
                let set = if a == b { vec![a] } else { vec![a, b] };
                let (known, proof) = (pairs(&leaves, &set), prove(&leaves, &set));
                assert_eq!(
                    verify(size, &root, &known, &proof),
                    Ok(()),
                    "{size} {set:?}"
                );
                assert_eq!(check(size, &known, &proof), Some(root), "{size} {set:?}");
            }
        }
        let all: Vec<u64> = (0..size).collect();
        assert!(prove(&leaves, &all).is_empty());
        assert_eq!(verify(size, &root, &pairs(&leaves, &all), &[]), Ok(()));
    }
}

#[test]
fn random_sets_agree_with_the_independent_checker_and_the_library() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..300 {
        let size = 1 + random.below(700);
        let (leaves, set) = (leaves(size), random.set(size));
        let (root, known, proof) = (hash_of(&leaves), pairs(&leaves, &set), prove(&leaves, &set));
        assert_eq!(
            verify(size, &root, &known, &proof),
            Ok(()),
            "round {round}: {size} {set:?}"
        );
        assert_eq!(check(size, &known, &proof), Some(root));
        // The library makes the same hashes in the same order, and counts them alike.
        let raw: Vec<[u8; 32]> = leaves.iter().map(|leaf| leaf.0).collect();
        let tree = MerkleTree::<Rfc6962>::from_leaves(&raw);
        assert_eq!(tree.root(), Some(root.0));
        let positions: Vec<usize> = set.iter().map(|&i| i as usize).collect();
        let theirs: Vec<Hash> = tree
            .proof(&positions)
            .proof_hashes()
            .iter()
            .map(|h| Hash(*h))
            .collect();
        assert_eq!(theirs, proof);
        let layers = utils::indices::proof_indices_by_layers(&positions, size as usize);
        assert_eq!(layers.iter().map(Vec::len).sum::<usize>(), proof.len());
        // Any change is noticed, by both.
        let mut wrong = known.clone();
        let at = random.below(wrong.len() as u64) as usize;
        wrong[at].1 = leaf_hash(b"fake");
        assert_eq!(verify(size, &root, &wrong, &proof), Err(MultiError::Root));
        assert_ne!(check(size, &wrong, &proof), Some(root));
        if let Some(last) = proof.len().checked_sub(1) {
            let mut changed = proof.clone();
            changed[random.below(proof.len() as u64) as usize] = leaf_hash(b"fake");
            assert_eq!(verify(size, &root, &known, &changed), Err(MultiError::Root));
            let short = verify(size, &root, &known, &proof[..last]);
            assert_eq!(
                short,
                Err(MultiError::Length {
                    have: last,
                    want: last + 1
                })
            );
        }
    }
}

/// The library, called bare, accepts a leaf that is not there beside a duplicate index.
#[test]
fn forgery_with_an_index_that_stands_twice() {
    let (leaves, fake) = (leaves(4), leaf_hash(b"fake"));
    let (root, proof) = (hash_of(&leaves), prove(&leaves, &[0, 1]));
    let bare = MerkleProof::<Rfc6962>::new(proof.iter().map(|h| h.0).collect());
    assert!(
        bare.verify(root.0, &[0, 1, 1], &[leaves[0].0, leaves[1].0, fake.0], 4),
        "or the guard may go"
    );
    let forged = [(0, leaves[0]), (1, leaves[1]), (1, fake)];
    assert_eq!(
        verify(4, &root, &forged, &proof),
        Err(MultiError::Index { index: 1, size: 4 })
    );
}

/// The library, called bare, accepts a leaf past the end of the tree.
#[test]
fn forgery_with_an_index_past_the_tree() {
    let (leaves, fake) = (leaves(3), leaf_hash(b"fake"));
    let root = hash_of(&leaves);
    let bare = |hashes: Vec<[u8; 32]>| {
        MerkleProof::<Rfc6962>::new(hashes).verify(root.0, &[0, 4], &[leaves[0].0, fake.0], 3)
    };
    let crafted = vec![
        leaves[1].0,
        leaf_hash(b"any").0,
        leaves[2].0,
        leaf_hash(b"any").0,
    ];
    assert!(bare(crafted.clone()), "or the guard may go");
    let crafted: Vec<Hash> = crafted.into_iter().map(Hash).collect();
    let forged = [(0, leaves[0]), (4, fake)];
    assert_eq!(
        verify(3, &root, &forged, &crafted),
        Err(MultiError::Index { index: 4, size: 3 })
    );
    assert_eq!(
        verify(3, &root, &[(3, fake)], &[]),
        Err(MultiError::Index { index: 3, size: 3 })
    );
}

/// The library, called bare, does not look at hashes that are left over.
#[test]
fn forgery_with_hashes_left_over() {
    let leaves = leaves(5);
    let (root, known, mut proof) = (
        hash_of(&leaves),
        pairs(&leaves, &[1, 4]),
        prove(&leaves, &[1, 4]),
    );
    proof.push(leaf_hash(b"more"));
    let bare = MerkleProof::<Rfc6962>::new(proof.iter().map(|h| h.0).collect());
    assert!(
        bare.verify(root.0, &[1, 4], &[leaves[1].0, leaves[4].0], 5),
        "or the guard may go"
    );
    assert_eq!(
        verify(5, &root, &known, &proof),
        Err(MultiError::Length { have: 3, want: 2 })
    );
}

#[test]
fn bounds_come_before_arithmetic() {
    let (h, root) = (leaf_hash(b"x"), leaf_hash(b"r"));
    assert_eq!(verify(0, &root, &[(0, h)], &[]), Err(MultiError::Size(0)));
    for size in [limits::TREE_SIZE_MAX + 1, u64::MAX] {
        assert_eq!(
            verify(size, &root, &[(0, h)], &[]),
            Err(MultiError::Size(size))
        );
    }
    assert_eq!(verify(5, &root, &[], &[]), Err(MultiError::Leaves(0)));
    let many: Vec<(u64, Hash)> = (0..=limits::MULTI_LEAVES_MAX as u64)
        .map(|i| (i, h))
        .collect();
    assert_eq!(
        verify(1 << 40, &root, &many, &[]),
        Err(MultiError::Leaves(many.len()))
    );
    let unsorted = [(2, h), (1, h)];
    assert_eq!(
        verify(5, &root, &unsorted, &[]),
        Err(MultiError::Index { index: 1, size: 5 })
    );
    let top = limits::TREE_SIZE_MAX;
    assert_eq!(nodes(&[top - 1], top).unwrap().len(), 62);
    assert_eq!(
        verify(top, &root, &[(top - 1, h)], &[h; 62]),
        Err(MultiError::Root)
    );
    assert_eq!(
        verify(top, &root, &[(u64::MAX, h)], &[]),
        Err(MultiError::Index {
            index: u64::MAX,
            size: top
        })
    );
}
