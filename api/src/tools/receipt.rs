//! Receipts: the tools that hand one in and find one. What is taken as a receipt is judged where those of
//! `POST /log/<account>/receipts` are.

use countersign_verifier::{
    hash::{Hash, leaf_hash, sha256},
    key::IdentityId,
    leaf::{Leaf, ReceiptLeaf},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Handler, Hints, Tool, View, define::schema};
use crate::{
    error::{Code, Problem},
    query::{self, By},
    state::verb::arguments,
    submit::{Dropped, Written},
};

/// Arguments of `receipt_submit`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Submit {
    /// The receipt: a DSSE envelope {payloadType, payload (base64), signatures [{keyid?, sig}]}, signed by enrolled keys. At most
    /// 40,000 bytes of payload and 16 signatures.
    envelope: Map<String, Value>,
}

/// What became of a receipt.
#[derive(Serialize, JsonSchema)]
struct Submitted {
    /// Whether it was there already: the entry is then its first leaf.
    duplicate: bool,
    /// What the payload is, as signed.
    payload_type: String,
    /// The SHA-256 of the payload.
    payload_sha256: String,
    /// Whose signatures the leaf has.
    signers: Vec<Signer>,
    /// Signatures that the leaf does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped_signatures: Vec<DroppedSignature>,
}

