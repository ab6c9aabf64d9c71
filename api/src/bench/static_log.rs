//! A large log of this project's own form as static tiles, made without a service: what an auditor of one reads, and nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use countersign_verifier::{
    dsse::pae,
    hash::{Hash, leaf_hash},
    key::{Algorithm, PrivateKey, PublicKey},
    leaf::{By, Class, Millis, Signed as Envelope, write_receipt, write_system},
    tile::{Bundle, Tile, WIDTH, push_entry},
    vkey::NoteSigner,
};
use serde_json::{Value, json};

use super::{
    material::{PAYLOAD_TYPE, Signed, payload},
    report::say,
};
use crate::{
    audit::{cores, edge::Edge},
    state::{Opened, opened::RULES},
};

const ORIGIN: &str = "log.example.com/bench";
/// Of leaf 0, milliseconds since 1970; each leaf comes a millisecond after the one before it.
const BEGAN: u64 = 1_700_000_000_000;
/// Bundles that are made at once: 16,384 leaves, some 30 MiB of one-kilobyte receipts.
const PART: usize = 64;
/// Signatures that are verified alone, for comparison.
const SAMPLE: u64 = 20_000;
/// What the folder holds, beside the log.
const MADE: &str = "made.json";

/// A log in a folder.
pub(super) struct StaticLog {
    pub(super) folder: PathBuf,
    pub(super) policy: PathBuf,
    maker: Maker,
}

struct Maker {
    owner: PrivateKey,
    by: By,
    payload_bytes: usize,
}

impl StaticLog {
    /// Makes a log of `leaves` leaves in `folder`: leaf 0, then receipts of its owner. One that was made there before is taken as
    /// it is.
    ///
    /// # Errors
    /// A folder of something else, or one that cannot be written to.
    pub(super) fn make(
        folder: &Path,
        leaves: u64,
        payload_bytes: usize,
    ) -> anyhow::Result<StaticLog> {
        let key = |seed: u8| PrivateKey::from_secret(Algorithm::Ed25519, &[seed; 32]);
        let PrivateKey::Ed25519(secret) = key(1)? else {
            bail!("an Ed25519 key");
        };
        let signer = NoteSigner::new(ORIGIN, secret)?;
        let owner = key(2)?;
        let log = StaticLog {
            folder: folder.to_owned(),
            policy: folder.join("policy"),
            maker: Maker {
                by: By {
                    identity: owner.public().identity(),
                    class: Class::AgentKey,
                    session: None,
                },
                owner,
                payload_bytes,
            },
        };
        let made = json!({"leaves": leaves, "payload_bytes": payload_bytes});
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        if let Ok(bytes) = fs::read(folder.join(MADE)) {
            let there: Value = serde_json::from_slice(&bytes)?;
            ensure!(
                there == made,
                "{} holds another log: {there}",
                folder.display()
            );
            return Ok(log);
        }
        let empty = fs::read_dir(folder)?.next().is_none();
        ensure!(empty, "{} is not empty", folder.display());
        let opened = Opened {
            origin: ORIGIN.into(),
            log_vkey: signer.vkey().to_string(),
            owner: log.maker.owner.public(),
            service: key(3)?.public(),
            rules: RULES,
            epoch: 0,
            predecessor: None,
        };
        let root = log.fill(&opened.to_event(), leaves)?;
        let text = format!("{ORIGIN}\n{leaves}\n{}\n", root.to_base64());
        let note = format!("{text}\n{}", signer.sign(&text));
        log.put("checkpoint", note.as_bytes())?;
        let policy = format!("log {}\nquorum none\n", signer.vkey());
        log.put("policy", policy.as_bytes())?;
        // Last: a folder without it is not whole.
        log.put(MADE, made.to_string().as_bytes())?;
        Ok(log)
    }

    /// The key of every receipt.
    pub(super) fn key(&self) -> PublicKey {
        self.maker.owner.public()
    }

