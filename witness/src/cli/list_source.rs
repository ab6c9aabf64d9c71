//! Where a list of logs comes from: a file, or a URL that is asked once, now, because the operator said so.

use std::{path::Path, time::Duration};

use countersign_verifier::limits::LOG_LIST_BYTES_MAX;
use countersign_verifier::log_list;
use reqwest::{Client, redirect};

use super::{Fail, REFUSED, USAGE};
use crate::roster::Addition;

/// A list of 100,000 logs has some 30 MB.
const FETCH_TIME: Duration = Duration::from_secs(120);

/// The logs of the list at `place`.
pub(super) async fn read(place: &str) -> Result<Vec<Addition>, Fail> {
    let url = place.starts_with("http://") || place.starts_with("https://");
    let bytes = if url {
        fetch(place).await?
    } else {
        let length = std::fs::metadata(place).map_err(|e| unreadable(place, e))?;
        if length.len() > LOG_LIST_BYTES_MAX as u64 {
            return Err(too_large(place));
        }
        std::fs::read(place).map_err(|e| unreadable(place, e))?
    };
    let logs = log_list::parse(&bytes).map_err(|why| unreadable(place, why))?;
    // It is shown on the witness's page: of a file the name, which tells nobody where it lies.
    let name = match Path::new(place).file_name() {
        Some(name) if !url => name.to_string_lossy().into_owned(),
        _ => place.to_owned(),
    };
    let addition = |log: log_list::ListedLog| Addition {
        vkey: log.key.to_string(),
        origin: Some(log.origin),
        qpd: Some(log.requests_per_day),
        list: Some(name.clone()),
        ..Addition::default()
    };
    Ok(logs.into_iter().map(addition).collect())
}

async fn fetch(url: &str) -> Result<Vec<u8>, Fail> {
    // Whoever uses this as a library may have installed a provider; a second one is refused, and that is right.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("countersign-witness/", env!("CARGO_PKG_VERSION")))
        .timeout(FETCH_TIME)
        .redirect(redirect::Policy::none());
    if url.starts_with("http://") {
        // Without this, a machine without certificates could not even talk to itself.
        builder = builder.tls_certs_only([]);
    }
    let failed = |why: reqwest::Error| Fail::new(REFUSED, format!("{url}: {why}"));
    let client = builder.build().map_err(failed)?;
    let mut answer = client.get(url).send().await.map_err(failed)?;
    if answer.status() != reqwest::StatusCode::OK {
        let message = format!("{url}: answered {}", answer.status());
        return Err(Fail::new(REFUSED, message));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > LOG_LIST_BYTES_MAX {
            return Err(too_large(url));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn unreadable(place: &str, why: impl std::fmt::Display) -> Fail {
    Fail::new(USAGE, format!("{place}: {why}"))
}

fn too_large(place: &str) -> Fail {
    unreadable(
        place,
        format!("a list has at most {LOG_LIST_BYTES_MAX} bytes"),
    )
}
