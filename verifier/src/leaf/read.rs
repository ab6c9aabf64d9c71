//! Reading leaves: only what the writers could have written.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{By, Class, Decision, Leaf, LeafError, Millis, OperationLeaf, ReceiptLeaf, SystemLeaf};
use crate::base64;
use crate::dsse::{Envelope, Signature};
use crate::json::{Fault, JsonError};
use crate::key::IdentityId;
use crate::limits;
use crate::scan::{Scanner, push_string};

type Read<T> = Result<T, JsonError>;

impl<'a> Leaf<'a> {
    /// Reads a leaf.
    ///
    /// # Errors
    /// [`LeafError::TooLarge`] above 65,535 bytes; [`LeafError::Newer`] for another `v` or `kind`;
    /// [`LeafError::Form`] for another order of members, white space between tokens, other spellings,
    /// signatures out of order, and whatever else no writer of leaves writes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LeafError> {
        if bytes.len() > limits::ENTRY_BYTES_MAX {
            return Err(LeafError::TooLarge { bytes: bytes.len() });
        }
        let mut scanner = Scanner::compact(bytes)?;
        scanner.literal("{\"v\":")?;
        if scanner.count()? != 1 {
            return Err(LeafError::Newer);
        }
        scanner.literal(",\"kind\":")?;
        let kind = scanner.exact()?;
        scanner.literal(",\"at\":")?;
        let at = scanner.parsed::<Millis>("a time like 2026-11-29T13:00:00.123Z")?;
        let leaf = match kind.as_ref() {
            "operation" => Self::Operation(scanner.operation(at)?),
            "receipt" => Self::Receipt(scanner.receipt(at)?),
            "system" => Self::System(scanner.system(at)?),
            _ => return Err(LeafError::Newer),
        };
        scanner.literal("}")?;
        scanner.end()?;
        Ok(leaf)
    }
}

