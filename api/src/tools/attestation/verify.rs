//! `ars_attestation_verify`: whether a claim, a leaf, an envelope or evidence holds, by what this service knows.

use countersign_verifier::{
    hash::Hash,
    leaf::{Class, Decision, Leaf, Millis},
    operation::Operation,
    verdict::{self, Options, Status, Verdict, Verifier},
};
use serde_json::Value;

use super::{
    Claim,
    shape::{Asked, Check, Cosigner, Found, Subject},
};
use crate::{
    error::{Code, Problem},
    query,
    state::{session, verb::arguments},
    submit::{Budget, prepare_receipt},
    tools::{Handler, Hints, Tool, View, define::schema},
};

/// `ars_attestation_verify`.
pub const VERIFY: Tool = Tool {
    name: "ars_attestation_verify",
    summary: "Judges an attestation, a leaf, an envelope or evidence by this log and its policy. What does not hold is a result, not an error. Whoever does not want to take the service's word checks the evidence offline (`countersign-verify`).",
    arguments: schema::<Asked>,
    result: schema::<Found>,
    example: r#"{"index":42,"policy":{"min_attribution":"agent_key"}}"#,
    hints: Hints::READS,
    handler: Handler::Read(verify),
};

fn malformed(why: impl Into<String>) -> Problem {
    Problem::new(Code::Malformed, why)
}

fn verify(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let asked: Asked = arguments(asked).map_err(malformed)?;
    let demands = asked.policy.unwrap_or_default();
    let least = match demands.min_attribution.as_deref() {
        Some(name) => Some(rank(name).ok_or_else(|| {
            malformed("policy.min_attribution: service_key, seat_key, session_key or agent_key")
        })?),
        None => None,
    };
    let mut found = match (
        asked.attestation,
        asked.index,
        asked.leaf_hash,
        asked.envelope,
        asked.evidence,
    ) {
        (Some(token), None, None, None, None) => attested(view, &token),
        (None, Some(index), None, None, None) => leaf(view, index)?,
        (None, None, Some(hash), None, None) => {
            let hash = Hash::from_hex(&hash)
                .map_err(|_| malformed("leaf_hash: 64 lowercase hexadecimal digits"))?;
            leaf(view, query::index_of(view.reader, &hash)?)?
        }
        (None, None, None, Some(envelope), None) => enveloped(view, &envelope),
        (None, None, None, None, Some(evidence)) => {
            judged(verifier(view).evidence(evidence.to_string().as_bytes()))
        }
        _ => {
            let why = "attestation, index, leaf_hash, envelope or evidence: one of them";
            return Err(malformed(why));
        }
    };
    if let Some(quorum) = demands.quorum {
        let have = found.cosigners.len();
        let detail = format!("{have} witnesses cosigned, {quorum} are asked for");
        found
            .checks
            .push(Check::new("quorum", have >= quorum, detail));
    }
    if let Some(least) = least {
        let is = found.attribution.as_deref();
        let detail = format!("signed by a key of class {}", is.unwrap_or("unknown"));
        let enough = is.and_then(rank).is_some_and(|rank| rank >= least);
        found.checks.push(Check::new("attribution", enough, detail));
    }
    let sound = [Status::Pass.as_str(), Status::Skipped.as_str()];
    let all = found.checks.iter();
    found.verified = all
        .clone()
        .all(|check| sound.contains(&check.status.as_str()));
    serde_json::to_value(found).map_err(|e| Problem::internal(&e))
}

/// How much a class says: the more, the fewer could have signed.
fn rank(class: &str) -> Option<usize> {
    let order = [
        Class::ServiceKey,
        Class::SeatKey,
        Class::SessionKey,
        Class::AgentKey,
    ];
    order.iter().position(|c| c.name() == class)
}

fn verifier(view: &View<'_>) -> Verifier {
    let options = Options {
        now_s: Some(view.now_ms / 1_000),
        ..Options::default()
    };
    Verifier::new(view.eras.clone(), options)
}

/// A leaf of this log, by the evidence that the service would give of it.
fn leaf(view: &View<'_>, index: u64) -> Result<Found, Problem> {
    let evidence = query::evidence(view.reader, index)?;
    Ok(judged(verifier(view).evidence(&evidence.to_json())))
}

fn judged(verdict: Verdict) -> Found {
    let check = |check: verdict::Check| Check::of(check.name.as_str(), check.status, check.detail);
    let first = verdict.subjects.first();
    let by = verdict.by.as_ref();
    Found {
        verified: false,
        subject: Subject {
            index: first.map(|subject| subject.index),
            leaf_hash: first.map(|subject| subject.leaf_hash.to_hex()),
            kind: first.map(|subject| subject.kind.into()),
            at: first.and_then(|s| s.at).map(|at| at.to_string()),
            identity: by.map(|by| by.identity.to_string()),
            session_id: by.and_then(|by| by.session.clone()),
            role: None,
        },
        attribution: by.map(|by| by.class.name().into()),
        checks: verdict.checks.into_iter().map(check).collect(),
        cosigners: verdict
            .cosigners
            .into_iter()
            .map(|cosigner| Cosigner {
                name: cosigner.name,
                at: Millis(cosigner.time.saturating_mul(1_000)).to_string(),
            })
            .collect(),
    }
}

/// A result of which nothing is known but that this does not hold.
fn nothing(check: Check) -> Found {
    Found {
        verified: false,
        checks: vec![check],
        subject: Subject::default(),
        attribution: None,
        cosigners: Vec::new(),
    }
}

