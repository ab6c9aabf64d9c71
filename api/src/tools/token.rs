//! Seats and tokens: the tools.

use countersign_verifier::{base64, hash::Hash, leaf::Millis};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Handler, Hints, Tool, View,
    define::{any_object, schema},
    page::{Page, page},
};
use crate::{
    error::{Code, Problem},
    state::{
        State,
        identity::is_name,
        token::{New, Revoke, Token},
        verb::arguments,
    },
};

/// Arguments of `seat_get`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Seat {
    /// The seat's name: 1 to 64 of `A-Z a-z 0-9 . _ - @`. It need not be enrolled.
    name: String,
}

/// What enrols a seat.
#[derive(Serialize, JsonSchema)]
struct SeatKey {
    /// The name, as it was asked for.
    name: String,
    /// The identity that this key is, or would be.
    identity: String,
    /// Base64 of the SPKI of the key that the service keeps for it.
    public_key: String,
    /// Base64 of its own signature over (origin, identity, `seat_key`): `possession` of `identity_enroll`.
    possession: String,
    /// Whether it is enrolled.
    enrolled: bool,
}

/// `seat_get`.
pub const SEAT: Tool = Tool {
    name: "seat_get",
    summary: "The public key that the service keeps for a seat of this name, with the proof that enrols it (`identity_enroll` with class `seat_key`).",
    arguments: schema::<Seat>,
    result: schema::<SeatKey>,
    example: r#"{"name":"builder-1"}"#,
    hints: Hints::READS,
    handler: Handler::Read(seat),
};

/// `token_new`.
pub const NEW: Tool = Tool {
    name: "token_new",
    summary: "Makes a token good, by its hash. Signed with an agent_key: the owner's, or the identity's own.",
    arguments: schema::<New>,
    result: any_object,
    example: r#"{"identity":"id_0000000000000000000000000000000000000000000000000000000000000000","token_sha256":"0000000000000000000000000000000000000000000000000000000000000000","ttl_s":86400}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

/// `token_revoke`.
pub const REVOKE: Tool = Tool {
    name: "token_revoke",
    summary: "Ends a token. Signed by the owner, or by the identity whose token it is.",
    arguments: schema::<Revoke>,
    result: any_object,
    example: r#"{"token_sha256":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
    hints: Hints::ENDS,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

/// `token_list`.
pub const LIST: Tool = Tool {
    name: "token_list",
    summary: "Lists the tokens of the account by their hashes, the ended ones included.",
    arguments: schema::<Page>,
    result: any_object,
    example: r#"{"limit":50}"#,
    hints: Hints::READS,
    handler: Handler::Read(list),
};

fn seat(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let Seat { name } = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    is_name(&name).map_err(|why| Problem::new(Code::Malformed, why))?;
    let (key, id, proof) = view.seats.possession(&name);
    let seat = SeatKey {
        identity: id.to_string(),
        public_key: base64::encode(&key.public().spki_der()),
        possession: base64::encode(&proof),
        enrolled: view.state.identities.get(&id).is_some(),
        name,
    };
    serde_json::to_value(seat).map_err(|e| Problem::internal(&e))
}

fn list(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let limit = page(asked)?;
    let after = view.after(|after| Hash::from_hex(after).ok())?;
    let rows: Vec<_> = view.state.tokens.page(after, limit).collect();
    let full = (rows.len() == limit).then(|| rows.last()).flatten();
    let next = view.next(full.map(|(hash, _)| hash.to_hex()));
    let row = |(hash, token): &(&Hash, &Token)| row(view.state, view.now_ms, hash, token);
    Ok(json!({"tokens": rows.iter().map(row).collect::<Vec<_>>(), "next": next}))
}

/// A token as answers show it, in this state and at this log time.
pub(super) fn row(state: &State, now_ms: u64, hash: &Hash, token: &Token) -> Value {
    let whose = state.identities.get(&token.identity);
    json!({
        "token_sha256": hash.to_hex(),
        "identity": token.identity.to_string(),
        "name": whose.map(|identity| identity.name.as_str()),
        "index": token.index,
        "expires_at": token.expires.map(|ms| Millis(ms).to_string()),
        "revoked_index": token.revoked,
        "good": token.is_good(now_ms),
    })
}
