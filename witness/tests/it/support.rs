//! What the tests share: vectors, a log that can fork, a witness behind its real door.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_verifier::add_checkpoint;
use countersign_verifier::checkpoint::{Checkpoint, origin_hash};
use countersign_verifier::hash::{EMPTY_ROOT, Hash, leaf_hash};
use countersign_verifier::note::{Note, join, open, parse_signatures};
use countersign_verifier::tile::hash_of;
use countersign_verifier::vkey::NoteSigner;
use countersign_witness::dir::Dir;
use countersign_witness::forks::Forks;
use countersign_witness::keys::Keys;
use countersign_witness::roster::Addition;
use countersign_witness::store::{Memory, RocksStore, Store};
use countersign_witness::{Witness, serve};
use ed25519_dalek::SigningKey;
use serde_json::Value;
use tokio::sync::{oneshot, watch};

/// Every vector of a kind; the file's own count must agree with what it holds.
pub fn vectors(kind: &str) -> Vec<Value> {
    let path = format!(
        "{}/../tests/vectors/{kind}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["kind"], kind);
    let vectors = file["vectors"].as_array().unwrap().clone();
    assert_eq!(file["count"], vectors.len(), "{kind}");
    vectors
}

/// A string member that must be there.
pub fn text<'v>(vector: &'v Value, member: &str) -> &'v str {
    vector[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} of {vector}"))
}

/// The logs of a vector.
pub fn logs(vector: &Value) -> Vec<Addition> {
    let logs = vector["logs"].as_array().unwrap().iter();
    logs.flat_map(|log| {
        let vkeys = log["vkeys"].as_array().unwrap().iter();
        vkeys.map(|vkey| Addition {
            vkey: vkey.as_str().unwrap().into(),
            origin: Some(text(log, "origin_line").into()),
            ..Addition::default()
        })
    })
    .collect()
}

/// A log whose key is known, with as many branches as a test wants.
#[derive(Clone)]
pub struct TestLog {
    signer: NoteSigner,
    pub origin: String,
    pub leaves: Vec<Hash>,
}

impl TestLog {
    /// A log of `size` leaves.
    pub fn new(origin: &str, size: usize) -> TestLog {
        let key = SigningKey::from_bytes(&origin_hash(origin).0);
        let mut log = TestLog {
            signer: NoteSigner::new(&origin.replace(' ', "-"), key).unwrap(),
            origin: origin.into(),
            leaves: Vec::new(),
        };
        log.grow("trunk", size);
        log
    }

    /// Appends leaves of this branch up to `size`.
    pub fn grow(&mut self, branch: &str, size: usize) {
        for n in self.leaves.len()..size {
            self.leaves
                .push(leaf_hash(format!("{branch} {n}").as_bytes()));
        }
    }

    /// The same log with the same key, of which the first `at` leaves agree.
    pub fn fork(&self, at: usize, branch: &str) -> TestLog {
        let mut fork = self.clone();
        fork.leaves.truncate(at);
        fork.grow(branch, self.leaves.len());
        fork
    }

    pub fn addition(&self) -> Addition {
        Addition {
            vkey: self.signer.vkey().to_string(),
            origin: Some(self.origin.clone()),
            ..Addition::default()
        }
    }

    pub fn root(&self, size: usize) -> Hash {
        match size {
            0 => EMPTY_ROOT,
            size => hash_of(&self.leaves[..size]),
        }
    }

    /// The text of the checkpoint at `size`.
    pub fn text(&self, size: usize) -> String {
        self.head(size).to_text()
    }

    pub fn head(&self, size: usize) -> Checkpoint {
        Checkpoint {
            origin: self.origin.clone(),
            size: size as u64,
            root: self.root(size),
            extensions: Vec::new(),
        }
    }

    /// Any text under the log's signature.
    pub fn sign(&self, text: &str) -> String {
        join(text, [self.signer.sign(text).as_str()])
    }

