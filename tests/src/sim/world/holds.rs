//! What must hold after each step.

use countersign_api::{ledger::follows_rules, state::State};
use countersign_log::{Head, Store, prove::Prover};
use countersign_verifier::{
    hash::{Hash, leaf_hash},
    leaf::Leaf,
    note::Note,
    policy::Policy,
    tile::hash_of,
    tree::verify_consistency,
};

use super::World;

/// What was checked of the leaves so far.
#[derive(Default)]
pub struct Checked {
    leaves: Vec<Vec<u8>>,
    hashes: Vec<Hash>,
    state: State,
}

impl World {
    /// Everything that must hold at any time.
    pub fn check(&mut self) {
        self.check_leaves();
        self.check_state();
        self.check_told();
        self.check_shown();
    }

    /// Nothing that was read once has changed, and what is new follows the rules.
    fn check_leaves(&mut self) {
        let durable = self.disk.durable.clone();
        let leaves = durable.entries(0, usize::MAX).expect("the leaves");
        let checked = &mut self.checked;
        let old = checked.leaves.len();
        assert!(
            leaves.len() >= old,
            "{old} leaves were there, {} are",
            leaves.len()
        );
        assert!(leaves[..old] == checked.leaves, "leaves have changed");
        for (index, bytes) in (0..).zip(&leaves).skip(old) {
            let leaf = Leaf::parse(bytes).unwrap_or_else(|e| panic!("leaf {index}: {e}"));
            follows_rules(&checked.state, index, &leaf)
                .unwrap_or_else(|why| panic!("leaf {index}: {why}"));
            self.model.take(index, bytes);
            let applied = checked.state.apply(&leaf);
            applied.unwrap_or_else(|why| panic!("leaf {index}: {why}"));
            checked.hashes.push(leaf_hash(bytes));
        }
        checked.leaves = leaves;
    }

    /// The state in memory is what the leaves give.
    fn check_state(&self) {
        let state = self.state();
        assert_eq!(
            state.size, self.checked.state.size,
            "the state is not that of the leaves"
        );
        assert!(
            *state == self.checked.state,
            "the state is not what a replay gives"
        );
        let again = State::from_snapshot(&state.to_snapshot());
        assert!(
            again.as_ref() == Some(&*state),
            "and does not survive a snapshot"
        );
    }

    /// What anybody was told is there.
    fn check_told(&self) {
        for (index, leaf) in &self.told {
            let index = usize::try_from(*index).expect("a small log");
            let there = self.checked.leaves.get(index);
            assert!(
                there == Some(leaf),
                "leaf {index} was answered and is not there"
            );
        }
    }

    fn root(&self, size: u64) -> Hash {
        match usize::try_from(size).expect("a small log") {
            0 => Head::EMPTY.root,
            size => {
                let known = self.checked.hashes.len();
                assert!(size <= known, "a head of size {size}, of {known} leaves");
                hash_of(&self.checked.hashes[..size])
            }
        }
    }

    /// What readers and witnesses saw is one history, of which the newest head is the last so far.
    fn check_shown(&mut self) {
        let reader = self.log().reader();
        let published = reader.published();
        let (old, new) = (self.shown, published.head);
        assert!(
            new.size >= old.size,
            "size {} was shown, and {} after it",
            old.size,
            new.size
        );
        assert_eq!(
            new.root,
            self.root(new.size),
            "another root is shown for size {}",
            new.size
        );
        if old.size > 0
            && let Ok(path) = Prover::new(&reader, new.size).consistency(old.size)
        {
            let shown = verify_consistency(old.size, &old.root, new.size, &new.root, &path);
            shown.unwrap_or_else(|why| panic!("{} to {}: {why}", old.size, new.size));
        }
        self.shown = new;
        let Some(net) = &self.net else { return };
        for (n, head) in net.cosigned() {
            let root = self.root(head.size);
            assert_eq!(head.root, root, "w{n} cosigned another size {}", head.size);
        }
        if !published.note.is_empty() {
            let policy = Policy::parse(&self.policy).expect("a policy");
            let note = Note::parse(published.note.as_bytes());
            let met = policy.check(&note.expect("a note"));
            let met = met.unwrap_or_else(|why| panic!("shown: {why}"));
            assert_eq!(met.checkpoint.size, new.size);
        }
    }

    /// How many leaves there are, and their root.
    pub fn head(&self) -> Head {
        let size = self.checked.leaves.len() as u64;
        Head {
            size,
            root: self.root(size),
        }
    }
}
