//! Leaf 0: what an account is.

use countersign_verifier::{base64, key::PublicKey, predecessor::Predecessor};
use serde::{Deserialize, Serialize};

/// The newest rules that this release decides by.
pub const RULES: u32 = 1;

/// What leaf 0 says. Chosen once; nothing changes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// The log's origin.
    pub origin: String,
    /// The log's verifier key.
    pub log_vkey: String,
    /// The owner's public key.
    pub owner: PublicKey,
    /// The public key of the account's service identity.
    pub service: PublicKey,
    /// The rules that decisions follow.
    pub rules: u32,
    /// 0, and one more in each successor log.
    pub epoch: u32,
    /// The log that this one goes on from.
    pub predecessor: Option<Predecessor>,
}

#[derive(Serialize, Deserialize)]
struct Event {
    r#type: String,
    origin: String,
    log_vkey: String,
    owner: Key,
    service: Key,
    rules: u32,
    epoch: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    predecessor: Option<Before>,
}

/// A predecessor as leaf 0 and `account.json` write it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    origin: String,
    checkpoint: String,
    recovered_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<(u64, u64)>,
}

impl From<&Predecessor> for Before {
    fn from(of: &Predecessor) -> Before {
        Before {
            origin: of.origin.clone(),
            checkpoint: of.checkpoint.clone(),
            recovered_size: of.recovered_size,
            lost: of.lost,
        }
    }
}

impl Before {
    /// As the verifier reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&self) -> Result<Predecessor, String> {
        // OK because a struct of strings and numbers has no key that is not a string.
        let value = serde_json::to_value(self).expect("Before::read");
        Predecessor::parse(&value).map_err(|e| e.to_string())
    }
}

#[derive(Serialize, Deserialize)]
struct Key {
    public_key: String,
}

impl Opened {
    /// The event of leaf 0, compact, members in the order of the specification.
    #[must_use]
    pub fn to_event(&self) -> String {
        let key = |key: &PublicKey| Key {
            public_key: base64::encode(&key.spki_der()),
        };
        let event = Event {
            r#type: "opened".into(),
            origin: self.origin.clone(),
            log_vkey: self.log_vkey.clone(),
            owner: key(&self.owner),
            service: key(&self.service),
            rules: self.rules,
            epoch: self.epoch,
            predecessor: self.predecessor.as_ref().map(Before::from),
        };
        // OK because a struct of strings and numbers has no key that is not a string.
        serde_json::to_string(&event).expect("Opened::to_event")
    }

    /// Reads the event of leaf 0.
    ///
    /// # Errors
    /// What is wrong with it; rules that this release does not know are refused here.
    pub fn parse(event: &str) -> Result<Opened, String> {
        let event: Event = serde_json::from_str(event).map_err(|e| e.to_string())?;
        if event.rules > RULES {
            return Err(format!(
                "rules {} unknown: this release knows {RULES}",
                event.rules
            ));
        }
        Ok(Opened {
            origin: event.origin,
            log_vkey: event.log_vkey,
            owner: spki(&event.owner.public_key)?,
            service: spki(&event.service.public_key)?,
            rules: event.rules,
            epoch: event.epoch,
            predecessor: event.predecessor.as_ref().map(Before::read).transpose()?,
        })
    }
}

/// A public key as leaves and arguments carry it: base64 of its SPKI.
///
/// # Errors
/// What is wrong with it.
pub fn spki(text: &str) -> Result<PublicKey, String> {
    let der = base64::decode(text).map_err(|e| format!("public key: {e}"))?;
    PublicKey::from_spki(&der).map_err(|e| format!("public key: {e}"))
}
