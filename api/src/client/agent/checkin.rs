//! Beginning and ending a session.

use std::time::Duration;

use countersign_verifier::{base64, key::PrivateKey, leaf::Millis, operation::binding_message};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Agent, fresh, new_key};
use crate::client::{
    call::{By, Entry, ToolAnswer, now},
    error::ClientError,
};

/// As what an agent checks in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckIn {
    /// As what: one of the identity's roles.
    pub role: String,
    /// The program that runs the agent, and its version.
    pub harness: (String, Option<String>),
    /// The model.
    pub model: Option<String>,
    /// The session ends after so long without a word: 10 s to a day; 15 minutes if not said.
    pub ttl: Option<Duration>,
    /// Take the role alone.
    pub exclusive: bool,
    /// A session of this identity's to go on from.
    pub resume: Option<String>,
    /// Sign in the session with a key of its own, made now and kept in memory, for at most this long: the agent's key, which binds it,
    /// is then used for the check-in alone.
    pub session_key: Option<Duration>,
}

impl CheckIn {
    /// In this role, by this program, and nothing else said.
    #[must_use]
    pub fn new(role: impl Into<String>, harness: impl Into<String>) -> CheckIn {
        CheckIn {
            role: role.into(),
            harness: (harness.into(), None),
            model: None,
            ttl: None,
            exclusive: false,
            resume: None,
            session_key: None,
        }
    }

    /// Ends after so long without a word.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> CheckIn {
        self.ttl = Some(ttl);
        self
    }

    fn arguments(&self) -> Value {
        let (name, version) = &self.harness;
        let mut asked = json!({
            "role": self.role, "harness": {"name": name}, "clock": now().to_string(),
        });
        if let Some(version) = version {
            asked["harness"]["version"] = version.as_str().into();
        }
        if let Some(ttl) = self.ttl {
            asked["ttl_s"] = ttl.as_secs().into();
        }
        if self.exclusive {
            asked["exclusive"] = true.into();
        }
        for (name, text) in [("model", &self.model), ("resume", &self.resume)] {
            if let Some(text) = text {
                asked[name] = text.as_str().into();
            }
        }
        asked
    }
}

/// A session that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Which: `s_` and a number.
    pub id: String,
    /// Whose.
    pub identity: String,
    /// As what.
    pub role: String,
    /// Where the key lives that signs in it: `agent_key` or `session_key`.
    pub class: String,
    /// A heartbeat is due so often.
    pub heartbeat_every: Duration,
    /// The leaf that began it.
    pub entry: Option<Entry>,
}

#[derive(Deserialize)]
struct Begun {
    session_id: String,
    identity: String,
    role: String,
    class: String,
    heartbeat_every_s: u64,
}

#[derive(Deserialize)]
struct Within {
    session: Begun,
}

impl Agent {
    /// Begins a session, or goes on with the one that `resume` names; the calls from now on are part of it.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: `ROLE_UNKNOWN`, `NOT_ALLOWED`, or `SEAT_TAKEN` with its holder.
    pub async fn check_in(&mut self, asked: &CheckIn) -> Result<&Session, ClientError> {
        self.begin(asked, None).await?;
        // OK because it has just begun.
        Ok(self.session().expect("Agent::check_in"))
    }

    /// Checks in: by itself, or as the member `checkin` of another tool's arguments, whose answer then has it as `session`.
    pub(super) async fn begin(
        &mut self,
        asked: &CheckIn,
        within: Option<(&str, Value)>,
    ) -> Result<ToolAnswer, ClientError> {
        let mut arguments = asked.arguments();
        let mut bound = None;
        if let Some(lifetime) = asked.session_key {
            let key = new_key().map_err(|e| ClientError::Setup(e.to_string()))?;
            let spki = base64::encode(&key.public().spki_der());
            arguments["binding"] = self.bind(&spki, &asked.role, lifetime);
            arguments["session_public_key"] = spki.into();
            bound = Some(key);
        }
        let by = By {
            key: &self.key,
            origin: &self.origin,
            session: None,
        };
        let is_part = within.is_some();
        let (tool, arguments) = match within {
            None => ("ars_session_checkin", arguments),
            Some((tool, mut whole)) => {
                whole["checkin"] = arguments;
                (tool, whole)
            }
        };
        let beside = self.options.members();
        let answer = self
            .repeat((tool, arguments), by, &fresh()?, &beside)
            .await?;
        let begun: Begun = match is_part {
            true => self.decoded::<Within>(tool, &answer)?.session,
            false => self.decoded(tool, &answer)?,
        };
        let session = Session {
            id: begun.session_id,
            identity: begun.identity,
            role: begun.role,
            class: begun.class,
            heartbeat_every: Duration::from_secs(begun.heartbeat_every_s),
            entry: answer.entry.clone(),
        };
        self.session = Some((session, bound));
        Ok(answer)
    }

    /// The agent's word that the session's key signs for it.
    fn bind(&self, spki: &str, role: &str, lifetime: Duration) -> Value {
        let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let ends = Millis(now().0.saturating_add(lifetime));
        let message = binding_message(&self.origin, spki, role, ends);
        json!({
            "expires_at": ends.to_string(),
            "signature": base64::encode(&self.key.sign(&message)),
        })
    }

    /// Ends the session and its leases. `outcome`: `delivered`, `delivered_with_issues`, `no_action`, `incomplete` or `failed`.
    ///
    /// # Errors
    /// [`ClientError`]; the session is over for this agent only once the service has said so.
    pub async fn check_out(
        &mut self,
        outcome: &str,
        note: Option<&str>,
    ) -> Result<ToolAnswer, ClientError> {
        let mut asked = json!({"outcome": outcome});
        if let Some(note) = note {
            asked["note"] = note.into();
        }
        let answer = self.call("ars_session_checkout", asked).await?;
        self.session = None;
        Ok(answer)
    }

    /// The key that signs in the session, where one was bound.
    #[must_use]
    pub fn session_key(&self) -> Option<&PrivateKey> {
        self.session.as_ref()?.1.as_ref()
    }
}
