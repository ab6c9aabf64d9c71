//! The client of the service: receipts, evidence and tools over HTTP.
//!
//! ```no_run
//! # async fn example() -> Result<(), countersign_api::client::ClientError> {
//! use countersign_api::client::{Client, SubmitOptions};
//! let client = Client::new("http://127.0.0.1:8780", "dev", None)?;
//! let taken = client.submit(std::fs::read("envelope.json").unwrap().as_slice(), &SubmitOptions::default()).await?;
//! let evidence = client.evidence(taken.index).await?;
//! # Ok(()) }
//! ```
//!
//! Every call is one request with a time-out, and no answer is read beyond its bound. What may be repeated is repeated by
//! [`Client::submit_all`], [`Client::evidence_when_ready`] and [`Agent`] only; all are safe, because the service answers what it
//! already has instead of adding it again.
//!
//! An agent that works with others checks in, claims items of the board and says what became of them: [`Agent`].

mod admin;
mod agent;
mod blob;
mod call;
mod error;
mod evidence;
mod heads;
mod health;
mod http;
mod retry;
mod submit;
mod token;

pub use admin::{
    Still, admin_accounts, admin_create_account, admin_set_policy, admin_status, admin_still,
};
pub use agent::{Agent, CheckIn, Claim, Lease, Outcome, Session, new_key};
pub use blob::{BLOB_BYTES_MAX, Blob, KeptBlob, new_salt};
pub use call::{By, CallOptions, Entry, ToolAnswer, new_nonce};
pub use error::{ClientError, Problem};
pub use evidence::EvidenceFile;
pub use heads::{HeadOf, TrackedLog};
pub use health::{AccountHealth, Health};
pub use http::Client;
pub use retry::Retry;
pub use submit::{
    Accepted, DroppedSignature, NDJSON_BYTES_MAX, NDJSON_LINES_MAX, Reached, SubmitOptions, Wait,
};
pub use token::{Token, TokenError};

#[cfg(feature = "service")]
pub(crate) use http::{builder, builder_for, without_certificates};

/// Whether a URL is of this machine itself.
#[cfg(feature = "service")]
pub(crate) fn is_loopback_url(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| http::is_loopback(&url))
}

#[cfg(all(test, feature = "service"))]
pub(crate) mod testing;
#[cfg(all(test, feature = "service"))]
mod tests;
