//! Operations that the service signs for a seat: a client with a token and no key.

use std::time::Duration;

use countersign_verifier::{
    base64,
    dsse::{Envelope, pae},
    hash::sha256,
    key::{IdentityId, PrivateKey},
    leaf::{Class, Leaf, Millis},
    operation::{Operation, PAYLOAD_TYPE},
};
use serde_json::{Value, json};

use super::{Wait, Wanted, prepare_operation, write};
use crate::{
    account::Account,
    error::{Code, Problem},
    ledger::{OperationRequest, Recorded, Request, Verified, decision_of},
    seat::OWNER_SEAT,
    state::Identity,
};

/// After so long an enrolment that was refused may be asked for anew, in milliseconds.
const AGAIN_MS: u64 = 10_000;

/// Signs `operation` with the key that the service keeps for `identity`.
///
/// # Errors
/// `KeyRequired` where that key is not with the service.
pub fn sign_for_seat(
    account: &Account,
    identity: &Identity,
    operation: Operation,
) -> Result<OperationRequest, Problem> {
    let key = account.seats.key(&identity.name);
    let sha256 = key.public().identity().0;
    if identity.class != Class::SeatKey || sha256 != identity.key.sha256 {
        let why = format!(
            "the key of `{}` is not with the service, so its token only reads: sign the call (`signed`; `countersign call` and `countersign shim` do)",
            identity.name
        );
        return Err(Problem::new(Code::KeyRequired, why));
    }
    let payload = operation.to_json();
    let signature = key.sign(&pae(PAYLOAD_TYPE, &payload));
    Ok(OperationRequest {
        operation,
        payload,
        signer: Verified {
            identity: identity.id,
            key: sha256,
            signature,
        },
    })
}

/// The seat of whoever holds the owner's token: enrolled at the first call that needs it, by the owner's key where that lies with
/// the service. Without it the owner's token only reads.
///
/// # Errors
/// `KeyRequired` where the owner's key is elsewhere; what the writer says, or the leaf that refuses the enrolment.
pub async fn owner_seat(
    account: &Account,
    owner: impl FnOnce() -> Option<PrivateKey>,
    now: Millis,
) -> Result<IdentityId, Problem> {
    let (key, id, proof) = account.seats.possession(OWNER_SEAT);
    let version = account.reader().version();
    if version.identities.get(&id).is_some() {
        return Ok(id);
    }
    let Some(owner) = owner().filter(|key| Some(key.public().identity()) == version.owner()) else {
        let why = "the owner's token only reads here, since the owner's key is elsewhere: sign the call, or use the token of a seat (`countersign token new`)";
        return Err(Problem::new(Code::KeyRequired, why));
    };
    let operation = Operation {
        tool: "identity_enroll".into(),
        arguments: json!({
            "name": OWNER_SEAT,
            "public_key": base64::encode(&key.public().spki_der()),
            "class": Class::SeatKey.name(),
            "roles": ["owner"],
            "possession": base64::encode(&proof),
        }),
        log: account.origin.clone(),
        session: None,
        // Two calls at once are one enrolment; one that was refused is asked for again, since what stood in its way may have gone.
        nonce: sha256(format!("{id} {}", now.0 / AGAIN_MS).as_bytes()).to_hex(),
        issued_at: now,
        prev: Vec::new(),
        observed: None,
    };
    let envelope = Envelope::sign(PAYLOAD_TYPE, &operation.to_json(), &[owner]);
    let request = prepare_operation(&version, envelope)?;
    let wanted = Wanted {
        wait: Wait::Sequenced,
        deadline: Duration::from_secs(5),
        proof: false,
    };
    let requests = vec![Request::Operation(Box::new(request))];
    let mut written = write(account, requests, wanted).await?;
    // OK because one request has one answer.
    let written = written.pop().expect("owner_seat")?;
    if account.reader().version().identities.get(&id).is_some() {
        return Ok(id);
    }
    let leaf = Leaf::parse(&written.leaf.leaf).map_err(|e| Problem::internal(&e))?;
    Err(
        match decision_of(&leaf).map_err(|e| Problem::internal(&e))? {
            Recorded::Refused(code, detail) => {
                let said = detail.get("message").and_then(Value::as_str);
                let why = format!(
                    "the owner's token has no seat, since `{OWNER_SEAT}` could not be enrolled (leaf {}): {}",
                    written.leaf.index,
                    said.unwrap_or(code.title())
                );
                Problem::new(code, why)
            }
            Recorded::Applied(_) => Problem::internal(&"an enrolled seat is not there"),
        },
    )
}
