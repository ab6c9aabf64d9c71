//! The auditor: reads everything that a service serves and believes none of it.

use std::path::PathBuf;

use countersign_verifier::{
    hash::{Hash, leaf_hash},
    leaf::{Decision, Leaf},
    note::Note,
    policy::Policy,
    range::Range,
    tile::{self, hash_of, parse_bundle, parse_hashes},
    tree::verify_consistency,
};
use tempfile::TempDir;

use super::{Answer, Http, Service, project::Identities, verify};

/// A tree head that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub size: u64,
    pub root: Hash,
}

/// What an auditor knows of one log, over any number of restarts.
pub struct Auditor {
    policy: Policy,
    policy_file: PathBuf,
    /// Every head that was ever published to us, oldest first.
    seen: Vec<Head>,
    /// Every leaf, byte for byte, as it was first seen.
    leaves: Vec<Vec<u8>>,
    /// The root at each size, for [`Auditor::follow`].
    roots: Vec<Hash>,
    range: Range,
    /// The stamp of the last leaf that was followed.
    at: u64,
    files: TempDir,
}

impl Auditor {
    pub fn new(service: &Service) -> Auditor {
        let text = std::fs::read_to_string(&service.policy).expect("the policy that `ready` names");
        assert!(text.contains(&service.vkey), "{text}");
        Auditor {
            policy: Policy::parse(&text).expect("a policy"),
            policy_file: service.policy.clone(),
            seen: Vec::new(),
            leaves: Vec::new(),
            roots: vec![Range::new().root()],
            range: Range::new(),
            at: 0,
            files: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// The leaves, as of the last check.
    pub fn leaves(&self) -> &[Vec<u8>] {
        &self.leaves
    }

    /// The policy file that evidence is judged by.
    pub fn policy_file(&self) -> &PathBuf {
        &self.policy_file
    }

    /// The newest checkpoint, its signature verified.
    pub fn head(&self, http: &mut Http) -> Head {
        let answer = http.get("/log/dev/checkpoint");
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.open(&answer.body)
    }

    /// How much has been seen, for [`Auditor::forget_to`].
    pub fn remember(&self) -> (usize, usize) {
        (self.seen.len(), self.leaves.len())
    }

    /// Forgets what was seen since: the test itself has put the log back.
    pub fn forget_to(&mut self, (seen, leaves): (usize, usize)) {
        self.seen.truncate(seen);
        self.leaves.truncate(leaves);
    }

    /// A leaf's hash in hexadecimal, as of the last check.
    pub fn leaf_hash(&self, index: u64) -> Option<String> {
        let leaf = self.leaves.get(usize::try_from(index).ok()?)?;
        Some(leaf_hash(leaf).to_hex())
    }

    /// Takes in a checkpoint that somebody else was served: from now on it must be a prefix of whatever is.
    pub fn saw(&mut self, note: &[u8]) {
        let head = self.open(note);
        let at = self.seen.partition_point(|seen| seen.size < head.size);
        self.seen.insert(at, head);
    }

    fn open(&self, note: &[u8]) -> Head {
        let note = Note::parse(note).expect("a note");
        let accepted = self.policy.check(&note).expect("a signed checkpoint");
        Head {
            size: accepted.checkpoint.size,
            root: accepted.checkpoint.root,
        }
    }

    /// Reads all that a damaged store may still serve: each answer is an honest failure, or what it always was.
    pub fn check_what_is_served(&self, http: &mut Http) {
        let head = self.head(http);
        let size = self.leaves.len() as u64;
        assert_eq!(head.size, size, "another size is published");
        let hashes: Vec<Hash> = self.leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        assert_eq!(head.root, hashes.iter().copied().collect::<Range>().root());
        let is_served = |answer: &Answer, what: &str| match answer.status {
            200 => true,
            500 | 503 => false,
            status => panic!("{what}: {status} {}", answer.text()),
        };
        for bundle in tile::bundles(size) {
            let answer = http.get(&format!("/log/dev/{}", bundle.path()));
            if is_served(&answer, &bundle.path()) {
                let entries = parse_bundle(&answer.body, bundle.width).expect("a bundle");
                let first = usize::try_from(bundle.index).expect("an index") * 256;
                assert_eq!(entries, self.leaves[first..first + entries.len()]);
            }
        }
        for tile in tile::tiles(size).filter(|tile| tile.level == 0) {
            let answer = http.get(&format!("/log/dev/{}", tile.path()));
            if is_served(&answer, &tile.path()) {
                let first = usize::try_from(tile.index).expect("an index") * 256;
                let served = parse_hashes(&answer.body, tile.width).expect("a tile");
                assert_eq!(served, hashes[first..first + served.len()]);
            }
        }
        for index in [0, size / 3, size / 2, size - 1] {
            let answer = http.get(&format!("/log/dev/evidence/{index}"));
            if is_served(&answer, "evidence") {
                let file = self.files.path().join("damaged.json");
                std::fs::write(&file, &answer.body).expect("an evidence file");
                let verified = verify(&[file], &self.policy_file, &[]);
                assert_eq!(verified.code, 0, "{verified:#?}");
            }
        }
    }

    /// Verifies what has come since the last time, and that all of it is one history: the tree grows from the leaves that were seen
    /// before to the root that is signed now, every head seen since is the root at its size, each new leaf parses and time never goes
    /// back. What [`Auditor::check`] does beyond this it does from the first leaf on, which takes longer each time.
    ///
    /// Of no use where [`Auditor::forget_to`] is.
    pub fn follow(&mut self, http: &mut Http) {
        let head = self.head(http);
        let known = self.leaves.len() as u64;
        assert!(known <= head.size, "{known} leaves shrank to {head:?}");
        for bundle in
            tile::bundles(head.size).filter(|b| b.index * 256 + u64::from(b.width) > known)
        {
            let path = format!("/log/dev/{}", bundle.path());
            let answer = http.get(&path);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let entries = parse_bundle(&answer.body, bundle.width).expect("a bundle");
            for (index, entry) in (bundle.index * 256..).zip(entries) {
                match self.leaves.get(usize::try_from(index).expect("an index")) {
                    Some(known) => assert!(known == entry, "leaf {index} has changed"),
                    None => self.leaves.push(entry.to_vec()),
                }
            }
        }
        assert_eq!(self.leaves.len() as u64, head.size);
        while let Some(bytes) = self.leaves.get(self.roots.len() - 1) {
            let leaf = Leaf::parse(bytes).unwrap_or_else(|e| panic!("{}: {e}", self.roots.len()));
            assert!(leaf.at().0 >= self.at, "time goes back");
            self.at = leaf.at().0;
            self.range.push(leaf_hash(bytes));
            self.roots.push(self.range.root());
        }
        self.seen.push(head);
        // One is kept: `check` proves consistency from the last.
        for seen in &self.seen {
            let root = usize::try_from(seen.size)
                .ok()
                .and_then(|s| self.roots.get(s));
            assert_eq!(root, Some(&seen.root), "another tree at size {}", seen.size);
        }
        self.seen.drain(..self.seen.len() - 1);
    }

    /// Re-verifies the whole tree from what is served: each leaf parses and is what it was; entries, tiles and root agree;
    /// every head seen so far is a prefix; identities are what a replay of the leaves gives; evidence holds for
    /// `countersign-verify`.
    pub fn check(&mut self, http: &mut Http) {
        let head = self.head(http);
        if let Some(last) = self.seen.last() {
            assert!(last.size <= head.size, "{last:?} shrank to {head:?}");
        }
        self.read_entries(http, head.size);
        let hashes: Vec<Hash> = self.leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        check_tiles(http, head.size, &hashes);
        self.check_heads(http, head, &hashes);
        self.check_leaves(http, head.size);
        self.check_evidence(http, head.size);
    }

    fn read_entries(&mut self, http: &mut Http, size: u64) {
        let mut index = 0;
        for bundle in tile::bundles(size) {
            let path = format!("/log/dev/{}", bundle.path());
            let answer = http.get(&path);
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            for entry in parse_bundle(&answer.body, bundle.width).expect("a bundle") {
                match self.leaves.get(index) {
                    Some(known) => assert!(known == entry, "leaf {index} has changed"),
                    None => self.leaves.push(entry.to_vec()),
                }
                index += 1;
            }
        }
        assert_eq!(self.leaves.len() as u64, size);
    }

    fn check_heads(&mut self, http: &mut Http, head: Head, hashes: &[Hash]) {
        let old = self.seen.last().copied();
        if old.is_none_or(|old| old != head) {
            self.seen.push(head);
        }
        let mut range = Range::new();
        let mut seen = self.seen.iter().peekable();
        for size in 0..=head.size {
            while let Some(past) = seen.next_if(|past| past.size == size) {
                assert_eq!(past.root, range.root(), "another tree at size {size}");
            }
            if let Some(hash) = usize::try_from(size).ok().and_then(|i| hashes.get(i)) {
                range.push(*hash);
            }
        }
        assert_eq!(seen.next(), None, "a head beyond the newest");
        if let Some(old) = old.filter(|old| old.size > 0) {
            let target = format!("/log/dev/consistency?from={}&to={}", old.size, head.size);
            let answer = http.get(&target);
            assert_eq!(answer.status, 200, "{target}: {}", answer.text());
            let lines = answer.text();
            let path: Vec<Hash> = lines
                .lines()
                .map(|line| Hash::from_base64(line).expect("a hash a line"))
                .collect();
            verify_consistency(old.size, &old.root, head.size, &head.root, &path)
                .unwrap_or_else(|e| panic!("{target}: {e}"));
        }
    }

    /// That every leaf parses, time never goes back, refusals have a code, and `/keys` is what a replay gives.
    fn check_leaves(&self, http: &mut Http, size: u64) {
        let mut identities = Identities::default();
        let mut at = 0;
        for (index, bytes) in (0..).zip(&self.leaves) {
            let leaf = Leaf::parse(bytes).unwrap_or_else(|e| panic!("leaf {index}: {e}"));
            assert!(leaf.at().0 >= at, "time goes back at leaf {index}");
            at = leaf.at().0;
            if let Leaf::Operation(operation) = &leaf
                && let Decision::Refused { code, .. } = operation.decision
            {
                assert!(!code.is_empty());
            }
            identities.apply(index, &leaf);
        }
        let keys = http.get("/log/dev/keys").json();
        if keys["as_of"]["size"] == size {
            assert_eq!(keys["identities"], identities.rows());
        }
    }

    /// Leaf 0, the last, and two between.
    fn check_evidence(&self, http: &mut Http, size: u64) {
        let mut indexes = vec![0, size - 1, size * 7 / 11, size / 3];
        indexes.sort_unstable();
        indexes.dedup();
        let files = indexes.iter().map(|index| {
            let answer = http.get(&format!("/log/dev/evidence/{index}"));
            assert_eq!(answer.status, 200, "{}", answer.text());
            let file = self.files.path().join(format!("{index}.evidence.json"));
            std::fs::write(&file, &answer.body).expect("an evidence file");
            file
        });
        let files: Vec<PathBuf> = files.collect();
        let verified = verify(&files, &self.policy_file, &[]);
        assert_eq!(verified.code, 0, "{verified:#?}");
        for (verdict, index) in verified.verdicts.iter().zip(&indexes) {
            assert_eq!(verdict["verdict"], "holds", "{verdict}");
            assert_eq!(verdict["subject"]["index"], *index, "{verdict}");
        }
    }
}

fn check_tiles(http: &mut Http, size: u64, leaves: &[Hash]) {
    let mut level = 0;
    let mut row = leaves.to_vec();
    for tile in tile::tiles(size) {
        while level < tile.level {
            row = row.chunks_exact(256).map(hash_of).collect();
            level += 1;
        }
        let path = format!("/log/dev/{}", tile.path());
        let answer = http.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let served = parse_hashes(&answer.body, tile.width).expect("a tile");
        // OK because `tiles` names what a tree of this size has.
        let first = usize::try_from(tile.index).expect("an index") * 256;
        assert_eq!(served, row[first..][..served.len()], "{path}");
    }
}
