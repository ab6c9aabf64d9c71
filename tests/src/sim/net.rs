//! Witnesses, and the network to them: real ones over a store in memory, behind a wire that loses, delays, lies and babbles.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use countersign_log::{Clocks, Head, Reply, Transport, witnesses::Answering};
use countersign_verifier::{
    add_checkpoint::{self, AddCheckpoint},
    checkpoint::Checkpoint,
    hash::Hash,
};
use countersign_witness::{Answer, Witness, keys::Keys, roster::Addition, store::Memory};

use crate::{disk::Disk, world::Hand};

/// So many witnesses; two of them are the quorum.
pub const WITNESSES: usize = 3;

/// How one of them, or the wire to it, behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// No connection.
    Dead,
    /// Takes a request and says nothing while this lasts.
    Silent,
    /// Does what it is asked, and the answer is lost.
    Lost,
    /// Says that it holds this size, whatever it is asked.
    Claims(u64),
    /// Answers 200 with what is no signature.
    Babbles,
}

struct Peer {
    witness: Witness,
    mood: Mood,
}

/// All of them.
pub struct Net {
    peers: Vec<Mutex<Peer>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The disk of the log that asks.
    disk: Option<Arc<Disk>>,
    /// Every head that was cosigned, and by whom.
    cosigned: Vec<(usize, Head)>,
    /// What must not have come.
    faults: Vec<String>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Net {
    /// Witnesses of the log of this key, and the policy that asks for two of them.
    pub fn new(log_vkey: &str, clocks: &Arc<Hand>) -> (Net, String) {
        let mut policy = format!("log {log_vkey}\n");
        let peers = (0..WITNESSES).map(|n| {
            let seed = [200 + u8::try_from(n).expect("a few"); 32];
            let keys = Keys::from_seeds(&format!("w{n}.example"), &seed, None).expect("keys");
            policy += &format!("witness w{n} {} {}\n", keys.vkeys()[0], url(n));
            let clocks = clocks.clone();
            let now = move || u64::try_from(clocks.read().wall_ns / 1_000_000_000).unwrap_or(0);
            let witness = Witness::new(keys, Arc::new(Memory::default()), Box::new(now));
            let witness = witness.expect("a witness");
            let addition = Addition {
                vkey: log_vkey.into(),
                ..Addition::default()
            };
            witness.roster().add(&[addition]).expect("the log is added");
            let mood = Mood::Well;
            Mutex::new(Peer { witness, mood })
        });
        let peers: Vec<Mutex<Peer>> = peers.collect();
        policy += "group q 2 w0 w1 w2\nquorum q\n";
        let seen = Mutex::default();
        (Net { peers, seen }, policy)
    }

    /// Before the log of this disk starts.
    pub fn serve(&self, disk: &Arc<Disk>) {
        lock(&self.seen).disk = Some(disk.clone());
    }

    pub fn set(&self, n: usize, mood: Mood) {
        lock(&self.peers[n]).mood = mood;
    }

    pub fn mood(&self, n: usize) -> Mood {
        lock(&self.peers[n]).mood
    }

    /// How many can be asked.
    pub fn well(&self) -> usize {
        (0..WITNESSES)
            .filter(|n| self.mood(*n) == Mood::Well)
            .count()
    }

    /// Every head that any of them cosigned so far; fails on whatever came that must not come.
    pub fn cosigned(&self) -> Vec<(usize, Head)> {
        let seen = lock(&self.seen);
        assert!(seen.faults.is_empty(), "{}", seen.faults.join("; "));
        seen.cosigned.clone()
    }

    fn add(&self, n: usize, body: &str) -> Result<Reply, String> {
        let request = AddCheckpoint::parse(body.as_bytes()).map_err(|e| e.to_string())?;
        let asked = Checkpoint::parse(request.note.text).map_err(|e| e.to_string())?;
        let head = Head {
            size: asked.size,
            root: asked.root,
        };
        {
            let mut seen = lock(&self.seen);
            let known = seen
                .disk
                .as_ref()
                .is_none_or(|disk| disk.knows_of(head.size));
            if head.size > 0 && !known {
                let what = format!(
                    "size {} was sent to a witness before it was kept",
                    head.size
                );
                seen.faults.push(what);
            }
        }
        let peer = lock(&self.peers[n]);
        // On a thread that may wait: the witness's own thread answers.
        let runtime = tokio::runtime::Handle::current();
        let answer = runtime.block_on(peer.witness.add_checkpoint(body.as_bytes()));
        Ok(match answer {
            Answer::Cosigned(lines) => {
                lock(&self.seen).cosigned.push((n, head));
                reply(200, "text/plain", lines)
            }
            Answer::Conflict(size) => {
                let body = add_checkpoint::conflict(size);
                reply(409, add_checkpoint::CONFLICT_TYPE, body)
            }
            Answer::Refused(why) => reply(why.status(), "text/plain", why.to_string()),
            Answer::Busy(_) => reply(429, "text/plain", String::new()),
            Answer::Failed => reply(500, "text/plain", String::new()),
        })
    }

    fn newest(&self, n: usize, hash: &str) -> Result<Reply, String> {
        let log = Hash::from_hex(hash).map_err(|e| e.to_string())?;
        let newest = lock(&self.peers[n]).witness.newest(&log);
        Ok(match newest.map_err(|e| e.to_string())? {
            Some(record) => reply(200, "text/plain", record.note()),
            None => reply(404, "text/plain", String::new()),
        })
    }

    /// The mood once it is one that answers, or does not.
    async fn awake(&self, n: usize) -> Mood {
        loop {
            match self.mood(n) {
                Mood::Silent => tokio::time::sleep(Duration::from_millis(2)).await,
                mood => return mood,
            }
        }
    }
}

fn url(n: usize) -> String {
    format!("http://w{n}.example")
}

fn reply(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
    Reply {
        status,
        content_type: content_type.into(),
        body: body.into(),
    }
}

/// The wire to them.
pub struct Wire(pub Arc<Net>);

impl Wire {
    fn answer(
        &self,
        url: &str,
        work: impl FnOnce(&Net, usize, &str) -> Result<Reply, String> + Send + 'static,
    ) -> Answering {
        let net = self.0.clone();
        let (host, path) = url.split_once(".example/").expect("an address of ours");
        let n: usize = host
            .trim_start_matches("http://w")
            .parse()
            .expect("a number");
        let path = path.to_owned();
        Box::pin(async move {
            match net.awake(n).await {
                Mood::Dead => Err("connection refused".into()),
                Mood::Claims(size) => {
                    let body = add_checkpoint::conflict(size);
                    Ok(reply(409, add_checkpoint::CONFLICT_TYPE, body))
                }
                Mood::Babbles => Ok(reply(200, "text/plain", "certainly\n")),
                mood => {
                    let asked = net.clone();
                    let work = move || work(&asked, n, &path);
                    let answered = tokio::task::spawn_blocking(work).await;
                    let answered = answered.map_err(|e| e.to_string())?;
                    match mood {
                        Mood::Lost => Err("the connection ended".into()),
                        _ => answered,
                    }
                }
            }
        })
    }
}

impl Transport for Wire {
    fn post(&self, url: String, body: String) -> Answering {
        self.answer(&url, move |net, n, _| net.add(n, &body))
    }

    fn get(&self, url: String) -> Answering {
        self.answer(&url, |net, n, path| {
            net.newest(n, path.trim_end_matches("/checkpoint"))
        })
    }
}