    pub fn note(&self, size: usize) -> String {
        self.sign(&self.text(size))
    }

    pub fn proof(&self, old: usize, new: usize) -> Vec<Hash> {
        if old == 0 || old >= new {
            return Vec::new();
        }
        subproof(&self.leaves[..new], old, true)
    }

    /// A request to go from `old` to `new`.
    pub fn request(&self, old: usize, new: usize) -> String {
        add_checkpoint::request(old as u64, &self.proof(old, new), &self.note(new))
    }
}

impl TestLog {
    /// A complete node of the tree of `size` leaves, and its path, by the definition of the tree.
    pub fn node(&self, size: usize, level: u8, index: u64) -> Vec<Hash> {
        let start = usize::try_from(index << level).unwrap();
        let end = start + (1 << level);
        let mut hashes = Vec::new();
        let (mut low, mut high) = (0, size);
        while (low, high) != (start, end) {
            let middle = low + (high - low).next_power_of_two() / 2;
            let sibling = if end <= middle {
                (middle, std::mem::replace(&mut high, middle))
            } else {
                (std::mem::replace(&mut low, middle), middle)
            };
            hashes.push(hash_of(&self.leaves[sibling.0..sibling.1]));
        }
        hashes.push(hash_of(&self.leaves[start..end]));
        hashes.reverse();
        hashes
    }
}

/// By the definition in RFC 6962 section 2.1.2.
fn subproof(leaves: &[Hash], old: usize, whole: bool) -> Vec<Hash> {
    if old == leaves.len() {
        return if whole { vec![] } else { vec![hash_of(leaves)] };
    }
    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
    let (mut below, sibling) = if old <= left.len() {
        (subproof(left, old, whole), right)
    } else {
        (subproof(right, old - left.len(), false), left)
    };
    below.push(hash_of(sibling));
    below
}

pub const NAME: &str = "witness.example/w";

pub fn keys(mldsa: bool) -> Keys {
    Keys::from_seeds(NAME, &[42; 32], mldsa.then_some(&[43; 32])).unwrap()
}

/// A clock that a test sets.
#[derive(Clone)]
pub struct TestClock(pub Arc<AtomicU64>);

impl TestClock {
    pub fn at(time: u64) -> TestClock {
        TestClock(Arc::new(AtomicU64::new(time)))
    }

    pub fn set(&self, time: u64) {
        self.0.store(time, Ordering::SeqCst);
    }

    pub fn clock(&self) -> countersign_witness::clock::Clock {
        let time = self.0.clone();
        Box::new(move || time.load(Ordering::SeqCst))
    }
}

pub const NOW: u64 = 1_764_000_000;

/// A witness without a door.
pub fn witness(store: Arc<dyn Store>, logs: &[Addition]) -> Witness {
    let witness = Witness::new(keys(false), store, TestClock::at(NOW).clock()).unwrap();
    witness.roster().add(logs).unwrap();
    witness
}

/// A witness without a door that keeps evidence.
pub fn gossiper(logs: &[Addition]) -> Witness {
    let store: Arc<dyn Store> = Arc::<Memory>::default();
    let clock = TestClock::at(NOW).clock();
    let witness = Witness::with_forks(keys(false), store, clock, |_| Ok(Forks::memory()));
    let witness = witness.unwrap();
    witness.roster().add(logs).unwrap();
    witness
}

/// A running witness and its door.
pub struct Running {
    pub witness: Arc<Witness>,
    pub address: SocketAddr,
    pub dir: Dir,
    stop: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
    _temp: tempfile::TempDir,
}

impl Running {
    /// In memory.
    pub async fn memory(logs: &[Addition]) -> Running {
        Running::of(witness(Arc::<Memory>::default(), logs)).await
    }

    /// In RocksDB.
    pub async fn rocks(logs: &[Addition]) -> Running {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::new(temp.path());
        let store = RocksStore::create(&dir.db(), &dir.commits()).unwrap();
        Running::at(witness(Arc::new(store), logs), temp).await
    }

