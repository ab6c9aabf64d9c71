//! Who holds which token.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use countersign_verifier::{hash::Hash, key::IdentityId};

use crate::{
    account::Account,
    app::App,
    error::{Code, Problem},
    issuer::Denied,
};

/// How a token of this service's begins.
const TOKEN_BEGINS: &str = "cst_";
/// How long after an authorization server gave no keys it is worth asking again, in milliseconds.
const ISSUER_AGAIN_MS: u64 = 30_000;

/// Whom a token stands for.
#[derive(Clone)]
pub enum Bearer {
    /// Whoever runs this service: good for reading every account here.
    Owner,
    /// An identity of one account.
    Identity(Arc<Account>, IdentityId),
}

impl Bearer {
    /// Whether it may read the account of this origin.
    #[must_use]
    pub fn reads(&self, origin: &str) -> bool {
        match self {
            Bearer::Owner => true,
            Bearer::Identity(own, _) => own.origin == origin,
        }
    }
}

/// The caller's token: none, a good one, or an error.
///
/// # Errors
/// `TokenInvalid`: of no account here, ended, or its identity revoked; `Busy` while that cannot be told.
pub fn bearer(app: &App, headers: &HeaderMap) -> Result<Option<Bearer>, Problem> {
    let Some(token) = given(headers)? else {
        return Ok(None);
    };
    if app.is_owner_token(token) {
        return Ok(Some(Bearer::Owner));
    }
    // Looked up by its hash: how long that takes says nothing of any other token.
    if let Some((account, hash)) = app.accounts.of_token(token)? {
        let version = account.reader().version();
        // OK to go on without: nothing is ever taken away, and then it is none of this service's.
        if let Some(token) = version.tokens.get(&hash) {
            if !token.is_good(account.log_now_ms()) {
                return Err(Problem::new(Code::TokenInvalid, "the token has ended"));
            }
            return match version.identities.get(&token.identity) {
                Some(identity) if identity.revoked.is_none() => {
                    Ok(Some(Bearer::Identity(account.clone(), identity.id)))
                }
                _ => Err(Problem::new(
                    Code::TokenInvalid,
                    "the identity of this token is revoked",
                )),
            };
        }
    }
    Err(Problem::new(
        Code::TokenInvalid,
        "the token is none of this service's: `countersign token new` makes one; the owner's is in the data directory, owner.token",
    ))
}

/// The caller's token where tokens of an authorization server are taken too; `named` says which account, where the subject of such a
/// one is bound in several.
///
/// # Errors
/// As [`bearer`]; `SubjectUnknown`, `KeyRevoked` and `ScopeMissing` for a good token of a subject that may not ask here, `Busy` while
/// the server gives no keys.
pub async fn bearer_or_subject(
    app: &App,
    headers: &HeaderMap,
    named: Option<&str>,
) -> Result<Option<Bearer>, Problem> {
    let (Some(issuer), Some(token)) = (&app.issuer, given(headers)?) else {
        return bearer(app, headers);
    };
    if token.starts_with(TOKEN_BEGINS) {
        return bearer(app, headers);
    }
    let subject = issuer.subject(token, &resource(app), app.now()).await;
    let subject = subject.map_err(|denied| match denied {
        Denied::Invalid(why) => Problem::new(Code::TokenInvalid, format!("the token: {why}")),
        Denied::Scope(scope) => {
            let why = format!("the token is good, and not for `{scope}`: ask for another one");
            Problem::new(Code::ScopeMissing, why).with("scope", scope)
        }
        Denied::Unavailable => {
            let why = "whether the token is good cannot be told: the authorization server gives no keys just now";
            Problem::new(Code::Busy, why).retry_after(ISSUER_AGAIN_MS)
        }
    })?;
    // Opened accounts are read, and one that is not is opened.
    tokio::task::block_in_place(|| seat_of(app, &subject, named)).map(Some)
}

/// The identity that a subject is bound to.
fn seat_of(app: &App, subject: &Hash, named: Option<&str>) -> Result<Bearer, Problem> {
    let (mut seats, mut revoked) = (Vec::new(), false);
    for account in app.accounts.binding(subject, named)? {
        let version = account.reader().version();
        let bound = version.tokens.get(subject);
        let Some(bound) = bound.filter(|bound| bound.is_good(account.log_now_ms())) else {
            continue;
        };
        match version.identities.get(&bound.identity) {
            Some(identity) if identity.revoked.is_none() => seats.push((account, identity.id)),
            _ => revoked = true,
        }
    }
    if let [(account, identity)] = &seats[..] {
        return Ok(Bearer::Identity(account.clone(), *identity));
    }
    if seats.is_empty() {
        return Err(match revoked {
            true => Problem::new(Code::KeyRevoked, "the identity that the token's subject is bound to is revoked"),
            false => Problem::new(
                Code::SubjectUnknown,
                "the token is good, and its subject is nobody here: the account's owner binds it to a seat by `countersign token bind`",
            ),
        }
        .with("subject_sha256", subject.to_hex()));
    }
    let why = "the token's subject is bound in several accounts: ?account=NAME says which";
    Err(Problem::new(Code::Malformed, why))
}

/// The identifier of what tokens of an authorization server are for: the address of the Model Context Protocol's door.
pub fn resource(app: &App) -> String {
    format!("{}/mcp", app.url())
}

/// The text of the caller's token.
fn given(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let text = value.to_str().ok().and_then(|v| v.split_once(' '));
    text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| Some(token.trim()))
        .ok_or_else(|| Problem::new(Code::TokenInvalid, "Authorization: Bearer cst_…"))
}

/// The account that a token is used for; `named` says which, where the token leaves that open.
///
/// # Errors
/// `AccountMismatch` for a token of another account; `NotFound`, `Malformed` where the owner's token does not say which.
pub fn account_of_bearer(
    app: &App,
    bearer: &Bearer,
    named: Option<&str>,
) -> Result<Arc<Account>, Problem> {
    match bearer {
        Bearer::Owner => owners_account(app, named),
        Bearer::Identity(own, _) if named.is_none_or(|named| named == own.name) => Ok(own.clone()),
        Bearer::Identity(..) => {
            let why = "the token is of another account";
            Err(Problem::new(Code::AccountMismatch, why))
        }
    }
}

/// The account that the owner's token is used for: the one named, or the only one.
fn owners_account(app: &App, named: Option<&str>) -> Result<Arc<Account>, Problem> {
    if let Some(name) = named {
        return app.accounts.get(name);
    }
    let names = app.accounts.names();
    if let [only] = names.as_slice() {
        return app.accounts.get(only);
    }
    let why = "several accounts are kept here, and the owner's token names none of them: ?account=NAME, or sign the call";
    Err(Problem::new(Code::Malformed, why).with("accounts", names))
}
