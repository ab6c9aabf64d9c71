//! The judge that the log asks: it holds the state, decides each request in order, and writes each leaf once.

use std::collections::BTreeMap;

use countersign_log::{Context, Entry, Judge, Key, Ruling, StoreError};
use countersign_verifier::{
    dsse::pae,
    hash::{Hash, sha256},
    json::{canonical, parse as parse_json},
    key::{IdentityId, PrivateKey},
    leaf::{
        By, Class, Decision, Leaf, Millis, Signed, write_operation, write_receipt, write_system,
    },
    operation::{Observed, Operation, PAYLOAD_TYPE},
};
use serde_json::{Map, Value, json};

use crate::{
    error::{Code, Problem},
    state::{
        At, Caller, Decided, Identity, Opened, State, identity::Possession, refusal, request_hash,
        resource,
    },
};

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

/// How far an operation's own time may be from log time, in milliseconds: ten minutes.
const SKEW_MS: u64 = 600_000;
/// An effect or a detail that a leaf records has at most this many bytes.
pub const DECISION_BYTES_MAX: usize = 4_096;

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
    /// Repeats of refusals within their minute: the first one's leaf → (how many, when the minute ends). Lost with a crash, as
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

    fn judge_receipt(
        &mut self,
        request: &ReceiptRequest,
        context: &Context<'_>,
    ) -> Result<Ruling<Problem>, StoreError> {
        if let Some(index) = find_receipt(context, request, &request.verified)? {
            return Ok(Ruling::Existing(index));
        }
        let counted = match admit(&self.state, request) {
            Ok(counted) => counted,
            Err(problem) => return Ok(Ruling::Refuse(problem)),
        };
        if counted.len() < request.verified.len()
            && let Some(index) = find_receipt(context, request, &counted)?
        {
            return Ok(Ruling::Existing(index));
        }
        // OK because `admit` gives at least one.
        let first = self
            .state
            .identities
            .get(&counted[0].identity)
            .expect("Ledger::judge_receipt: an admitted signer");
        let by = By {
            identity: first.id,
            class: first.class,
            session: None,
        };
        let signatures: Vec<_> = counted
            .iter()
            .map(|v| (v.identity, v.signature.as_slice()))
            .collect();
        let signed = Signed {
            payload_type: &request.payload_type,
            payload: &request.payload,
            signatures: &signatures,
        };
        let mut leaf = Vec::new();
        if let Err(error) = write_receipt(&mut leaf, Millis(context.at), &by, signed) {
            return Ok(Ruling::Refuse(Problem::new(
                Code::TooLarge,
                format!("the receipt does not fit a leaf: {error}"),
            )));
        }
        self.state.receipt_taken(context.at);
        Ok(Ruling::Append(Entry {
            leaf,
            unique: vec![receipt_key(&request.pae_sha256, &counted)],
            postings: request.postings.clone(),
        }))
    }

    fn judge_operation(
        &mut self,
        request: &OperationRequest,
        context: &Context<'_>,
    ) -> Result<Ruling<Problem>, StoreError> {
        let operation = &request.operation;
        let caller = match self.caller(&request.signer) {
            Ok(caller) => caller,
            Err(problem) => return Ok(Ruling::Refuse(problem)),
        };
        let nonce_key = nonce_key(&caller.id, &operation.nonce);
        if let Some((index, first)) =
            find_operation(context, &nonce_key, &caller.id, &operation.nonce)?
        {
            if request_hash(&first) == request_hash(operation) {
                return Ok(Ruling::Existing(index));
            }
            let problem = Problem::new(
                Code::IdempotencyMismatch,
                format!("the nonce was first used at index {index} for another request"),
            );
            return Ok(Ruling::Refuse(problem.with("first_index", index)));
        }
        if let Err(problem) = fresh(operation, context.at) {
            return Ok(Ruling::Refuse(problem));
        }
        let at = At {
            at: context.at,
            index: context.index,
        };
        let decided = match precondition(context, &caller, operation)? {
            Some(refused) => refused,
            None => self
                .state
                .decide(&Caller { identity: &caller }, operation, at),
        };
        if let Decided::Refused(code, message, detail) = &decided {
            // What cannot be read is no request that a gate denied.
            if *code == Code::Malformed || *code == Code::ToolUnknown {
                let mut problem = Problem::new(*code, message.clone());
                problem.detail = detail.clone();
                return Ok(Ruling::Refuse(problem));
            }
            let kind = refusal::Kind::new(
                caller.id,
                &operation.tool,
                code.name(),
                &resource(operation),
            );
            if let Some(index) = self.state.refusals.folds_into(&kind, context.at) {
                let ends = context.at + refusal::FOLD_MS;
                self.folds.entry(index).or_insert((0, ends)).0 += 1;
                return Ok(Ruling::Existing(index));
            }
        }
        let entry = self.write(
            &caller,
            operation,
            &request.payload,
            &request.signer.signature,
            &decided,
            context,
        );
        Ok(match entry {
            Ok(leaf) => Ruling::Append(Entry {
                leaf,
                unique: vec![nonce_key],
                postings: Vec::new(),
            }),
            Err(problem) => Ruling::Refuse(problem),
        })
    }

    /// The identity whose current key made this signature, if it may sign operations.
    fn caller(&self, signer: &Verified) -> Result<Identity, Problem> {
        let Some(identity) = self.state.identities.get(&signer.identity) else {
            return Err(Problem::new(
                Code::SignerUnknown,
                "the key that signed is not enrolled in this account",
            ));
        };
        if let Some(index) = identity.revoked {
            return Err(revoked(identity, index));
        }
        if identity.key.sha256 != signer.key {
            return Err(retired(identity));
        }
        if identity.possession == Possession::Stated {
            let why = "this key may sign receipts; to sign operations it must first prove itself (identity rotate --possession)";
            return Err(Problem::new(Code::PossessionUnproved, why)
                .with("identity", identity.id.to_string()));
        }
        Ok(identity.clone())
    }

    /// Writes the leaf of a decided operation and takes it into the state.
    fn write(
        &mut self,
        caller: &Identity,
        operation: &Operation,
        payload: &[u8],
        signature: &[u8],
        decided: &Decided,
        context: &Context<'_>,
    ) -> Result<Vec<u8>, Problem> {
        let by = By {
            identity: caller.id,
            class: caller.class,
            session: operation.session.clone(),
        };
        let text = decision_text(decided);
        assert!(
            text.len() <= DECISION_BYTES_MAX,
            "Ledger::write: a decision of {} bytes by `{}`",
            text.len(),
            operation.tool
        );
        let decision = match decided {
            Decided::Applied(_) => Decision::Applied { effect: &text },
            Decided::Refused(code, ..) => Decision::Refused {
                code: code.name(),
                detail: &text,
            },
        };
        let signed = Signed {
            payload_type: PAYLOAD_TYPE,
            payload,
            signatures: &[(caller.id, signature)],
        };
        let mut leaf = Vec::new();
        write_operation(&mut leaf, Millis(context.at), &by, signed, decision).map_err(|error| {
            Problem::new(
                Code::TooLarge,
                format!("the operation does not fit a leaf: {error}"),
            )
        })?;
        self.take(&leaf);
        Ok(leaf)
    }

    /// Takes a leaf of our own writing into the state.
    fn take(&mut self, leaf: &[u8]) {
        // OK because the bytes were written a moment ago by the writers of the form that this reads; a replay reads them too.
        let parsed = Leaf::parse(leaf).expect("Ledger::take: our own leaf");
        self.state
            .apply(&parsed)
            .expect("Ledger::take: our own leaf applies");
    }

    fn system(&mut self, at: u64, event: &str) -> Entry {
        let mut leaf = Vec::new();
        // OK because events of our own are some hundred bytes.
        write_system(&mut leaf, Millis(at), event).expect("Ledger::system: an event that fits");
        self.take(&leaf);
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
        let known = restored.is_some();
        self.state = restored.unwrap_or_default();
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

    fn next_due(&self) -> Option<u64> {
        self.folds.values().map(|(_, ends)| *ends).min()
    }

    fn due(&mut self, context: &Context<'_>) -> Result<Option<Entry>, StoreError> {
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
        let decided = self
            .state
            .decide(&Caller { identity: &service }, &operation, at);
        let leaf = self.write(
            &service, &operation, &payload, &signature, &decided, context,
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

    fn version(&self) -> State {
        self.state.clone()
    }

    fn snapshot(&self) -> Vec<u8> {
        self.state.to_snapshot()
    }
}

/// The signatures that count, or why the receipt is not taken.
fn admit(state: &State, request: &ReceiptRequest) -> Result<Vec<Verified>, Problem> {
    let mut counted = Vec::with_capacity(request.verified.len());
    let mut stale = None;
    for verified in &request.verified {
        match state.identities.get(&verified.identity) {
            Some(identity) if let Some(index) = identity.revoked => {
                stale = Some(revoked(identity, index))
            }
            Some(identity) if identity.key.sha256 != verified.key => {
                stale = Some(retired(identity))
            }
            Some(_) => counted.push(verified.clone()),
            None => {}
        }
    }
    if counted.is_empty() {
        return Err(stale.unwrap_or_else(|| {
            Problem::new(Code::SignerUnknown, "no signature by an enrolled key")
        }));
    }
    if let Err(why) = state.receipts.check_type(&request.payload_type) {
        return Err(Problem::new(Code::TypeNotAllowed, why)
            .with("payload_type", request.payload_type.as_str()));
    }
    let need = state.receipts.threshold_for(&request.payload_type);
    if counted.len() < need {
        let have = counted.len();
        let why =
            format!("{have} distinct enrolled key(s) signed; the receipt policy asks for {need}");
        return Err(Problem::new(Code::ThresholdNotMet, why)
            .with("have", have)
            .with("need", need));
    }
    Ok(counted)
}

fn revoked(identity: &Identity, index: u64) -> Problem {
    Problem::new(
        Code::KeyRevoked,
        format!("`{}` was revoked at index {index}", identity.name),
    )
    .with("identity", identity.id.to_string())
    .with("revoked_index", index)
}

fn retired(identity: &Identity) -> Problem {
    let since = identity.rotations.last().map_or(0, |c| c.index);
    Problem::new(
        Code::KeyRevoked,
        format!(
            "`{}` has another key since index {since}; this one is retired",
            identity.name
        ),
    )
    .with("identity", identity.id.to_string())
    .with("retired_index", since)
}

fn fresh(operation: &Operation, at: u64) -> Result<(), Problem> {
    let issued = operation.issued_at.0;
    if issued.abs_diff(at) <= SKEW_MS {
        return Ok(());
    }
    let spell = |ms| Millis(ms).to_string();
    let why = format!(
        "issued_at is {} s away from log time; 600 s are allowed",
        issued.abs_diff(at) / 1_000
    );
    Err(Problem::new(Code::ClockSkew, why)
        .with("issued_at", spell(issued))
        .with("server_time", spell(at)))
}

/// What the caller says that it has seen must be so.
fn precondition(
    context: &Context<'_>,
    caller: &Identity,
    operation: &Operation,
) -> Result<Option<Decided>, StoreError> {
    for hash in &operation.prev {
        let below = match context.find(&Key::new(Key::LEAF_HASH, hash))? {
            Some(index) => context.leaf(index)?,
            None => None,
        };
        let same = below.is_some_and(|leaf| {
            countersign_verifier::hash::leaf_hash(&leaf) == *hash
                && matches!(Leaf::parse(&leaf), Ok(Leaf::Operation(op)) if op.by.identity == caller.id)
        });
        if !same {
            let refused = Decided::refuse(
                Code::PrevUnknown,
                "no operation of this identity below this one has that leaf hash",
            );
            return Ok(Some(refused.with("prev", hash.to_hex())));
        }
    }
    if let Some(Observed { size, root }) = operation.observed {
        let ours = context.root_at(size)?;
        if ours != Some(root) {
            let refused = Decided::refuse(
                Code::ObservedMismatch,
                "this log has another root at the size observed, or never had that size",
            );
            let ours = ours.map(|h| h.to_hex());
            return Ok(Some(
                refused
                    .with("size", size)
                    .with("observed", root.to_hex())
                    .with("ours", ours),
            ));
        }
    }
    Ok(None)
}

/// The effect, or the detail with the message in it, as compact JSON.
fn decision_text(decided: &Decided) -> String {
    let object: Map<String, Value> = match decided {
        Decided::Applied(effect) => effect.clone(),
        Decided::Refused(_, message, detail) => {
            let mut detail = detail.clone();
            detail.insert("message".into(), message.as_str().into());
            detail
        }
    };
    canonical(&Value::Object(object))
}

fn receipt_key(pae_sha256: &Hash, signers: &[Verified]) -> Key {
    let mut text = Vec::with_capacity(32 * (1 + signers.len()));
    text.extend(pae_sha256.0);
    for signer in signers {
        text.extend(signer.key.0);
    }
    Key::new(space::RECEIPT, &sha256(&text))
}

fn nonce_key(identity: &IdentityId, nonce: &str) -> Key {
    let mut text = identity.0.0.to_vec();
    text.extend(nonce.as_bytes());
    Key::new(space::NONCE, &sha256(&text))
}

/// The leaf of the same PAE under the same keys.
fn find_receipt(
    context: &Context<'_>,
    request: &ReceiptRequest,
    signers: &[Verified],
) -> Result<Option<u64>, StoreError> {
    if signers.is_empty() {
        return Ok(None);
    }
    let Some(index) = context.find(&receipt_key(&request.pae_sha256, signers))? else {
        return Ok(None);
    };
    let Some(leaf) = context.leaf(index)? else {
        return Ok(None);
    };
    let same = match Leaf::parse(&leaf) {
        Ok(Leaf::Receipt(receipt)) => {
            receipt.envelope.payload_type == request.payload_type
                && receipt.envelope.payload == request.payload
                && receipt
                    .signers
                    .iter()
                    .eq(signers.iter().map(|s| &s.identity))
        }
        _ => false,
    };
    Ok(same.then_some(index))
}

/// The first operation of this identity under this nonce.
fn find_operation(
    context: &Context<'_>,
    key: &Key,
    identity: &IdentityId,
    nonce: &str,
) -> Result<Option<(u64, Operation)>, StoreError> {
    let Some(index) = context.find(key)? else {
        return Ok(None);
    };
    let Some(leaf) = context.leaf(index)? else {
        return Ok(None);
    };
    let Ok(Leaf::Operation(found)) = Leaf::parse(&leaf) else {
        return Ok(None);
    };
    let operation = Operation::parse(&found.envelope.payload).ok();
    Ok(operation
        .filter(|o| found.by.identity == *identity && o.nonce == nonce)
        .map(|o| (index, o)))
}

/// The result of a leaf's decision as an object, and whether it was applied.
///
/// # Errors
/// What is wrong with the text.
pub fn decision_of(leaf: &Leaf<'_>) -> Result<(Option<Code>, Map<String, Value>), String> {
    let text = match leaf {
        Leaf::Operation(operation) => match operation.decision {
            Decision::Applied { effect } => (None, effect),
            Decision::Refused { code, detail } => (Code::from_name(code), detail),
        },
        _ => return Err("not an operation".into()),
    };
    match parse_json(text.1.as_bytes()) {
        Ok(Value::Object(map)) => Ok((text.0, map)),
        Ok(_) => Err("not an object".into()),
        Err(e) => Err(e.to_string()),
    }
}

/// The class whose word a leaf's `by` is.
#[must_use]
pub fn by_json(by: &By) -> Value {
    let class: Class = by.class;
    json!({"identity": by.identity.to_string(), "class": class.name()})
}
