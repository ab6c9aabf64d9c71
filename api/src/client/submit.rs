//! Handing in receipts: one, many, and until they are taken.

use std::time::Duration;

use bytes::Bytes;
use countersign_verifier::hash::Hash;
use reqwest::{Method, RequestBuilder, header};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use super::{
    error::{ClientError, Problem},
    health::json,
    http::{Answer, Client, SMALL, TIMEOUT, send},
    retry::Retry,
};

/// Envelopes in one NDJSON request.
pub const NDJSON_LINES_MAX: usize = 1_000;
/// Bytes of one NDJSON request, line feeds included.
pub const NDJSON_BYTES_MAX: usize = 16 << 20;
/// What an answer can be for each line: proofs are at most 260 KiB, but share one checkpoint's size of some KiB in practice.
const ANSWERS_BYTES_MAX: usize = 256 << 20;

/// How far a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// It has an index.
    Sequenced,
    /// It is under a head that the log signed.
    Included,
    /// It is under a head that meets the witness policy.
    Witnessed,
}

impl Wait {
    /// As requests and answers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequenced => "sequenced",
            Self::Included => "included",
            Self::Witnessed => "witnessed",
        }
    }
}

/// What is asked of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmitOptions {
    /// How far the receipt is to have come; the service's choice if `None`.
    pub wait: Option<Wait>,
    /// How long to wait for that; the service's choice if `None`.
    pub deadline: Option<Duration>,
    /// Whether the answer carries a tlog-proof.
    pub proof: bool,
}

/// Whether a receipt is in the state that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It is.
    Yes,
    /// The deadline passed first. The write stands; this is no evidence.
    NotYet,
}

/// A receipt that the log has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Accepted {
    /// Whether it is as far as was asked for.
    #[serde(skip, default = "not_yet")]
    pub reached: Reached,
    /// Its index.
    pub index: u64,
    /// Its leaf's hash.
    #[serde(deserialize_with = "hash")]
    pub leaf_hash: Hash,
    /// Log time, RFC 3339: the operator's claim.
    pub at: String,
    /// How far it is.
    pub state: Wait,
    /// The log had it before.
    #[serde(default)]
    pub duplicate: bool,
    /// Where its evidence is, or will be.
    #[serde(default)]
    pub evidence_url: String,
    /// Signatures that are not in the leaf.
    #[serde(default)]
    pub dropped_signatures: Vec<DroppedSignature>,
    /// tlog-proof text, where it was asked for.
    #[serde(default)]
    pub proof: Option<String>,
    /// The proof is under a head that was never published.
    #[serde(default)]
    pub unprotected: bool,
}

/// A signature that was sent and is not in the leaf.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DroppedSignature {
    /// Its place in the envelope, from 0.
    pub position: usize,
    /// Its keyid.
    #[serde(default)]
    pub keyid: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

