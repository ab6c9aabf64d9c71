//! Tools: signed operations, and reads with a token.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use countersign_verifier::{
    dsse::Envelope,
    key::PrivateKey,
    leaf::Millis,
    operation::{Operation, PAYLOAD_TYPE},
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    error::ClientError,
    health::json as parse,
    http::{Answer, Client, TIMEOUT, send},
    submit::Wait,
};

/// Lists page by 200 rows, and a leaf has 64 KiB; a log page of 1,000 leaves would have as much.
const RESULT_BYTES_MAX: usize = 128 << 20;

/// What is asked of an answer; none of it is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// How far the write is to have come; the service's choice if `None`.
    pub wait: Option<Wait>,
    /// How long to wait for that; the service's choice if `None`.
    pub deadline: Option<Duration>,
}

impl CallOptions {
    /// As members of a call.
    pub(super) fn members(self) -> Map<String, Value> {
        let wait = self.wait.map(|wait| ("wait".into(), wait.name().into()));
        let deadline = self.deadline.map(|deadline| {
            let ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
            ("deadline_ms".into(), ms.into())
        });
        wait.into_iter().chain(deadline).collect()
    }
}

/// Who signs an operation, for which log, and as part of which session.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// The key.
    pub key: &'a PrivateKey,
    /// The origin of the log.
    pub origin: &'a str,
    /// The session.
    pub session: Option<&'a str>,
}

/// The leaf that records an operation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// Its index.
    pub index: u64,
    /// Its hash, in lowercase hexadecimal.
    pub leaf_hash: String,
    /// How far it is.
    pub state: Wait,
    /// Where its evidence is, or will be.
    #[serde(default)]
    pub evidence_url: Option<String>,
    /// It is the leaf of an earlier refusal of the same kind.
    #[serde(default)]
    pub folded: bool,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// Its result.
    pub result: Value,
    /// The leaf of a write; a read has none.
    pub entry: Option<Entry>,
    /// Whether a write is as far as was asked for.
    pub reached: bool,
    /// The whole answer, as it came.
    pub text: String,
}

#[derive(Deserialize)]
struct Members {
    result: Value,
    entry: Option<Entry>,
}

impl ToolAnswer {
    pub(super) fn read(answer: &Answer) -> Result<ToolAnswer, ClientError> {
        let Members { result, entry } = parse(answer)?;
        let text = String::from_utf8_lossy(&answer.body).trim_end().to_owned();
        Ok(ToolAnswer {
            result,
            entry,
            reached: answer.status == 200,
            text,
        })
    }
}

impl Client {
    /// Posts `body` to a tool: `{"signed": …}` for a write, the arguments themselves for a read with the client's token.
    ///
    /// # Errors
    /// [`ClientError`]; the service's refusal carries the leaf that records it.
    pub async fn call(&self, tool: &str, body: &Value) -> Result<ToolAnswer, ClientError> {
        let waits = waits(body, "deadline_ms") + waits(body, "wait_ms");
        self.post(tool, body, TIMEOUT + waits).await
    }

    async fn post(
        &self,
        tool: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<ToolAnswer, ClientError> {
        let answer = send(
            self.request(Method::POST, self.tool(tool), timeout)
                .json(body),
            RESULT_BYTES_MAX,
        )
        .await?;
        ToolAnswer::read(&answer)
    }

    /// Runs a tool as an operation signed `by` somebody. Under the same `nonce` (16 to 64 characters, see [`new_nonce`]) the same
    /// call is answered, never repeated.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn run(
        &self,
        (tool, arguments): (&str, Value),
        by: By<'_>,
        nonce: &str,
        options: CallOptions,
    ) -> Result<ToolAnswer, ClientError> {
        let call = (tool, arguments);
        self.run_beside(call, by, nonce, &options.members()).await
    }

    /// The same, with these members beside what is signed.
    pub(super) async fn run_beside(
        &self,
        (tool, arguments): (&str, Value),
        by: By<'_>,
        nonce: &str,
        beside: &Map<String, Value>,
    ) -> Result<ToolAnswer, ClientError> {
        let mut body = Value::Object(beside.clone());
        let waits = waits(&body, "deadline_ms") + waits(&arguments, "wait_ms");
        let signed = sign_operation((tool, arguments), by, nonce);
        // OK because what we render is JSON.
        body["signed"] =
            serde_json::from_slice(&signed.to_json()).expect("Client::run: our own envelope");
        self.post(tool, &body, TIMEOUT + waits).await
    }
}

/// How long the service is asked to wait, by the member of this name.
fn waits(members: &Value, name: &str) -> Duration {
    Duration::from_millis(members.get(name).and_then(Value::as_u64).unwrap_or(0))
}

/// An operation, issued now, in its envelope.
pub(super) fn sign_operation(
    (tool, arguments): (&str, Value),
    by: By<'_>,
    nonce: &str,
) -> Envelope {
    let operation = Operation {
        tool: tool.to_owned(),
        arguments,
        log: by.origin.to_owned(),
        session: by.session.map(str::to_owned),
        nonce: nonce.to_owned(),
        issued_at: now(),
        prev: Vec::new(),
        observed: None,
    };
    Envelope::sign(
        PAYLOAD_TYPE,
        &operation.to_json(),
        std::slice::from_ref(by.key),
    )
}

/// The time by this machine's clock.
pub(super) fn now() -> Millis {
    // Of a clock before 1970 the service says what is wrong with it.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    Millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// A fresh nonce: 32 hexadecimal digits of chance.
///
/// # Errors
/// Where the system has no randomness.
pub fn new_nonce() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use countersign_verifier::{dsse::count, key::Algorithm};

    #[test]
    fn an_operation_is_signed_over_what_the_service_reads() {
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]).unwrap();
        let nonce = new_nonce().unwrap();
        let envelope = sign_operation(
            ("identity_revoke", json!({"b": 1, "a": 2})),
            By {
                key: &key,
                origin: "localhost/dev",
                session: Some("s_7"),
            },
            &nonce,
        );
        assert_eq!(
            count(&envelope.pae(), &envelope.signatures, &[key.public()]).len(),
            1
        );
        let operation = Operation::parse(&envelope.payload).unwrap();
        assert_eq!(
            (&*operation.tool, &*operation.log, &*operation.nonce),
            ("identity_revoke", "localhost/dev", &*nonce)
        );
        assert_eq!(operation.session.as_deref(), Some("s_7"));
        assert!(operation.issued_at > "2026-01-01T00:00:00.000Z".parse().unwrap());
        assert_ne!(nonce, new_nonce().unwrap());
    }
}
