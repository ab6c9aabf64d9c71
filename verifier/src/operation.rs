//! The payload of an operation: the tool that an agent asks to be run, as it signed it.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use crate::dsse::pae;
use crate::hash::Hash;
use crate::json::{Fault, JsonError, canonical};
use crate::key::IdentityId;
use crate::leaf::{Class, Millis};
use crate::limits;
use crate::scan::{Scanner, push_string};

/// The payloadType of an operation.
pub const PAYLOAD_TYPE: &str = "application/vnd.countersign.operation+json";

/// The payloadType under which a new key signs that it is at hand.
pub const POSSESSION_TYPE: &str = "application/vnd.countersign.possession+json";

/// A head that the signer had seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Leaves in the tree.
    pub size: u64,
    /// Its root; lowercase hexadecimal in the payload, as all hashes there are.
    pub root: Hash,
}

/// What was signed. Unsigned: when to answer and what with.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The tool's name.
    pub tool: String,
    /// Its arguments: always an object.
    pub arguments: Value,
    /// The origin of the log that it is meant for.
    pub log: String,
    /// The session that it is part of.
    pub session: Option<String>,
    /// The idempotency key, 16 to 64 characters, scoped to the signer.
    pub nonce: String,
    /// When the signer signed, by its own clock.
    pub issued_at: Millis,
    /// Up to 8 leaf hashes of this key's last answered operations.
    pub prev: Vec<Hash>,
    /// A head that it had seen.
    pub observed: Option<Observed>,
}

impl Operation {
    /// Reads a payload by the strict rules of [`crate::json`]. A member of another name is refused: what
    /// is signed and not understood must not be acted on.
    ///
    /// # Errors
    /// [`JsonError`]; [`Fault::Unknown`] for a member that this release does not know.
    pub fn parse(payload: &[u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(payload)?;
        let operation = scanner.operation_payload()?;
        scanner.end()?;
        Ok(operation)
    }

    /// The payload as our own clients write it: compact, members in the order of the fields, arguments
    /// in RFC 8785 form.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut member = |name: &str, value: &dyn Fn(&mut Vec<u8>)| {
            out.push(if out.is_empty() { b'{' } else { b',' });
            push_string(&mut out, name);
            out.push(b':');
            value(&mut out);
        };
        member("tool", &|out| push_string(out, &self.tool));
        member("arguments", &|out| {
            out.extend_from_slice(canonical(&self.arguments).as_bytes())
        });
        member("log", &|out| push_string(out, &self.log));
        if let Some(session) = &self.session {
            member("session", &|out| push_string(out, session));
        }
        member("nonce", &|out| push_string(out, &self.nonce));
        member("issued_at", &|out| {
            push_string(out, &alloc::format!("{}", self.issued_at))
        });
        if !self.prev.is_empty() {
            let hashes = || {
                self.prev
                    .iter()
                    .map(|hash| Value::String(hash.to_hex()))
                    .collect()
            };
            member("prev", &|out| {
                out.extend_from_slice(canonical(&Value::Array(hashes())).as_bytes());
            });
        }
        if let Some(Observed { size, root }) = self.observed {
            let text = alloc::format!("{{\"size\":{size},\"root\":\"{root}\"}}");
            member("observed", &|out| out.extend_from_slice(text.as_bytes()));
        }
        out.push(b'}');
        out
    }
}

type Read<T> = Result<T, JsonError>;

