//! Asking others over HTTP: bounded in time and in bytes, no redirect followed, nothing believed.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use countersign_verifier::hash::Hash;
use reqwest::{StatusCode, redirect};

use super::settle::View;

/// An answer is complete within this time, however it drips.
const ANSWER_TIME: Duration = Duration::from_secs(15);
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The node and 64 hashes of a path, or a proof of 63, each of 44 characters and LF.
const HASHES_MAX: usize = 65;
const HASHES_BYTES_MAX: usize = HASHES_MAX * 45;

/// A client for peers, logs and webhooks.
#[derive(Default)]
pub struct Client {
    plain: OnceLock<Option<reqwest::Client>>,
    tls: OnceLock<Option<reqwest::Client>>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// Nobody is there, or it broke off.
    #[error("{0}")]
    Unreachable(String),
    /// It said no.
    #[error("answered {0}")]
    Status(u16),
    /// It says more than there is to say.
    #[error("answered more than {0} bytes")]
    TooLong(usize),
    /// Not of the form.
    #[error("answered something else than {0}")]
    Form(&'static str),
}

impl Client {
    /// The body of the answer 200.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn get(&self, url: &str, most: usize) -> Result<Vec<u8>, Failed> {
        let request = self.over(url)?.get(url);
        let mut answer = request.send().await.map_err(unreachable)?;
        if answer.status() != StatusCode::OK {
            return Err(Failed::Status(answer.status().as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > most {
                return Err(Failed::TooLong(most));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Sends JSON; any answer of 2xx is one. What it says is not read.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn post(&self, url: &str, json: Vec<u8>) -> Result<(), Failed> {
        let request = self.over(url)?.post(url).body(json);
        let request = request.header("content-type", "application/json");
        let status = request.send().await.map_err(unreachable)?.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(Failed::Status(status.as_u16()))
        }
    }

    /// Hashes, one a line, as logs answer `consistency` and `node`, and witnesses `gossip/node`.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn hashes(&self, url: &str) -> Result<Vec<Hash>, Failed> {
        let bytes = self.get(url, HASHES_BYTES_MAX).await?;
        let lines = std::str::from_utf8(&bytes).ok();
        let hashes = lines.and_then(|lines| {
            let lines = lines.lines().map(Hash::from_base64);
            lines.collect::<Result<Vec<_>, _>>().ok()
        });
        hashes.ok_or(Failed::Form("hashes, one a line"))
    }

    fn over(&self, url: &str) -> Result<&reqwest::Client, Failed> {
        // A machine without certificates can still talk to itself.
        let plain = url.starts_with("http://");
        let place = if plain { &self.plain } else { &self.tls };
        let client = place.get_or_init(|| {
            build(plain)
                .inspect_err(|error| tracing::error!(%error, "no client of HTTP"))
                .ok()
        });
        let none = || Failed::Unreachable("this machine has no client of HTTP".into());
        client.as_ref().ok_or_else(none)
    }
}

fn build(plain: bool) -> reqwest::Result<reqwest::Client> {
    // Whoever uses this as a library may have installed a provider; a second one is refused, and that is right.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("countersign-witness/", env!("CARGO_PKG_VERSION")))
        .timeout(ANSWER_TIME)
        .connect_timeout(CONNECT_TIME)
        .pool_max_idle_per_host(4)
        .no_gzip()
        .redirect(redirect::Policy::none());
    if plain {
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

/// In the words of the last link of the chain, which says what went wrong.
fn unreachable(error: reqwest::Error) -> Failed {
    use std::error::Error;
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    Failed::Unreachable(text)
}

/// Whoever can be asked about one log, over HTTP.
pub struct Asking<'c> {
    client: &'c Client,
    /// The log's own address.
    log: Option<String>,
    /// Where nodes are asked for, the part before the question mark.
    nodes: Vec<(String, AtomicBool)>,
}

impl<'c> Asking<'c> {
    /// The log at `url`, if that is known, and a peer that showed a head of it.
    #[must_use]
    pub fn new(client: &'c Client, url: Option<&str>, peer: Option<(&str, &Hash)>) -> Asking<'c> {
        let by_log = url.map(|url| format!("{url}/node"));
        let by_peer = peer.map(|(peer, log)| format!("{peer}/gossip/node/{}", log.to_hex()));
        let nodes = by_log.into_iter().chain(by_peer);
        Asking {
            client,
            log: url.map(str::to_owned),
            nodes: nodes.map(|url| (url, AtomicBool::new(false))).collect(),
        }
    }
}

impl View for Asking<'_> {
    fn sources(&self) -> usize {
        self.nodes.len()
    }

    async fn consistency(&self, from: u64, to: u64) -> Option<Vec<Hash>> {
        let url = self.log.as_ref()?;
        let url = format!("{url}/consistency?from={from}&to={to}");
        self.client.hashes(&url).await.ok()
    }

    async fn node(&self, source: usize, size: u64, level: u8, index: u64) -> Option<Vec<Hash>> {
        let (url, gone) = self.nodes.get(source)?;
        // Waited for once: whoever is not there costs one answer's time and not that of a hundred.
        if gone.load(Ordering::Relaxed) {
            return None;
        }
        let url = format!("{url}?size={size}&level={level}&index={index}");
        let answer = self.client.hashes(&url).await;
        if let Err(Failed::Unreachable(_)) = answer {
            gone.store(true, Ordering::Relaxed);
        }
        answer.ok()
    }
}
