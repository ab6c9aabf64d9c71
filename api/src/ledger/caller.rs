//! Who asks: in whose name a signature counts, and as what.

use countersign_verifier::{
    leaf::{Class, Millis},
    operation::Operation,
};

use super::Verified;
use crate::{
    error::{Code, Problem},
    state::{Caller, Decided, Identity, State, identity::Possession, session},
};

/// In whose name this signature counts, and as what: of the identity's current key, if it may sign operations, or of the key of
/// the session that the operation names.
///
/// # Errors
/// `SignerUnknown`, `KeyRevoked`, `PossessionUnproved`, and of a session's key what has ended.
pub fn caller<'s>(
    state: &'s State,
    signer: &Verified,
    operation: &Operation,
    at: u64,
) -> Result<Caller<'s>, Problem> {
    let Some(identity) = state.identities.get(&signer.identity) else {
        return Err(Problem::new(
            Code::SignerUnknown,
            "the key that signed is not enrolled in this account",
        ));
    };
    if let Some(index) = identity.revoked {
        return Err(revoked(identity, index));
    }
    if identity.key.sha256 != signer.key {
        return session_signer(state, identity, signer, operation, at);
    }
    if identity.possession == Possession::Stated {
        let why = "this key may sign receipts; to sign operations it must first prove itself: identity rotate to this same key, with --possession";
        return Err(
            Problem::new(Code::PossessionUnproved, why).with("identity", identity.id.to_string())
        );
    }
    Ok(Caller::from(identity))
}

/// Whoever signed with another key than the identity's own: with that of a session, as long as it may, or with one that is retired.
fn session_signer<'s>(
    state: &'s State,
    identity: &'s Identity,
    signer: &Verified,
    operation: &Operation,
    at: u64,
) -> Result<Caller<'s>, Problem> {
    let named = operation.session.as_deref().and_then(session::parse_id);
    let session = named.and_then(|index| state.sessions.get(index));
    let session = session.filter(|session| session.identity == identity.id);
    let Some((session, key)) = session.and_then(|s| Some((s, s.key.as_ref()?))) else {
        return Err(retired(identity));
    };
    if key.named.sha256 != signer.key {
        return Err(retired(identity));
    }
    // Whoever lost the key that bound it may have lost this one too: it ends with the key whose word it is.
    let rotated = identity.rotations.last().map(|change| change.index);
    if rotated.is_some_and(|index| index > session.index) {
        return Err(retired(identity));
    }
    let gone = session::gone(session).or_else(|| {
        (key.expires <= at).then(|| {
            let why = "the binding of the session's key has ended";
            Decided::refuse(Code::SessionExpired, why)
                .with("session_id", session.id())
                .with("binding_expired_at", Millis(key.expires).to_string())
        })
    });
    match gone {
        Some(Decided::Refused(code, message, detail)) => {
            let mut problem = Problem::new(code, message);
            problem.detail = detail;
            Err(problem)
        }
        _ => Ok(Caller {
            identity,
            class: Class::SessionKey,
        }),
    }
}

pub(super) fn revoked(identity: &Identity, index: u64) -> Problem {
    Problem::new(
        Code::KeyRevoked,
        format!("`{}` was revoked at index {index}", identity.name),
    )
    .with("identity", identity.id.to_string())
    .with("revoked_index", index)
}

pub(super) fn retired(identity: &Identity) -> Problem {
    let since = identity.rotations.last().map_or(0, |c| c.index);
    Problem::new(
        Code::KeyRevoked,
        format!(
            "`{}` has another key since index {since}; this one is retired",
            identity.name
        ),
    )
    .with("identity", identity.id.to_string())
    .with("retired_index", since)
}
