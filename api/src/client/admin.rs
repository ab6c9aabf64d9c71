//! The operator's door: HTTP over the Unix socket of a data directory.

use std::{path::Path, time::Duration};

use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::Value;

use super::{
    error::ClientError,
    health::json,
    http::{Answer, SMALL, builder, cause, send, without_certificates},
};

/// A copy of an account's store that a running service has made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Still {
    /// Leaves that the state of the service reflected, all of which are in the copy.
    pub size: u64,
    /// SHA-256 of that state's bytes, in lowercase hexadecimal.
    pub state_sha256: String,
}

/// Nothing that is only shown takes longer.
const LOOK: Duration = Duration::from_secs(10);
/// A log that is closed has its last round, and opening it again may replay leaves.
const CHANGE: Duration = Duration::from_secs(120);

/// `GET /status` of the service that holds the directory of this socket.
///
/// # Errors
/// [`ClientError::Unreachable`] when nobody listens there.
pub async fn admin_status(socket: &Path) -> Result<Value, ClientError> {
    let ask = |client: Client| client.get("http://localhost/status").timeout(LOOK);
    json(&asked(socket, ask).await?)
}

/// `POST /accounts/<account>/policy`: has the service that holds the directory of this socket let another tlog-policy hold, and
/// says from which tree size on.
///
/// # Errors
/// [`ClientError::Unreachable`] when nobody listens there; [`ClientError::Refused`] when the old one stays, or when the log could
/// not be opened again.
pub async fn admin_set_policy(
    socket: &Path,
    account: &str,
    policy: &str,
) -> Result<u64, ClientError> {
    // OK because an account's name is of `a-z 0-9 -`.
    let url = format!("http://localhost/accounts/{account}/policy");
    let ask = |client: Client| client.post(url).body(policy.to_owned()).timeout(CHANGE);
    let answer: Value = json(&asked(socket, ask).await?)?;
    answer["from_size"]
        .as_u64()
        .ok_or_else(|| ClientError::Answer {
            url: socket.display().to_string(),
            what: "no `from_size`".into(),
        })
}

/// `GET /accounts`: the accounts of the service that holds the directory of this socket.
///
/// # Errors
/// [`ClientError::Unreachable`] when nobody listens there.
pub async fn admin_accounts(socket: &Path) -> Result<Value, ClientError> {
    let ask = |client: Client| client.get("http://localhost/accounts").timeout(LOOK);
    json(&asked(socket, ask).await?)
}

/// `POST /accounts`: has that service make an account, and says what was made.
///
/// # Errors
/// [`ClientError::Unreachable`] when nobody listens there; [`ClientError::Refused`] when it was not made.
pub async fn admin_create_account(socket: &Path, plan: &Value) -> Result<Value, ClientError> {
    let body = plan.to_string();
    let ask = |client: Client| {
        let request = client.post("http://localhost/accounts").body(body);
        request.timeout(CHANGE)
    };
    json(&asked(socket, ask).await?)
}

/// `POST /accounts/<account>/still`: has that service make a copy of the account's store.
///
/// # Errors
/// [`ClientError::Unreachable`] when nobody listens there; [`ClientError::Refused`] when none was made.
pub async fn admin_still(socket: &Path, account: &str) -> Result<Still, ClientError> {
    // OK because an account's name is of `a-z 0-9 -`.
    let url = format!("http://localhost/accounts/{account}/still");
    let answer = asked(socket, |client: Client| client.post(url).timeout(CHANGE)).await?;
    json(&answer)
}

async fn asked(
    socket: &Path,
    ask: impl FnOnce(Client) -> RequestBuilder,
) -> Result<Answer, ClientError> {
    let client = without_certificates(builder(LOOK))
        .unix_socket(socket)
        .no_proxy();
    let client = client.build().map_err(|e| ClientError::Setup(cause(&e)))?;
    send(ask(client), SMALL).await.map_err(|error| match error {
        // The made-up host would only confuse.
        ClientError::Unreachable { why, .. } => ClientError::Unreachable {
            url: socket.display().to_string(),
            why,
        },
        error => error,
    })
}