impl Scanner<'_> {
    fn operation_payload(&mut self) -> Read<Operation> {
        let (mut tool, mut arguments, mut log, mut session) = (None, None, None, None);
        let (mut nonce, mut issued_at, mut prev, mut observed) = (None, None, None, None);
        self.object(|s, name| match name.as_ref() {
            "tool" => s.once(&mut tool, |s| {
                s.text("a tool's name", |text| {
                    (1..=64).contains(&text.len())
                        && text
                            .bytes()
                            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                })
            }),
            "arguments" => s.once(&mut arguments, |s| {
                let start = s.offset();
                let value = s.value()?;
                if value.is_object() {
                    Ok(value)
                } else {
                    s.fail_at(start, Fault::Form("an object of arguments"))
                }
            }),
            "log" => s.once(&mut log, |s| s.text("an origin", |text| !text.is_empty())),
            "session" => s.once(&mut session, |s| {
                s.text("a session", |text| !text.is_empty())
            }),
            "nonce" => s.once(&mut nonce, |s| {
                s.text("a nonce of 16 to 64 characters", |text| {
                    (16..=64).contains(&text.chars().count()) && !text.contains(char::is_control)
                })
            }),
            "issued_at" => s.once(&mut issued_at, |s| {
                s.parsed("a time like 2026-11-29T13:00:00.123Z")
            }),
            "prev" => s.once(&mut prev, Self::prev),
            "observed" => s.once(&mut observed, Self::observed),
            _ => s.fail(Fault::Unknown),
        })?;
        Ok(Operation {
            tool: self.need(tool, "tool")?,
            arguments: self.need(arguments, "arguments")?,
            log: self.need(log, "log")?,
            session,
            nonce: self.need(nonce, "nonce")?,
            issued_at: self.need(issued_at, "issued_at")?,
            prev: prev.unwrap_or_default(),
            observed,
        })
    }

    fn text(&mut self, form: &'static str, good: impl Fn(&str) -> bool) -> Read<String> {
        let start = self.offset();
        let text = self.string()?;
        if good(&text) {
            Ok(text.into_owned())
        } else {
            self.fail_at(start, Fault::Form(form))
        }
    }

    fn hex_hash(&mut self) -> Read<Hash> {
        let start = self.offset();
        let text = self.string()?;
        Hash::from_hex(&text).or_else(|_| {
            self.fail_at(
                start,
                Fault::Form("a hash of 64 lowercase hexadecimal digits"),
            )
        })
    }

    fn prev(&mut self) -> Read<Vec<Hash>> {
        let mut hashes = Vec::new();
        self.array(|s, index| {
            if index >= limits::PREV_MAX {
                return s.fail(Fault::TooMany {
                    limit: limits::PREV_MAX,
                });
            }
            hashes.push(s.hex_hash()?);
            Ok(())
        })?;
        Ok(hashes)
    }

    /// A number that a refusal can repeat: operations and what is recorded of them hold no integer beyond 2^53-1.
    fn observed_size(&mut self) -> Read<u64> {
        match self.count()? {
            size if size <= crate::json::MAX_INTEGER.unsigned_abs() => Ok(size),
            _ => self.fail(Fault::Integer),
        }
    }

    fn observed(&mut self) -> Read<Observed> {
        let (mut size, mut root) = (None, None);
        self.object(|s, name| match name.as_ref() {
            "size" => s.once(&mut size, Self::observed_size),
            "root" => s.once(&mut root, Scanner::hex_hash),
            _ => s.fail(Fault::Unknown),
        })?;
        Ok(Observed {
            size: self.need(size, "size")?,
            root: self.need(root, "root")?,
        })
    }
}

/// The payloadType under which an identity binds the key of a session.
pub const BINDING_TYPE: &str = "application/vnd.countersign.binding+json";

/// What an identity signs so that another key may sign operations in its name: in sessions of one log, in one role, until a time.
/// `session_key` is the base64 of that key's SPKI.
#[must_use]
pub fn binding_message(origin: &str, session_key: &str, role: &str, expires_at: Millis) -> Vec<u8> {
    let mut body = b"{\"origin\":".to_vec();
    push_string(&mut body, origin);
    for (name, value) in [("session_key", session_key), ("role", role)] {
        body.extend_from_slice(alloc::format!(",\"{name}\":").as_bytes());
        push_string(&mut body, value);
    }
    body.extend_from_slice(alloc::format!(",\"expires_at\":\"{expires_at}\"}}").as_bytes());
    pae(BINDING_TYPE, &body)
}

/// What a new key signs at its enrolment, to show that its private key is at hand: so that nobody
/// enrols a key that is not theirs, and no such signature serves another log, identity or class.
#[must_use]
pub fn possession_message(origin: &str, identity: IdentityId, class: Class) -> Vec<u8> {
    let mut body = b"{\"origin\":".to_vec();
    push_string(&mut body, origin);
    let rest = alloc::format!(
        ",\"identity\":\"{identity}\",\"class\":\"{}\"}}",
        class.name()
    );
    body.extend_from_slice(rest.as_bytes());
    pae(POSSESSION_TYPE, &body)
}