/// An attestation: its tag, what has become of the session since, and the leaf that says the same.
fn attested(view: &View<'_>, token: &str) -> Found {
    let (claim, tagged) = match Claim::read(token, view.seats) {
        Ok(read) => read,
        Err(why) => return nothing(Check::new("tag", false, why)),
    };
    let (good, bad) = (
        "made by this account",
        "not made by this account: nothing that it says counts",
    );
    let tag = Check::new("tag", tagged, if tagged { good } else { bad });
    if !tagged {
        return nothing(tag);
    }
    let mut found = match leaf(view, claim.index) {
        Ok(found) => found,
        Err(problem) => nothing(Check::of("leaf", Status::Unknown, problem.message)),
    };
    let agrees = agrees(view, &claim);
    let mut checks = vec![
        tag,
        Check::new(
            "account",
            claim.account == view.state.origin(),
            claim.account.clone(),
        ),
        agrees,
        alive(view, &claim),
    ];
    checks.append(&mut found.checks);
    found.checks = checks;
    found.attribution = Some(claim.class);
    found.subject = Subject {
        identity: Some(claim.identity),
        session_id: Some(claim.session),
        role: Some(claim.role),
        ..found.subject
    };
    found
}

/// Whether the leaf says what the attestation does.
fn agrees(view: &View<'_>, claim: &Claim) -> Check {
    let name = "claim";
    let Ok(Some(bytes)) = view.reader.leaf(claim.index) else {
        let why = "the leaf is not published yet";
        return Check::of(name, Status::Unknown, why);
    };
    let same = match Leaf::parse(&bytes) {
        Ok(Leaf::Operation(leaf)) => {
            let effect: Value = match leaf.decision {
                Decision::Applied { effect } => serde_json::from_str(effect).unwrap_or_default(),
                Decision::Refused { .. } => Value::Null,
            };
            let operation = Operation::parse(&leaf.envelope.payload).ok();
            let role = operation.as_ref().map(|o| &o.arguments["role"]);
            effect["session"] == claim.session.as_str()
                && effect["class"] == claim.class.as_str()
                && effect["expires_at"] == claim.expires_at.as_str()
                && role.is_some_and(|role| *role == claim.role.as_str())
                && leaf.by.identity.to_string() == claim.identity
        }
        _ => false,
    };
    let why = match same {
        true => format!("leaf {} says the same", claim.index),
        false => format!("leaf {} does not say so", claim.index),
    };
    Check::new(name, same, why)
}

/// Whether the session is still at work, and whose it is still counts.
fn alive(view: &View<'_>, claim: &Claim) -> Check {
    let name = "session";
    let identity = claim.identity.parse().ok();
    let identity = identity.and_then(|id| view.state.identities.get(&id));
    if let Some(index) = identity.and_then(|identity| identity.revoked) {
        return Check::new(name, false, format!("the identity was revoked at {index}"));
    }
    let session = session::parse_id(&claim.session);
    let session = session.and_then(|index| view.state.sessions.get(index));
    match session {
        None => Check::new(name, false, "ended, so long ago that it is not remembered"),
        Some(session) => match &session.ended {
            Some(ended) => {
                let how = ended.outcome.as_deref().unwrap_or("expired");
                let (at, index) = (Millis(ended.at), ended.index);
                Check::new(name, false, format!("ended ({how}) at {at}, leaf {index}"))
            }
            None => {
                let until = Millis(session.expires);
                let live = session.expires > view.now_ms;
                Check::new(name, live, format!("live until {until}, if not renewed"))
            }
        },
    }
}

/// An envelope: whose signatures it has, and whether this log holds its payload.
fn enveloped(view: &View<'_>, envelope: &Value) -> Found {
    let bytes = envelope.to_string().into_bytes();
    let prepared = match prepare_receipt(view.state, &bytes, false, &Budget::of(1)) {
        Ok(prepared) => prepared.request,
        Err(problem) => return nothing(Check::new("envelope", false, problem.message)),
    };
    let signers: Vec<String> = prepared
        .verified
        .iter()
        .map(|verified| verified.identity.to_string())
        .collect();
    let signed = Check::new(
        "envelope",
        true,
        format!("signed by {}", signers.join(", ")),
    );
    let payload = countersign_verifier::hash::sha256(&prepared.payload);
    let entries = query::lookup(view.reader, query::By::Payload(payload), None);
    let index = entries.ok().and_then(|entries| {
        let entries = entries["entries"].as_array().cloned().unwrap_or_default();
        let mut indexes = entries.iter().filter_map(|entry| entry["index"].as_u64());
        indexes.find(|index| holds(view, *index, &prepared.payload_type, &signers))
    });
    let Some(mut found) = index.and_then(|index| leaf(view, index).ok()) else {
        let mut found = nothing(signed);
        let why = "no published receipt of this log has this payload under these keys";
        found.checks.push(Check::new("logged", false, why));
        return found;
    };
    found.checks.insert(0, signed);
    found
}

/// Whether the receipt at `index` is of this type and by these signers.
fn holds(view: &View<'_>, index: u64, payload_type: &str, signers: &[String]) -> bool {
    let Ok(Some(bytes)) = view.reader.leaf(index) else {
        return false;
    };
    match Leaf::parse(&bytes) {
        Ok(Leaf::Receipt(receipt)) => {
            let by = receipt.signers.iter().map(ToString::to_string);
            receipt.envelope.payload_type == payload_type && by.eq(signers.iter().cloned())
        }
        _ => false,
    }
}
