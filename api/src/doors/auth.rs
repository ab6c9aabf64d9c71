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
    /// Whether it may read this account.
    #[must_use]
    pub fn reads(&self, account: &Account) -> bool {
        match self {
            Bearer::Owner => true,
            Bearer::Identity(own, _) => own.origin == account.origin,
        }
    }
}

/// The caller's token: none, a good one, or an error.
///
/// # Errors
/// `TokenInvalid`: of no account here, ended, or its identity revoked.
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
    for account in app.accounts.values() {
        let version = account.reader().version();
        let Some(token) = version.tokens.get(&hash) else {
            continue;
        };
        let identity = version.identities.get(&token.identity);
        if !token.is_good(app.now_ms()) {
            return Err(Problem::new(Code::TokenInvalid, "the token has ended"));
        }
        return match identity {
            Some(identity) if identity.revoked.is_none() => {
                Ok(Some(Bearer::Identity(account.clone(), identity.id)))
            }
            _ => Err(Problem::new(
                Code::TokenInvalid,
                "the identity of this token is revoked",
            )),
        };
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
        let found = app.accounts.get(name);
        return found.ok_or_else(|| Problem::new(Code::NotFound, "no account of this name here"));
    }
    let mut accounts = app.accounts.values();
    match (accounts.next(), accounts.next()) {
        (Some(account), None) => Ok(account),
        _ => {
            let why = "several accounts are kept here, and the owner's token names none of them: ?account=NAME, or sign the call";
            let names: Vec<&str> = app.accounts.names().collect();
            Err(Problem::new(Code::Malformed, why).with("accounts", names))
        }
    }
}
