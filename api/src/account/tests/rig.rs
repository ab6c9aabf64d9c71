//! An account without a service, for tests: made, opened, written to.

use std::{
    fs,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use countersign_log::{Outcome, SystemClocks, Until, store::rocks::Shared};
use countersign_verifier::{
    dsse::Envelope,
    key::PrivateKey,
    leaf::Millis,
    operation::{Operation, PAYLOAD_TYPE},
};
use serde_json::Value;

use super::super::Account;
use crate::{
    config,
    data_dir::DataDir,
    init,
    ledger::Request,
    submit::{Budget, prepare_operation, prepare_receipt},
};

/// What the stores of one test share.
pub fn shared() -> Shared {
    Shared::new(8 << 20, 8 << 20)
}

/// A data directory with the development account, in a folder that goes with the test.
pub fn development() -> (tempfile::TempDir, DataDir) {
    let home = tempfile::tempdir().unwrap();
    let dir = DataDir::new(home.path().join("data"));
    init::create(&dir, &init::development(false)).unwrap();
    (home, dir)
}

/// The key of its owner.
pub fn owner(dir: &DataDir) -> PrivateKey {
    PrivateKey::parse(&fs::read_to_string(dir.owner_key()).unwrap()).unwrap()
}

/// The account, open for writing.
pub fn open(dir: &DataDir) -> Account {
    let settings = config::Witnesses::default();
    let clocks = Arc::new(SystemClocks);
    Account::open(dir, "dev", &shared(), clocks, (&settings, false)).unwrap()
}

/// So many receipts, signed by `owner`.
pub fn receipts(account: &Account, owner: &PrivateKey, count: usize) -> Vec<Request> {
    let state = account.reader().version();
    let one = |n: usize| {
        let payload = format!("{{\"n\":{n}}}");
        let kind = "application/vnd.example.receipt+json";
        let envelope = Envelope::sign(kind, payload.as_bytes(), std::slice::from_ref(owner));
        let prepared = prepare_receipt(&state, &envelope.to_json(), false, &Budget::of(1));
        Request::Receipt(prepared.unwrap().request)
    };
    (0..count).map(one).collect()
}

/// An operation, signed by `owner` now; `n` tells its nonce from others.
pub fn operation(
    account: &Account,
    owner: &PrivateKey,
    (tool, arguments): (&str, Value),
    n: usize,
) -> Request {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let operation = Operation {
        tool: tool.into(),
        arguments,
        log: account.origin.clone(),
        session: None,
        nonce: format!("nonce-{n:020}"),
        issued_at: Millis(now.as_millis().try_into().unwrap()),
        prev: Vec::new(),
        observed: None,
    };
    let owner = std::slice::from_ref(owner);
    let signed = Envelope::sign(PAYLOAD_TYPE, &operation.to_json(), owner);
    let prepared = prepare_operation(&account.reader().version(), signed).unwrap();
    Request::Operation(Box::new(prepared))
}

/// Has them written, all of them.
pub fn done(account: &Account, requests: Vec<Request>) {
    let pending = account.log.submit(requests, Until::Included).ok().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let wait = Duration::from_secs(60);
    let (outcomes, _) = runtime.block_on(pending.reached(wait)).unwrap();
    let mut all = outcomes.iter();
    assert!(all.all(|outcome| matches!(outcome, Outcome::Sequenced(_))));
}