    /// What the first signatures of the log are over, and the signatures.
    pub(super) fn signed(&self, leaves: u64) -> anyhow::Result<Vec<Signed>> {
        (1..leaves.min(SAMPLE))
            .map(|index| {
                let (payload, signature) = self.maker.receipt(index);
                let signature = ed25519_dalek::Signature::from_slice(&signature)?;
                Ok((pae(PAYLOAD_TYPE, &payload), signature))
            })
            .collect()
    }

    fn fill(&self, opened: &str, leaves: u64) -> anyhow::Result<Hash> {
        let width = u64::from(WIDTH);
        let mut edge = Edge::default();
        while edge.size() < leaves {
            let first = edge.size();
            let until = leaves.min(first + width * PART as u64);
            let starts: Vec<u64> = (first..until).step_by(usize::from(WIDTH)).collect();
            let made = cores::each(&starts, |from| {
                self.maker.bundle(opened, *from, until.min(from + width))
            });
            for (from, made) in starts.into_iter().zip(made) {
                let (bytes, hashes) = made?;
                let bundle = Bundle {
                    index: from / width,
                    width: u16::try_from(hashes.len()).context("a bundle of 256 at most")?,
                };
                self.put(&bundle.path(), &bytes)?;
                for (tile, hashes) in edge.push(&hashes) {
                    self.put_tile(tile, &hashes)?;
                }
            }
            if (until / (width * PART as u64)).is_multiple_of(16) {
                say(&format!("{until} of {leaves} leaves"));
            }
        }
        for (tile, hashes) in edge.partial() {
            self.put_tile(tile, &hashes)?;
        }
        Ok(edge.root())
    }

    fn put_tile(&self, tile: Tile, hashes: &[Hash]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
        self.put(&tile.path(), &bytes)
    }

    fn put(&self, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.folder.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, bytes).with_context(|| path.display().to_string())
    }
}

impl Maker {
    fn receipt(&self, index: u64) -> (Vec<u8>, Vec<u8>) {
        let payload = payload(0, index, self.payload_bytes);
        let signature = self.owner.sign(&pae(PAYLOAD_TYPE, &payload));
        (payload, signature)
    }

    /// Leaves `from..until` as a bundle, and their hashes.
    fn bundle(&self, opened: &str, from: u64, until: u64) -> anyhow::Result<(Vec<u8>, Vec<Hash>)> {
        let (mut bytes, mut hashes, mut leaf) = (Vec::new(), Vec::new(), Vec::new());
        for index in from..until {
            leaf.clear();
            let at = Millis(BEGAN + index);
            if index == 0 {
                write_system(&mut leaf, at, opened)?;
            } else {
                let (payload, signature) = self.receipt(index);
                let signed = Envelope {
                    payload_type: PAYLOAD_TYPE,
                    payload: &payload,
                    signatures: &[(self.by.identity, &signature)],
                };
                write_receipt(&mut leaf, at, &self.by, signed)?;
            }
            push_entry(&mut bytes, &leaf)?;
            hashes.push(leaf_hash(&leaf));
        }
        Ok((bytes, hashes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::{Plan, run},
        foreign::Foreign,
    };
    use countersign_verifier::{
        policy::{Eras, Policy},
        verdict::Outcome,
    };

    #[test]
    fn a_made_log_holds_with_every_decision_judged_again() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("log");
        for _ in 0..2 {
            // The second time it is there.
            StaticLog::make(&folder, 700, 100).unwrap();
        }
        assert!(StaticLog::make(&folder, 701, 100).is_err());
        let policy = fs::read_to_string(folder.join("policy")).unwrap();
        let log = Foreign::open(folder.to_str().unwrap(), None).unwrap();
        let report = run(&Plan {
            log: &log,
            eras: &Eras::one(Policy::parse(&policy).unwrap()),
            at: None,
            state: None,
            replay: true,
            now_s: None,
            progress: &|_, _| {},
        });
        let report = report.unwrap();
        assert_eq!(report.outcome(), Outcome::Holds, "{}", report.to_lines());
        assert_eq!(report.replayed.unwrap().size, 700);
    }
}
