//! Judging what one leaf says, apart from where it stands.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::body;
use super::head::{Head, Shown};
use super::signers::{self, Known};
use super::{Found, Options, Status, Subject, found};
use crate::dsse::Envelope;
use crate::hash::{Hash, sha256};
use crate::json::{Fault, JsonError};
use crate::leaf::{By, Decision, Leaf, LeafError};
use crate::operation::{self, Operation};
use crate::statement::{self, Statement};

/// What one leaf came to.
pub(super) struct Judged {
    pub(super) subject: Subject,
    pub(super) by: Option<By>,
    pub(super) leaf: Found,
    pub(super) envelope: Found,
    pub(super) signers: Found,
    /// What an operation says itself, whatever the reader compares it with.
    pub(super) operation: Option<Found>,
    /// What the reader compares the payload with.
    pub(super) payload: Found,
    pub(super) witnesses: Found,
}

/// A leaf and where it stands.
pub(super) struct Placed<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) hash: Hash,
    pub(super) index: u64,
    /// Whether the bytes may be those of another application, which only a log knows.
    pub(super) foreign: bool,
}

pub(super) fn judge(placed: &Placed<'_>, head: &Head, shown: &Shown, options: &Options) -> Judged {
    let subject = Subject {
        index: placed.index,
        leaf_hash: placed.hash,
        kind: "other",
        at: None,
        payload_type: None,
        payload_bytes: None,
        payload_sha256: None,
    };
    let size = placed.bytes.len();
    if placed.foreign && !placed.bytes.starts_with(b"{\"v\":") {
        return unread(
            subject,
            head,
            options,
            found(
                Status::Pass,
                format!("{size} bytes of another application, taken as they are"),
            ),
        );
    }
    match Leaf::parse(placed.bytes) {
        Ok(leaf) => read(&leaf, subject, size, head, shown, options),
        Err(error @ LeafError::Newer) => unread(
            subject,
            head,
            options,
            found(Status::Unknown, format!("unsupported version: {error}")),
        ),
        Err(error) => unread(
            subject,
            head,
            options,
            found(Status::Fail, format!("malformed leaf: {error}")),
        ),
    }
}

/// A leaf whose content cannot be judged, or need not be.
fn unread(subject: Subject, head: &Head, options: &Options, leaf: Found) -> Judged {
    let why = "the leaf has no envelope that is read";
    let payload = match leaf.0 {
        Status::Pass => no_payload("the leaf has no signed payload", why, options),
        _ => found(Status::Skipped, why),
    };
    unsigned(subject, leaf, why, payload, head.witnesses(None))
}

/// A leaf without signatures to judge, for the reason `why`.
fn unsigned(subject: Subject, leaf: Found, why: &str, payload: Found, witnesses: Found) -> Judged {
    Judged {
        subject,
        by: None,
        leaf,
        envelope: found(Status::Skipped, why),
        signers: found(Status::Skipped, why),
        operation: None,
        payload,
        witnesses,
    }
}

/// The payload's check where there is none: a fault if the reader asked about it.
fn no_payload(fault: &str, why: &str, options: &Options) -> Found {
    if options.compares() {
        found(Status::Fail, fault)
    } else {
        found(Status::Skipped, why)
    }
}

