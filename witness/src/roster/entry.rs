//! What is kept of one log, and what an addition makes of it.

use countersign_verifier::vkey::{Algorithm, VerifierKey, VkeyError};
use serde::{Deserialize, Serialize};

use super::{KEYS_MAX, ORIGIN_BYTES_MAX};

/// Most peers that one private log names.
pub const LOG_PEERS_MAX: usize = 16;
/// Longest address of a log or a peer, in bytes.
pub const URL_BYTES_MAX: usize = 1_024;

/// A configured log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// First line of its checkpoints.
    pub origin: String,
    /// The keys that it signs with; any of them is enough.
    pub keys: Vec<VerifierKey>,
    /// Requests a day that a list announces.
    pub qpd: Option<u32>,
    /// The list that it came from; `None` if the operator added it.
    pub list: Option<String>,
    /// Where it answers `consistency` and `node`, without a final slash. It is asked, never believed.
    pub url: Option<String>,
    /// Not among the heads that everybody may ask for.
    pub private: bool,
    /// The peers that are asked for a private log's head, and told of it by no list.
    pub peers: Vec<String>,
    /// Since when there is evidence of a fork, POSIX seconds: then nothing of it is signed, for ever.
    pub forked: Option<u64>,
}

/// A log to add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// Its verifier key.
    pub vkey: String,
    /// Its origin; the key's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Requests a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qpd: Option<u32>,
    /// The list that it stands in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Where it answers `consistency` and `node`; of a known log a new place. A list gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Not to be listed to others. A log that is private stays so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Peers of a private log; they are added to those that it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
}

/// What became of an addition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The log was new.
    Added,
    /// The operator gave a known log one more key.
    KeyAdded,
    /// The operator gave a known log another address, made it private, or named one more peer.
    Changed,
    /// Nothing new.
    Known,
    /// A list has another key for a known log than the witness; the witness keeps its own.
    Kept,
    /// It cannot be taken.
    Refused {
        /// Why.
        why: String,
    },
}

/// The stored form of a [`LogEntry`].
#[derive(Serialize, Deserialize)]
struct Stored {
    origin: String,
    vkeys: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    qpd: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    private: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    peers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forked: Option<u64>,
}

/// What can be told of a stored entry without reading its keys, which of 100,000 logs takes seconds.
#[derive(Deserialize)]
pub(super) struct Outline {
    pub list: Option<String>,
    #[serde(default)]
    pub private: bool,
    #[serde(default)]
    pub peers: Vec<String>,
    pub forked: Option<u64>,
}

impl LogEntry {
    pub(super) fn decode(bytes: &[u8]) -> Option<LogEntry> {
        let stored: Stored = serde_json::from_slice(bytes).ok()?;
        let keys = stored.vkeys.iter().map(|text| VerifierKey::parse(text));
        Some(LogEntry {
            origin: stored.origin,
            keys: keys.collect::<Result<_, VkeyError>>().ok()?,
            qpd: stored.qpd,
            list: stored.list,
            url: stored.url,
            private: stored.private,
            peers: stored.peers,
            forked: stored.forked,
        })
    }

    /// # Panics
    /// Never.
    pub(super) fn encode(&self) -> Vec<u8> {
        let stored = Stored {
            origin: self.origin.clone(),
            vkeys: self.keys.iter().map(ToString::to_string).collect(),
            qpd: self.qpd,
            list: self.list.clone(),
            url: self.url.clone(),
            private: self.private,
            peers: self.peers.clone(),
            forked: self.forked,
        };
        // OK because strings and numbers always have a JSON form.
        serde_json::to_vec(&stored).expect("LogEntry::encode")
    }

    /// Follows what the operator says beside the key; whether anything is new by that.
    fn follow(&mut self, addition: &Addition) -> Result<bool, String> {
        let before = (self.url.clone(), self.private, self.peers.len());
        if let Some(url) = &addition.url {
            self.url = Some(address(url)?);
        }
        self.private |= addition.private;
        for peer in &addition.peers {
            let peer = address(peer)?;
            if !self.peers.contains(&peer) {
                self.peers.push(peer);
            }
        }
        if self.peers.len() > LOG_PEERS_MAX {
            return Err(format!("a log has at most {LOG_PEERS_MAX} peers"));
        }
        if !self.peers.is_empty() && !self.private {
            return Err(
                "peers are named for private logs only; others are asked for by serve --peer"
                    .into(),
            );
        }
        Ok(before != (self.url.clone(), self.private, self.peers.len()))
    }
}

