//! Evidence of forks: what proves one, and what does not.

use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::fork::{Differs, Fork, ForkError, Node, NotProven, Proven, Which};
use countersign_verifier::hash::{EMPTY_ROOT, Hash, leaf_hash};
use countersign_verifier::note::{NoteError, join};
use countersign_verifier::tree::{
    NodeError, complete_nodes, is_complete, node_path_len, verify_node,
};
use countersign_verifier::vkey::{NoteSigner, VerifierKey};
use ed25519_dalek::SigningKey;

use crate::support::{Tree, log_signer};

pub const ORIGIN: &str = "log.example/a";

/// A tree of `size` whose leaves are other ones from `from` on.
pub fn tree(size: usize, from: usize) -> Tree {
    Tree::of((0..size).map(|n| {
        if n < from {
            format!("{n}")
        } else {
            format!("other {n}")
        }
    }))
}

pub fn text(size: u64, root: Hash) -> String {
    format!("{ORIGIN}\n{size}\n{}\n", root.to_base64())
}

pub fn signed(tree: &Tree) -> String {
    sign(&text(tree.0.len() as u64, tree.root(tree.0.len())))
}

fn sign(text: &str) -> String {
    join(text, [&*log_signer().sign(text)])
}

fn path(tree: &Tree, level: u8, index: u64) -> Vec<Hash> {
    let leaf = (index << level) as usize;
    tree.inclusion(leaf, tree.0.len()).split_off(level.into())
}

fn hash(tree: &Tree, level: u8, index: u64) -> Hash {
    let start = (index << level) as usize;
    tree.subtree(start, start + (1 << level))
}

/// The claim that two trees differ in a node.
pub fn claim(trees: [&Tree; 2], level: u8, index: u64) -> Fork {
    Fork {
        checkpoints: trees.map(signed),
        node: Some(Node {
            level,
            index,
            hashes: trees.map(|tree| hash(tree, level, index)),
            paths: trees.map(|tree| path(tree, level, index)),
        }),
    }
}

fn verify(fork: &Fork) -> Result<Proven, NotProven> {
    let key = log_signer().vkey().clone();
    assert_eq!(Fork::parse(&fork.to_json()).as_ref(), Ok(fork));
    fork.verify(ORIGIN, [&key])
}

#[test]
fn every_complete_node_of_small_trees_has_its_path() {
    for size in 1..=40u64 {
        let tree = tree(size as usize, 100);
        let root = tree.root(size as usize);
        for level in 0..8u8 {
            for index in 0..=size {
                if !is_complete(level, index, size) {
                    let error = verify_node(&root, level, index, size, &[], &root);
                    assert_eq!(error, Err(NodeError::Incomplete { level, index, size }));
                    continue;
                }
                let (hash, mut path) = (hash(&tree, level, index), path(&tree, level, index));
                assert_eq!(verify_node(&hash, level, index, size, &path, &root), Ok(()));
                assert_eq!(node_path_len(level, index, size), path.len());
                let wrong = leaf_hash(b"wrong");
                assert!(verify_node(&wrong, level, index, size, &path, &root).is_err());
                for at in 0..path.len() {
                    let kept = std::mem::replace(&mut path[at], wrong);
                    assert!(verify_node(&hash, level, index, size, &path, &root).is_err());
                    path[at] = kept;
                }
                path.push(wrong);
                assert!(matches!(
                    verify_node(&hash, level, index, size, &path, &root),
                    Err(NodeError::Length { .. })
                ));
            }
        }
        let nodes: Vec<_> = complete_nodes(size).collect();
        let leaves: u64 = nodes.iter().map(|(level, _)| 1 << level).sum();
        assert_eq!(leaves, size);
        assert!(
            nodes
                .iter()
                .all(|&(level, index)| is_complete(level, index, size))
        );
    }
    // At the edges of the numbers nothing overflows.
    assert!(!is_complete(64, 0, u64::MAX) && !is_complete(0, u64::MAX, u64::MAX));
    assert!(
        is_complete(63, 0, u64::MAX) && !is_complete(63, 1, u64::MAX) && !is_complete(255, 0, 1)
    );
    assert!(!is_complete(0, 0, 0) && node_path_len(0, 0, 0) == 0);
}

