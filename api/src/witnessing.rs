//! How an account's log reaches its witnesses: whom its policies have it ask, requests over HTTP, and what is shown of how they
//! fare.

use std::{future::ready, sync::Arc, time::Duration};

use countersign_log::{
    Pace, Witnesses,
    witnesses::{Answering, Reply, Transport, WitnessStatus, WitnessesStatus},
};
use countersign_verifier::{checkpoint::origin_hash, leaf::Millis, policy::Eras};
use reqwest::{Client, RequestBuilder, header};
use serde_json::{Value, json};

use crate::{
    client::{self, is_loopback_url},
    config,
};

/// A witness answers with a few lines: 16 ML-DSA-44 cosignatures are 52 KiB, and a checkpoint with 100 of them fits.
const REPLY_BYTES_MAX: usize = 256 << 10;
/// How long a witness may take to show a checkpoint to a command that asks once.
const ASKING: Duration = Duration::from_secs(5);

/// The witnesses that these policies name; `None` where none names any. Those of earlier eras count too: where the newest
/// published head had a quorum, only its witnesses can tell at a start that nothing is missing, whatever is asked for since.
///
/// # Errors
/// If there is no runtime, or no HTTP client.
pub fn witnesses(eras: Eras, settings: &config::Witnesses) -> Result<Option<Witnesses>, String> {
    let named = eras
        .iter()
        .any(|(_, policy)| !policy.witnesses().is_empty());
    if !named {
        return Ok(None);
    }
    let runtime = tokio::runtime::Handle::try_current().map_err(|e| e.to_string())?;
    Ok(Some(Witnesses {
        eras,
        transport: Arc::new(Http::new(Duration::from_millis(
            settings.request_timeout_ms,
        ))?),
        runtime,
        pace: Pace {
            round_timeout: Duration::from_millis(settings.round_timeout_ms),
            head_interval: Duration::from_millis(settings.head_interval_ms),
            refresh: Duration::from_secs(settings.refresh_s),
        },
    }))
}

/// The newest checkpoint of the log of this origin that each witness of these policies shows, with the witness's address. Who does
/// not answer, or shows none, is left out; nothing is judged.
pub async fn newest(eras: &Eras, origin: &str) -> Vec<(String, String)> {
    let Ok(http) = Http::new(ASKING) else {
        return Vec::new();
    };
    let mut urls: Vec<&str> = eras
        .iter()
        .flat_map(|(_, policy)| policy.witnesses())
        .filter_map(|witness| witness.url.as_deref())
        .map(|url| url.trim_end_matches('/'))
        .collect();
    urls.sort_unstable();
    urls.dedup();
    let hash = origin_hash(origin).to_hex();
    let mut asking = tokio::task::JoinSet::new();
    for url in urls {
        let answer = http.get(format!("{url}/{hash}/checkpoint"));
        let url = url.to_owned();
        asking.spawn(async move { (url, answer.await) });
    }
    let mut shown = Vec::new();
    while let Some(answered) = asking.join_next().await {
        if let Ok((url, Ok(reply))) = answered
            && reply.status == 200
            && let Ok(note) = String::from_utf8(reply.body)
        {
            shown.push((url, note));
        }
    }
    shown
}

/// Adds to an account's row how its witnesses fare: each of them, and since when their quorum is lost. Nothing without witnesses.
pub fn show(status: &WitnessesStatus, row: &mut Value) {
    if let Some(since) = status.quorum_lost_since {
        row["quorum_lost_since"] = Millis(since).to_string().into();
    }
    if !status.witnesses.is_empty() {
        row["witnesses"] = status.witnesses.iter().map(witness).collect();
    }
}

fn witness(status: &WitnessStatus) -> Value {
    let mut row = json!({
        "name": status.name,
        "url": status.url,
        "size": status.size,
        "latency_ms": status.latency_ms,
    });
    if status.time > 0 {
        row["cosigned_at"] = Millis(status.time.saturating_mul(1_000)).to_string().into();
    }
    if let Some((why, since)) = &status.error {
        row["error"] = why.as_str().into();
        row["error_since"] = Millis(*since).to_string().into();
    }
    row
}

/// Requests by reqwest: connections are kept, redirections are not followed, answers are bounded.
struct Http {
    /// For this machine: no proxy stands before it, and no certificates are needed.
    near: Client,
    /// For others, or why there is none: this machine has no trusted certificates.
    far: Result<Client, String>,
}

impl Http {
    fn new(timeout: Duration) -> Result<Http, String> {
        let builder = || client::builder(timeout).timeout(timeout).tcp_nodelay(true);
        let near = client::without_certificates(builder()).no_proxy().build();
        Ok(Http {
            near: near.map_err(|e| e.to_string())?,
            far: builder().build().map_err(|e| e.to_string()),
        })
    }

    fn client(&self, url: &str) -> Result<&Client, String> {
        if is_loopback_url(url) {
            Ok(&self.near)
        } else {
            self.far.as_ref().map_err(Clone::clone)
        }
    }
}

impl Transport for Http {
    fn post(&self, url: String, body: String) -> Answering {
        match self.client(&url) {
            Ok(client) => Box::pin(reply(client.post(url).body(body))),
            Err(why) => Box::pin(ready(Err(why))),
        }
    }

    fn get(&self, url: String) -> Answering {
        match self.client(&url) {
            Ok(client) => Box::pin(reply(client.get(url))),
            Err(why) => Box::pin(ready(Err(why))),
        }
    }
}

async fn reply(request: RequestBuilder) -> Result<Reply, String> {
    let mut response = request.send().await.map_err(|e| words(&e))?;
    let content_type = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
        .to_owned();
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|e| words(&e))? {
        if body.len() + piece.len() > REPLY_BYTES_MAX {
            return Err(format!("its answer is longer than {REPLY_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Reply {
        status: response.status().as_u16(),
        content_type,
        body,
    })
}

/// The innermost cause is what an operator can act on; the address is shown beside it already.
fn words(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
