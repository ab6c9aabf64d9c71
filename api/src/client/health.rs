//! What the service says of itself.

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    error::ClientError,
    http::{Answer, Client, SMALL, TIMEOUT, send},
};

/// `GET /health`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Health {
    /// `ok`, `degraded` or `read_only`.
    pub status: String,
    /// The release.
    pub version: String,
    /// The bounds that a client can meet, by name.
    #[serde(default)]
    pub limits: Map<String, Value>,
    /// The public accounts.
    #[serde(default)]
    pub accounts: Vec<AccountHealth>,
    /// How far log time is from the wall clock.
    #[serde(default)]
    pub clock_offset_ms: i64,
}

/// One account of `GET /health`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AccountHealth {
    /// Its name in addresses.
    pub name: String,
    /// The origin of its log.
    pub origin: String,
    /// Leaves in the published tree; 0 for an account that has not been opened yet.
    #[serde(default)]
    pub size: u64,
    /// Leaves under a witnessed head.
    #[serde(default)]
    pub witnessed_size: u64,
}

impl Client {
    /// What the service says of itself.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn health(&self) -> Result<Health, ClientError> {
        let answer = self.health_answer().await?;
        json(&answer)
    }

    /// The same as its text.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn health_text(&self) -> Result<Value, ClientError> {
        let answer = self.health_answer().await?;
        json(&answer)
    }

    async fn health_answer(&self) -> Result<Answer, ClientError> {
        send(
            self.request(Method::GET, self.at(&["health"]), TIMEOUT),
            SMALL,
        )
        .await
    }

    /// The origin of the account's log, as the service states it: from `/health`, else from the first line of the newest
    /// checkpoint, which a private account shows to holders of a token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn origin(&self) -> Result<String, ClientError> {
        let health = self.health().await?;
        if let Some(account) = health
            .accounts
            .into_iter()
            .find(|a| a.name == self.account())
        {
            return Ok(account.origin);
        }
        let answer = send(
            self.request(Method::GET, self.log(&["checkpoint"]), TIMEOUT),
            SMALL,
        )
        .await?;
        let text = std::str::from_utf8(&answer.body).ok();
        let line = text
            .and_then(|text| text.lines().next())
            .filter(|line| !line.is_empty());
        line.map(str::to_owned).ok_or(ClientError::Answer {
            url: answer.url,
            what: "not a checkpoint".into(),
        })
    }
}

pub(super) fn json<T: serde::de::DeserializeOwned>(answer: &Answer) -> Result<T, ClientError> {
    serde_json::from_slice(&answer.body).map_err(|e| ClientError::Answer {
        url: answer.url.clone(),
        what: e.to_string(),
    })
}
