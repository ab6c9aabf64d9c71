//! The traps of trees and tiles, by number; those that a vector, a case or a unit test meets are not
//! repeated.

use countersign_verifier::hash::{EMPTY_ROOT, leaf_hash, node_hash};
use countersign_verifier::tile::{
    Bundle, Tile, TileError, hash_of, level_hashes, parse_bundle, push_entry, tile_at, tiles,
};
use countersign_verifier::tree::{ProofError, verify_consistency, verify_inclusion};

use crate::support::Tree;

#[test]
fn t2_a_root_without_the_node_prefix_is_another() {
    let leaves = ["a", "b"].map(|entry| leaf_hash(entry.as_bytes()));
    let foreign =
        rs_merkle::MerkleTree::<rs_merkle::algorithms::Sha256>::from_leaves(&leaves.map(|l| l.0));
    assert_ne!(foreign.root().unwrap(), node_hash(&leaves[0], &leaves[1]).0);
}

#[test]
fn t4_an_index_outside_the_tree_fails_before_any_arithmetic() {
    let hash = leaf_hash(b"x");
    for (index, size) in [
        (0, 0),
        (1, 0),
        (1, 1),
        (5, 3),
        (u64::MAX, u64::MAX),
        (u64::MAX, 0),
    ] {
        let error = ProofError::NotInTree { index, size };
        assert_eq!(verify_inclusion(&hash, index, size, &[], &hash), Err(error));
    }
}

#[test]
fn t6_size_0_has_the_empty_proof_and_the_empty_root_alone() {
    let (root, other) = (leaf_hash(b"x"), leaf_hash(b"y"));
    assert_eq!(
        verify_consistency(0, &EMPTY_ROOT, 0, &EMPTY_ROOT, &[]),
        Ok(())
    );
    assert_eq!(verify_consistency(0, &EMPTY_ROOT, 7, &root, &[]), Ok(()));
    assert!(verify_consistency(0, &EMPTY_ROOT, 7, &root, &[root]).is_err());
    assert!(verify_consistency(0, &other, 7, &root, &[]).is_err());
    assert!(verify_consistency(0, &EMPTY_ROOT, 0, &root, &[]).is_err());
    assert!(verify_consistency(1, &root, 0, &EMPTY_ROOT, &[]).is_err());
}

#[test]
fn t7_both_roots_are_compared() {
    let tree = Tree::of((0..8).map(|i: u8| [i]));
    let (path, wrong) = (tree.consistency(6, 8), leaf_hash(b"x"));
    let (old_size, new_size) = (6, 8);
    let old = verify_consistency(6, &wrong, 8, &tree.root(8), &path);
    assert_eq!(old, Err(ProofError::OldRoot { old_size, new_size }));
    let new = verify_consistency(6, &tree.root(6), 8, &wrong, &path);
    assert_eq!(new, Err(ProofError::NewRoot { old_size, new_size }));
}

#[test]
fn t8_equal_sizes_take_equal_roots_and_no_hash() {
    let (root, other) = (leaf_hash(b"x"), leaf_hash(b"y"));
    assert_eq!(verify_consistency(5, &root, 5, &root, &[]), Ok(()));
    assert!(verify_consistency(5, &root, 5, &root, &[root]).is_err());
    assert!(verify_consistency(5, &root, 5, &other, &[]).is_err());
}

#[test]
fn t29_t30_a_path_has_one_spelling_and_one_layout() {
    let bad = "tile/0/x000/001 tile/0/1000 tile/0/0 tile/0/X001/000 tile/0/001/000 tile/0/x001/x000 tile/0/000.p/256 \
        tile/0/000.p/0 tile/0/000.p/+1 tile/0/+00 tile/+0/000 tile/8/0/x001/000 tile/data/000 tile/0/data/000 \
        /tile/0/000 tile/0/000/ tile/0/xx01/000 tile/0/x1/000 tile/0/000.p/1.p/1 tile//000 tile/0/ tile/256/000 \
        tile/0/x018/x446/x744/x073/x709/x551/616 tile/entries/x000/000 tile/entries/000.p/256 tile/entries/";
    for path in bad.split_whitespace() {
        assert_eq!(Tile::parse(path), Err(TileError::Path), "{path}");
        assert_eq!(Bundle::parse(path), Err(TileError::Path), "{path}");
    }
    let last = Tile {
        level: 63,
        index: u64::MAX,
        width: 256,
    };
    assert_eq!(last.path(), "tile/63/x018/x446/x744/x073/x709/x551/615");
    assert_eq!(Tile::parse(&last.path()), Ok(last));
}

#[test]
fn t31_t32_only_full_tiles_are_hashed_upward() {
    let paths = |size| tiles(size).map(|tile| tile.path()).collect::<Vec<_>>();
    assert_eq!(paths(0), Vec::<String>::new());
    assert_eq!(paths(255), ["tile/0/000.p/255"]);
    // T32: at an exact power the level above has its first hash.
    assert_eq!(paths(256), ["tile/0/000", "tile/1/000.p/1"]);
    // T31: the partial tile gives the level above nothing.
    assert_eq!(
        paths(511),
        ["tile/0/000", "tile/0/001.p/255", "tile/1/000.p/1"]
    );
    assert_eq!(tile_at(511, 1, 1), None);
    assert_eq!(
        tile_at(511, 0, 300),
        Some(Tile {
            level: 0,
            index: 1,
            width: 255
        })
    );
    let tree = Tree::of((0..300_u16).map(u16::to_be_bytes));
    let (full, rest) = tree.0.split_at(256);
    assert_eq!(node_hash(&hash_of(full), &hash_of(rest)), tree.root(300));
    assert_eq!(
        [7, 8, 63].map(|level| level_hashes(u64::MAX, level)),
        [255, 0, 0]
    );
}

#[test]
fn t34_t35_entries_have_16_bit_lengths_that_are_not_hashed() {
    let mut bundle = vec![];
    assert_eq!(
        push_entry(&mut bundle, &[0; 65_536]),
        Err(TileError::EntryTooLarge { bytes: 65_536 })
    );
    assert!(bundle.is_empty());
    push_entry(&mut bundle, b"").unwrap();
    push_entry(&mut bundle, b"ab").unwrap();
    assert_eq!(bundle, [0, 0, 0, 2, b'a', b'b']);
    let entries = parse_bundle(&bundle, 2).unwrap();
    assert_eq!(leaf_hash(entries[1]), leaf_hash(b"ab"));
    assert_ne!(leaf_hash(entries[1]), leaf_hash(&bundle[2..]));
    assert_eq!(
        parse_bundle(&bundle, 1),
        Err(TileError::Trailing { bytes: 4, width: 1 })
    );
    assert_eq!(
        parse_bundle(&bundle, 3),
        Err(TileError::Short {
            bytes: 6,
            entry: 2,
            width: 3
        })
    );
    assert_eq!(
        parse_bundle(&bundle[..5], 2),
        Err(TileError::Short {
            bytes: 5,
            entry: 1,
            width: 2
        })
    );
}
