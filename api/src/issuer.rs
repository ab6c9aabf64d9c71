//! The authorization server that `[mcp] authorization_server` names: whose tokens `POST /mcp` takes besides our own.
//!
//! A token of its is a JSON Web Token (RFC 7519, RFC 9068). What is taken from the token itself before its signature has been verified
//! is the name of an algorithm, which must be on a list, and the id of a key, which is looked for among those that the server
//! publishes. Where these are is what the configuration says, never what a token says (`jku`, `x5u` and `jwk` are passed over).
//! Which identity a subject is, is no matter of this module: a leaf says it ([`subject_hash`]).

mod fetch;
mod keys;
mod token;
mod verify;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use countersign_verifier::hash::{Hash, sha256};
use tokio::sync::Mutex;

use crate::config::Mcp;
use fetch::Source;
use keys::{Keys, Signer};
pub use token::Denied;

/// Keys are asked for again once they are this old, in milliseconds: for so long a withdrawn one may still be good.
const FRESH_MS: u64 = 600_000;
/// Where the server does not answer, keys that it gave are good for so long, in milliseconds.
const KEPT_MS: u64 = 24 * 3_600_000;
/// The server is asked at most this often, in milliseconds, whatever keys tokens name.
const AGAIN_MS: u64 = 30_000;

/// What time it is, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Since 1970: what tokens are held against.
    pub wall_ms: u64,
    /// Since some moment, never going back: how old keys are.
    pub boot_ms: u64,
}

/// The server, and the keys that it last gave.
pub struct Issuer {
    settings: Settings,
    source: Source,
    held: ArcSwapOption<Held>,
    /// When the server was last asked, and whether it answered. Locked while it is asked: one at a time.
    asked: Mutex<Option<Asked>>,
}

/// What is asked of a token.
#[derive(Clone, Debug)]
struct Settings {
    issuer: String,
    claim: String,
    scopes: Vec<String>,
}

struct Held {
    keys: Keys,
    boot_ms: u64,
}

#[derive(Clone, Copy)]
struct Asked {
    boot_ms: u64,
    answered: bool,
}

/// The SHA-256 by which a subject of an issuer is known in an account, where that of a token's text would stand. No text that can be
/// sent as a token has it: a header holds no line break.
#[must_use]
pub fn subject_hash(issuer: &str, claim: &str, subject: &str) -> Hash {
    sha256(format!("countersign/subject/1\n{issuer}\n{claim}\n{subject}").as_bytes())
}

impl Issuer {
    /// The server that the configuration names, if it names one.
    #[must_use]
    pub fn of(config: &Mcp) -> Option<Issuer> {
        let issuer = config.authorization_server.clone()?;
        verify::install();
        Some(Issuer {
            source: Source::of(&issuer),
            settings: Settings {
                issuer,
                claim: config.subject_claim.clone(),
                scopes: config.scopes.clone(),
            },
            held: ArcSwapOption::empty(),
            asked: Mutex::new(None),
        })
    }

    /// Its identifier, a URL.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.issuer
    }

    /// What a token must be good for, each of them.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.settings.scopes
    }

    /// Whose token this is, as an account knows its subject: signed by the server, for this resource, and at this time.
    ///
    /// # Errors
    /// [`Denied`].
    pub async fn subject(&self, token: &str, resource: &str, now: Now) -> Result<Hash, Denied> {
        let signer = token::signer(token)?;
        let held = self.keys_for(&signer, now).await?;
        let claims = held.keys.open(token, &signer)?;
        let subject = claims.judge(&self.settings, resource, now.wall_ms)?;
        Ok(subject_hash(
            &self.settings.issuer,
            &self.settings.claim,
            &subject,
        ))
    }

    /// Keys among which there is the one that a token names.
    async fn keys_for(&self, signer: &Signer, now: Now) -> Result<Arc<Held>, Denied> {
        let has = |held: &Arc<Held>| {
            let age = now.boot_ms.saturating_sub(held.boot_ms);
            age < KEPT_MS && held.keys.has(signer)
        };
        let held = self.held.load_full().filter(has);
        let fresh = |held: &Arc<Held>| now.boot_ms.saturating_sub(held.boot_ms) < FRESH_MS;
        if let Some(held) = held.clone().filter(fresh) {
            return Ok(held);
        }
        let mut asked = match &held {
            // Somebody asks already: what is known is good for this one.
            Some(held) => match self.asked.try_lock() {
                Ok(asked) => asked,
                Err(_) => return Ok(held.clone()),
            },
            None => self.asked.lock().await,
        };
        // Whoever had the lock before may have found it.
        if let Some(found) = self.held.load_full().filter(has).filter(fresh) {
            return Ok(found);
        }
        let again = |asked: &Asked| now.boot_ms.saturating_sub(asked.boot_ms) >= AGAIN_MS;
        if asked.as_ref().is_none_or(again) {
            let keys = self.source.keys().await;
            *asked = Some(Asked {
                boot_ms: now.boot_ms,
                answered: keys.is_ok(),
            });
            match keys {
                Ok(keys) => self.held.store(Some(Arc::new(Held {
                    keys,
                    boot_ms: now.boot_ms,
                }))),
                Err(why) => {
                    tracing::warn!(issuer = %self.settings.issuer, why, "the authorization server gives no keys");
                }
            }
        }
        let answered = asked.is_some_and(|asked| asked.answered);
        drop(asked);
        match (self.held.load_full().filter(has), answered) {
            (Some(held), _) => Ok(held),
            (None, true) => Err(Denied::Invalid(
                "it is signed by a key that the authorization server does not publish",
            )),
            (None, false) => Err(Denied::Unavailable),
        }
    }
}

#[cfg(test)]
mod tests;
