//! The judge that the log asks: it holds the state, decides each request in order, and writes each leaf once.

use std::collections::BTreeMap;

use countersign_log::{Context, Entry, Judge, Key, Ruling, StoreError};
use countersign_verifier::{
    dsse::pae,
    hash::Hash,
    key::{IdentityId, PrivateKey},
    leaf::{Leaf, Millis, write_system},
    operation::{Operation, PAYLOAD_TYPE},
};
use serde_json::json;

mod caller;
mod decision;
mod operation;
mod receipt;
mod replay;
mod stored;

pub use caller::caller;
use operation::nonce_key;
pub use operation::{may, may_read, may_run, may_see};

use crate::{
    error::Problem,
    state::{At, Caller, Opened, State, refusal},
};

/// What finds the leaf of an operation that was answered before.
#[must_use]
pub fn request_key(request: &OperationRequest) -> countersign_log::Key {
    nonce_key(&request.signer.identity, &request.operation.nonce)
}

/// Name spaces of the log's lookup keys.
pub mod space {
    /// A receipt by its PAE and the keys that signed.
    pub const RECEIPT: u8 = 1;
    /// An operation by identity and nonce.
    pub const NONCE: u8 = 2;
    /// Receipts by the SHA-256 of their payload.
    pub const PAYLOAD: u8 = 3;
    /// Receipts by the SHA-256 of a subject of their in-toto statement.
    pub const SUBJECT: u8 = 4;
}

pub use decision::{DECISION_BYTES_MAX, Recorded, by_json, decision_of};
pub use receipt::receipt_key;
pub use replay::{Replayed, follows_rules};
pub use stored::{keys_of, receipt_postings};

/// A signature that verified, and under which key. Whether it counts is judged later, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whose key.
    pub identity: IdentityId,
    /// SHA-256 of the key's SPKI: an identity may have another key by the time that it is judged.
    pub key: Hash,
    /// The signature's bytes, as they came.
    pub signature: Vec<u8>,
}

/// A receipt, its signatures checked.
#[derive(Clone, Debug)]
pub struct ReceiptRequest {
    /// Signed.
    pub payload_type: String,
    /// Signed.
    pub payload: Vec<u8>,
    /// SHA-256 of the PAE of both.
    pub pae_sha256: Hash,
    /// One a key, sorted by identity.
    pub verified: Vec<Verified>,
    /// What it is to be found by.
    pub postings: Vec<Key>,
}

/// An operation, its signature checked.
#[derive(Clone, Debug)]
pub struct OperationRequest {
    /// What the payload says.
    pub operation: Operation,
    /// What was signed.
    pub payload: Vec<u8>,
    /// The one signature.
    pub signer: Verified,
}

/// What the writer is asked.
#[derive(Clone, Debug)]
pub enum Request {
    /// Take this receipt.
    Receipt(ReceiptRequest),
    /// Run this tool.
    Operation(Box<OperationRequest>),
}

/// The judge of one account.
pub struct Ledger {
    state: State,
    opened: Opened,
    service: PrivateKey,
    /// Repeats of refusals within their minute: the first one's leaf → (how many, when the minute ends). Lost at a stop, as
    /// the repeats themselves are: they are counts of what was answered, not leaves.
    folds: BTreeMap<u64, (u64, u64)>,
}

impl Ledger {
    /// A judge for the account that `opened` describes, or will describe once leaf 0 is written.
    #[must_use]
    pub fn new(opened: Opened, service: PrivateKey) -> Ledger {
        Ledger {
            state: State::default(),
            opened,
            service,
            folds: BTreeMap::new(),
        }
    }

    /// Takes a leaf of our own writing into the state, or leaves the state as it was: a leaf that could not be read back, or not
    /// be replayed, must not be committed, whatever a client sent to bring it about.
    fn take(&mut self, leaf: &[u8]) -> Result<(), String> {
        let parsed = Leaf::parse(leaf).map_err(|e| e.to_string())?;
        let mut next = self.state.clone();
        next.apply(&parsed)?;
        self.state = next;
        Ok(())
    }

    fn system(&mut self, at: u64, event: &str) -> Entry {
        let mut leaf = Vec::new();
        // OK because events of our own are some hundred bytes.
        write_system(&mut leaf, Millis(at), event).expect("Ledger::system: an event that fits");
        // OK because these events follow from the state that they change, and no client has a say in their form.
        self.take(&leaf).expect("Ledger::system: our own event");
        Entry {
            leaf,
            ..Entry::default()
        }
    }
}

