//! Bodies beside a log: kept under a commitment that the sender makes, and read back against it.

use std::time::Duration;

use countersign_verifier::{
    base64,
    blob::{SALT_BYTES, commitment},
    hash::Hash,
};
use reqwest::{Method, RequestBuilder, header};
use serde::Deserialize;
use serde_json::json;

use super::{
    call::{By, new_nonce, sign_operation},
    error::ClientError,
    health::json as parse,
    http::{Answer, Client, SMALL, send},
};

/// The largest body that a service keeps.
pub const BLOB_BYTES_MAX: usize = 16 << 20;
/// A body may come in for so long, whatever its link: what the service itself gives it, and a little more.
const BODY_TIMEOUT: Duration = Duration::from_secs(330);

const OPERATION: &str = "countersign-operation";
const SALT: &str = "countersign-salt";

/// A body that is kept, as a leaf refers to it, and the salt that nobody else has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct KeptBlob {
    /// SHA-256(salt ‖ body), lowercase hexadecimal.
    pub commitment: String,
    /// 32 bytes, lowercase hexadecimal.
    pub salt: String,
    /// Bytes of the body.
    pub bytes: u64,
    /// What it is; of one that was here before, as it was said then.
    pub media_type: String,
    /// Whether it was here.
    pub duplicate: bool,
}

/// A body as it is read, already held against its commitment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The body.
    pub body: Vec<u8>,
    /// Its salt, lowercase hexadecimal.
    pub salt: String,
    /// What it is.
    pub media_type: String,
}

/// 32 bytes of chance for one body.
///
/// # Errors
/// Where the system has no randomness.
pub fn new_salt() -> Result<[u8; SALT_BYTES], getrandom::Error> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt)?;
    Ok(salt)
}

impl Client {
    /// Keeps a body, signed `by` somebody or with the client's token. Under the same salt the same body is answered, never kept twice.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn put_blob(
        &self,
        body: &[u8],
        (salt, media_type): (&[u8; SALT_BYTES], &str),
        by: Option<By<'_>>,
    ) -> Result<KeptBlob, ClientError> {
        let commitment = commitment(salt, body).to_hex();
        let arguments =
            json!({"commitment": commitment, "bytes": body.len(), "media_type": media_type});
        let request = self.request(Method::POST, self.at(&["v1", "blobs"]), BODY_TIMEOUT);
        let request = self.asked(request, ("blob_put", arguments), by)?;
        let request = request
            .header(header::CONTENT_TYPE, media_type)
            .header(SALT, Hash(*salt).to_hex())
            .header("countersign-commitment", commitment)
            .body(body.to_vec());
        parse(&send(request, SMALL).await?)
    }

    /// The body of this commitment. What comes is held against it: anything else is an error.
    ///
    /// # Errors
    /// [`ClientError`]; the service's 410 `BLOB_ERASED` names the leaf that erased it.
    pub async fn blob(&self, named: &Hash, by: Option<By<'_>>) -> Result<Blob, ClientError> {
        let hex = named.to_hex();
        let url = self.at(&["v1", "blobs", &hex]);
        let request = self.request(Method::GET, url, BODY_TIMEOUT);
        let request = self.asked(request, ("blob_get", json!({"commitment": hex})), by)?;
        let Answer {
            url, body, headers, ..
        } = send(request, BLOB_BYTES_MAX).await?;
        let text = |name: &str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (salt, media_type) = (text(SALT), text(header::CONTENT_TYPE.as_str()));
        let bytes = Hash::from_hex(&salt).ok();
        if bytes.is_none_or(|bytes| commitment(&bytes.0, &body) != *named) {
            let what =
                "another body than the one asked for: it does not give its commitment".into();
            return Err(ClientError::Answer { url, what });
        }
        Ok(Blob {
            body,
            salt,
            media_type,
        })
    }

    /// Who asks: by a signed operation, or by the token that every request carries and the account that it is meant for.
    fn asked(
        &self,
        request: RequestBuilder,
        call: (&str, serde_json::Value),
        by: Option<By<'_>>,
    ) -> Result<RequestBuilder, ClientError> {
        let Some(by) = by else {
            return Ok(match self.account() {
                "" => request,
                account => request.query(&[("account", account)]),
            });
        };
        let nonce = new_nonce().map_err(|e| ClientError::Setup(e.to_string()))?;
        let signed = sign_operation(call, by, &nonce);
        Ok(request.header(OPERATION, base64::encode(&signed.to_json())))
    }
}
