//! Pulling peers: each by a task of its own, so that one that hangs holds up itself alone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use countersign_verifier::fork::Fork;
use countersign_verifier::hash::Hash;
use countersign_verifier::limits::{FORK_BYTES_MAX, NOTE_BYTES_MAX};
use tokio::{sync::watch, task::JoinSet};

use super::client::{Asking, Client, Failed};
use super::config::Config;
use super::page::{self, FORKS_MAX, HEADS_MAX, PAGE_BYTES_MAX};
use super::weigh::{Glance, Pair, Weighed, glance, weigh};
use crate::Witness;
use crate::blocking::{block, panicked};
use crate::store::StoreError;

/// Most pages of heads of one pull: 8,192 heads, 32 MiB. The next pull goes on where this one ended.
const PAGES_MAX: usize = 32;
/// Most heads of one pull that somebody must be asked about: usually one request each.
const SETTLED_MAX: usize = 512;
/// So many of them at once.
const AT_ONCE: usize = 16;
/// Most pieces of evidence that are fetched in one pull, of 2 MiB at most.
const EVIDENCE_MAX: usize = 16;
/// A page of 1,024 hashes of 67 bytes, and its frame.
const FORKS_BYTES_MAX: usize = 80 * 1024;

/// Why a pull ended early.
#[derive(Debug, thiserror::Error)]
enum PullError {
    #[error("{0}")]
    Peer(#[from] Failed),
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// A peer, and where the last pull of it ended.
struct Puller {
    witness: Arc<Witness>,
    client: Arc<Client>,
    peer: String,
    /// Whether it is asked for all, or for private logs alone.
    listed: bool,
    heads: Option<String>,
    forks: Option<String>,
}

/// Pulls the configured peers, and those that private logs name, until `stop` turns true.
pub async fn run(
    witness: Arc<Witness>,
    client: Arc<Client>,
    config: Config,
    mut stop: watch::Receiver<bool>,
) {
    let asked = witness.roster().peers();
    witness.board().keep_peers(&asked);
    let mut known = BTreeSet::new();
    let mut tasks = JoinSet::new();
    let mut names = HashMap::new();
    loop {
        // A private log that is added while the witness runs brings its peers; one whose task broke is begun anew.
        for peer in witness.roster().peers() {
            if !known.insert(peer.clone()) {
                continue;
            }
            let puller = Puller {
                witness: witness.clone(),
                client: client.clone(),
                listed: config.peers.contains(&peer),
                peer: peer.clone(),
                heads: None,
                forks: None,
            };
            let started = tasks.spawn(puller.run(config.interval_s, stop.clone()));
            names.insert(started.id(), peer);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(config.interval_s)) => {}
            Some(ended) = tasks.join_next_with_id() => {
                let (id, ended) = match ended {
                    Ok((id, ())) => (id, Ok(())),
                    Err(error) => (error.id(), Err(error)),
                };
                let peer = names.remove(&id).unwrap_or_default();
                if panicked(&witness, "pulling a peer", ended) {
                    let why = "a pull of it ended in a panic here".to_owned();
                    witness.board().pulled(&peer, Err(why), witness.now());
                    known.remove(&peer);
                }
            }
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    tasks.shutdown().await;
}

impl Puller {
    async fn run(mut self, interval_s: u64, mut stop: watch::Receiver<bool>) {
        // Soon after the start, though not all peers of a network that starts at once in the same moment.
        let mut pause = jitter(interval_s.min(4)) / 2;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let outcome = self.pull().await;
            self.witness.metrics().pulled(outcome.is_ok());
            let outcome = outcome.map_err(|error| error.to_string());
            if let Err(error) = &outcome {
                tracing::debug!(%error, peer = %self.peer, "a pull ended early");
            }
            self.witness
                .board()
                .pulled(&self.peer, outcome, self.witness.now());
            let witness = self.witness.clone();
            block(move || witness.board().write()).await;
            pause = jitter(interval_s);
        }
    }

    async fn pull(&mut self) -> Result<(), PullError> {
        self.pull_private().await?;
        if !self.listed {
            return Ok(());
        }
        let forks = self.pull_forks().await;
        self.pull_heads().await?;
        forks
    }

    /// What this peer has of the private logs that name it.
    async fn pull_private(&mut self) -> Result<(), PullError> {
        for log in self.witness.roster().private() {
            let entry = self.witness.roster().get(&log)?;
            let names = entry.is_some_and(|entry| entry.peers.contains(&self.peer));
            if !names || self.witness.forks().holds(&log) {
                continue;
            }
            if self.fetch_evidence(&log).await? {
                continue;
            }
            let url = format!("{}/{}/checkpoint", self.peer, log.to_hex());
            let note = match self.client.get(&url, NOTE_BYTES_MAX).await {
                Ok(note) => note,
                Err(Failed::Unreachable(why)) => return Err(Failed::Unreachable(why).into()),
                Err(_) => continue,
            };
            let looked_at = self.look(vec![note]).await?;
            self.settle(looked_at).await;
        }
        Ok(())
    }

    async fn pull_forks(&mut self) -> Result<(), PullError> {
        let url = at(
            &format!("{}/gossip/forks", self.peer),
            self.forks.as_deref(),
        );
        let page = self.client.get(&url, FORKS_BYTES_MAX).await?;
        let form = Failed::Form("a page of forks");
        let page: page::Forks = serde_json::from_slice(&page).map_err(|_| form.clone())?;
        let mut fetched = 0;
        for hex in page.forks.iter().take(FORKS_MAX) {
            let log = Hash::from_hex(hex).map_err(|_| form.clone())?;
            if self.witness.forks().holds(&log) || self.witness.roster().get(&log)?.is_none() {
                continue;
            }
            self.fetch_evidence(&log).await?;
            self.forks = Some(log.to_hex());
            fetched += 1;
            if fetched == EVIDENCE_MAX {
                return Ok(());
            }
        }
        self.forks = page.next.filter(|next| Hash::from_hex(next).is_ok());
        Ok(())
    }

    /// Asks for evidence against a log; whether it is one.
    async fn fetch_evidence(&self, log: &Hash) -> Result<bool, PullError> {
        let url = format!("{}/gossip/forks/{}", self.peer, log.to_hex());
        let file = match self.client.get(&url, FORK_BYTES_MAX).await {
            Ok(file) => file,
            Err(Failed::Unreachable(why)) => return Err(Failed::Unreachable(why).into()),
            Err(_) => return Ok(false),
        };
        let (witness, peer, log) = (self.witness.clone(), self.peer.clone(), *log);
        block(move || take_evidence(&witness, &peer, &log, &file)).await
    }

    async fn pull_heads(&mut self) -> Result<(), PullError> {
        let mut left = SETTLED_MAX;
        for _ in 0..PAGES_MAX {
            let url = at(
                &format!("{}/gossip/heads", self.peer),
                self.heads.as_deref(),
            );
            let page = self.client.get(&url, PAGE_BYTES_MAX).await?;
            let page: page::Heads =
                serde_json::from_slice(&page).map_err(|_| Failed::Form("a page of heads"))?;
            let notes = page.heads.into_iter().take(HEADS_MAX);
            let notes = notes.map(String::into_bytes).collect();
            let mut open = self.look(notes).await?;
            let asked: Vec<usize> = (0..open.len())
                .filter(|at| open[*at].needs_proof())
                .collect();
            if let Some(&last) = asked.get(left - 1) {
                open.truncate(last + 1);
                self.heads = Some(open[last].log.to_hex());
                self.settle(open).await;
                return Ok(());
            }
            left -= asked.len();
            self.settle(open).await;
            self.heads = page.next.filter(|next| Hash::from_hex(next).is_ok());
            if self.heads.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The heads that must be compared further, in their order.
    async fn look(&self, notes: Vec<Vec<u8>>) -> Result<Vec<Pair>, StoreError> {
        let (witness, peer) = (self.witness.clone(), self.peer.clone());
        block(move || look(&witness, &peer, &notes)).await
    }

    async fn settle(&self, open: Vec<Pair>) {
        let mut tasks = JoinSet::new();
        // One that ends in a panic is looked at again with the next pull.
        let what = "settling a head of a peer";
        for pair in open {
            if tasks.len() == AT_ONCE
                && let Some(ended) = tasks.join_next().await
            {
                panicked(&self.witness, what, ended);
            }
            let (witness, client) = (self.witness.clone(), self.client.clone());
            let peer = self.peer.clone();
            tasks.spawn(async move {
                weigh_over(&witness, &client, &peer, &pair).await;
            });
        }
        while let Some(ended) = tasks.join_next().await {
            panicked(&self.witness, what, ended);
        }
    }
}

/// Looks at notes that a peer showed, and counts those that need no more.
fn look(witness: &Witness, peer: &str, notes: &[Vec<u8>]) -> Result<Vec<Pair>, StoreError> {
    let mut open = Vec::new();
    for note in notes {
        let weighed = match glance(witness, note)? {
            Glance::Other(pair) => {
                open.push(*pair);
                continue;
            }
            Glance::Same(log) => {
                witness.board().settled(&log, peer);
                Weighed::Same
            }
            Glance::First => Weighed::First,
            Glance::Forked => Weighed::Fork,
            Glance::Nothing => Weighed::Unknown,
        };
        witness.metrics().weighed(weighed.word());
    }
    Ok(open)
}

/// Takes what a peer has for evidence; whether it is.
fn take_evidence(
    witness: &Witness,
    peer: &str,
    log: &Hash,
    file: &[u8],
) -> Result<bool, PullError> {
    let Some(entry) = witness.roster().get(log)? else {
        return Ok(false);
    };
    let taken = Fork::parse(file)
        .map_err(|why| why.to_string())
        .and_then(|fork| {
            let taken = witness.accuse(log, &entry, &fork);
            taken.map_err(|why| why.to_string())
        });
    match taken {
        Ok(_) => Ok(true),
        Err(why) => {
            tracing::warn!(%why, %peer, origin = %entry.origin, "a peer's evidence is not taken");
            Ok(false)
        }
    }
}

async fn weigh_over(witness: &Arc<Witness>, client: &Client, peer: &str, pair: &Pair) {
    let asking = Asking::new(client, pair.entry.url.as_deref(), Some((peer, &pair.log)));
    let weighed = weigh(witness, pair, Some(peer), &asking).await;
    witness.metrics().weighed(weighed.word());
}

fn at(url: &str, after: Option<&str>) -> String {
    match after {
        Some(after) => format!("{url}?after={after}"),
        None => url.to_owned(),
    }
}

/// Between half and one and a half of so many seconds.
fn jitter(seconds: u64) -> Duration {
    let mut random = [0; 4];
    // Without a random number all is as well, only less spread.
    let random = match getrandom::fill(&mut random) {
        Ok(()) => u32::from_be_bytes(random),
        Err(_) => u32::MAX / 2,
    };
    Duration::from_secs(seconds).mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX))
}