impl Judge for Ledger {
    type Request = Request;
    type Refusal = Problem;
    type Version = State;

    fn restore(&mut self, snapshot: Option<&[u8]>) -> bool {
        self.folds.clear();
        let restored = snapshot.map_or(Some(State::default()), State::from_snapshot);
        // A snapshot of another account's files is none of ours: the replay then says what differs.
        let ours = restored.filter(|s| s.opened.as_ref().is_none_or(|o| *o == self.opened));
        let known = ours.is_some();
        self.state = ours.unwrap_or_default();
        known
    }

    fn replay(&mut self, index: u64, leaf: &[u8]) -> Result<(), String> {
        if index != self.state.size {
            return Err(format!("the state is at size {}", self.state.size));
        }
        let leaf = Leaf::parse(leaf).map_err(|e| e.to_string())?;
        self.state.apply(&leaf)?;
        match &self.state.opened {
            Some(opened) if *opened != self.opened => {
                Err("leaf 0 names another origin, owner or key than the account's files: one of the two is not this account's".into())
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, at: u64) -> Entry {
        let event = self.opened.to_event();
        self.system(at, &event)
    }

    fn is_closed(&self) -> bool {
        self.state.closed.is_some()
    }

    fn next_due(&self) -> Option<u64> {
        if self.is_closed() {
            return None;
        }
        let folds = self.folds.values().map(|(_, ends)| *ends).min();
        let derived = self.state.next_due().map(|due| due.at);
        folds.into_iter().chain(derived).min()
    }

    fn due(&mut self, context: &Context<'_>) -> Result<Option<Entry>, StoreError> {
        if let Some(event) = self.state.due_event(context.at) {
            return Ok(Some(self.system(context.at, &event)));
        }
        let due = self.folds.iter().find(|(_, (_, ends))| *ends <= context.at);
        let Some((index, (count, _))) = due.map(|(index, fold)| (*index, *fold)) else {
            return Ok(None);
        };
        self.folds.remove(&index);
        let operation = Operation {
            tool: refusal::FOLDED.tool.into(),
            arguments: json!({"index": index, "count": count}),
            log: self.opened.origin.clone(),
            session: None,
            nonce: format!("folded-{index:020}"),
            issued_at: Millis(context.at),
            prev: Vec::new(),
            observed: None,
        };
        let payload = operation.to_json();
        let signature = self.service.sign(&pae(PAYLOAD_TYPE, &payload));
        let id = self.service.public().identity();
        // OK because leaf 0 names the service.
        let service = self
            .state
            .identities
            .get(&id)
            .expect("Ledger::due: the service's identity")
            .clone();
        let at = At {
            at: context.at,
            index: context.index,
        };
        let decided = self.state.decide(&Caller::from(&service), &operation, at);
        let leaf = self.write(
            &Caller::from(&service),
            &operation,
            &payload,
            &signature,
            &decided,
            context,
        );
        Ok(leaf.ok().map(|leaf| Entry {
            leaf,
            unique: vec![nonce_key(&id, &operation.nonce)],
            postings: Vec::new(),
        }))
    }

    fn judge(
        &mut self,
        request: &Request,
        context: &Context<'_>,
    ) -> Result<Ruling<Problem>, StoreError> {
        match request {
            Request::Receipt(receipt) => self.judge_receipt(receipt, context),
            Request::Operation(operation) => self.judge_operation(operation, context),
        }
    }

    fn clock_adjusted(&mut self, context: &Context<'_>, from: u64, to: u64) -> Entry {
        let event = format!(
            "{{\"type\":\"clock_adjusted\",\"from\":\"{}\",\"to\":\"{}\"}}",
            Millis(from),
            Millis(to)
        );
        self.system(context.at, &event)
    }

    fn unguarded(&mut self, context: &Context<'_>) -> Option<Entry> {
        Some(self.system(context.at, "{\"type\":\"unguarded\"}"))
    }

    fn version(&self) -> State {
        self.state.clone()
    }

    fn snapshot(&self) -> Box<dyn FnOnce() -> Vec<u8> + Send> {
        let state = self.state.clone();
        Box::new(move || state.to_snapshot())
    }
}

#[cfg(test)]
mod tests;
