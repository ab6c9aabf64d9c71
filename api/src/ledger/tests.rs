//! The judge over a log in memory: generated sequences of requests, and after each the state is what a replay of the leaves
//! gives, what a snapshot gives back, and what a few plain rules demand.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign_log::{
    Clocks, Log, Options, Outcome, Store, clock::Reading, import::Import,
    store::memory::MemoryStore,
};
use countersign_verifier::{
    base64, dsse::Envelope, key::Algorithm, leaf::Class, operation::possession_message,
    vkey::NoteSigner,
};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    error::Code,
    state::{Identity, opened},
    submit::{Budget, prepare_operation, prepare_receipt},
};

mod between;
mod clock;
mod frozen;
mod leases;
mod policy;
mod sessions;
mod settings;
mod story;
mod tamper;

const ORIGIN: &str = "localhost/dev";
const START_MS: i128 = 1_700_000_000_000;

fn key(n: u8) -> PrivateKey {
    PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).unwrap()
}

/// Both clocks, in milliseconds since the start, and by how much somebody set the wall clock ahead.
struct Hand(Mutex<i128>, Mutex<i128>);

impl Clocks for Hand {
    fn read(&self) -> Reading {
        let ms = *self.0.lock().unwrap();
        Reading {
            boot_ns: ms * 1_000_000,
            wall_ns: (START_MS + ms + *self.1.lock().unwrap()) * 1_000_000,
        }
    }
}

struct Rig {
    store: Arc<MemoryStore>,
    clocks: Arc<Hand>,
    log: Log<Ledger>,
    nonce: u32,
}

fn ledger() -> Ledger {
    let opened = Opened {
        origin: ORIGIN.into(),
        log_vkey: signer().vkey().to_string(),
        owner: key(100).public(),
        service: key(101).public(),
        rules: opened::RULES,
        epoch: 0,
        predecessor: None,
    };
    Ledger::new(opened, key(101))
}

fn signer() -> NoteSigner {
    let PrivateKey::Ed25519(secret) = key(102) else {
        panic!("an Ed25519 key")
    };
    NoteSigner::new(ORIGIN, secret).unwrap()
}

impl Rig {
    fn new() -> Rig {
        let store = Arc::new(MemoryStore::new());
        let clocks = Arc::new(Hand(Mutex::new(0), Mutex::new(0)));
        let log = Log::start(Options {
            origin: ORIGIN.into(),
            signer: signer(),
            store: store.clone(),
            judge: ledger(),
            clocks: clocks.clone(),
            witnesses: None,
            accept_clock: false,
        });
        let rig = Rig {
            store,
            clocks,
            log: log.unwrap(),
            nonce: 0,
        };
        while rig.log.status().committed.size == 0 {
            std::thread::yield_now();
        }
        rig
    }

    fn state(&self) -> State {
        (*self.log.reader().version()).clone()
    }

    fn now(&self) -> u64 {
        let (ms, set) = (
            *self.clocks.0.lock().unwrap(),
            *self.clocks.1.lock().unwrap(),
        );
        u64::try_from(START_MS + ms + set).unwrap()
    }

    fn ask(&self, request: Request) -> Result<(u64, bool), Problem> {
        match self.outcome(request) {
            Outcome::Sequenced(leaf) => Ok((leaf.index, leaf.existing)),
            Outcome::Refused(problem) => Err(problem),
            Outcome::Stopped(stop) => panic!("{stop}"),
        }
    }

    fn outcome(&self, request: Request) -> Outcome<Problem> {
        let pending = self
            .log
            .submit(vec![request], countersign_log::Until::Included)
            .ok()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let (mut outcomes, _) = runtime
            .block_on(pending.reached(Duration::from_secs(10)))
            .unwrap();
        outcomes.pop().unwrap()
    }

    fn operation(&mut self, tool: &str, arguments: Value) -> Operation {
        self.nonce += 1;
        Operation {
            tool: tool.into(),
            arguments,
            log: ORIGIN.into(),
            session: None,
            nonce: format!("nonce-{:020}", self.nonce),
            issued_at: Millis(self.now()),
            prev: Vec::new(),
            observed: None,
        }
    }

    fn send(&self, by: u8, operation: &Operation) -> Result<(u64, bool), Problem> {
        self.ask(self.request(by, operation)?)
    }

    fn request(&self, by: u8, operation: &Operation) -> Result<Request, Problem> {
        let envelope = Envelope::sign(PAYLOAD_TYPE, &operation.to_json(), &[key(by)]);
        let prepared = prepare_operation(&self.state(), envelope)?;
        Ok(Request::Operation(Box::new(prepared)))
    }

