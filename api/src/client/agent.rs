//! An agent at work: each of its calls signed with a key of its own, and repeated safely.

mod checkin;
mod claim;

use std::time::Duration;

use countersign_verifier::key::{Algorithm, PrivateKey};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::{
    checkin::{CheckIn, Session},
    claim::{Claim, Lease, Outcome},
};
use super::{
    call::{By, CallOptions, ToolAnswer, new_nonce},
    error::ClientError,
    http::Client,
    retry::Retry,
};

/// Pauses between attempts at a call, in all, unless said otherwise.
const PATIENCE: Duration = Duration::from_secs(15);

/// An agent with a key of its own. It signs every call, in its session once it has checked in, and sends a call again under the same
/// idempotency key while that can help, so that nothing is done twice.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use countersign_api::client::{Agent, CheckIn, Client, Outcome};
/// use countersign_verifier::key::PrivateKey;
/// use serde_json::json;
///
/// let key = PrivateKey::parse(&std::fs::read_to_string("builder.key")?)?;
/// let client = Client::new("http://127.0.0.1:8780", "dev", None)?;
/// let mut agent = Agent::connect(client, key).await?;
///
/// let session = agent.check_in(&CheckIn::new("agent", "example-agent")).await?;
/// println!("{} must be heard of every {:?}", session.id, session.heartbeat_every);
/// while let Some(claim) = agent.claim(json!({"tag": "docs"}), Duration::from_secs(600)).await? {
///     println!("at work on {}", claim.item["title"]);
///     agent.heartbeat(Some("half way"), Some(50)).await?;
///     let done = agent.resolve(&claim, Outcome::Done, Some("it is in docs/notes.md")).await?;
///     println!("leaf {:?}", done.entry.map(|entry| entry.index));
///     agent.release(&claim.lease).await?;
/// }
/// agent.check_out("delivered", None).await?;
/// # Ok(()) }
/// ```
///
/// Nothing is sent by itself: whoever works for longer than [`Session::heartbeat_every`] calls [`Agent::heartbeat`] in between.
#[derive(Debug)]
pub struct Agent {
    client: Client,
    origin: String,
    key: PrivateKey,
    patience: Duration,
    options: CallOptions,
    /// And the key that was bound to it, if one was.
    session: Option<(Session, Option<PrivateKey>)>,
}

/// A fresh Ed25519 key of this machine's chance.
///
/// # Errors
/// Where the system has no randomness.
pub fn new_key() -> Result<PrivateKey, getrandom::Error> {
    let mut secret = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret)?;
    // OK because any 32 bytes are a secret of Ed25519.
    Ok(PrivateKey::from_secret(Algorithm::Ed25519, &*secret).expect("new_key: 32 bytes"))
}

impl Agent {
    /// An agent of the client's account, whose log's origin the service is asked for.
    ///
    /// # Errors
    /// [`ClientError`]; a private account says its origin to holders of a token only: then [`Agent::new`].
    pub async fn connect(client: Client, key: PrivateKey) -> Result<Agent, ClientError> {
        let origin = client.origin().await?;
        Ok(Agent::new(client, origin, key))
    }

    /// An agent that signs with `key` for the log of this origin. Sends nothing yet.
    #[must_use]
    pub fn new(client: Client, origin: impl Into<String>, key: PrivateKey) -> Agent {
        Agent {
            client,
            origin: origin.into(),
            key,
            patience: PATIENCE,
            options: CallOptions::default(),
            session: None,
        }
    }

    /// Another patience than 15 s of pauses between attempts; none tries once.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Agent {
        self.patience = patience;
        self
    }

    /// How far writes are to have come when they are answered; the service's choice if this is not said.
    #[must_use]
    pub fn with_options(mut self, options: CallOptions) -> Agent {
        self.options = options;
        self
    }

    /// The client that carries its calls.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its own key.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The origin of the log that it signs for.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The session that its calls are part of: from check-in to check-out, whether the service still knows it or not.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref().map(|(session, _)| session)
    }

    /// Says that the session is still at work, which renews it and its leases; the service logs it only where that is needed or
    /// something is said. `progress` in per cent.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with code `SESSION_EXPIRED` where it was not heard of in time.
    pub async fn heartbeat(
        &self,
        note: Option<&str>,
        progress: Option<u8>,
    ) -> Result<ToolAnswer, ClientError> {
        let mut asked = json!({});
        if let Some(note) = note {
            asked["note"] = note.into();
        }
        if let Some(progress) = progress {
            asked["progress"] = progress.into();
        }
        self.call("ars_session_heartbeat", asked).await
    }

    /// Runs any tool, signed, in the session if there is one.
    ///
    /// # Errors
    /// [`ClientError`]; a refusal carries the leaf that records it.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<ToolAnswer, ClientError> {
        self.call_under(&fresh()?, tool, arguments, self.options)
            .await
    }

    /// The same under an idempotency key of the caller's, 16 to 64 characters: what was done under it is answered, never repeated,
    /// whichever process asks.
    ///
    /// # Errors
    /// As [`Agent::call`]; `IDEMPOTENCY_MISMATCH` where the key was used for something else.
    pub async fn call_under(
        &self,
        nonce: &str,
        tool: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<ToolAnswer, ClientError> {
        self.call_beside(nonce, (tool, arguments), &options.members())
            .await
    }

    /// The same, with these members beside what is signed: `wait`, `deadline_ms`, `include`.
    pub(crate) async fn call_beside(
        &self,
        nonce: &str,
        call: (&str, Value),
        beside: &Map<String, Value>,
    ) -> Result<ToolAnswer, ClientError> {
        let (session, bound) = match &self.session {
            Some((session, bound)) => (Some(&*session.id), bound.as_ref()),
            None => (None, None),
        };
        let by = By {
            key: bound.unwrap_or(&self.key),
            origin: &self.origin,
            session,
        };
        self.repeat(call, by, nonce, beside).await
    }

    async fn repeat(
        &self,
        (tool, arguments): (&str, Value),
        by: By<'_>,
        nonce: &str,
        beside: &Map<String, Value>,
    ) -> Result<ToolAnswer, ClientError> {
        let mut retry = Retry::new(self.patience);
        loop {
            let call = (tool, arguments.clone());
            let error = match self.client.run_beside(call, by, nonce, beside).await {
                Err(error) if error.is_transient() => error,
                answer => return answer,
            };
            match retry.next(error.retry_after()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    fn decoded<T: DeserializeOwned>(
        &self,
        tool: &str,
        answer: &ToolAnswer,
    ) -> Result<T, ClientError> {
        T::deserialize(&answer.result).map_err(|e| ClientError::Answer {
            url: format!("{}/v1/{tool}", self.client.url()),
            what: e.to_string(),
        })
    }
}

fn fresh() -> Result<String, ClientError> {
    new_nonce().map_err(|e| ClientError::Setup(e.to_string()))
}

#[cfg(all(test, feature = "service"))]
mod tests;
