//! Tokens: who may ask without signing. The log holds their hashes, so that a restored service revives none that was revoked.

use countersign_verifier::{
    hash::{Hash, sha256},
    key::IdentityId,
    leaf::{Class, Millis},
    operation::Operation,
};
use imbl::OrdMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    At, Caller, Decided, State,
    identity::target,
    verb::{Verb, arguments, malformed, map, member, settle},
};
use crate::code::Code;

/// A token of a year, the most that can be asked for: longer is "without an end".
const TTL_S_MAX: u64 = 366 * 86_400;
/// An account has at most so many tokens, those that ended included: each is a leaf and a row of the state.
const TOKENS_MAX: usize = 100_000;

/// One token, known by the SHA-256 of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose it is.
    pub identity: IdentityId,
    /// The leaf that made it.
    pub index: u64,
    /// Log time at which it ends, in milliseconds since 1970; `None`: when it is revoked.
    pub expires: Option<u64>,
    /// The leaf that revoked it.
    pub revoked: Option<u64>,
}

impl Token {
    /// Whether it is still good at this time, in milliseconds since 1970. Whether its identity is, is another question.
    #[must_use]
    pub fn is_good(&self, at: u64) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|ends| at < ends)
    }
}

/// A token as snapshots keep it.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    sha256: String,
    identity: String,
    index: u64,
    expires: Option<u64>,
    revoked: Option<u64>,
}

/// All tokens of an account, those that ended included: a hash is never free again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    by_hash: OrdMap<Hash, Token>,
}

impl Tokens {
    /// The token whose text has this SHA-256.
    #[must_use]
    pub fn get(&self, sha256: &Hash) -> Option<&Token> {
        self.by_hash.get(sha256)
    }

    /// Up to `limit` tokens after `after`, in order of hash.
    pub fn page(&self, after: Option<Hash>, limit: usize) -> impl Iterator<Item = (&Hash, &Token)> {
        use std::ops::Bound;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_hash.range((start, Bound::Unbounded)).take(limit)
    }

    pub(super) fn to_rows(&self) -> Vec<Row> {
        let row = |(hash, token): (&Hash, &Token)| Row {
            sha256: hash.to_hex(),
            identity: token.identity.to_string(),
            index: token.index,
            expires: token.expires,
            revoked: token.revoked,
        };
        self.by_hash.iter().map(row).collect()
    }

    pub(super) fn from_rows(rows: Vec<Row>) -> Option<Tokens> {
        let token = |row: Row| {
            let token = Token {
                identity: row.identity.parse().ok()?,
                index: row.index,
                expires: row.expires,
                revoked: row.revoked,
            };
            Some((Hash::from_hex(&row.sha256).ok()?, token))
        };
        let by_hash = rows.into_iter().map(token).collect::<Option<_>>()?;
        Some(Tokens { by_hash })
    }

    pub(super) fn extend(&mut self, by_ms: u64) {
        let running: Vec<Hash> = self
            .by_hash
            .iter()
            .filter(|(_, t)| t.expires.is_some())
            .map(|(h, _)| *h)
            .collect();
        for hash in running {
            if let Some(Token {
                expires: Some(ends),
                ..
            }) = self.by_hash.get_mut(&hash)
            {
                *ends = ends.saturating_add(by_ms);
            }
        }
    }
}

/// What an account keeps of a token in place of it: the SHA-256 of the account's origin, a line feed, and the token's text. With the
/// origin in it, whoever reads it in one account's leaves can do nothing with it in another account of the same service.
#[must_use]
pub fn token_hash(origin: &str, text: &str) -> Hash {
    sha256(format!("{origin}\n{text}").as_bytes())
}

/// Arguments of `token_new`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct New {
    /// Whose token it is: `id_` and 64 hexadecimal digits. What it asks for is signed with that identity's key where the service
    /// keeps it (`seat_key`); for any other identity the token only reads.
    pub identity: String,
    /// SHA-256, in hexadecimal, of the log's origin, a line feed, and the token's text (`cst_` and 43 characters). The text itself
    /// never leaves whoever made it.
    pub token_sha256: String,
    /// Ends by itself after so many seconds, at most 31,622,400; absent: when it is revoked.
    pub ttl_s: Option<u64>,
}

/// Arguments of `token_revoke`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    /// SHA-256 of origin, line feed and the token's text in hexadecimal, as `token_list` shows it.
    pub token_sha256: String,
}