    pub async fn of(witness: Witness) -> Running {
        Running::at(witness, tempfile::tempdir().unwrap()).await
    }

    /// With these settings of gossip (`gossip.json`).
    pub async fn with_gossip(witness: Witness, settings: &Value) -> Running {
        let temp = tempfile::tempdir().unwrap();
        let path = Dir::new(temp.path()).gossip();
        std::fs::write(path, settings.to_string()).unwrap();
        Running::at(witness, temp).await
    }

    async fn at(witness: Witness, temp: tempfile::TempDir) -> Running {
        let (dir, witness) = (Dir::new(temp.path()), Arc::new(witness));
        let (stop, stopped) = watch::channel(false);
        let (tell, told) = oneshot::channel();
        let (shared, place) = (witness.clone(), dir.clone());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let served = tokio::spawn(async move {
            let ready = |_: &Witness, address| tell.send(address).unwrap();
            let served = serve::serve(shared, &place, (any, &[]), stopped, ready).await;
            served.unwrap();
        });
        Running {
            witness,
            address: told.await.unwrap(),
            dir,
            stop,
            served,
            _temp: temp,
        }
    }

    pub async fn stop(self) {
        self.stop.send(true).unwrap();
        self.served.await.unwrap();
    }

    pub async fn post(&self, path: &str, body: impl Into<String>) -> Said {
        let url = format!("http://{}{path}", self.address);
        said(client().post(url).body(body.into())).await
    }

    pub async fn ask(&self, body: impl Into<String>) -> Said {
        self.post("/add-checkpoint", body).await
    }

    pub async fn get(&self, path: &str) -> Said {
        said(client().get(format!("http://{}{path}", self.address))).await
    }

    /// The newest head that it shows of an origin.
    pub async fn newest(&self, origin: &str) -> Option<Checkpoint> {
        let path = format!("/{}/checkpoint", origin_hash(origin).to_hex());
        let said = self.get(&path).await;
        if said.status == 404 {
            return None;
        }
        assert_eq!(said.status, 200);
        let note = Note::parse(said.body.as_bytes()).unwrap();
        // T45: what is shown opens under the witness's key and, where the log is known, under the log's.
        open(&note, self.witness.keys().vkeys()).expect("our own line");
        let entry = self.witness.roster().find(origin).unwrap().unwrap();
        open(&note, &entry.keys).expect("the log's line");
        Some(Checkpoint::parse(note.text).unwrap())
    }
}

/// What a server said.
#[derive(Clone, Debug)]
pub struct Said {
    pub status: u16,
    pub kind: String,
    pub retry_after: Option<String>,
    pub body: String,
}

async fn said(request: reqwest::RequestBuilder) -> Said {
    let answer = request.send().await.unwrap();
    let header = |name| {
        let value = answer.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    Said {
        status: answer.status().as_u16(),
        kind: header("content-type").unwrap_or_default(),
        retry_after: header("retry-after"),
        body: answer.text().await.unwrap(),
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    builder.build().unwrap()
}

/// That lines are the witness's own and nothing else, and hold over this text; the times in them.
pub fn check_lines(keys: &Keys, lines: &str, text: &str) {
    let parsed = parse_signatures(lines.as_bytes()).unwrap();
    let vkeys = keys.vkeys();
    assert_eq!(parsed.len(), vkeys.len(), "{lines}");
    for (line, vkey) in parsed.iter().zip(vkeys) {
        assert_eq!((line.name, line.id), (vkey.name.as_str(), vkey.id));
        vkey.verify(text, &line.signature).expect(lines);
    }
}

/// The time in the first of the witness's lines.
pub fn time(lines: &str) -> u64 {
    let parsed = parse_signatures(lines.as_bytes()).unwrap();
    u64::from_be_bytes(parsed[0].signature[..8].try_into().unwrap())
}
