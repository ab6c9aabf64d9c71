//! Logs that grow, and their requests to a witness, made before they are needed.
//!
//! All logs have the same tree and each has its own origin and key: to a witness they are as different as any two, while leaves and
//! proofs are made once. What costs is a signature for each request.

use std::{fmt::Write as _, net::SocketAddr, ops::Range, thread};

use anyhow::ensure;
use countersign_verifier::{
    add_checkpoint,
    checkpoint::Checkpoint,
    hash::{Hash, leaf_hash},
    key::{Algorithm, PrivateKey},
    note,
    vkey::NoteSigner,
};

use super::tree::Tree;
use crate::bench::watch;

/// Leaves of a log's first head: its proofs then have up to 18 hashes, as those of a log that is in use.
const FIRST_SIZE: usize = 1 << 18;

/// Leaves from one head to the next.
const STEP: usize = 7;

/// As many requests a day as a list can announce, so that no share is used up (witness-network `logs/v0`).
const QPD: u32 = 2_147_483_647;

/// Logs, all at some head or before their first.
#[derive(Debug)]
pub struct Logs {
    signers: Vec<NoteSigner>,
    tree: Tree,
}

/// One request.
#[derive(Debug)]
pub struct Request {
    /// The log's number.
    pub log: usize,
    /// The number of the head that it is about.
    pub head: usize,
    /// Head and body of the HTTP request.
    pub bytes: Vec<u8>,
}

/// The head's part of a request that is the same for every log.
struct Shared {
    old: u64,
    proof: Vec<Hash>,
    size: u64,
    root: Hash,
}

impl Logs {
    /// As many logs, of distinct origins and keys.
    ///
    /// # Errors
    /// None that could be named: every seed is a key.
    pub fn new(count: usize) -> anyhow::Result<Logs> {
        let signers = (0..count).map(|number| {
            let seed = countersign_verifier::hash::sha256(format!("log {number}").as_bytes());
            let key = PrivateKey::from_secret(Algorithm::Ed25519, &seed.0)?;
            let PrivateKey::Ed25519(key) = key else {
                anyhow::bail!("a key of another algorithm")
            };
            Ok(NoteSigner::new(&origin(number), key)?)
        });
        Ok(Logs {
            signers: signers.collect::<anyhow::Result<_>>()?,
            tree: Tree::default(),
        })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.signers.len()
    }

    /// Their verifier keys, a line each.
    #[must_use]
    pub fn vkeys(&self) -> String {
        self.signers
            .iter()
            .map(|signer| format!("{}\n", signer.vkey()))
            .collect()
    }

    /// The same as a witness-network list.
    #[must_use]
    pub fn list(&self) -> String {
        let mut list = String::from("logs/v0\n");
        for signer in &self.signers {
            // OK because writing to a String does not fail.
            let _ = write!(
                list,
                "vkey {}\nqpd {QPD}\ncontact bench.example.com\n",
                signer.vkey()
            );
        }
        list
    }

    /// The signed text of a log's head, which [`Logs::lanes`] has made a request of.
    #[must_use]
    pub fn text(&self, log: usize, head: usize) -> String {
        let size = size(head);
        checkpoint(log, size as u64, self.tree.root(size)).to_text()
    }

