//! Operations that the service signs for a seat: a client with a token and no key.

use std::time::Duration;

use countersign_verifier::{
    base64,
    dsse::{Envelope, pae},
    hash::sha256,
    key::{IdentityId, PrivateKey},
    leaf::Class,
    operation::{Operation, PAYLOAD_TYPE},
};
use serde_json::json;

use super::{Wait, Wanted, prepare_operation, write};
use crate::{
    account::Account,
    error::{Code, Problem},
    ledger::{OperationRequest, Request, Verified},
    seat::OWNER_SEAT,
    state::Identity,
};

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
/// `KeyRequired` where the owner's key is elsewhere; what the writer says.
pub async fn owner_seat(
    account: &Account,
    owner: Option<PrivateKey>,
    now: countersign_verifier::leaf::Millis,
) -> Result<IdentityId, Problem> {
    let (key, id, proof) = account.seats.possession(OWNER_SEAT);
    let version = account.reader().version();
    if version.identities.get(&id).is_some() {
        return Ok(id);
    }
    let Some(owner) = owner.filter(|key| Some(key.public().identity()) == version.owner()) else {
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
        // Two calls at once are one enrolment.
        nonce: sha256(id.to_string().as_bytes()).to_hex(),
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
    // OK because one request has one answer.
    write(account, requests, wanted)
        .await?
        .pop()
        .expect("owner_seat")?;
    match account.reader().version().identities.get(&id) {
        Some(seat) => Ok(seat.id),
        None => Err(Problem::new(
            Code::NameTaken,
            format!(
                "another identity is called `{OWNER_SEAT}`, so the owner's token has no seat: use the token of another one"
            ),
        )),
    }
}