fn read(
    leaf: &Leaf<'_>,
    mut subject: Subject,
    size: usize,
    head: &Head,
    shown: &Shown,
    options: &Options,
) -> Judged {
    subject.kind = leaf.kind();
    subject.at = Some(leaf.at());
    let witnesses = head.witnesses(subject.at);
    let hash = subject.leaf_hash.to_hex();
    let described = |what: &str| format!("{what}, {size} bytes, leaf hash {hash}");
    let (Some(by), Some(envelope)) = (leaf.by(), leaf.envelope()) else {
        let event = if let Leaf::System(leaf) = leaf {
            leaf.event_type
        } else {
            ""
        };
        let leaf = found(Status::Pass, described(&format!("system leaf, {event}")));
        let why = "the service's own statement, which nobody else signed";
        let payload = no_payload("a system leaf has no signed payload", why, options);
        return unsigned(subject, leaf, why, payload, witnesses);
    };
    let what = match leaf {
        Leaf::Operation(leaf) => {
            let decision = match leaf.decision {
                Decision::Applied { .. } => "applied",
                Decision::Refused { code, .. } => code,
            };
            described(&format!("operation, {decision}"))
                + "; that the decision follows the rules is the operator's word until an audit"
        }
        _ => described("receipt"),
    };
    let pins = options.keys.as_deref();
    let (mut judged, signers) = signers::judge(
        envelope,
        &Known {
            index: subject.index,
            at: leaf.at(),
            by,
            operation: matches!(leaf, Leaf::Operation(_)),
            shown,
            pins,
        },
    );
    let (kind, payload_type) = (leaf.kind(), &envelope.payload_type);
    let is_operation = payload_type == operation::PAYLOAD_TYPE;
    if is_operation != matches!(leaf, Leaf::Operation(_)) || payload_type.is_empty() {
        let detail = format!("payload type {payload_type:?} in a leaf of kind {kind}");
        judged = found(Status::Fail, detail);
    }
    let operation = is_operation.then(|| operation(envelope, head));
    let payload = compared(envelope, head, options);
    subject.payload_type = Some(envelope.payload_type.clone());
    subject.payload_bytes = Some(envelope.payload.len());
    subject.payload_sha256 = Some(sha256(&envelope.payload));
    Judged {
        subject,
        by: Some(by.clone()),
        leaf: found(Status::Pass, what),
        envelope: judged,
        signers,
        operation,
        payload,
        witnesses,
    }
}

/// The payload beside what the reader holds.
fn compared(envelope: &Envelope, head: &Head, options: &Options) -> Found {
    let mut all: Vec<Found> = Vec::new();
    if let Some(due) = &options.payload {
        all.push(equal(&envelope.payload, due));
    }
    if let Some(artifact) = &options.artifact {
        all.push(speaks_of(envelope, artifact));
    }
    all.extend(body::compared(envelope, head, options));
    if all.is_empty() {
        let what = match statement::is_payload_type(&envelope.payload_type) {
            true => "an in-toto statement; compare what it speaks of with --artifact",
            false => "opaque bytes; compare them with --payload or --body",
        };
        return found(Status::Skipped, what);
    }
    signers::worst(all)
}

fn operation(envelope: &Envelope, head: &Head) -> Found {
    match Operation::parse(&envelope.payload) {
        Ok(operation) => match &head.checkpoint {
            Some(checkpoint) if checkpoint.origin != operation.log => {
                let (log, origin) = (operation.log, &checkpoint.origin);
                found(
                    Status::Fail,
                    format!("signed for log {log:?}, found in {origin:?}"),
                )
            }
            _ => {
                let (tool, log, issued) = (operation.tool, operation.log, operation.issued_at);
                found(
                    Status::Pass,
                    format!(
                        "operation {tool} for log {log:?}, signed at {issued} by the signer's clock"
                    ),
                )
            }
        },
        Err(
            error @ JsonError {
                what: Fault::Unknown,
                ..
            },
        ) => found(
            Status::Unknown,
            format!("an operation of a newer form: {error}"),
        ),
        Err(error) => found(Status::Fail, format!("not an operation: {error}")),
    }
}

fn equal(signed: &[u8], due: &[u8]) -> Found {
    if signed == due {
        return found(
            Status::Pass,
            format!("the signed payload equals the file of {} bytes", due.len()),
        );
    }
    let first = signed
        .iter()
        .zip(due)
        .position(|(a, b)| a != b)
        .unwrap_or(signed.len().min(due.len()));
    let (signed, due) = (signed.len(), due.len());
    let detail = format!(
        "the signed payload of {signed} bytes differs from the file of {due} bytes, from byte {first} on"
    );
    found(Status::Fail, detail)
}

fn speaks_of(envelope: &Envelope, artifact: &Hash) -> Found {
    if !statement::is_payload_type(&envelope.payload_type) {
        let detail = format!(
            "a payload of type {:?} is no in-toto statement",
            envelope.payload_type
        );
        return found(Status::Fail, detail);
    }
    let hex: String = artifact.to_hex();
    match Statement::parse(&envelope.payload) {
        Ok(statement) if statement.speaks_of(artifact) => {
            let kind = statement.predicate_type;
            found(
                Status::Pass,
                format!("the statement ({kind}) has subject sha256 {hex}"),
            )
        }
        Ok(statement) => {
            let count = statement.subjects.len();
            found(
                Status::Fail,
                format!("none of the statement's {count} subjects has sha256 {hex}"),
            )
        }
        Err(error) => found(Status::Fail, format!("not an in-toto statement: {error}")),
    }
}
