//! Identities and what is taken as a receipt: the tools.

use countersign_verifier::{base64, key::IdentityId};
use serde_json::{Map, Value, json};

use super::{
    Argument, Handler, Tool,
    page::{PAGING, page},
};
use crate::{
    error::{Code, Problem},
    state::{Identity, State},
};

const PUBLIC_KEY: Argument = Argument {
    name: "public_key",
    kind: "string",
    required: true,
    about: "base64 of the key's SPKI (DER): Ed25519, ECDSA P-256 or P-384",
};

const POSSESSION: Argument = Argument {
    name: "possession",
    kind: "string",
    required: false,
    about: "base64 of the key's own signature over (origin, identity, class): `countersign key prove`. Without it the key may sign receipts and no operation",
};

const IDENTITY: Argument = Argument {
    name: "identity",
    kind: "string",
    required: true,
    about: "`id_` and 64 hexadecimal digits",
};

/// `identity_enroll`.
pub const ENROLL: Tool = Tool {
    name: "identity_enroll",
    summary: "Enrols a public key as an identity of the account. Signed by the owner.",
    arguments: &[
        Argument {
            name: "name",
            kind: "string",
            required: true,
            about: "a label, unique in the account whatever its case: 1 to 64 of A-Z a-z 0-9 . _ - @",
        },
        PUBLIC_KEY,
        Argument {
            name: "class",
            kind: "string",
            required: false,
            about: "where the key lives; `agent_key` (the default) is the only class that can be enrolled as yet",
        },
        POSSESSION,
    ],
    example: r#"{"name":"ci@example.com","public_key":"MCowBQYDK2VwAyEA7UkoxijRwsbq6QM4kFmVYSlZJzpcY/k2NsFGFKyHN9E="}"#,
    handler: Handler::Write(|arguments, effect| with(effect, arguments, "name")),
};

/// `identity_rotate`.
pub const ROTATE: Tool = Tool {
    name: "identity_rotate",
    summary: "Gives an identity another key; the id stays. Signed by the identity with its present key, or by the owner.",
    arguments: &[IDENTITY, PUBLIC_KEY, POSSESSION],
    example: r#"{"identity":"id_0000000000000000000000000000000000000000000000000000000000000000","public_key":"MCowBQYDK2VwAyEA7UkoxijRwsbq6QM4kFmVYSlZJzpcY/k2NsFGFKyHN9E="}"#,
    handler: Handler::Write(|_, effect| Value::Object(effect.clone())),
};

/// `identity_revoke`.
pub const REVOKE: Tool = Tool {
    name: "identity_revoke",
    summary: "Ends an identity: nothing that it signs counts from the next leaf on. Signed by the owner, or by the identity itself.",
    arguments: &[
        IDENTITY,
        Argument {
            name: "reason",
            kind: "string",
            required: false,
            about: "at most 256 bytes; stays in the log for ever",
        },
    ],
    example: r#"{"identity":"id_0000000000000000000000000000000000000000000000000000000000000000","reason":"left"}"#,
    handler: Handler::Write(|_, effect| Value::Object(effect.clone())),
};

/// `identity_list`.
pub const LIST: Tool = Tool {
    name: "identity_list",
    summary: "Lists the identities of the account, the revoked ones included, in order of id.",
    arguments: &PAGING,
    example: r#"{"limit":50}"#,
    handler: Handler::Read(list),
};

/// `receipt_policy`.
pub const RECEIPT_POLICY: Tool = Tool {
    name: "receipt_policy",
    summary: "Sets what the account takes as a receipt. Signed by the owner; replaces the policy before it.",
    arguments: &[
        Argument {
            name: "threshold",
            kind: "integer",
            required: false,
            about: "how many distinct enrolled keys must have signed, 1 to 16; 1 if absent",
        },
        Argument {
            name: "types",
            kind: "array of strings",
            required: false,
            about: "the payload types that are taken; absent: any",
        },
        Argument {
            name: "thresholds",
            kind: "object",
            required: false,
            about: "payload type → another threshold; with `types` at most 64 names",
        },
    ],
    example: r#"{"threshold":1,"types":["application/vnd.in-toto+json"],"thresholds":{"application/vnd.in-toto+json":2}}"#,
    handler: Handler::Write(|_, effect| Value::Object(effect.clone())),
};

fn with(effect: &Map<String, Value>, arguments: &Value, name: &str) -> Value {
    let mut result = effect.clone();
    result.insert(
        name.into(),
        arguments.get(name).cloned().unwrap_or(Value::Null),
    );
    Value::Object(result)
}

fn list(state: &State, asked: &Value) -> Result<Value, Problem> {
    let (limit, cursor) = page(asked)?;
    let after: Option<IdentityId> = match cursor {
        Some(cursor) => Some(cursor.parse().map_err(|_| {
            Problem::new(Code::Malformed, "cursor: not one of ours").with("pointer", "/cursor")
        })?),
        None => None,
    };
    let rows: Vec<&Identity> = state.identities.page(after, limit).collect();
    let next = (rows.len() == limit)
        .then(|| rows.last().map(|i| i.id.to_string()))
        .flatten();
    Ok(json!({"identities": rows.into_iter().map(row).collect::<Vec<_>>(), "next": next}))
}

/// An identity as answers show it.
#[must_use]
pub fn row(identity: &Identity) -> Value {
    let mut row = json!({
        "identity": identity.id.to_string(),
        "name": identity.name,
        "class": identity.class.name(),
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