fn not_yet() -> Reached {
    Reached::NotYet
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
    Hash::from_hex(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

impl Client {
    /// Hands in one DSSE envelope.
    ///
    /// # Errors
    /// [`ClientError`]. The log may have it all the same after [`ClientError::Broken`]; handing it in again answers that.
    pub async fn submit(
        &self,
        envelope: &[u8],
        options: &SubmitOptions,
    ) -> Result<Accepted, ClientError> {
        let request = self.receipts(options, "application/vnd.dsse.envelope.v1+json");
        let answer = send(request.body(envelope.to_vec()), SMALL).await?;
        let accepted: Accepted = json(&answer)?;
        Ok(accepted.under(answer.status))
    }

    /// Hands in up to [`NDJSON_LINES_MAX`] envelopes of up to [`NDJSON_BYTES_MAX`] in one request; one answer each, in order.
    ///
    /// # Errors
    /// [`ClientError`] when none has an answer.
    pub async fn submit_ndjson(
        &self,
        envelopes: &[Bytes],
        options: &SubmitOptions,
    ) -> Result<Vec<Result<Accepted, Problem>>, ClientError> {
        let mut body = Vec::with_capacity(envelopes.iter().map(|e| e.len() + 1).sum());
        for envelope in envelopes {
            // A line feed between the tokens of JSON is white space, and inside a string it is an error already.
            body.extend(
                envelope
                    .iter()
                    .map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }),
            );
            body.push(b'\n');
        }
        let request = self
            .receipts(options, "application/x-ndjson")
            .header(header::ACCEPT, "application/x-ndjson");
        let answer = send(request.body(body), ANSWERS_BYTES_MAX).await?;
        rows(&answer, envelopes.len())
    }

    /// Hands in up to one request's worth of envelopes, and those again that met a busy service or a broken connection, with
    /// pauses of at most `patience` in all. `note` hears of each pause. One answer each, in order.
    pub async fn submit_all(
        &self,
        envelopes: &[Bytes],
        options: &SubmitOptions,
        patience: Duration,
        mut note: impl FnMut(&ClientError, Duration),
    ) -> Vec<Result<Accepted, ClientError>> {
        let mut answers: Vec<Option<Result<Accepted, ClientError>>> = vec![None; envelopes.len()];
        let mut open: Vec<usize> = (0..envelopes.len()).collect();
        let mut retry = Retry::new(patience);
        loop {
            let sent: Vec<Bytes> = open.iter().map(|&i| envelopes[i].clone()).collect();
            for (&i, answer) in open.iter().zip(self.attempt(&sent, options).await) {
                answers[i] = Some(answer);
            }
            let transient =
                |i: &usize| matches!(&answers[*i], Some(Err(error)) if error.is_transient());
            open.retain(transient);
            let errors = || {
                open.iter()
                    .filter_map(|&i| answers[i].as_ref()?.as_ref().err())
            };
            let Some(first) = errors().next() else { break };
            let Some(pause) = retry.next(errors().filter_map(ClientError::retry_after).max())
            else {
                break;
            };
            note(first, pause);
            tokio::time::sleep(pause).await;
        }
        // OK because the first attempt answers all.
        answers
            .into_iter()
            .map(|answer| answer.expect("submit_all: an answer each"))
            .collect()
    }

    async fn attempt(
        &self,
        envelopes: &[Bytes],
        options: &SubmitOptions,
    ) -> Vec<Result<Accepted, ClientError>> {
        match envelopes {
            [] => Vec::new(),
            [one] => vec![self.submit(one, options).await],
            many => match self.submit_ndjson(many, options).await {
                Ok(rows) => rows
                    .into_iter()
                    .map(|row| row.map_err(ClientError::from))
                    .collect(),
                Err(error) => vec![Err(error); many.len()],
            },
        }
    }

    fn receipts(&self, options: &SubmitOptions, media_type: &'static str) -> RequestBuilder {
        let mut url = self.log(&["receipts"]);
        if *options != SubmitOptions::default() {
            let mut query = url.query_pairs_mut();
            if let Some(wait) = options.wait {
                query.append_pair("wait", wait.name());
            }
            if let Some(deadline) = options.deadline {
                query.append_pair("deadline_ms", &deadline.as_millis().to_string());
            }
            if options.proof {
                query.append_pair("include", "proof");
            }
        }
        let timeout = TIMEOUT + options.deadline.unwrap_or_default();
        self.request(Method::POST, url, timeout)
            .header(header::CONTENT_TYPE, media_type)
    }
}

impl Accepted {
    fn under(mut self, status: u16) -> Self {
        self.reached = if status == 202 {
            Reached::NotYet
        } else {
            Reached::Yes
        };
        self
    }
}

/// One answer a line, each under the number of the line that it answers.
fn rows(answer: &Answer, due: usize) -> Result<Vec<Result<Accepted, Problem>>, ClientError> {
    let bad = |what: String| ClientError::Answer {
        url: answer.url.clone(),
        what,
    };
    let mut rows = Vec::with_capacity(due);
    let lines = answer
        .body
        .split(|b| *b == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    for (i, line) in lines.enumerate() {
        let members: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|e| bad(format!("line {} of the answer: {e}", i + 1)))?;
        let number = |name| members.get(name).and_then(Value::as_u64);
        if number("line") != Some(i as u64 + 1) {
            return Err(bad(format!(
                "line {} of the answer is for another line",
                i + 1
            )));
        }
        match number("status").and_then(|status| u16::try_from(status).ok()) {
            Some(status @ 200..=299) => {
                let accepted: Result<Accepted, _> = serde_json::from_value(Value::Object(members));
                rows.push(Ok(accepted
                    .map_err(|e| bad(format!("line {} of the answer: {e}", i + 1)))?
                    .under(status)));
            }
            Some(status) => rows.push(Err(Problem::from_members(status, None, &members))),
            None => return Err(bad(format!("line {} of the answer has no status", i + 1))),
        }
    }
    match rows.len() == due {
        true => Ok(rows),
        false => Err(bad(format!("{} answers to {due} envelopes", rows.len()))),
    }
}