/// Who signed.
#[derive(Serialize, JsonSchema)]
struct Signer {
    /// `id_…`.
    identity: String,
    /// The name that it is enrolled by.
    name: String,
    /// Where its key lives: `agent_key`, `seat_key` or `service_key`.
    class: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct DroppedSignature {
    /// Its place in the envelope, from 0.
    position: usize,
    /// Its keyid, as it came.
    keyid: String,
    /// Why.
    reason: &'static str,
}

/// Arguments of `receipt_get`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// The index of its leaf. Exactly one of these four.
    index: Option<u64>,
    /// The hash of its leaf, 64 hexadecimal digits.
    leaf_hash: Option<String>,
    /// The SHA-256 of its payload: the earliest receipt that has it.
    payload_sha256: Option<String>,
    /// The SHA-256 of a subject of its in-toto statement: the earliest receipt that has it.
    subject_sha256: Option<String>,
    /// With one of the latter two: the earliest beyond this index.
    after: Option<u64>,
    /// `envelope`: the whole receipt as it is stored, up to 53 KB and signatures.
    include: Option<Vec<Include>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Include {
    Envelope,
}

/// A receipt.
#[derive(Serialize, JsonSchema)]
struct Receipt {
    /// The index of its leaf.
    index: u64,
    /// The hash of its leaf.
    leaf_hash: String,
    /// When it was taken, by log time.
    at: String,
    /// What the payload is, as signed.
    payload_type: String,
    /// Bytes of the payload.
    payload_bytes: usize,
    /// The SHA-256 of the payload.
    payload_sha256: String,
    /// Whose signatures it has.
    signers: Vec<Signer>,
    /// Where its evidence is.
    evidence_url: String,
    /// Whether there are later ones with this payload or subject: `after` this index.
    has_more: bool,
    /// The envelope as it is stored: {payloadType, payload, signatures [{keyid, sig}]}.
    #[serde(skip_serializing_if = "Option::is_none")]
    envelope: Option<Map<String, Value>>,
}

/// `receipt_submit`.
pub const SUBMIT: Tool = Tool {
    name: "receipt_submit",
    summary: "Hands in a signed receipt, as `POST /log/<account>/receipts` does. Its own signatures authenticate it: whoever calls adds nothing to them. The same again is answered with its first leaf.",
    arguments: schema::<Submit>,
    result: schema::<Submitted>,
    example: r#"{"envelope":{"payloadType":"application/vnd.example+json","payload":"eyJ0ZXN0cyI6InBhc3NlZCJ9","signatures":[{"keyid":"id_0000000000000000000000000000000000000000000000000000000000000000","sig":"AAAA"}]}}"#,
    hints: Hints::WRITES,
    handler: Handler::Receipt,
};

/// `receipt_get`.
pub const GET: Tool = Tool {
    name: "receipt_get",
    summary: "Finds a published receipt by its leaf, its payload or a subject of its statement: who signed it, what it is, and where its evidence is.",
    arguments: schema::<Get>,
    result: schema::<Receipt>,
    example: r#"{"payload_sha256":"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae","include":["envelope"]}"#,
    hints: Hints::READS,
    handler: Handler::Read(get),
};

/// The envelope among the arguments of `receipt_submit`, as its own door would have read it.
///
/// # Errors
/// `Malformed`.
pub fn envelope(asked: &Value) -> Result<Vec<u8>, Problem> {
    let asked: Submit = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    Ok(Value::Object(asked.envelope).to_string().into_bytes())
}

/// The result of `receipt_submit`.
///
/// # Errors
/// A fault of the service where the leaf cannot be read.
pub fn submitted(
    view: &View<'_>,
    written: &Written,
    dropped: &[Dropped],
) -> Result<Value, Problem> {
    let leaf = Leaf::parse(&written.leaf.leaf).map_err(|e| Problem::internal(&e))?;
    let Leaf::Receipt(receipt) = leaf else {
        return Err(Problem::internal(
            &"a receipt was answered with another kind of leaf",
        ));
    };
    let dropped = dropped.iter().map(|d| DroppedSignature {
        position: d.position,
        keyid: d.keyid.clone(),
        reason: d.reason,
    });
    let result = Submitted {
        duplicate: written.leaf.existing,
        payload_type: receipt.envelope.payload_type.clone(),
        payload_sha256: sha256(&receipt.envelope.payload).to_hex(),
        signers: signers(view, &receipt),
        dropped_signatures: dropped.collect(),
    };
    serde_json::to_value(result).map_err(|e| Problem::internal(&e))
}

fn signers(view: &View<'_>, receipt: &ReceiptLeaf) -> Vec<Signer> {
    let signer = |id: &IdentityId| {
        let known = view.state.identities.get(id);
        Signer {
            identity: id.to_string(),
            name: known.map_or_else(String::new, |identity| identity.name.clone()),
            class: known.map_or("", |identity| identity.class.name()),
        }
    };
    receipt.signers.iter().map(signer).collect()
}

fn get(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let asked: Get = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    let (index, has_more) = find(view, &asked)?;
    let bytes = query::published_leaf(view.reader, index)?;
    let leaf = Leaf::parse(&bytes).map_err(|e| Problem::internal(&e))?;
    let Leaf::Receipt(receipt) = leaf else {
        let why = format!("leaf {index} is no receipt");
        return Err(Problem::new(Code::NotFound, why).with("kind", leaf.kind()));
    };
    let includes = asked.include.unwrap_or_default();
    let envelope = match includes.contains(&Include::Envelope) {
        true => serde_json::from_slice(&receipt.envelope.to_json())
            .map_err(|e| Problem::internal(&e))?,
        false => None,
    };
    let found = Receipt {
        index,
        leaf_hash: leaf_hash(&bytes).to_hex(),
        at: receipt.at.to_string(),
        payload_type: receipt.envelope.payload_type.clone(),
        payload_bytes: receipt.envelope.payload.len(),
        payload_sha256: sha256(&receipt.envelope.payload).to_hex(),
        signers: signers(view, &receipt),
        evidence_url: format!("{}/evidence/{index}", view.log_url),
        has_more,
        envelope,
    };
    serde_json::to_value(found).map_err(|e| Problem::internal(&e))
}

/// The leaf that is meant, and whether later ones are too.
fn find(view: &View<'_>, asked: &Get) -> Result<(u64, bool), Problem> {
    let by = match (
        asked.index,
        &asked.leaf_hash,
        &asked.payload_sha256,
        &asked.subject_sha256,
    ) {
        (Some(index), None, None, None) => return Ok((index, false)),
        (None, Some(hash), None, None) => {
            let index = query::index_of(view.reader, &digest("leaf_hash", hash)?)?;
            return Ok((index, false));
        }
        (None, None, Some(payload), None) => By::Payload(digest("payload_sha256", payload)?),
        (None, None, None, Some(subject)) => By::Subject(digest("subject_sha256", subject)?),
        _ => {
            let why = "exactly one of index, leaf_hash, payload_sha256 and subject_sha256";
            return Err(Problem::new(Code::Malformed, why));
        }
    };
    let found = query::lookup(view.reader, by, asked.after)?;
    let published = view.reader.published().head.size;
    let indexes: Vec<u64> = found["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["index"].as_u64())
        .filter(|index| *index < published)
        .collect();
    match indexes.first() {
        Some(first) => Ok((*first, indexes.len() > 1 || !found["next"].is_null())),
        None => Err(Problem::new(
            Code::NotFound,
            "no published receipt has this payload or subject",
        )),
    }
}

fn digest(name: &str, text: &str) -> Result<Hash, Problem> {
    Hash::from_hex(text).map_err(|_| {
        let why = format!("{name}: 64 lowercase hexadecimal digits");
        Problem::new(Code::Malformed, why).with("pointer", format!("/{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_goes_on_as_it_came() {
        let example: Value = serde_json::from_str(SUBMIT.example).unwrap();
        let bytes = envelope(&example).unwrap();
        let parsed = countersign_verifier::dsse::Envelope::parse(&bytes).unwrap();
        assert_eq!(parsed.payload, br#"{"tests":"passed"}"#);
        for bad in ["{}", r#"{"envelope":"x"}"#, r#"{"envelope":{},"more":1}"#] {
            let bad: Value = serde_json::from_str(bad).unwrap();
            assert_eq!(envelope(&bad).unwrap_err().code, Code::Malformed, "{bad}");
        }
        let example: Value = serde_json::from_str(GET.example).unwrap();
        assert!(arguments::<Get>(&example).is_ok());
        assert!(
            digest("leaf_hash", "ABC")
                .unwrap_err()
                .message
                .starts_with("leaf_hash")
        );
    }
}