/// An address of HTTP as it is kept: without a final slash.
///
/// # Errors
/// Why it is none, in words.
pub fn address(url: &str) -> Result<String, String> {
    let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split('/').next());
    let plain = |c: char| c.is_ascii_graphic() && !['?', '#', '"', '\\', '@'].contains(&c);
    if host.is_none_or(str::is_empty) || !url.chars().all(plain) || url.len() > URL_BYTES_MAX {
        return Err(format!(
            "{url:?} is not http(s)://HOST[:PORT][/PATH] of at most {URL_BYTES_MAX} bytes, without user, query and fragment"
        ));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Origin and key of an addition that can be taken.
pub(super) fn check(
    addition: &Addition,
    own: &[VerifierKey],
) -> Result<(String, VerifierKey), String> {
    let key = VerifierKey::parse(&addition.vkey).map_err(|why| why.to_string())?;
    let origin = addition.origin.clone().unwrap_or_else(|| key.name.clone());
    if origin.is_empty() || origin.contains(|c: char| c < ' ') {
        return Err("an origin is not empty, and one line".into());
    }
    if origin.len() > ORIGIN_BYTES_MAX {
        return Err(format!(
            "an origin beyond {ORIGIN_BYTES_MAX} bytes cannot be cosigned"
        ));
    }
    match key.algorithm {
        Algorithm::Ed25519(_) | Algorithm::EcdsaP256(_) | Algorithm::MlDsa44(_) => {}
        Algorithm::CosignatureV1(_) => {
            return Err("this is the key of a witness (type 0x04), not of a log".into());
        }
        Algorithm::Other { .. } => {
            let kind = key.algorithm.kind();
            return Err(format!(
                "logs that sign by keys of type 0x{kind:02x} are not taken"
            ));
        }
    }
    for own in own {
        if own.name == origin || own.name == key.name {
            return Err("this is the witness's own name".into());
        }
        if own.algorithm.public_key() == key.algorithm.public_key() {
            return Err("this is the witness's own key".into());
        }
    }
    Ok((origin, key))
}

/// What an addition makes of what is known.
pub(super) fn join(
    before: Option<LogEntry>,
    origin: String,
    key: VerifierKey,
    addition: &Addition,
) -> (LogEntry, Outcome) {
    let by_operator = addition.list.is_none();
    let Some(mut entry) = before else {
        let mut entry = LogEntry {
            origin,
            keys: vec![key],
            qpd: addition.qpd,
            list: addition.list.clone(),
            url: None,
            private: false,
            peers: Vec::new(),
            forked: None,
        };
        let outcome = match entry.follow(addition) {
            Ok(_) => Outcome::Added,
            Err(why) => Outcome::Refused { why },
        };
        return (entry, outcome);
    };
    let known = entry.keys.contains(&key);
    let outcome = if !known && !by_operator {
        Outcome::Kept
    } else if known {
        Outcome::Known
    } else if entry
        .keys
        .iter()
        .any(|k| k.name == key.name && k.id == key.id)
    {
        let why = "a known key of this log has the same name and key ID".into();
        Outcome::Refused { why }
    } else if entry.keys.len() >= KEYS_MAX {
        let why = format!("a log has at most {KEYS_MAX} keys");
        Outcome::Refused { why }
    } else {
        entry.keys.push(key);
        Outcome::KeyAdded
    };
    if !by_operator || matches!(outcome, Outcome::Refused { .. }) {
        return (entry, outcome);
    }
    let outcome = match entry.follow(addition) {
        Ok(true) if outcome == Outcome::Known => Outcome::Changed,
        Ok(_) => outcome,
        Err(why) => Outcome::Refused { why },
    };
    (entry, outcome)
}
