//! Where an authorization server publishes its keys: found by discovery (RFC 8414, OpenID Connect Discovery) from what the configuration
//! names, and from nothing else.

use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde_json::Value;

use super::keys::Keys;
use crate::client;

/// For everything that is asked to get at the keys.
const TIMEOUT: Duration = Duration::from_secs(10);
/// For one connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The largest document, in bytes: a key of RSA's, with its certificates, has a few thousand.
const DOCUMENT_BYTES_MAX: usize = 256 << 10;

pub(super) struct Source {
    issuer: String,
    /// Where it may describe itself, in the order of the Model Context Protocol.
    places: Vec<Url>,
}

/// Where the server of this identifier may describe itself.
fn places(issuer: &str) -> Vec<Url> {
    let Ok(url) = Url::parse(issuer) else {
        return Vec::new();
    };
    let path = url.path().trim_end_matches('/').to_owned();
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    let at = |path: &String| {
        let mut url = url.clone();
        url.set_path(path);
        url
    };
    paths.iter().map(at).collect()
}

impl Source {
    pub(super) fn of(issuer: &str) -> Source {
        Source {
            issuer: issuer.to_owned(),
            places: places(issuer),
        }
    }

    /// The keys that the server publishes now.
    pub(super) async fn keys(&self) -> Result<Keys, &'static str> {
        match tokio::time::timeout(TIMEOUT, self.ask()).await {
            Ok(keys) => keys,
            Err(_) => Err("it does not answer in time"),
        }
    }

    async fn ask(&self) -> Result<Keys, &'static str> {
        let mut found = None;
        for place in &self.places {
            found = document(place).await?;
            if found.is_some() {
                break;
            }
        }
        let about = found.ok_or("it does not describe itself (RFC 8414)")?;
        // RFC 8414 section 3.3: otherwise one server could speak for another.
        if about.get("issuer").and_then(Value::as_str) != Some(self.issuer.as_str()) {
            return Err("it describes itself as another than the one that is configured");
        }
        let keys = about.get("jwks_uri").and_then(Value::as_str);
        let keys = keys.and_then(|text| Url::parse(text).ok());
        let keys = keys.ok_or("its description names no `jwks_uri`")?;
        if keys.scheme() != "https" && !client::is_loopback_url(&self.issuer) {
            return Err("its `jwks_uri` is not https");
        }
        let set = document(&keys).await?;
        Keys::of(&set.ok_or("nothing is at its `jwks_uri`")?)
    }
}

/// The JSON that is at a URL; `None` where the server says that there is nothing.
async fn document(url: &Url) -> Result<Option<Value>, &'static str> {
    let client = client::builder_for(url, CONNECT_TIMEOUT).build();
    let client = client.map_err(|_| "no client can be made")?;
    let sent = client.get(url.clone()).header("accept", "application/json");
    let mut answer = sent.send().await.map_err(|_| "it cannot be reached")?;
    if answer.status().is_client_error() {
        return Ok(None);
    }
    if answer.status() != StatusCode::OK {
        return Err("it answers with something else than a document");
    }
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|_| "its answer breaks off")? {
        if text.len() + chunk.len() > DOCUMENT_BYTES_MAX {
            return Err("its answer is larger than is taken");
        }
        text.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|_| "its answer is no JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_looked_for_where_the_protocol_says() {
        let found = |issuer| -> Vec<String> { places(issuer).iter().map(Url::to_string).collect() };
        assert_eq!(
            found("https://login.example.com/"),
            [
                "https://login.example.com/.well-known/oauth-authorization-server",
                "https://login.example.com/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            found("https://login.example.com/realms/a"),
            [
                "https://login.example.com/.well-known/oauth-authorization-server/realms/a",
                "https://login.example.com/.well-known/openid-configuration/realms/a",
                "https://login.example.com/realms/a/.well-known/openid-configuration",
            ]
        );
    }
}
