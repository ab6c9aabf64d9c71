//! Who wants to keep or read a body, in which account, and what is said of it: out of headers, because a body is bytes alone.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use countersign_log::Stop;
use countersign_verifier::{
    base64, blob::SALT_BYTES, dsse::Envelope, hash::Hash, key::IdentityId, operation::Operation,
};
use serde::Deserialize;

use crate::{
    account::Account,
    app::App,
    doors::{
        auth::{Bearer, account_of_bearer, bearer},
        call::account_of,
    },
    error::{Code, Problem},
    ledger::{may, may_run},
    policy::Family,
    quota::Rate,
    state::{State, blob, verb::arguments},
    submit,
};

/// An operation in base64, signed by whoever holds no token.
const OPERATION: &str = "countersign-operation";
/// The salt, 64 hexadecimal digits.
pub(super) const SALT: &str = "countersign-salt";
/// The commitment, 64 hexadecimal digits.
pub(super) const COMMITMENT: &str = "countersign-commitment";
/// A media type has at most so many characters.
const MEDIA_TYPE_MAX: usize = 255;

/// What is said of a body that comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub media_type: String,
    /// `None`: it is made here.
    pub salt: Option<[u8; SALT_BYTES]>,
    /// What salt and body must give.
    pub commitment: Option<Hash>,
    /// How many bytes it has.
    pub bytes: Option<u64>,
}

impl Said {
    /// By the headers.
    pub(super) fn of(headers: &HeaderMap) -> Result<Said, Problem> {
        let hex = |name: &str| {
            let text = text(headers, name)?;
            let hash = text.map(|text| digest(name, text));
            hash.transpose()
        };
        let length = text(headers, header::CONTENT_LENGTH.as_str())?;
        Ok(Said {
            media_type: media_type(headers)?,
            salt: hex(SALT)?.map(|salt| salt.0),
            commitment: hex(COMMITMENT)?,
            bytes: length.and_then(|length| length.parse().ok()),
        })
    }
}

fn malformed(name: &str, why: &str) -> Problem {
    Problem::new(Code::Malformed, format!("{name}: {why}")).with("header", name)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let text = value
                .to_str()
                .map_err(|_| malformed(name, "visible ASCII"))?;
            Ok(Some(text.trim()))
        }
        _ => Err(malformed(name, "once")),
    }
}

pub(super) fn digest(name: &str, text: &str) -> Result<Hash, Problem> {
    Hash::from_hex(text).map_err(|_| malformed(name, "64 lowercase hexadecimal digits"))
}

/// `type/subtype` and parameters, as it came; what says nothing is bytes.
fn media_type(headers: &HeaderMap) -> Result<String, Problem> {
    let Some(text) = text(headers, header::CONTENT_TYPE.as_str())? else {
        return Ok("application/octet-stream".into());
    };
    let name = text.split(';').next().unwrap_or("").trim_end();
    // RFC 9110 section 5.6.2.
    let token = |part: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        !part.is_empty() && part.bytes().all(fits)
    };
    let is_type = name
        .split_once('/')
        .is_some_and(|(kind, sub)| token(kind) && token(sub));
    let is_plain = text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if !is_type || !is_plain || text.len() > MEDIA_TYPE_MAX {
        let why = format!("type/subtype, at most {MEDIA_TYPE_MAX} characters");
        return Err(malformed("content-type", &why));
    }
    Ok(text.into())
}

/// Whoever may, and where.
pub(super) struct Granted {
    pub account: Arc<Account>,
    pub by: IdentityId,
}

/// The arguments of what is signed instead of a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    commitment: String,
    bytes: Option<u64>,
    media_type: Option<String>,
}

/// Whoever wants to keep this body. What is signed says what stands in the headers, or it is refused.
pub(super) fn may_keep(
    app: &App,
    headers: &HeaderMap,
    named: Option<&str>,
    said: &mut Said,
) -> Result<Granted, Problem> {
    let Some(envelope) = text(headers, OPERATION)? else {
        let commitment = said.commitment.map(|hash| hash.to_hex());
        return by_token(
            app,
            headers,
            named,
            (blob::PUT, &commitment.unwrap_or_default()),
        );
    };
    let (granted, signed) = by_signature(app, headers, envelope, blob::PUT)?;
    let commitment = digest("commitment", &signed.commitment)?;
    let differs = |what: &str| {
        let why = format!("{what} of the signed operation is not what the request has");
        Problem::new(Code::DigestMismatch, why)
    };
    if said.salt.is_none() {
        return Err(malformed(
            SALT,
            "with a signed operation, the salt that its commitment was made with",
        ));
    }
    if said.commitment.is_some_and(|stated| stated != commitment) {
        return Err(differs("commitment"));
    }
    if signed.media_type.as_ref() != Some(&said.media_type) {
        return Err(differs("media_type"));
    }
    let Some(bytes) = signed.bytes else {
        return Err(Problem::new(
            Code::Malformed,
            "bytes: how many the body has",
        ));
    };
    if said.bytes.is_some_and(|stated| stated != bytes) {
        return Err(differs("bytes"));
    }
    said.commitment = Some(commitment);
    said.bytes = Some(bytes);
    Ok(granted)
}

