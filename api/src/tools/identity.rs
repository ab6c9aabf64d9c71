//! Identities and what is taken as a receipt: the tools.

use countersign_verifier::{base64, key::IdentityId};
use serde_json::{Map, Value, json};

use super::{
    Handler, Hints, Tool, View,
    define::{any_object, schema},
    page::{Page, page},
};
use crate::{
    error::Problem,
    state::{
        Identity, ReceiptPolicy,
        identity::{Enroll, Revoke, Rotate},
    },
};

/// `identity_enroll`.
pub const ENROLL: Tool = Tool {
    name: "identity_enroll",
    summary: "Enrols a public key as an identity of the account. Signed by the owner.",
    arguments: schema::<Enroll>,
    result: any_object,
    example: r#"{"name":"ci@example.com","public_key":"MCowBQYDK2VwAyEA7UkoxijRwsbq6QM4kFmVYSlZJzpcY/k2NsFGFKyHN9E="}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| with(done.effect, &done.operation.arguments, "name")),
};

/// `identity_rotate`.
pub const ROTATE: Tool = Tool {
    name: "identity_rotate",
    summary: "Gives an identity another key; the id stays. Signed by the identity with its present key, or by the owner.",
    arguments: schema::<Rotate>,
    result: any_object,
    example: r#"{"identity":"id_0000000000000000000000000000000000000000000000000000000000000000","public_key":"MCowBQYDK2VwAyEA7UkoxijRwsbq6QM4kFmVYSlZJzpcY/k2NsFGFKyHN9E="}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

/// `identity_revoke`.
pub const REVOKE: Tool = Tool {
    name: "identity_revoke",
    summary: "Ends an identity: nothing that it signs counts from the next leaf on. Signed by the owner, or by the identity itself.",
    arguments: schema::<Revoke>,
    result: any_object,
    example: r#"{"identity":"id_0000000000000000000000000000000000000000000000000000000000000000","reason":"left"}"#,
    hints: Hints::ENDS,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

/// `identity_list`.
pub const LIST: Tool = Tool {
    name: "identity_list",
    summary: "Lists the identities of the account, the revoked ones included, in order of id.",
    arguments: schema::<Page>,
    result: any_object,
    example: r#"{"limit":50}"#,
    hints: Hints::READS,
    handler: Handler::Read(list),
};

/// `receipt_policy`.
pub const RECEIPT_POLICY: Tool = Tool {
    name: "receipt_policy",
    summary: "Sets what the account takes as a receipt. Signed by the owner; replaces the policy before it.",
    arguments: schema::<ReceiptPolicy>,
    result: any_object,
    example: r#"{"threshold":1,"types":["application/vnd.in-toto+json"],"thresholds":{"application/vnd.in-toto+json":2}}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| Value::Object(done.effect.clone())),
};

fn with(effect: &Map<String, Value>, arguments: &Value, name: &str) -> Value {
    let mut result = effect.clone();
    result.insert(
        name.into(),
        arguments.get(name).cloned().unwrap_or(Value::Null),
    );
    Value::Object(result)
}

fn list(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let limit = page(asked)?;
    let after: Option<IdentityId> = view.after(|after| after.parse().ok())?;
    let rows: Vec<&Identity> = view.state.identities.page(after, limit).collect();
    let full = (rows.len() == limit).then(|| rows.last()).flatten();
    let next = view.next(full.map(|identity| identity.id.to_string()));
    Ok(json!({"identities": rows.into_iter().map(row).collect::<Vec<_>>(), "next": next}))
}

/// An identity as answers show it.
#[must_use]
pub fn row(identity: &Identity) -> Value {
    let mut row = json!({
        "identity": identity.id.to_string(),
        "name": identity.name,
        "class": identity.class.name(),
        "roles": identity.roles,
        "algorithm": identity.key.public.algorithm().name(),
        "public_key": base64::encode(&identity.key.public.spki_der()),
        "possession": identity.possession.name(),
        "enrolled_index": identity.enrolled.map_or(0, |c| c.index),
    });
    if let Some(change) = identity.rotations.last() {
        row["rotated_index"] = change.index.into();
    }
    if let Some(index) = identity.revoked {
        row["revoked_index"] = index.into();
    }
    row
}
