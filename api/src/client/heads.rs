//! Heads of other logs: what an account tracks, and posting a head.

use reqwest::{Method, header};
use serde::{Deserialize, Serialize};

use super::{
    call::{CallOptions, ToolAnswer},
    error::ClientError,
    health::json,
    http::{Client, TIMEOUT, send},
};

/// A list of 1,000 logs, each with an origin and a key of some hundred bytes; and an answer to a head.
const BYTES_MAX: usize = 4 << 20;

/// A log that an account tracks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackedLog {
    /// The origin in its checkpoints.
    pub origin: String,
    /// Its verifier key.
    pub vkey: String,
    /// The last proved head.
    pub proved: Option<HeadOf>,
    /// Since when heads come that nothing proves.
    pub unproven_since: Option<String>,
    /// The leaves that show a fork.
    pub fork: Option<[u64; 2]>,
}

/// A head that an account has recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadOf {
    /// Leaves.
    pub size: u64,
    /// Root, base64.
    pub root: String,
    /// The leaf that records it.
    pub index: u64,
    /// When it was recorded.
    pub at: String,
}

#[derive(Deserialize)]
struct Logs {
    logs: Vec<TrackedLog>,
}

impl Client {
    /// The logs that the account tracks, in order of origin.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tracked(&self) -> Result<Vec<TrackedLog>, ClientError> {
        let request = self.request(Method::GET, self.log(&["heads"]), TIMEOUT);
        let answer = send(request, BYTES_MAX).await?;
        Ok(json::<Logs>(&answer)?.logs)
    }

    /// Posts a head: a note, or as in add-checkpoint `old` and a size, hashes, an empty line, and the note. The same one again is
    /// answered, never recorded twice.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post_head(
        &self,
        body: String,
        options: CallOptions,
    ) -> Result<ToolAnswer, ClientError> {
        let timeout = TIMEOUT + options.deadline.unwrap_or_default();
        let mut query: Vec<(&str, String)> = Vec::new();
        if let Some(wait) = options.wait {
            query.push(("wait", wait.name().into()));
        }
        if let Some(deadline) = options.deadline {
            query.push(("deadline_ms", deadline.as_millis().to_string()));
        }
        let request = self
            .request(Method::POST, self.log(&["heads"]), timeout)
            .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
            .query(&query)
            .body(body);
        ToolAnswer::read(&send(request, BYTES_MAX).await?)
    }
}