/// Whoever wants to read this body.
pub(super) fn may_read(
    app: &App,
    headers: &HeaderMap,
    named: Option<&str>,
    commitment: &Hash,
) -> Result<Granted, Problem> {
    let Some(envelope) = text(headers, OPERATION)? else {
        return by_token(app, headers, named, (blob::READ, &commitment.to_hex()));
    };
    let (granted, signed) = by_signature(app, headers, envelope, blob::READ)?;
    if digest("commitment", &signed.commitment)? != *commitment {
        let why = "the signed operation asks for another body than the address";
        return Err(Problem::new(Code::Malformed, why));
    }
    Ok(granted)
}

fn by_token(
    app: &App,
    headers: &HeaderMap,
    named: Option<&str>,
    (action, resource): ((&str, Family), &str),
) -> Result<Granted, Problem> {
    let bearer = bearer(app, headers)?.ok_or_else(|| {
        let why = "a token is needed (Authorization: Bearer), or an operation signed for this body (Countersign-Operation)";
        Problem::new(Code::KeyRequired, why)
    })?;
    let account = account_of_bearer(app, &bearer, named)?;
    let state = account.reader().version();
    let by = match bearer {
        Bearer::Owner => state.owner(),
        Bearer::Identity(_, identity) => Some(identity),
    };
    let by = by.ok_or_else(|| {
        Problem::new(Code::Busy, "the account is not open yet").retry_after(1_000)
    })?;
    take(app, &account, &state, by)?;
    if !matches!(bearer, Bearer::Owner)
        && let Some(identity) = state.identities.get(&by)
    {
        may(&state, &identity.into(), action, resource, None)?;
    }
    Ok(Granted { account, by })
}

fn by_signature(
    app: &App,
    headers: &HeaderMap,
    envelope: &str,
    (tool, family): (&str, Family),
) -> Result<(Granted, Signed), Problem> {
    let bytes = base64::decode(envelope)
        .map_err(|e| malformed(OPERATION, &format!("a DSSE envelope in base64: {e}")))?;
    let envelope =
        Envelope::parse(&bytes).map_err(|e| submit::malformed(&e).with("header", OPERATION))?;
    // Read before anything is verified, only to find the account whose keys could have signed.
    let claimed = Operation::parse(&envelope.payload)
        .map_err(|e| submit::malformed(&e).with("header", OPERATION))?;
    let account = account_of(app, &claimed, bearer(app, headers)?.as_ref())?;
    if claimed.tool != tool {
        let why = format!("an operation for `{tool}`, and not `{}`", claimed.tool);
        return Err(malformed(OPERATION, &why));
    }
    let signed: Signed = arguments(&claimed.arguments).map_err(|why| malformed(OPERATION, &why))?;
    let state = account.reader().version();
    let request = submit::prepare_operation(&state, envelope)?;
    let by = request.signer.identity;
    take(app, &account, &state, by)?;
    let now_ms = account.log_now_ms();
    may_run(&state, &request, (family, &signed.commitment), now_ms)?;
    Ok((Granted { account, by }, signed))
}

/// Takes a request of this caller's minute.
fn take(app: &App, account: &Account, state: &State, by: IdentityId) -> Result<(), Problem> {
    let rate = Rate::calls(state.settings.requests_per_minute);
    let caller = (account.origin.as_str(), by);
    app.quotas.take(caller, rate, app.boot_ms())
}

/// As long as something may be missing here, an erasure may be: nothing is given out that might have been erased.
pub(super) fn usable(account: &Account) -> Result<(), Problem> {
    let why = "bodies are neither given out nor taken until it is known that nothing of the log is missing here: what is missing may have erased one";
    let problem = || Problem::new(Code::ReadOnly, why);
    match account.log.status().stop {
        Some(Stop::Unguarded(_)) => Err(problem().retry_after(5_000)),
        Some(Stop::Guard(_)) => Err(problem().until_a_person_acts()),
        _ => Ok(()),
    }
}

/// That a body was erased, and where that stands.
pub(super) fn erased(index: u64, log_url: &str) -> Problem {
    let (code, why) = blob::is_erased(index);
    Problem::new(code, why)
        .with("erased_index", index)
        .with("evidence_url", format!("{log_url}/evidence/{index}"))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn said(headers: &[(&str, &str)]) -> Result<Said, Problem> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        Said::of(&map)
    }

    #[test]
    fn what_is_said_of_a_body_is_read_or_refused_by_name() {
        let bare = said(&[]).unwrap();
        assert_eq!(bare.media_type, "application/octet-stream");
        assert_eq!((bare.salt, bare.commitment, bare.bytes), (None, None, None));
        let digits = "ab".repeat(32);
        let full = said(&[
            ("content-type", "text/html; charset=utf-8"),
            (SALT, &digits),
            (COMMITMENT, &digits),
            ("content-length", "7"),
        ]);
        let full = full.unwrap();
        assert_eq!(full.media_type, "text/html; charset=utf-8");
        assert_eq!(full.salt, Some([0xab; 32]));
        assert_eq!(
            (full.commitment, full.bytes),
            (Some(Hash([0xab; 32])), Some(7))
        );
        let long = format!("text/{}", "x".repeat(251));
        for (name, value) in [
            ("content-type", "html"),
            ("content-type", "text/ html"),
            ("content-type", "/html"),
            ("content-type", long.as_str()),
            (SALT, "ab"),
            (COMMITMENT, "AB"),
        ] {
            let problem = said(&[(name, value)]).unwrap_err();
            assert_eq!(
                (problem.code, &problem.detail["header"]),
                (Code::Malformed, &name.into()),
                "{value}"
            );
        }
        assert!(said(&[(SALT, &digits), (SALT, &digits)]).is_err());
    }
}