    fn call(&mut self, by: u8, tool: &str, arguments: Value) -> Result<(u64, bool), Problem> {
        let operation = self.operation(tool, arguments);
        self.send(by, &operation)
    }

    fn receipt(&self, text: &str, keys: &[u8]) -> Result<(u64, bool), Problem> {
        let keys: Vec<PrivateKey> = keys.iter().map(|n| key(*n)).collect();
        let envelope = Envelope::sign(
            "application/vnd.example.receipt+json",
            text.as_bytes(),
            &keys,
        );
        let prepared = prepare_receipt(&self.state(), &envelope.to_json(), false, &Budget::of(1))?;
        self.ask(Request::Receipt(prepared.request))
    }

    /// What the leaf at `index` decided: the code of a refusal, or nothing.
    fn decided(&self, index: u64) -> Option<Code> {
        let bytes = self.store.entry(index).unwrap().unwrap();
        match decision_of(&Leaf::parse(&bytes).unwrap()).unwrap() {
            Recorded::Applied(_) => None,
            Recorded::Refused(code, _) => Some(code),
        }
    }

    /// The same leaves brought back into an empty store, a few at a time, are found by the same keys.
    fn check_keys(&self) {
        // What is due is written whenever its time has come: also between two looks.
        let (leaves, head, keys) = loop {
            let head = self.store.head().unwrap();
            let seen = (
                self.store.entries(0, usize::MAX).unwrap(),
                head,
                self.store.keys(),
            );
            if self.store.head().unwrap() == seen.1 {
                break seen;
            }
        };
        let store = Arc::new(MemoryStore::new());
        let begin = || Import::begin(store.clone(), ledger()).ok().unwrap();
        let (mut rehearsal, mut import) = (begin(), begin());
        for part in leaves.chunks(3) {
            let part: Vec<&[u8]> = part.iter().map(Vec::as_slice).collect();
            let head = rehearsal.rehearse(&part).unwrap();
            import.commit(&part, &head, false).unwrap();
        }
        assert_eq!(store.head().unwrap(), head);
        assert_eq!(store.keys(), keys);
    }

    /// The state, held against the leaves.
    fn check(&self) {
        self.check_keys();
        let (state, leaves) = loop {
            let (state, leaves) = (self.state(), self.store.entries(0, usize::MAX).unwrap());
            if state.size == leaves.len() as u64 {
                break (state, leaves);
            }
        };
        let mut replayed = ledger();
        for (index, leaf) in (0..).zip(leaves) {
            let before = replayed.state.clone();
            replayed.replay(index, &leaf).unwrap();
            let leaf = Leaf::parse(&leaf).unwrap();
            if matches!(decision_of(&leaf), Ok(Recorded::Refused(..))) {
                let (size, at) = (before.size, before.at);
                let refusals = before.refusals.clone();
                let unchanged = State {
                    size,
                    at,
                    refusals,
                    ..replayed.state.clone()
                };
                assert_eq!(
                    unchanged, before,
                    "leaf {index}: a refusal changes nothing but the refusals"
                );
            }
        }
        assert_eq!(replayed.state, state, "the live state is the replayed one");
        assert_eq!(
            State::from_snapshot(&state.to_snapshot()).as_ref(),
            Some(&state),
            "and survives a snapshot"
        );
        let names: std::collections::BTreeSet<String> = state
            .identities
            .iter()
            .map(|i| i.name.to_ascii_lowercase())
            .collect();
        assert_eq!(
            names.len(),
            state.identities.iter().count(),
            "one name is one identity"
        );
        for identity in state.identities.iter() {
            let keys = identity.retired.iter().chain([&identity.key]);
            assert!(keys.clone().all(|k| {
                state
                    .identities
                    .of_key(&k.public)
                    .is_some_and(|i| i.id == identity.id)
            }));
            assert!(identity.enrolled.is_none_or(|c| c.index < state.size));
        }
    }
}

fn spki(n: u8) -> String {
    base64::encode(&key(n).public().spki_der())
}

fn id(n: u8) -> IdentityId {
    key(n).public().identity()
}

fn proof(new: u8, of: IdentityId) -> String {
    base64::encode(&key(new).sign(&possession_message(ORIGIN, of, Class::AgentKey)))
}