    /// Requests for `lanes` connections to the witness at `address`, each with logs of its own in turn: of every log the `count`
    /// heads behind those that `cosigned` counts.
    ///
    /// # Errors
    /// Never of lanes that are more than none.
    pub fn lanes(
        &mut self,
        lanes: usize,
        cosigned: &[usize],
        count: usize,
        address: SocketAddr,
    ) -> anyhow::Result<Vec<Vec<Request>>> {
        ensure!(lanes > 0, "no connections");
        let first = cosigned.iter().copied().min().unwrap_or(0);
        let last = cosigned.iter().copied().max().unwrap_or(0) + count;
        let shared = self.shared(first..last);
        let (this, shared) = (&*self, &shared);
        let lane = |number: usize| {
            let heads = (0..count).flat_map(|round| {
                let of_lane = (number..this.signers.len()).step_by(lanes);
                of_lane.map(move |log| (log, cosigned[log] + round))
            });
            heads
                .map(|(log, head)| this.request(log, head, &shared[head - first], address))
                .collect::<Vec<_>>()
        };
        let share = lanes.div_ceil(watch::cpus()).max(1);
        let numbers: Vec<usize> = (0..lanes).collect();
        let mut all = Vec::with_capacity(lanes);
        thread::scope(|scope| {
            let shares: Vec<_> = numbers
                .chunks(share)
                .map(|numbers| {
                    let lane = &lane;
                    scope.spawn(move || numbers.iter().map(|n| lane(*n)).collect::<Vec<_>>())
                })
                .collect();
            for share in shares {
                match share.join() {
                    Ok(made) => all.extend(made),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        Ok(all)
    }

    fn shared(&mut self, heads: Range<usize>) -> Vec<Shared> {
        while self.tree.size() < size(heads.end) {
            let number = self.tree.size() as u64;
            self.tree.push(leaf_hash(&number.to_be_bytes()));
        }
        let one = |head: usize| {
            let (new, old) = (size(head), head.checked_sub(1).map_or(0, size));
            Shared {
                old: old as u64,
                proof: match old {
                    0 => Vec::new(),
                    old => self.tree.proof(old, new),
                },
                size: new as u64,
                root: self.tree.root(new),
            }
        };
        heads.map(one).collect()
    }

    fn request(&self, log: usize, head: usize, shared: &Shared, address: SocketAddr) -> Request {
        let text = checkpoint(log, shared.size, shared.root).to_text();
        let line = self.signers[log].sign(&text);
        let note = note::join(&text, [line.as_str()]);
        let body = add_checkpoint::request(shared.old, &shared.proof, &note);
        let bytes = format!(
            "POST /add-checkpoint HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Request {
            log,
            head,
            bytes: bytes.into_bytes(),
        }
    }
}

fn origin(log: usize) -> String {
    format!("log{log}.bench.example.com")
}

fn size(head: usize) -> usize {
    FIRST_SIZE + head * STEP
}

fn checkpoint(log: usize, size: u64, root: Hash) -> Checkpoint {
    Checkpoint {
        origin: origin(log),
        size,
        root,
        extensions: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use countersign_verifier::{
        add_checkpoint::AddCheckpoint, note::open, tree::verify_consistency, vkey::VerifierKey,
    };

    use super::*;

    #[test]
    fn each_connection_leads_its_own_logs_forward() {
        let mut logs = Logs::new(5).expect("logs");
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let cosigned = [0, 3, 1, 0, 2];
        let lanes = logs.lanes(2, &cosigned, 4, address).expect("lanes");
        assert_eq!(lanes.iter().map(Vec::len).collect::<Vec<_>>(), [12, 8]);
        let keys: Vec<VerifierKey> = logs
            .vkeys()
            .lines()
            .map(|line| VerifierKey::parse(line).expect(line))
            .collect();
        let mut next = cosigned;
        for (number, lane) in lanes.iter().enumerate() {
            for request in lane {
                assert_eq!(request.log % 2, number);
                assert_eq!(request.head, next[request.log]);
                next[request.log] += 1;
                let at = request.bytes.windows(4).position(|w| w == b"\r\n\r\n");
                let body = &request.bytes[at.expect("a head") + 4..];
                let asked = AddCheckpoint::parse(body).expect("a request");
                open(&asked.note, std::slice::from_ref(&keys[request.log])).expect("signed");
                assert_eq!(asked.note.text, logs.text(request.log, request.head));
                let Some(before) = request.head.checked_sub(1) else {
                    assert_eq!((asked.old, asked.proof.len()), (0, 0));
                    continue;
                };
                let roots = [before, request.head].map(|head| logs.tree.root(size(head)));
                let sizes = [before, request.head].map(|head| size(head) as u64);
                assert_eq!(asked.old, sizes[0]);
                verify_consistency(sizes[0], &roots[0], sizes[1], &roots[1], &asked.proof)
                    .expect("a proof");
            }
        }
        assert_eq!(next, [4, 7, 5, 4, 6]);
        let list = countersign_verifier::log_list::parse(logs.list().as_bytes());
        assert_eq!(list.expect("a list").len(), 5);
    }
}
