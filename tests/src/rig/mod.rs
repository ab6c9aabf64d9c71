//! A running service, its clients, and the auditor that looks at it after every action.

mod audit;
mod bins;
mod cosigners;
mod disk;
mod http;
pub mod injector;
mod keeper;
mod project;
mod service;
mod sign;
mod verify;

use std::path::{Path, PathBuf};

use countersign_verifier::{dsse::Envelope, key::PrivateKey};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use audit::Auditor;
pub use bins::{countersign, countersign_witness, files, workspace};
pub use cosigners::Cosigners;
pub use disk::{Disk, fill};
pub use http::{Answer, Http, check_problem, head};
pub use keeper::{forget, keep};
pub use service::{Ended, Service, Start, clean};
pub use sign::{
    Call, TYPE, hex, key, now, possession, possession_of, receipt, receipt_by, spki, token_hash,
};
pub use verify::verify;

/// A service on a directory that nobody else has, under an auditor's eyes.
///
/// Each method that writes ends in [`Rig::check`]; a test that goes round it by [`Rig::http`] is checked when the rig is
/// dropped at the latest.
pub struct Rig {
    pub service: Service,
    pub auditor: Auditor,
    pub start: Start,
    home: Home,
}

/// Where a rig's files lie.
enum Home {
    Own(TempDir),
    Elsewhere(PathBuf),
}

impl Rig {
    /// A new development account, served.
    pub fn up() -> Rig {
        Rig::with("")
    }

    /// The same under this `config.toml`.
    pub fn with(config: &str) -> Rig {
        let home = tempfile::tempdir().expect("a temporary folder");
        Rig::begin(Home::Own(home), false, config)
    }

    /// The same with three witnesses.
    pub fn witnessed() -> Rig {
        let home = tempfile::tempdir().expect("a temporary folder");
        Rig::begin(Home::Own(home), true, "")
    }

    /// The same in a folder that the caller keeps, and may have mounted.
    pub fn inside(folder: &Path, config: &str) -> Rig {
        Rig::begin(Home::Elsewhere(folder.to_owned()), false, config)
    }

    fn begin(home: Home, witnesses: bool, config: &str) -> Rig {
        let dir = match &home {
            Home::Own(folder) => folder.path().join("data"),
            Home::Elsewhere(folder) => folder.join("data"),
        };
        let start = Start {
            witnesses,
            ..Start::up(&dir)
        };
        let mut service = start.run();
        if !config.is_empty() {
            // A first run only begins in an empty directory, so the file comes second.
            service.stop();
            std::fs::write(dir.join("config.toml"), config).expect("config.toml");
            service = start.run();
        }
        let mut rig = Rig {
            auditor: Auditor::new(&service),
            service,
            start,
            home,
        };
        rig.check();
        rig
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.start.dir
    }

    /// A folder beside the data directory, for whatever a test needs.
    pub fn scratch(&self) -> PathBuf {
        let folder = match &self.home {
            Home::Own(folder) => folder.path().join("scratch"),
            Home::Elsewhere(folder) => folder.join("scratch"),
        };
        std::fs::create_dir_all(&folder).expect("a scratch folder");
        folder
    }

    /// A file of the development account.
    pub fn account(&self, name: &str) -> PathBuf {
        self.dir().join("accounts/dev").join(name)
    }

    /// A connection of its own.
    pub fn http(&self) -> Http {
        self.service.http()
    }

    /// The development account's owner, whose key `up` keeps.
    pub fn owner(&self) -> PrivateKey {
        let pem = std::fs::read_to_string(self.dir().join("owner.key")).expect("owner.key");
        PrivateKey::parse(&pem).expect("the owner's key")
    }

    /// The owner's token.
    pub fn token(&self) -> String {
        let token = std::fs::read_to_string(self.dir().join("owner.token")).expect("owner.token");
        token.trim().to_owned()
    }

    pub fn get(&self, target: &str) -> Answer {
        self.http().get(target)
    }

    /// Submits one envelope and looks at the whole tree.
    pub fn submit(&mut self, envelope: &Envelope) -> Answer {
        self.submit_to("", &envelope.to_json())
    }

    /// Submits these bytes as one envelope, with a query such as `?wait=sequenced`.
    pub fn submit_to(&mut self, query: &str, body: &[u8]) -> Answer {
        let answer = self.http().post(&receipts(query), JSON, body);
        self.check();
        answer
    }

    /// Submits lines and looks at the whole tree. The objects of the answer, in order.
    pub fn submit_lines(&mut self, lines: &[Vec<u8>]) -> Vec<Value> {
        let answer = self.http().post(&receipts(""), NDJSON, &lines.join(&b'\n'));
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.check();
        answer.lines()
    }

    /// Signs an operation of the owner's, calls, and looks at the whole tree.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        let call = Call::new(tool, arguments);
        let owner = self.owner();
        self.call_as(&owner, &call)
    }

    /// The same by somebody else, with every member chosen.
    pub fn call_as(&mut self, who: &PrivateKey, call: &Call) -> Answer {
        let body = call.body(who).to_string();
        let target = format!("/v1/{}", call.tool);
        let answer = self.http().post(&target, JSON, body.as_bytes());
        self.check();
        answer
    }

    /// Enrols a key with proof of possession. Its index.
    pub fn enroll(&mut self, name: &str, key: &PrivateKey) -> u64 {
        let answer = self.call(
            "identity_enroll",
            json!({"name": name, "public_key": spki(key), "possession": sign::possession(key)}),
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["entry"]["index"].as_u64().expect("an index")
    }

    /// Size and root of the newest published checkpoint.
    pub fn size(&self) -> u64 {
        self.auditor.head(&mut self.http()).size
    }

    /// Re-verifies everything that is served. See [`Auditor::check`].
    pub fn check(&mut self) {
        self.auditor.check(&mut self.service.http());
    }

    /// Stops it cleanly, starts it again, and looks at the whole tree.
    pub fn restart(&mut self) {
        self.service.stop();
        self.begin_again();
    }

    /// `kill -9`, start, and look.
    pub fn crash(&mut self) {
        self.service.kill();
        self.begin_again();
    }

    /// Starts it on its directory and looks at the whole tree.
    pub fn begin_again(&mut self) {
        self.service = self.start.run();
        self.check();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.service.is_running() {
            self.check();
            self.service.stop();
        }
    }
}

/// The media type of one envelope, and of a call.
pub const JSON: &str = "application/json";
/// The media type of many envelopes.
pub const NDJSON: &str = "application/x-ndjson";

/// The address that receipts are posted to.
pub fn receipts(query: &str) -> String {
    format!("/log/dev/receipts{query}")
}

/// A seed for a random run: `TEST_SEED`, or a new one. Printed, so that a failure can be repeated.
pub fn seed(what: &str) -> Random {
    let given = std::env::var("TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(1, |t| u64::from(t.subsec_nanos()) ^ t.as_secs())
    });
    eprintln!("{what}: TEST_SEED={seed}");
    Random(seed)
}

/// How many rounds a test makes that are `few` at every change: `SOAK` times as many, where that is set (`make soak`).
pub fn rounds(few: usize) -> usize {
    let times = std::env::var("SOAK").ok().and_then(|s| s.parse().ok());
    few * times.unwrap_or(1)
}

/// SplitMix64: enough to spread a test over its cases.
pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another of its kind, which goes its own way.
    pub fn fork(&mut self) -> Random {
        Random(self.next())
    }

    /// One of `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