fn enroll(name: &str, n: u8, proved: bool) -> Value {
    let mut arguments = json!({"name": name, "public_key": spki(n)});
    if proved {
        arguments["possession"] = proof(n, id(n)).into();
    }
    arguments
}

fn identity(rig: &Rig, n: u8) -> Identity {
    rig.state().identities.get(&id(n)).unwrap().clone()
}

#[test]
fn an_identity_lives_from_enrolment_to_revocation() {
    let mut rig = Rig::new();
    let refused = rig.receipt("a", &[1]).unwrap_err();
    assert_eq!(
        refused.code,
        Code::SignerUnknown,
        "strangers never reach the log"
    );
    let (index, _) = rig
        .call(100, "identity_enroll", enroll("ci", 1, true))
        .unwrap();
    assert_eq!(identity(&rig, 1).enrolled.unwrap().index, index);
    let (first, _) = rig.receipt("a", &[1]).unwrap();
    let (again, existing) = rig.receipt("a", &[1]).unwrap();
    assert_eq!((again, existing), (first, true));

    let rotate = json!({"identity": id(1).to_string(), "public_key": spki(2), "possession": proof(2, id(1))});
    rig.call(1, "identity_rotate", rotate).unwrap();
    assert_eq!(
        rig.receipt("b", &[1]).unwrap_err().code,
        Code::KeyRevoked,
        "the old key is retired, not unknown"
    );
    assert_eq!(
        rig.receipt("a", &[1]).unwrap(),
        (first, true),
        "and what it signed before is still there"
    );
    assert!(rig.receipt("b", &[2]).is_ok());
    assert_eq!(identity(&rig, 1).id, id(1), "the id stays");

    rig.call(
        100,
        "identity_revoke",
        json!({"identity": id(1).to_string()}),
    )
    .unwrap();
    assert_eq!(rig.receipt("c", &[2]).unwrap_err().code, Code::KeyRevoked);
    assert_eq!(
        rig.call(2, "identity_revoke", json!({"identity": id(1).to_string()}))
            .unwrap_err()
            .code,
        Code::KeyRevoked
    );
    rig.check();
}

#[test]
fn what_is_refused_is_recorded_with_its_code_and_changes_nothing() {
    let mut rig = Rig::new();
    rig.call(100, "identity_enroll", enroll("ci", 1, true))
        .unwrap();
    rig.call(100, "identity_enroll", enroll("stated", 2, false))
        .unwrap();
    let cases: Vec<(u8, &str, Value, Code)> = vec![
        (1, "identity_enroll", enroll("x", 9, true), Code::NotAllowed),
        (
            100,
            "identity_enroll",
            enroll("CI", 9, true),
            Code::NameTaken,
        ),
        (
            100,
            "identity_enroll",
            enroll("new", 1, true),
            Code::KeyEnrolled,
        ),
        (
            100,
            "identity_enroll",
            enroll("new2", 101, true),
            Code::KeyEnrolled,
        ),
        (
            100,
            "identity_enroll",
            json!({"name": "y", "public_key": spki(9), "possession": proof(8, id(9))}),
            Code::PossessionInvalid,
        ),
        (
            100,
            "identity_enroll",
            json!({"name": "z", "public_key": spki(9), "class": "seat_key"}),
            Code::PossessionRequired,
        ),
        (
            100,
            "identity_enroll",
            json!({"name": "z", "public_key": spki(9), "class": "service_key"}),
            Code::ClassNotAllowed,
        ),
        (
            100,
            "identity_revoke",
            json!({"identity": id(77).to_string()}),
            Code::NotFound,
        ),
        (
            100,
            "identity_revoke",
            json!({"identity": id(100).to_string()}),
            Code::NotAllowed,
        ),
        (
            1,
            "identity_revoke",
            json!({"identity": id(2).to_string()}),
            Code::NotAllowed,
        ),
        (
            100,
            "identity_rotate",
            json!({"identity": id(101).to_string(), "public_key": spki(9)}),
            Code::NotAllowed,
        ),
        (
            100,
            "identity_rotate",
            json!({"identity": id(100).to_string(), "public_key": spki(9)}),
            Code::PossessionRequired,
        ),
        (
            1,
            "receipt_policy",
            json!({"threshold": 2}),
            Code::NotAllowed,
        ),
        (
            1,
            "refusals_folded",
            json!({"index": 0, "count": 1}),
            Code::NotAllowed,
        ),
    ];
    for (by, tool, arguments, code) in cases {
        let before = rig.state();
        let (index, _) = rig
            .call(by, tool, arguments.clone())
            .unwrap_or_else(|p| panic!("{tool} {arguments}: {}", p.message));
        assert_eq!(rig.decided(index), Some(code), "{tool} {arguments}");
        let after = rig.state();
        assert_eq!(
            (after.identities, after.receipts),
            (before.identities, before.receipts)
        );
    }
    assert_eq!(
        rig.call(2, "receipt_policy", json!({})).unwrap_err().code,
        Code::PossessionUnproved
    );
    for (tool, arguments) in [
        (
            "identity_enroll",
            json!({"name": "with space", "public_key": spki(9)}),
        ),
        (
            "identity_enroll",
            json!({"name": "b\u{202e}", "public_key": spki(9)}),
        ),
        (
            "identity_enroll",
            json!({"name": "x", "public_key": "AAAA"}),
        ),
        ("receipt_policy", json!({"threshold": 0})),
        ("receipt_policy", json!({"threshold": 17})),
        ("receipt_policy", json!({"types": [""]})),
        ("no_such_tool", json!({})),
    ] {
        let size = rig.state().size;
        let refused = rig.call(100, tool, arguments).unwrap_err();
        assert!(
            matches!(refused.code, Code::Malformed | Code::ToolUnknown),
            "{tool}: {}",
            refused.message
        );
        assert_eq!(rig.state().size, size, "what cannot be read is no leaf");
    }
    rig.check();
}