#[test]
fn two_trees_of_one_size_are_a_fork_by_their_roots() {
    let (one, other) = (tree(5, 100), tree(5, 3));
    let fork = Fork {
        checkpoints: [signed(&one), signed(&other)],
        node: None,
    };
    let proven = verify(&fork).unwrap();
    assert_eq!(proven.differs, Differs::Roots);
    assert_eq!(proven.heads.map(|head| head.checkpoint.size), [5, 5]);
    assert_eq!(
        verify(&fork).unwrap().to_string(),
        "the log signed two trees of 5 leaves with different roots: it has shown two histories"
    );
    // The same head twice is none, whatever stands behind it.
    let extended = sign(&format!("{}extension\n", text(5, one.root(5))));
    for second in [signed(&one), extended] {
        let same = Fork {
            checkpoints: [signed(&one), second],
            node: None,
        };
        assert_eq!(verify(&same), Err(NotProven::Same { size: 5 }));
    }
    // What a log signs counts, in any size and even where no tree can be.
    for size in [0, u64::MAX] {
        let heads = [EMPTY_ROOT, leaf_hash(b"x")].map(|root| sign(&text(size, root)));
        let fork = Fork {
            checkpoints: heads,
            node: None,
        };
        assert_eq!(verify(&fork).unwrap().differs, Differs::Roots);
    }
}

#[test]
fn two_sizes_are_a_fork_exactly_where_a_complete_node_differs() {
    let from = 6;
    for small in 1..=12usize {
        for large in small + 1..=13 {
            let (one, other) = (tree(small, 100), tree(large, from));
            let mut found = false;
            for (level, index) in complete_nodes(small as u64) {
                let forward = claim([&one, &other], level, index);
                let backward = claim([&other, &one], level, index);
                match verify(&forward) {
                    Ok(proven) => {
                        found = true;
                        let (start, end) = (index << level, (index + 1) << level);
                        assert_eq!(proven.differs, Differs::Leaves { start, end });
                        assert!(verify(&backward).is_ok());
                    }
                    Err(error) => assert_eq!(error, NotProven::SameNode),
                }
            }
            assert_eq!(found, small > from, "{small} {large}");
        }
    }
    let fork = claim([&tree(7, 100), &tree(13, 6)], 0, 6);
    assert_eq!(
        verify(&fork).unwrap().to_string(),
        "the log signed a tree of 13 leaves that does not extend its tree of 7: leaves 6 to 6, which both have, are not the same"
    );
}

#[test]
fn what_an_honest_log_signs_is_never_a_fork() {
    let (one, other) = (tree(5, 100), tree(9, 100));
    let honest = claim([&one, &other], 2, 0);
    assert_eq!(verify(&honest), Err(NotProven::SameNode));
    let none = Fork {
        node: None,
        ..honest.clone()
    };
    assert_eq!(verify(&none), Err(NotProven::NoNode { sizes: [5, 9] }));
    // An invented hash has no path to the root that was signed.
    for side in 0..2 {
        let mut lie = honest.clone();
        lie.node.as_mut().unwrap().hashes[side] = leaf_hash(b"lie");
        assert!(matches!(verify(&lie), Err(NotProven::Node { .. })));
    }
    // The last node of a tree changes as it grows, and so may not be used: here node 1 of level 2.
    let tail = claim([&tree(8, 100), &other], 2, 1);
    assert_eq!(verify(&tail), Err(NotProven::SameNode));
    let mut grown = tail;
    grown.checkpoints[0] = signed(&one);
    let node = grown.node.as_mut().unwrap();
    node.hashes[0] = one.subtree(4, 5);
    node.paths[0] = vec![one.subtree(0, 4)];
    assert!(matches!(
        verify(&grown),
        Err(NotProven::Node {
            which: Which::First,
            what: NodeError::Incomplete { .. }
        })
    ));
    // Beside equal sizes a node proves nothing more, and would only be shown.
    let needless = claim([&tree(5, 3), &one], 0, 3);
    assert_eq!(verify(&needless), Err(NotProven::Needless));
}

