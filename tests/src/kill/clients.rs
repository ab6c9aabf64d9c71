//! What clients do while the service is killed, and what they were told.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use countersign_verifier::{
    checkpoint::Checkpoint,
    hash::leaf_hash,
    key::PrivateKey,
    note::Note,
    policy::{Eras, Policy},
    tile::{self, Tile, parse_bundle, parse_hashes},
    verdict::{Options, Outcome, Verifier},
};
use serde_json::{Value, json};

use crate::rig::{Answer, Call, Http, JSON, NDJSON, Random, key, receipt, receipts, spki};

/// Receipts of one body of lines.
const LINES: u64 = 40;

/// A write that was answered: the body, and what the answer promised.
pub struct Acknowledged {
    pub body: Vec<u8>,
    pub index: u64,
    pub leaf_hash: String,
}

impl Acknowledged {
    fn new(body: Vec<u8>, answer: &Value) -> Acknowledged {
        Acknowledged {
            body,
            index: answer["index"].as_u64().expect("an index"),
            leaf_hash: answer["leaf_hash"]
                .as_str()
                .expect("a leaf hash")
                .to_owned(),
        }
    }
}

/// What all clients of a round share.
#[derive(Clone, Default)]
pub struct Round {
    /// How many writes were answered.
    pub answered: Arc<AtomicUsize>,
    /// How many pieces of evidence were verified.
    pub verified: Arc<AtomicUsize>,
    /// The service has been told to end: from here on it may refuse.
    pub ending: Arc<AtomicBool>,
    pub over: Arc<AtomicBool>,
}

impl Round {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Whether this answer is one that a service gives which writes; only one that has been told to end may give another.
    fn takes(&self, answer: &Answer) -> bool {
        let taken = [200, 202].contains(&answer.status);
        let ending = self.ending.load(Ordering::SeqCst);
        assert!(taken || ending, "{} {}", answer.status, answer.text());
        taken
    }
}

/// One receipt after the other, in every way of waiting, until the service is gone.
pub fn single(mut http: Http, name: String, round: Round) -> Vec<Acknowledged> {
    let signer = key("agent");
    let queries = ["", "?wait=sequenced", "?deadline_ms=0", "?include=proof"];
    let mut done = Vec::new();
    for (n, query) in queries.iter().cycle().enumerate() {
        if round.is_over() {
            break;
        }
        let body = receipt(&format!("{name} {n}"), &signer).to_json();
        let headers = [("content-type", JSON)];
        match http.try_send("POST", &receipts(query), &headers, &body) {
            Ok(answer) if round.takes(&answer) => {
                done.push(Acknowledged::new(body, &answer.json()));
                round.answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => break,
        }
    }
    done
}

/// Bodies of many lines. An answer that was cut off acknowledges nothing.
pub fn lines(mut http: Http, name: String, round: Round) -> Vec<Acknowledged> {
    let signer = key("agent");
    let mut done = Vec::new();
    for n in 0.. {
        if round.is_over() {
            break;
        }
        let bodies: Vec<Vec<u8>> = (0..LINES)
            .map(|line| receipt(&format!("{name} {n} {line}"), &signer).to_json())
            .collect();
        let headers = [("content-type", NDJSON)];
        let sent = http.try_send("POST", &receipts(""), &headers, &bodies.join(&b'\n'));
        let Ok(answer) = sent else { break };
        if !round.takes(&answer) {
            break;
        }
        for (body, row) in bodies.into_iter().zip(answer.lines()) {
            // A line whose outcome is unknown says so, and is no promise.
            if row["status"] == 200 || row["status"] == 202 {
                done.push(Acknowledged::new(body, &row));
            }
        }
        round.answered.fetch_add(1, Ordering::Relaxed);
    }
    done
}

/// A signed operation that was answered: the body and the answer.
pub type Operated = (String, Value);

/// Enrols one key after the other.
pub fn operations(mut http: Http, owner: PrivateKey, name: String, round: Round) -> Vec<Operated> {
    let mut done = Vec::new();
    for n in 0.. {
        if round.is_over() {
            break;
        }
        let name = format!("{name}-{n}");
        let arguments = json!({"name": name, "public_key": spki(&key(&name))});
        let body = Call::new("identity_enroll", arguments)
            .body(&owner)
            .to_string();
        let headers = [("content-type", JSON)];
        let target = "/v1/identity_enroll";
        match http.try_send("POST", target, &headers, body.as_bytes()) {
            Ok(answer) if round.takes(&answer) => done.push((body, answer.json())),
            _ => break,
        }
    }
    done
}

/// Reads as long as there is a service: the checkpoint, which never shrinks; the last entries, which are what its tile says; and the
/// evidence of a leaf, which holds. The checkpoints.
pub fn reads(mut http: Http, policy: &str, mut random: Random, round: &Round) -> Vec<Vec<u8>> {
    let policy = Policy::parse(policy).expect("a policy");
    let mut verifier = Verifier::new(Eras::one(policy), Options::default());
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut last = 0;
    let mut get = |path: &str| {
        let answer = http
            .try_send("GET", &format!("/log/dev/{path}"), &[], b"")
            .ok()?;
        // Who is told to end may close the door; what it does answer is as ever.
        let closing = answer.status == 503 && round.ending.load(Ordering::SeqCst);
        assert!(
            answer.status == 200 || closing,
            "{path}: {} {}",
            answer.status,
            answer.text()
        );
        (answer.status == 200).then_some(answer.body)
    };
    while !round.is_over() {
        let Some(note) = get("checkpoint") else { break };
        let size = size_of(&note);
        assert!(size >= last, "the checkpoint shrank from {last} to {size}");
        last = size;
        if seen.last() != Some(&note) {
            seen.push(note);
        }
        let newest = tile::bundles(size).last().expect("a leaf");
        let hashes = Tile {
            level: 0,
            index: newest.index,
            width: newest.width,
        };
        let (Some(entries), Some(tile)) = (get(&newest.path()), get(&hashes.path())) else {
            break;
        };
        let entries = parse_bundle(&entries, newest.width).expect("a bundle");
        let hashes = parse_hashes(&tile, newest.width).expect("a tile");
        assert!(
            entries.into_iter().map(leaf_hash).eq(hashes),
            "entries and tile of {size}"
        );
        let Some(evidence) = get(&format!("evidence/{}", random.below(size))) else {
            break;
        };
        let verdict = verifier.evidence(&evidence);
        assert_eq!(
            verdict.outcome,
            Outcome::Holds,
            "{}",
            verdict.to_lines("evidence")
        );
        round.verified.fetch_add(1, Ordering::Relaxed);
    }
    seen
}

fn size_of(note: &[u8]) -> u64 {
    let note = Note::parse(note).expect("a note");
    Checkpoint::parse(note.text).expect("a checkpoint").size
}