#[test]
fn b092_b093_a_nonce_answers_with_its_first_request_and_no_other() {
    let mut rig = Rig::new();
    let mut operation = rig.operation("identity_enroll", enroll("ci", 1, true));
    let first = rig.send(100, &operation).unwrap();
    *rig.clocks.0.lock().unwrap() += 3_600_000;
    assert_eq!(
        rig.send(100, &operation).unwrap(),
        (first.0, true),
        "the nonce is looked up before freshness"
    );
    operation.arguments = enroll("other", 2, true);
    let refused = rig.send(100, &operation).unwrap_err();
    assert_eq!(
        (refused.code, refused.detail["first_index"].as_u64()),
        (Code::IdempotencyMismatch, Some(first.0))
    );
    rig.check();
}

#[test]
fn staleness_claims_about_the_past_and_heads_are_judged() {
    let mut rig = Rig::new();
    let mut stale = rig.operation("receipt_policy", json!({}));
    stale.issued_at = Millis(rig.now() - 600_001);
    assert_eq!(rig.send(100, &stale).unwrap_err().code, Code::ClockSkew);
    let (index, _) = rig.call(100, "receipt_policy", json!({})).unwrap();
    let leaf = countersign_verifier::hash::leaf_hash(&rig.store.entry(index).unwrap().unwrap());
    let head = rig.log.status().committed;
    let opening = countersign_verifier::hash::leaf_hash(&rig.store.entry(0).unwrap().unwrap());
    for (n, (prev, observed, code)) in [
        (Some(leaf), None, None),
        (Some(opening), None, Some(Code::PrevUnknown)),
        (None, Some((head.size, head.root)), None),
        (
            None,
            Some((head.size - 1, head.root)),
            Some(Code::ObservedMismatch),
        ),
        (
            None,
            Some((1 << 40, head.root)),
            Some(Code::ObservedMismatch),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut operation = rig.operation("receipt_policy", json!({"threshold": n + 1}));
        operation.prev = prev.into_iter().collect();
        operation.observed =
            observed.map(|(size, root)| countersign_verifier::operation::Observed { size, root });
        let (index, _) = rig.send(100, &operation).unwrap();
        assert_eq!(rig.decided(index), code, "case {n}");
        *rig.clocks.0.lock().unwrap() += 61_000; // beyond folding, so that each refusal has its own leaf
    }
    rig.check();
}

#[test]
fn identical_refusals_fold_and_their_count_is_a_leaf() {
    let mut rig = Rig::new();
    rig.call(100, "identity_enroll", enroll("ci", 1, true))
        .unwrap();
    let (first, existing) = rig
        .call(1, "receipt_policy", json!({"threshold": 2}))
        .unwrap();
    assert!(!existing);
    for _ in 0..3 {
        assert_eq!(
            rig.call(1, "receipt_policy", json!({"threshold": 3}))
                .unwrap(),
            (first, true)
        );
    }
    *rig.clocks.0.lock().unwrap() += 61_000;
    let (index, _) = rig.receipt("after", &[1]).unwrap();
    let bytes = rig.store.entry(index - 1).unwrap().unwrap();
    let Leaf::Operation(counted) = Leaf::parse(&bytes).unwrap() else {
        panic!("a count")
    };
    let operation = Operation::parse(&counted.envelope.payload).unwrap();
    assert_eq!(operation.arguments, json!({"index": first, "count": 3}));
    assert_eq!(counted.by.identity, id(101));
    rig.check();
}

#[test]
fn a_closed_log_takes_nothing_and_states_nothing() {
    let mut rig = Rig::new();
    rig.call(100, "identity_enroll", enroll("ci", 1, true))
        .unwrap();
    let (first, _) = rig.receipt("a", &[1]).unwrap();
    let asked = json!({"successor": "log.example.com/next"});
    let (refused, _) = rig.call(1, "log_close", asked.clone()).unwrap();
    assert_eq!(rig.decided(refused), Some(Code::NotAllowed));
    // A repeat that is counted, and whose count would be a leaf a minute later.
    rig.call(1, "log_close", asked.clone()).unwrap();
    let (index, _) = rig.call(100, "log_close", asked.clone()).unwrap();
    assert_eq!(rig.decided(index), None);
    *rig.clocks.0.lock().unwrap() += 120_000;
    let closed = rig.receipt("b", &[1]).unwrap_err();
    assert_eq!(closed.code, Code::LogClosed);
    assert_eq!(closed.detail["closed_index"].as_u64(), Some(index));
    let closed = rig.call(100, "log_close", asked).unwrap_err();
    assert_eq!(closed.code, Code::LogClosed);
    assert_eq!(rig.receipt("a", &[1]).unwrap(), (first, true));
    assert_eq!(rig.log.status().committed.size, index + 1);
    rig.check();
    // Whoever replays a leaf behind it is told.
    let mut replayed = ledger();
    let leaves = rig.store.entries(0, usize::MAX).unwrap();
    for (index, leaf) in (0..).zip(&leaves) {
        replayed.replay(index, leaf).unwrap();
    }
    let behind = replayed.replay(index + 1, &leaves[1]).unwrap_err();
    assert!(behind.contains("closed"), "{behind}");
}

#[test]
fn a_posted_head_that_lost_a_race_is_refused_and_no_leaf() {
    let mut rig = Rig::new();
    // The door found it good by an older state; by the time of its turn it is not.
    let text = "other.example/log\n1\n".to_owned() + &Hash([7; 32]).to_base64() + "\n";
    let note = countersign_verifier::note::join(&text, [signer().sign(&text).as_str()]);
    let arguments = json!({"checkpoint": note});
    let before = rig.log.status().committed.size;
    let refused = rig.call(101, "head_submit", arguments.clone()).unwrap_err();
    assert_ne!(refused.code, Code::Malformed, "{refused:?}");
    assert_eq!(rig.log.status().committed.size, before);
    // Who asks in his own name has the refusal recorded.
    let (index, _) = rig.call(100, "head_submit", arguments).unwrap();
    assert_eq!((index, rig.decided(index)), (before, Some(refused.code)));
    rig.check();
}

#[test]
fn b066_a_threshold_counts_distinct_keys() {
    let mut rig = Rig::new();
    rig.call(100, "identity_enroll", enroll("one", 1, false))
        .unwrap();
    rig.call(100, "identity_enroll", enroll("two", 2, false))
        .unwrap();
    rig.call(100, "receipt_policy", json!({"threshold": 2}))
        .unwrap();
    let refused = rig.receipt("a", &[1, 1]).unwrap_err();
    assert_eq!(refused.code, Code::ThresholdNotMet);
    assert_eq!(
        (
            refused.detail["have"].as_u64(),
            refused.detail["need"].as_u64()
        ),
        (Some(1), Some(2))
    );
    let (index, _) = rig.receipt("a", &[2, 9, 1]).unwrap();
    let bytes = rig.store.entry(index).unwrap().unwrap();
    let Leaf::Receipt(receipt) = Leaf::parse(&bytes).unwrap() else {
        panic!("a receipt")
    };
    assert!(
        receipt.signers.is_sorted() && receipt.signers.len() == 2,
        "strangers are dropped, the rest is sorted"
    );
    assert_eq!(
        rig.receipt("a", &[1, 2]).unwrap(),
        (index, true),
        "the same keys in another order are the same"
    );
    rig.check();
}

#[derive(Clone, Debug)]
enum Step {
    Enroll(u8, bool),
    Rotate(u8, u8, u8),
    Revoke(u8, u8),
    Policy(u8, usize),
    Receipt(u8, Vec<u8>),
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..6u8;
    prop_oneof![
        (n.clone(), any::<bool>()).prop_map(|(n, p)| Step::Enroll(n, p)),
        (n.clone(), n.clone(), 0..9u8).prop_map(|(by, of, new)| Step::Rotate(by, of, new)),
        (n.clone(), n.clone()).prop_map(|(by, of)| Step::Revoke(by, of)),
        (prop_oneof![Just(100u8), 0..6u8], 1..3usize).prop_map(|(by, t)| Step::Policy(by, t)),
        (n, prop::collection::vec(0..9u8, 1..4)).prop_map(|(text, keys)| Step::Receipt(text, keys)),
        (0..90_000u32).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_replays_to_the_same_state(steps in prop::collection::vec(step(), 1..30)) {
        let mut rig = Rig::new();
        for step in steps {
            // Refusals are part of it: what matters is that live, replayed and restored state stay one.
            let _ = match step {
                Step::Enroll(n, proved) => rig.call(100, "identity_enroll", enroll(&format!("n{n}"), n, proved)),
                Step::Rotate(by, of, new) => {
                    let proof = proof(new, id(of));
                    let by = if by == of { by } else { 100 };
                    let asked = json!({"identity": id(of).to_string(), "public_key": spki(new), "possession": proof});
                    rig.call(by, "identity_rotate", asked)
                }
                Step::Revoke(by, of) => rig.call(if by == of { by } else { 100 }, "identity_revoke", json!({"identity": id(of).to_string()})),
                Step::Policy(by, threshold) => rig.call(by, "receipt_policy", json!({"threshold": threshold})),
                Step::Receipt(text, keys) => rig.receipt(&format!("text {text}"), &keys),
                Step::Wait(ms) => {
                    *rig.clocks.0.lock().unwrap() += i128::from(ms);
                    continue;
                }
            };
        }
        rig.check();
    }
}

#[test]
fn no_request_of_an_agent_ends_the_writer() {
    let mut rig = Rig::new();
    rig.call(100, "identity_enroll", enroll("ci", 1, true))
        .unwrap();
    for size in [1 << 53, 1 << 62, (1 << 63) - 1] {
        let mut operation = rig.operation("receipt_policy", json!({}));
        let root = Hash([0; 32]);
        operation.observed = Some(countersign_verifier::operation::Observed { size, root });
        assert_eq!(rig.send(1, &operation).unwrap_err().code, Code::Malformed);
    }
    let mut long = enroll("x", 2, true);
    long["class"] = "x".repeat(5_000).into();
    let (index, _) = rig.call(100, "identity_enroll", long).unwrap();
    assert_eq!(rig.decided(index), Some(Code::ClassNotAllowed));
    for text in ["\u{7f}", "\u{2028}", "\u{feff}x", "a\"b", "a\\b", "é"] {
        let envelope = Envelope::sign(text, b"x", &[key(1)]);
        let prepared =
            prepare_receipt(&rig.state(), &envelope.to_json(), false, &Budget::of(1)).unwrap();
        // Taken or refused by its type: either way the log can be read again.
        let _ = rig.ask(Request::Receipt(prepared.request));
    }
    assert!(rig.receipt("after all", &[1]).is_ok());
    rig.check();
}

#[test]
fn a_stated_key_proves_itself_by_rotating_to_itself() {
    let mut rig = Rig::new();
    rig.call(100, "identity_enroll", enroll("ci", 1, false))
        .unwrap();
    let itself = |proof: Option<String>| {
        let mut arguments = json!({"identity": id(1).to_string(), "public_key": spki(1)});
        if let Some(proof) = proof {
            arguments["possession"] = proof.into();
        }
        arguments
    };
    let (index, _) = rig.call(100, "identity_rotate", itself(None)).unwrap();
    assert_eq!(
        rig.decided(index),
        Some(Code::KeyEnrolled),
        "without proof it changes nothing"
    );
    let (index, _) = rig
        .call(100, "identity_rotate", itself(Some(proof(1, id(1)))))
        .unwrap();
    assert_eq!(rig.decided(index), None);
    assert!(
        identity(&rig, 1).retired.is_empty(),
        "the key is the same, none is retired"
    );
    let (index, _) = rig
        .call(1, "identity_revoke", json!({"identity": id(1).to_string()}))
        .unwrap();
    assert_eq!(rig.decided(index), None, "and now it may sign operations");
    rig.check();
}