#[test]
fn both_checkpoints_are_the_logs_own() {
    let (one, other) = (tree(5, 100), tree(5, 3));
    let good = [signed(&one), signed(&other)];
    let fork = |checkpoints| Fork {
        checkpoints,
        node: None,
    };
    let other_text = text(5, other.root(5));
    let stranger = NoteSigner::new(ORIGIN, SigningKey::from_bytes(&[9; 32])).unwrap();
    let forged = join(&other_text, [&*stranger.sign(&other_text)]);
    assert_eq!(
        verify(&fork([good[0].clone(), forged])),
        Err(NotProven::Note {
            which: Which::Second,
            what: NoteError::Untrusted
        })
    );
    let moved = good[1].replace(&other.root(5).to_base64(), &one.root(4).to_base64());
    assert!(matches!(
        verify(&fork([moved, good[0].clone()])),
        Err(NotProven::Note {
            which: Which::First,
            what: NoteError::Signature { .. }
        })
    ));
    let elsewhere = sign(&other_text.replace(ORIGIN, "log.example/b"));
    assert!(matches!(
        verify(&fork([good[0].clone(), elsewhere.clone()])),
        Err(NotProven::Origin {
            which: Which::Second,
            ..
        })
    ));
    // Keys of one origin say nothing of another.
    let key = log_signer().vkey().clone();
    let claimed = fork([elsewhere.clone(), elsewhere]);
    assert!(matches!(
        claimed.verify(ORIGIN, [&key]),
        Err(NotProven::Origin { .. })
    ));
    assert_eq!(claimed.origin(), "log.example/b");
    let no_head = sign(&format!("{ORIGIN}\nx\n"));
    assert!(matches!(
        verify(&fork([good[0].clone(), no_head])),
        Err(NotProven::Checkpoint {
            which: Which::Second,
            ..
        })
    ));
    assert!(
        fork(["".into(), good[0].clone()])
            .verify(ORIGIN, [&key])
            .is_err()
    );
    // A bad line of a witness takes nothing away, and strange ones add nothing.
    let with_line = |note: &str| format!("{note}\u{2014} w.example/w AAAAAAA=\n");
    let noisy = fork([with_line(&good[0]), with_line(&good[1])]);
    let proven = verify(&noisy).unwrap();
    assert_eq!(proven.heads[0].key, (ORIGIN.into(), key.id));
    // Of several keys of a log the first given that signed is named.
    let keys: [VerifierKey; 2] = [stranger.vkey().clone(), key];
    assert_eq!(noisy.verify(ORIGIN, &keys), Ok(proven));
    let checkpoint = Checkpoint::parse(&other_text).unwrap();
    assert_eq!(
        noisy.verify(ORIGIN, &keys).unwrap().heads[1].checkpoint,
        checkpoint
    );
}

#[test]
fn fork_files_are_read_strictly() {
    let fork = claim([&tree(7, 100), &tree(13, 6)], 0, 6);
    let json = String::from_utf8(fork.to_json()).unwrap();
    let error = |from: &str, to: &str| {
        assert!(json.contains(from), "{from}");
        Fork::parse(json.replacen(from, to, 1).as_bytes()).unwrap_err()
    };
    assert_eq!(
        error("fork/1", "fork/2").to_string(),
        "unsupported version: format \"countersign.fork/2\"; this release reads countersign.fork/1"
    );
    for (from, to, at) in [
        ("\"format\"", "\"forms\"", ""),
        ("\"checkpoints\"", "\"check\"", ""),
        ("\"level\":0", "\"level\":64", "/node/level"),
        ("\"level\":0", "\"level\":0,\"level\":0", "/node/level"),
        ("\"level\":0,", "", "/node"),
        ("\"index\":6", "\"index\":-6", "/node/index"),
        ("\"index\":6", "\"index\":6.0", "/node/index"),
        ("\"hashes\":[", "\"hashes\":[\"\",", "/node/hashes/0"),
        ("\"paths\":[", "\"paths\":[[],", "/node/paths/2"),
        (
            "\"checkpoints\":[",
            "\"checkpoints\":[\"\",",
            "/checkpoints/2",
        ),
        (
            "\"checkpoints\":",
            "\"checkpoints\":[\"\"],\"x\":",
            "/checkpoints",
        ),
        ("{\"format\"", "{\"node\":null,\"format\"", "/node"),
        ("]}}\n", "]}},", ""),
    ] {
        let ForkError::Form(error) = error(from, to) else {
            panic!("{from}")
        };
        assert_eq!(error.pointer, at, "{from} {to}: {error}");
    }
    let mut long = fork.clone();
    long.node.as_mut().unwrap().paths[1] = vec![Hash([7; 32]); 65];
    let ForkError::Form(long) = Fork::parse(&long.to_json()).unwrap_err() else {
        panic!()
    };
    assert_eq!(long.pointer, "/node/paths/1/64");
    let more = json.replacen("{\"format\"", "{\"later\":{\"a\":[1]},\"format\"", 1);
    assert_eq!(Fork::parse(more.as_bytes()), Ok(fork));
    let large = vec![b' '; (2 << 20) + 1];
    assert_eq!(
        Fork::parse(&large),
        Err(ForkError::TooLarge { bytes: large.len() })
    );
}
