//! Fetching evidence files.

use std::time::Duration;

use countersign_verifier::{
    evidence::File,
    hash::{Hash, leaf_hash},
};
use reqwest::{Method, Url};

use super::{
    error::ClientError,
    http::{Client, TIMEOUT, send},
    retry::Retry,
};

/// A leaf and a proof have at most 350 KiB; so have leaf and path of each supporting leaf, of which a chain of enrolments and
/// rotations can have dozens for each of 16 signers.
const EVIDENCE_BYTES_MAX: usize = 64 << 20;

/// An evidence file as the service gave it: of the leaf that was asked for, and otherwise not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceFile {
    /// The leaf's index.
    pub index: u64,
    /// The leaf's hash.
    pub leaf_hash: Hash,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
}

impl Client {
    /// The evidence of the leaf at `index`. It is compared with what was asked for and not verified: that takes a policy.
    ///
    /// # Errors
    /// [`ClientError`]; a problem that [`is_not_yet`](super::Problem::is_not_yet) while the leaf is not published.
    pub async fn evidence(&self, index: u64) -> Result<EvidenceFile, ClientError> {
        let url = self.log(&["evidence", &index.to_string()]);
        let file = self.fetch(url.clone()).await?;
        match file.index == index {
            true => Ok(file),
            false => Err(other(
                &url,
                format!("the evidence of leaf {} instead", file.index),
            )),
        }
    }

    /// The evidence of the leaf of this hash.
    ///
    /// # Errors
    /// As [`Client::evidence`].
    pub async fn evidence_by_hash(&self, hash: &Hash) -> Result<EvidenceFile, ClientError> {
        let url = self.log(&["evidence", "hash", &hash.to_hex()]);
        let file = self.fetch(url.clone()).await?;
        match file.leaf_hash == *hash {
            true => Ok(file),
            false => Err(other(
                &url,
                format!("the evidence of another leaf, {}", file.leaf_hash),
            )),
        }
    }

    /// As [`Client::evidence`], asked again for at most `patience` while the leaf is not published or the service is busy.
    ///
    /// # Errors
    /// As [`Client::evidence`].
    pub async fn evidence_when_ready(
        &self,
        index: u64,
        patience: Duration,
    ) -> Result<EvidenceFile, ClientError> {
        let mut retry = Retry::new(patience);
        loop {
            let error = match self.evidence(index).await {
                Err(error) if may_come(&error) => error,
                answer => return answer,
            };
            match retry.next(error.retry_after()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
        }
    }

    async fn fetch(&self, url: Url) -> Result<EvidenceFile, ClientError> {
        let request = self
            .request(Method::GET, url, TIMEOUT)
            .header("accept", "application/json");
        let answer = send(request, EVIDENCE_BYTES_MAX).await?;
        let bad = |what: String| ClientError::Answer {
            url: answer.url.clone(),
            what,
        };
        match File::parse(&answer.body) {
            Ok(File::One(evidence)) => Ok(EvidenceFile {
                index: evidence.proof.index,
                leaf_hash: leaf_hash(&evidence.leaf),
                bytes: answer.body,
            }),
            Ok(File::Set(_)) => Err(bad("a set where the evidence of one leaf is due".into())),
            Err(error) => Err(bad(error.to_string())),
        }
    }
}

fn may_come(error: &ClientError) -> bool {
    error.is_transient() || error.problem().is_some_and(super::Problem::is_not_yet)
}

fn other(url: &Url, what: String) -> ClientError {
    ClientError::Answer {
        url: url.to_string(),
        what,
    }
}
