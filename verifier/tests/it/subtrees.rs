//! Subtrees: every vector, and every proof of small trees.

use countersign_verifier::hash::{EMPTY_ROOT, Hash, leaf_hash, sha256};
use countersign_verifier::subtree::{
    SubtreeError, consistency_proof_len, is_subtree, verify_consistency, verify_inclusion,
};
use countersign_verifier::tree;

use crate::support::{Tree, text, vectors};
use crate::vectors_tree::{number, proof, root_or_stand_in};

#[test]
fn subtree_valid() {
    let all = vectors("subtree_valid");
    assert_eq!(all.len(), 15);
    for v in all {
        let [start, end] = ["start", "end"].map(|member| text(&v, member).parse().unwrap());
        assert_eq!(
            is_subtree(start, end),
            v["valid"].as_bool().unwrap(),
            "{}",
            v["id"]
        );
    }
}

#[test]
fn t9_the_power_of_two_over_a_length_overflows() {
    let half = 1 << 63;
    assert!(is_subtree(0, u64::MAX) && is_subtree(0, half) && is_subtree(0, half + 1));
    assert!(!is_subtree(1, half + 2) && !is_subtree(half, 1));
    assert!(is_subtree(half, u64::MAX) && is_subtree(u64::MAX, u64::MAX));
    let hash = leaf_hash(b"");
    for (start, end) in [(0, half + 1), (half, u64::MAX), (u64::MAX - 1, u64::MAX)] {
        assert!(consistency_proof_len(start, end, u64::MAX) <= 65);
        assert!(verify_consistency((start, end), &hash, u64::MAX, &hash, &[hash; 70]).is_err());
    }
}

#[test]
fn merkle_subtree_inclusion() {
    let all = vectors("merkle_subtree_inclusion");
    assert_eq!(all.len(), 140);
    let mut good = 0;
    for v in all {
        let hash = |member| Hash::from_base64(text(&v, member)).ok();
        let given = (hash("leafHash"), hash("root"), proof(&v));
        let holds = if let (Some(leaf), Some(root), Some(path)) = given {
            let bounds = (number(&v, "start"), number(&v, "end"));
            verify_inclusion(&leaf, number(&v, "leafIdx"), bounds, &path, &root).is_ok()
        } else {
            false // a leaf or root of another length cannot even be given
        };
        assert_eq!(holds, !v["wantErr"].as_bool().unwrap(), "{}", v["id"]);
        good += usize::from(holds);
    }
    assert_eq!(good, 9);
}

#[test]
fn merkle_subtree_consistency() {
    let all = vectors("merkle_subtree_consistency");
    assert_eq!(all.len(), 79);
    let mut good = 0;
    for v in all {
        let bounds = (number(&v, "start"), number(&v, "end"));
        let [hash, root] = ["root1", "root2"].map(|root| root_or_stand_in(text(&v, root)));
        let holds = proof(&v).is_some_and(|path| {
            verify_consistency(bounds, &hash, number(&v, "size"), &root, &path).is_ok()
        });
        assert_eq!(holds, !v["wantErr"].as_bool().unwrap(), "{}", v["id"]);
        good += usize::from(holds);
    }
    assert_eq!(good, 9);
}

/// Every valid `[start, end)` with `end` up to `size`.
fn subtrees(size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..=size)
        .flat_map(|end| (0..=end).map(move |start| (start, end)))
        .filter(|(start, end)| is_subtree(*start as u64, *end as u64))
}

#[test]
fn merkle_accumulated_subtrees() {
    let all = vectors("merkle_accumulated").into_iter();
    let all: Vec<_> = all
        .filter(|v| text(v, "id").starts_with("subtree-"))
        .collect();
    assert_eq!(all.len(), 2);
    let tree = Tree::of((0..130u8).map(|n| [n]));
    for v in all {
        let (id, max) = (text(&v, "id"), number(&v, "max") as usize);
        let mut feed = String::new();
        if id == "subtree-hash" {
            for (start, end) in subtrees(max) {
                feed += &format!("[{start}, {end}) {}\n", tree.subtree(start, end));
            }
        } else {
            for size in 0..=max {
                for (start, end) in subtrees(size) {
                    let path = tree.subtree_proof(start, end, size);
                    feed += &format!("[{start}, {end}) {size}");
                    path.iter().for_each(|hash| feed += &format!(" {hash}"));
                    feed += "\n";
                }
            }
        }
        assert_eq!(
            sha256(feed.as_bytes()).to_hex(),
            text(&v, "want_sha256"),
            "{id}"
        );
    }
}

#[test]
fn every_subtree_of_small_trees_is_proved_and_by_its_own_proof_only() {
    let tree = Tree::of((0..70u8).map(|n| [n]));
    let wrong = leaf_hash(b"wrong");
    for size in 1..=70 {
        let root = tree.root(size);
        for (start, end) in subtrees(size).filter(|(start, end)| start < end) {
            let bounds = (start as u64, end as u64);
            let (hash, mut path) = (
                tree.subtree(start, end),
                tree.subtree_proof(start, end, size),
            );
            let check = |hash: &Hash, root: &Hash, path: &[Hash]| {
                verify_consistency(bounds, hash, size as u64, root, path)
            };
            assert_eq!(check(&hash, &root, &path), Ok(()), "{bounds:?} {size}");
            let len = consistency_proof_len(bounds.0, bounds.1, size as u64);
            assert_eq!(len, path.len(), "{bounds:?} {size}");
            if start == 0 {
                assert_eq!(len, tree::consistency_proof_len(bounds.1, size as u64));
            }
            if end == start + 1 {
                assert_eq!(path, tree.inclusion(start, size));
            }
            // Where the whole is the subtree, its hash is the root, and nothing else can be wrong.
            if (start, end) != (0, size) {
                let whole = check(&wrong, &root, &path);
                assert!(matches!(
                    whole,
                    Err(SubtreeError::Hash | SubtreeError::Root)
                ));
            }
            assert!(check(&hash, &wrong, &path).is_err());
            for at in 0..path.len() {
                let kept = std::mem::replace(&mut path[at], wrong);
                assert!(
                    check(&hash, &root, &path).is_err(),
                    "{bounds:?} {size} {at}"
                );
                path[at] = kept;
            }
            path.push(wrong);
            assert!(matches!(
                check(&hash, &root, &path),
                Err(SubtreeError::Length { .. })
            ));
        }
    }
    let empty = |hash| verify_consistency((3, 3), hash, 5, &wrong, &[]);
    assert_eq!(
        (empty(&EMPTY_ROOT), empty(&wrong)),
        (Ok(()), Err(SubtreeError::Hash))
    );
}

#[test]
fn a_leaf_has_its_usual_path_in_a_subtree() {
    let tree = Tree::of((0..40u8).map(|n| [n]));
    for (start, end) in subtrees(40).filter(|(start, end)| start < end) {
        let sub = Tree(tree.0[start..end].to_vec());
        let (bounds, hash) = ((start as u64, end as u64), tree.subtree(start, end));
        for index in start..end {
            let path = sub.inclusion(index - start, end - start);
            let leaf = &tree.0[index];
            assert_eq!(
                verify_inclusion(leaf, index as u64, bounds, &path, &hash),
                Ok(())
            );
        }
        let outside = verify_inclusion(&hash, bounds.1, bounds, &[], &hash);
        assert!(matches!(outside, Err(SubtreeError::NotInSubtree { .. })));
    }
}
