//! What `ars_attestation_verify` is asked, and what it answers.

use countersign_verifier::verdict::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What it must come to beyond being sound.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Demands {
    /// So many witnesses must have cosigned.
    pub(super) quorum: Option<usize>,
    /// The class of the signer's key must be at least this: `service_key`, `seat_key`, `session_key`, `agent_key`.
    pub(super) min_attribution: Option<String>,
}

/// Arguments of `ars_attestation_verify`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// An attestation: `csa1.…`.
    pub(super) attestation: Option<String>,
    /// Or a leaf of this log, by its index.
    pub(super) index: Option<u64>,
    /// Or by its hash, in hexadecimal.
    pub(super) leaf_hash: Option<String>,
    /// Or a signed DSSE envelope: whether this log holds it, and whose it is.
    pub(super) envelope: Option<Value>,
    /// Or an evidence file, as one object.
    pub(super) evidence: Option<Value>,
    /// What it must come to beyond being sound.
    pub(super) policy: Option<Demands>,
}

/// One check.
#[derive(Serialize, JsonSchema)]
pub(super) struct Check {
    /// What was checked.
    pub(super) name: String,
    /// `pass`, `fail`, `unknown` or `skipped`.
    pub(super) status: String,
    /// Why, in plain words.
    pub(super) detail: String,
}

impl Check {
    pub(super) fn new(name: &str, passes: bool, detail: impl Into<String>) -> Check {
        let status = if passes { Status::Pass } else { Status::Fail };
        Check::of(name, status, detail)
    }

    pub(super) fn of(name: &str, status: Status, detail: impl Into<String>) -> Check {
        Check {
            name: name.into(),
            status: status.as_str().into(),
            detail: detail.into(),
        }
    }
}

/// What was judged.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Subject {
    /// The leaf's index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<u64>,
    /// The leaf's hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leaf_hash: Option<String>,
    /// `operation`, `receipt` or `system`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    /// The time that the leaf claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    /// Who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<String>,
    /// In which session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// As what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
}

/// A witness that counted.
#[derive(Serialize, JsonSchema)]
pub(super) struct Cosigner {
    /// Its name in the policy.
    pub(super) name: String,
    /// When it cosigned, by its own clock.
    pub(super) at: String,
}

/// What came of it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Found {
    /// Every check that was made holds.
    pub(super) verified: bool,
    /// One by one.
    pub(super) checks: Vec<Check>,
    /// What was judged.
    pub(super) subject: Subject,
    /// The class of the key that signed.
    pub(super) attribution: Option<String>,
    /// The witnesses that counted.
    pub(super) cosigners: Vec<Cosigner>,
}
