//! Who holds which token.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use countersign_verifier::{hash::sha256, key::IdentityId};

use crate::{
    account::Account,
    app::App,
    error::{Code, Problem},
};

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
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let token = value
        .to_str()
        .ok()
        .and_then(|v| v.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .ok_or_else(|| Problem::new(Code::TokenInvalid, "Authorization: Bearer cst_…"))?;
    if app.is_owner_token(token) {
        return Ok(Some(Bearer::Owner));
    }
    // Looked up by its hash: how long that takes says nothing of any other token.
    let hash = sha256(token.as_bytes());
    if let Some(account) = app.accounts.of_token(&hash)? {
        let version = account.reader().version();
        // OK to go on without: nothing is ever taken away, and then it is none of this service's.
        if let Some(token) = version.tokens.get(&hash) {
            if !token.is_good(app.now_ms()) {
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
