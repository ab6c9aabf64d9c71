//! `/log/<account>/heads`: signed heads of the logs that an account tracks, taken and listed.

use std::time::Instant;

use axum::{
    extract::{Path, Query, Request as HttpRequest, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use countersign_verifier::{
    add_checkpoint::AddCheckpoint,
    dsse::Envelope,
    fork::Fork,
    hash::sha256,
    leaf::{Leaf, Millis},
    limits::ADD_CHECKPOINT_BYTES_MAX,
    note::Note,
    operation::{Operation, PAYLOAD_TYPE},
};
use serde_json::{Value, json};

use super::{Shared, answer, body};
use crate::{
    account::Account,
    error::{Code, Problem},
    ledger::Request,
    state::{self, At, Caller, Decided, head},
    submit,
};

pub(super) async fn submit(
    State(app): State<Shared>,
    Path(account): Path<String>,
    ask: Result<Query<answer::Ask>, QueryRejection>,
    request: HttpRequest,
) -> Response {
    let begun = Instant::now();
    let answer = take(&app, &account, ask, request)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    app.metrics.wrote(begun.elapsed().as_secs_f64());
    answer
}

/// What was posted.
enum Posted {
    /// A note, and where its proof begins, if there is one.
    Head(String, Option<(u64, Vec<String>)>),
    /// Evidence of a fork.
    Fork(Fork),
}

async fn take(
    app: &Shared,
    account: &str,
    ask: Result<Query<answer::Ask>, QueryRejection>,
    request: HttpRequest,
) -> Result<Response, Problem> {
    // The tracked log's signature authenticates a head, in a private account too.
    let (account, mut wanted) = answer::asked(app, account, ask)?;
    // A private account's checkpoint is for those who may read it.
    let bearer = super::token(app, request.headers())?;
    wanted.proof &= account.public || bearer.is_some_and(|bearer| bearer.reads(&account.origin));
    let (bytes, _held) = body::read(app, request, ADD_CHECKPOINT_BYTES_MAX).await?;
    let version = account.reader().version();
    let posted = Posted::parse(&bytes, &version)?;
    let known = match &posted {
        Posted::Head(note, proof) => version.head_recorded(note, proof.is_some()),
        Posted::Fork(fork) => version.fork_recorded(fork),
    };
    let envelope = match known {
        Some(index) => recorded(&account, index).await?,
        None => ask_service(&account, &version, &posted)?,
    };
    let request = submit::prepare_operation(&version, envelope)?;
    let nonce = request.operation.nonce.clone();
    let requests = vec![Request::Operation(Box::new(request))];
    let mut written = submit::write(&account, requests, wanted).await?;
    // OK because one request has one answer.
    let written = written.pop().expect("heads::take")?;
    let result = |recorded: &answer::RecordedWrite<'_>| Value::Object(recorded.effect.clone());
    let (status, value) =
        answer::operation(app, &account, &written, wanted, &nonce, result, |_| {})?;
    // OK because both statuses are constants of `answer`.
    Ok(body::json(
        StatusCode::from_u16(status).expect("heads::take: status"),
        value.to_string(),
    ))
}

impl Posted {
    /// A note alone, or as in add-checkpoint: `old` and a size, hashes, an empty line, the note. Or a file of evidence, which is JSON
    /// as no note is.
    fn parse(bytes: &[u8], version: &state::State) -> Result<Posted, Problem> {
        let malformed =
            |why: &dyn std::fmt::Display| Problem::new(Code::Malformed, why.to_string());
        if bytes.trim_ascii_start().starts_with(b"{") {
            let mut fork = Fork::parse(bytes).map_err(|e| malformed(&e))?;
            for text in &mut fork.checkpoints {
                let note = Note::parse(text.as_bytes()).map_err(|e| malformed(&e))?;
                *text = bare(&note, version);
            }
            return Ok(Posted::Fork(fork));
        }
        if !bytes.starts_with(b"old ") {
            let note = Note::parse(bytes).map_err(|e| malformed(&e))?;
            return Ok(Posted::Head(bare(&note, version), None));
        }
        let asked = AddCheckpoint::parse(bytes).map_err(|e| malformed(&e))?;
        let hashes: Vec<String> = asked.proof.iter().map(|hash| hash.to_base64()).collect();
        let proof = (!hashes.is_empty()).then_some((asked.old, hashes));
        Ok(Posted::Head(bare(&asked.note, version), proof))
    }

    /// As arguments of `head_submit`.
    fn arguments(&self, version: &state::State) -> Result<Value, Problem> {
        let (note, proof) = match self {
            Posted::Head(note, proof) => (note, proof),
            Posted::Fork(fork) => {
                let text = String::from_utf8_lossy(&fork.to_json()).into_owned();
                return Ok(json!({"evidence": text}));
            }
        };
        let mut arguments = json!({"checkpoint": note});
        if let Some((old, proof)) = proof {
            let origin = note.split('\n').next().unwrap_or_default();
            let proved = version.heads.get(origin).and_then(|t| t.proved.as_ref());
            if let Some(proved) = proved.filter(|proved| proved.size != *old) {
                let why = format!(
                    "the proof begins at size {old}, and the last proved head has {}",
                    proved.size
                );
                return Err(Problem::new(Code::ProofInvalid, why).with("from", proved.size));
            }
            arguments["proof"] = proof.clone().into();
        }
        Ok(arguments)
    }
}

/// The note with one line, the tracked key's first. Nobody vouches for the other lines, and whoever brings a head could add as many
/// as he likes: each would make another note of it, and another leaf.
fn bare(note: &Note<'_>, version: &state::State) -> String {
    let origin = note.text.split('\n').next().unwrap_or_default();
    let Some(tracked) = version.heads.get(origin) else {
        return note.to_string();
    };
    let own = note
        .signatures
        .iter()
        .find(|line| line.name == tracked.key.name && line.id == tracked.key.id);
    match own {
        Some(line) => countersign_verifier::note::join(note.text, [line.to_string().as_str()]),
        None => note.to_string(),
    }
}

/// The envelope of the leaf that records a head: asked again, the writer answers with that leaf.
async fn recorded(account: &std::sync::Arc<Account>, index: u64) -> Result<Envelope, Problem> {
    let account = account.clone();
    let read = move || {
        let found = account.reader().leaf(index);
        let leaf = found.map_err(|e| crate::query::unreadable(&e))?;
        let leaf = leaf.ok_or_else(|| Problem::internal(&"a head's leaf is not there"))?;
        match Leaf::parse(&leaf) {
            Ok(Leaf::Operation(operation)) => Ok(operation.envelope),
            _ => Err(Problem::internal(&"a head's leaf is no operation")),
        }
    };
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|e| Problem::internal(&e))?
}

/// The head as an operation of the account's service identity. One that would be refused is no leaf.
fn ask_service(
    account: &Account,
    version: &state::State,
    posted: &Posted,
) -> Result<Envelope, Problem> {
    let arguments = posted.arguments(version)?;
    let operation = Operation {
        tool: head::SUBMIT.tool.into(),
        log: account.origin.clone(),
        session: None,
        // The same head with the same proof is one request, whoever brings it.
        nonce: sha256(arguments.to_string().as_bytes()).to_hex(),
        arguments,
        issued_at: Millis(account.log_now_ms()),
        prev: Vec::new(),
        observed: None,
    };
    let id = account.service.public().identity();
    let service = version
        .identities
        .get(&id)
        .ok_or_else(|| Problem::internal(&"the account has no service identity"))?;
    let at = At {
        at: version.at,
        index: version.size,
    };
    let decided = version.decide(&Caller::from(service), &operation, at);
    if let Decided::Refused(code, message, detail) = decided {
        let mut problem = Problem::new(code, message);
        problem.detail = detail;
        return Err(problem);
    }
    let keys = std::slice::from_ref(&account.service);
    Ok(Envelope::sign(PAYLOAD_TYPE, &operation.to_json(), keys))
}
