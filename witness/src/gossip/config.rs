//! The settings of gossip, kept in the directory (`gossip.json`) so that they survive: `serve` without them follows what was kept.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};

use crate::dir::{Dir, read_plain, replace};
use crate::roster::{PEERS_MAX, address};

/// Seconds between two pulls of a peer where nothing else is said.
pub const INTERVAL_S: u64 = 60;
/// Longest time between two pulls, in seconds: a day.
const INTERVAL_S_MAX: u64 = 86_400;
/// 64 peers of 1,024 bytes are 65,536; the rest is for whoever edits it.
const FILE_BYTES_MAX: u64 = 128 * 1024;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Witnesses that are asked for the heads that they cosigned.
    #[serde(default)]
    pub peers: Vec<String>,
    /// Seconds between two pulls of a peer, half as many more or less.
    #[serde(default = "interval")]
    pub interval_s: u64,
    /// Who is told of evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
}

/// What an operator gives at a start; each takes the place of what was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Peers; none keeps those that were kept.
    pub peers: Vec<String>,
    /// Seconds between two pulls.
    pub interval_s: Option<u64>,
    /// Who is told of evidence.
    pub webhook: Option<String>,
}

/// Why the settings cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// One of them, in words.
    #[error("gossip: {0}")]
    Setting(String),
    /// The file.
    #[error("gossip.json: {0}")]
    Io(#[from] io::Error),
    /// What is in it.
    #[error("gossip.json: {0}")]
    Form(#[from] serde_json::Error),
}

fn interval() -> u64 {
    INTERVAL_S
}

impl Default for Config {
    fn default() -> Config {
        Config {
            peers: Vec::new(),
            interval_s: INTERVAL_S,
            webhook: None,
        }
    }
}

impl Config {
    /// What is kept in a directory.
    ///
    /// # Errors
    /// [`ConfigError`]; none if there is no file.
    pub fn load(dir: &Dir) -> Result<Config, ConfigError> {
        let path = dir.gossip();
        let bytes = match read_plain(&path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
            read => read?,
        };
        let config: Config = serde_json::from_slice(&bytes)?;
        config.check()
    }

    /// What is kept with what is given in its place, durable on return.
    ///
    /// # Errors
    /// [`ConfigError`]; then what was kept stays.
    pub fn follow(dir: &Dir, given: Given) -> Result<Config, ConfigError> {
        let kept = Config::load(dir)?;
        let config = Config {
            peers: if given.peers.is_empty() {
                kept.peers.clone()
            } else {
                given.peers
            },
            interval_s: given.interval_s.unwrap_or(kept.interval_s),
            webhook: given.webhook.or(kept.webhook.clone()),
        };
        let config = config.check()?;
        if config != kept {
            config.store(&dir.gossip())?;
        }
        Ok(config)
    }

    fn check(mut self) -> Result<Config, ConfigError> {
        for peer in &mut self.peers {
            *peer = address(peer).map_err(setting)?;
        }
        self.peers.sort();
        self.peers.dedup();
        if self.peers.len() > PEERS_MAX {
            return Err(setting(format!("at most {PEERS_MAX} peers")));
        }
        if !(1..=INTERVAL_S_MAX).contains(&self.interval_s) {
            return Err(setting(format!("an interval is 1 to {INTERVAL_S_MAX} s")));
        }
        // Its query may hold what lets us in: only the beginning is looked at.
        if let Some(webhook) = &self.webhook {
            let plain = webhook.split(['?', '@']).next().unwrap_or_default();
            address(plain).map_err(setting)?;
        }
        Ok(self)
    }

    fn store(&self, path: &Path) -> Result<(), ConfigError> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        // A webhook's address may be a secret.
        Ok(replace(path, &bytes, 0o600)?)
    }
}

fn setting(why: String) -> ConfigError {
    ConfigError::Setting(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_takes_the_place_of_what_was_kept() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::new(home.path());
        assert_eq!(Config::load(&dir).unwrap(), Config::default());
        let given = |peers: &[&str], webhook: Option<&str>| Given {
            peers: peers.iter().map(ToString::to_string).collect(),
            webhook: webhook.map(str::to_owned),
            ..Given::default()
        };
        let hook = Some("https://hook.example.com/?token=x");
        let both = ["http://b.example.com/", "http://a.example.com"];
        Config::follow(&dir, given(&both, hook)).unwrap();
        let kept = Config::follow(&dir, Given::default()).unwrap();
        assert_eq!(kept.peers, ["http://a.example.com", "http://b.example.com"]);
        assert_eq!((kept.interval_s, kept.webhook.as_deref()), (60, hook));
        Config::follow(&dir, given(&["http://c.example.com"], None)).unwrap();
        assert_eq!(Config::load(&dir).unwrap().peers, ["http://c.example.com"]);
        assert!(Config::follow(&dir, given(&["nonsense"], None)).is_err());
        let never = Given {
            interval_s: Some(0),
            ..Given::default()
        };
        assert!(Config::follow(&dir, never).is_err());
        assert_eq!(
            Config::load(&dir).unwrap().peers.len(),
            1,
            "what was kept stays"
        );
        std::fs::write(dir.gossip(), "{\"peer\":1}").unwrap();
        assert!(matches!(Config::load(&dir), Err(ConfigError::Form(_))));
    }
}