/// `token_new`.
pub const NEW: Verb = Verb {
    tool: "token_new",
    decide: |state, caller, operation, at| settle(decide_new(state, caller, operation, at)),
    apply: apply_new,
    resource: |arguments| member(arguments, "token_sha256"),
};

/// `token_revoke`.
pub const REVOKE: Verb = Verb {
    tool: "token_revoke",
    decide: |state, caller, operation, _| settle(decide_revoke(state, caller, operation)),
    apply: apply_revoke,
    resource: |arguments| member(arguments, "token_sha256"),
};

fn hash(text: &str) -> Result<Hash, Decided> {
    Hash::from_hex(text)
        .map_err(|_| malformed("token_sha256: 64 hexadecimal digits in lower case".into()))
}

fn decide_new(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
    at: At,
) -> Result<Decided, Decided> {
    let asked: New = arguments(&operation.arguments).map_err(malformed)?;
    let hash = hash(&asked.token_sha256)?;
    if asked
        .ttl_s
        .is_some_and(|ttl| !(1..=TTL_S_MAX).contains(&ttl))
    {
        return Err(malformed(format!("ttl_s: 1 to {TTL_S_MAX}")));
    }
    let target = target(state, caller, &asked.identity)?;
    if state.tokens.get(&hash).is_some() {
        return Err(Decided::refuse(
            Code::TokenKnown,
            "this token was made before",
        ));
    }
    if state.tokens.by_hash.len() >= TOKENS_MAX {
        let why = format!("an account has at most {TOKENS_MAX} tokens, the ended ones included");
        return Err(Decided::refuse(Code::LimitReached, why).with("limit", TOKENS_MAX));
    }
    let mut effect = map(json!({"identity": target.id.to_string()}));
    if let Some(ends) = ends(at.at, asked.ttl_s) {
        effect.insert("expires_at".into(), Millis(ends).to_string().into());
    }
    Ok(Decided::Applied(effect))
}

fn ends(at: u64, ttl_s: Option<u64>) -> Option<u64> {
    ttl_s.map(|ttl| at + ttl * 1_000)
}

fn decide_revoke(
    state: &State,
    caller: &Caller<'_>,
    operation: &Operation,
) -> Result<Decided, Decided> {
    let asked: Revoke = arguments(&operation.arguments).map_err(malformed)?;
    let hash = hash(&asked.token_sha256)?;
    let unknown = || Decided::refuse(Code::NotFound, "no such token in this account");
    let token = state.tokens.get(&hash).ok_or_else(unknown)?;
    // Whoever holds it may end it: that is no more than to lose it.
    if token.identity != caller.identity.id {
        own_key(caller)?;
        target(state, caller, &token.identity.to_string())?;
    }
    if let Some(index) = token.revoked {
        let refused = Decided::refuse(Code::TokenRevoked, "the token is revoked");
        return Err(refused.with("revoked_index", index));
    }
    Ok(Decided::Applied(map(
        json!({"identity": token.identity.to_string()}),
    )))
}

/// Tokens are given with a key of one's own: one that the service could sign for would give itself more.
fn own_key(caller: &Caller<'_>) -> Result<(), Decided> {
    if caller.class == Class::AgentKey {
        return Ok(());
    }
    let why = "this needs a signature by an agent_key: a key that the service does not hold";
    Err(Decided::refuse(Code::AttributionTooLow, why))
}

fn apply_new(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: New = arguments(&operation.arguments)?;
    let hash = Hash::from_hex(&asked.token_sha256).map_err(|e| e.to_string())?;
    let time = |text: &Value| text.as_str().and_then(|text| text.parse::<Millis>().ok());
    let expires = match effect.get("expires_at") {
        Some(text) => Some(time(text).ok_or("expires_at: not a time")?.0),
        None => None,
    };
    let identity = asked.identity.parse().map_err(|_| "identity: not one")?;
    let token = Token {
        identity,
        index,
        expires,
        revoked: None,
    };
    state.tokens.by_hash.insert(hash, token);
    Ok(())
}

fn apply_revoke(
    state: &mut State,
    _by: IdentityId,
    operation: &Operation,
    _effect: &Map<String, Value>,
    index: u64,
) -> Result<(), String> {
    let asked: Revoke = arguments(&operation.arguments)?;
    let hash = Hash::from_hex(&asked.token_sha256).map_err(|e| e.to_string())?;
    let token = state.tokens.by_hash.get_mut(&hash);
    token.ok_or("a token that is not there")?.revoked = Some(index);
    Ok(())
}
