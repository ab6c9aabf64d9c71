//! The operator's door: HTTP over the Unix socket of a data directory.

use std::{path::Path, time::Duration};

use serde_json::Value;

use super::{
    error::ClientError,
    health::json,
    http::{SMALL, cause, send},
};

/// `GET /status` of the service that holds the directory of this socket.
///
/// # Errors
/// [`ClientError::Unreachable`] when nobody listens there.
pub async fn admin_status(socket: &Path) -> Result<Value, ClientError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .unix_socket(socket)
        .no_proxy()
        .tls_certs_only([]);
    let client = client.build().map_err(|e| ClientError::Setup(cause(&e)))?;
    let request = client
        .get("http://localhost/status")
        .timeout(Duration::from_secs(10));
    let answer = send(request, SMALL).await.map_err(|error| match error {
        // The made-up host would only confuse.
        ClientError::Unreachable { why, .. } => ClientError::Unreachable {
            url: socket.display().to_string(),
            why,
        },
        error => error,
    })?;
    json(&answer)
}