impl<'a> Scanner<'a> {
    /// A string in its shortest spelling.
    fn exact(&mut self) -> Read<Cow<'a, str>> {
        let start = self.offset();
        let text = self.string()?;
        if let Cow::Owned(text) = &text {
            let mut again = Vec::new();
            push_string(&mut again, text);
            if again != self.since(start).as_bytes() {
                return self.fail_at(start, Fault::Spelling);
            }
        }
        Ok(text)
    }

    pub(crate) fn parsed<T: core::str::FromStr>(&mut self, form: &'static str) -> Read<T> {
        let start = self.offset();
        let text = self.string()?;
        text.parse()
            .or_else(|_| self.fail_at(start, Fault::Form(form)))
    }

    pub(crate) fn identity(&mut self) -> Read<IdentityId> {
        self.parsed("an identity: id_ and 64 lowercase hexadecimal digits")
    }

    /// One compact JSON object by the strict rules, as raw text.
    fn raw_object(&mut self) -> Read<&'a str> {
        let start = self.offset();
        if self.peek() != Some(b'{') {
            return self.fail(Fault::Unexpected { due: "an object" });
        }
        self.value()?;
        Ok(self.since(start))
    }

    pub(crate) fn strict_base64(&mut self, limit: usize) -> Read<Vec<u8>> {
        let start = self.offset();
        let text = self.string()?;
        match base64::decode(&text) {
            Ok(bytes) if bytes.len() <= limit => Ok(bytes),
            Ok(bytes) => self.fail_at(
                start,
                Fault::TooLarge {
                    limit,
                    bytes: bytes.len(),
                },
            ),
            Err(error) => self.fail_at(start, Fault::Base64(error)),
        }
    }

    fn by(&mut self) -> Read<By> {
        self.literal(",\"by\":{\"identity\":")?;
        let identity = self.identity()?;
        self.literal(",\"class\":")?;
        let start = self.offset();
        let Some(class) = Class::from_name(&self.string()?) else {
            return self.fail_at(start, Fault::Form("a class of keys"));
        };
        let session = if self.take(",\"session\":") {
            Some(self.exact()?.into_owned())
        } else {
            None
        };
        self.literal("}")?;
        Ok(By {
            identity,
            class,
            session,
        })
    }

    /// A stored envelope, and its keyids as identities.
    fn stored(&mut self) -> Read<(Envelope, Vec<IdentityId>)> {
        self.literal(",\"envelope\":{\"payloadType\":")?;
        let start = self.offset();
        let payload_type = self.exact()?.into_owned();
        let (limit, bytes) = (limits::PAYLOAD_TYPE_BYTES_MAX, payload_type.len());
        if bytes > limit {
            return self.fail_at(start, Fault::TooLarge { limit, bytes });
        }
        self.literal(",\"payload\":")?;
        let payload = self.strict_base64(limits::PAYLOAD_BYTES_MAX)?;
        self.literal(",\"signatures\":")?;
        let start = self.offset();
        let (mut signatures, mut signers) = (Vec::new(), Vec::new());
        self.array(|scanner, index| {
            if index >= limits::SIGNATURES_MAX {
                return scanner.fail(Fault::TooMany {
                    limit: limits::SIGNATURES_MAX,
                });
            }
            scanner.literal("{\"keyid\":")?;
            let start = scanner.offset();
            let signer = scanner.identity()?;
            if signers.last().is_some_and(|last| *last >= signer) {
                return scanner.fail_at(start, Fault::Form("in ascending order of the signers"));
            }
            let keyid = scanner.since(start).trim_matches('"').into();
            scanner.literal(",\"sig\":")?;
            let sig = scanner.strict_base64(limits::SIGNATURE_BYTES_MAX)?;
            scanner.literal("}")?;
            signatures.push(Signature { keyid, sig });
            signers.push(signer);
            Ok(())
        })?;
        if signatures.is_empty() {
            return self.fail_at(start, Fault::Form("at least one signature"));
        }
        self.literal("}")?;
        Ok((
            Envelope {
                payload_type,
                payload,
                signatures,
            },
            signers,
        ))
    }

    fn operation(&mut self, at: Millis) -> Read<OperationLeaf<'a>> {
        let by = self.by()?;
        let start = self.offset();
        let (envelope, signers) = self.stored()?;
        if !signers.contains(&by.identity) {
            return self.fail_at(start, Fault::Form("signed by the one who asked"));
        }
        self.literal(",\"decision\":{\"outcome\":")?;
        let decision = if self.take("\"applied\",\"effect\":") {
            Decision::Applied {
                effect: self.raw_object()?,
            }
        } else {
            self.literal("\"refused\",\"code\":")?;
            let code = self.plain_name("a code of capitals, digits and _", |byte| {
                byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
            })?;
            self.literal(",\"detail\":")?;
            Decision::Refused {
                code,
                detail: self.raw_object()?,
            }
        };
        self.literal("}")?;
        Ok(OperationLeaf {
            at,
            by,
            envelope,
            decision,
        })
    }

    fn receipt(&mut self, at: Millis) -> Read<ReceiptLeaf> {
        let by = self.by()?;
        let start = self.offset();
        let (envelope, stored) = self.stored()?;
        if stored.first() != Some(&by.identity) {
            return self.fail_at(start, Fault::Form("signed by the one named, first"));
        }
        self.literal(",\"decision\":{\"outcome\":\"applied\",\"effect\":{\"signers\":")?;
        let start = self.offset();
        let mut signers = Vec::new();
        self.array(|scanner, _| {
            signers.push(scanner.identity()?);
            Ok(())
        })?;
        if signers != stored {
            return self.fail_at(start, Fault::Form("the signers of the envelope"));
        }
        self.literal("}}")?;
        Ok(ReceiptLeaf {
            at,
            by,
            envelope,
            signers,
        })
    }

    fn system(&mut self, at: Millis) -> Read<SystemLeaf<'a>> {
        self.literal(",\"event\":")?;
        let start = self.offset();
        let event = self.raw_object()?;
        let mut inner = Scanner::compact(event.as_bytes())?;
        let named = inner.literal("{\"type\":").and_then(|()| {
            inner.plain_name("a type of event", |byte| {
                byte.is_ascii_lowercase() || byte == b'_'
            })
        });
        let Ok(event_type) = named else {
            return self.fail_at(start, Fault::Form("an event that begins with its type"));
        };
        Ok(SystemLeaf {
            at,
            event_type,
            event,
        })
    }

    /// A non-empty string of the bytes that `of` allows.
    fn plain_name(&mut self, form: &'static str, of: impl Fn(u8) -> bool) -> Read<&'a str> {
        let start = self.offset();
        match self.string()? {
            Cow::Borrowed(name) if !name.is_empty() && name.bytes().all(of) => Ok(name),
            _ => self.fail_at(start, Fault::Form(form)),
        }
    }
}
