//! Telling somebody of evidence: at least once for each log, again after a restart, and never in anybody's way.

use std::{sync::Arc, time::Duration};

use countersign_verifier::hash::Hash;
use serde_json::json;
use tokio::sync::watch;

use super::client::Client;
use crate::Witness;

/// How often one piece of evidence is sent in vain before others are waited for; the next start begins anew.
const ATTEMPTS: u32 = 8;
/// The pause behind the first attempt; each is twice as long, in all about four minutes.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends what was not sent, and what is found, until `stop` turns true.
pub async fn run(
    witness: Arc<Witness>,
    client: Arc<Client>,
    url: String,
    mut stop: watch::Receiver<bool>,
) {
    let telling = async {
        loop {
            for log in witness.forks().untold() {
                let told = tell(&witness, &client, &url, &log).await;
                witness.metrics().told(told);
                if !told {
                    tracing::error!(%log, "the webhook does not answer; it is told at the next start");
                }
            }
            witness.forks().wait().await;
        }
    };
    tokio::select! {
        () = telling => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn tell(witness: &Witness, client: &Client, url: &str, log: &Hash) -> bool {
    let Some(body) = body(witness, log) else {
        return false;
    };
    let mut pause = PAUSE;
    for attempt in 1..=ATTEMPTS {
        match client.post(url, body.clone()).await {
            Ok(()) => {
                if let Err(error) = witness.forks().told(log) {
                    tracing::warn!(%error, "the webhook is told again after a restart");
                }
                return true;
            }
            Err(error) => tracing::warn!(%error, attempt, "the webhook"),
        }
        if attempt < ATTEMPTS {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
    false
}

/// What is sent: the evidence as text, byte for byte what `countersign fork verify` reads.
fn body(witness: &Witness, log: &Hash) -> Option<Vec<u8>> {
    let evidence = witness
        .forks()
        .evidence(log)
        .inspect_err(|error| tracing::error!(%error, "evidence cannot be read"))
        .ok()??;
    let entry = witness.roster().get(log).ok().flatten();
    let body = json!({
        "event": "fork",
        "witness": witness.keys().name(),
        "log": log.to_hex(),
        "origin": entry.as_ref().map(|entry| &entry.origin),
        "forked_at": entry.and_then(|entry| entry.forked),
        "evidence": String::from_utf8_lossy(&evidence),
    });
    serde_json::to_vec(&body).ok()
}
