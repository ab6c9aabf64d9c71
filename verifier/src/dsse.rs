//! DSSE 1.0.2 envelopes: bytes with a type, and signatures over both.

use alloc::string::String;
use alloc::vec::Vec;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::base64::Base64Error;
use crate::json::Fault;
use crate::key::{IdentityId, PrivateKey, PublicKey};
use crate::limits;
use crate::scan::{Scanner, push_string, push_utf8};

/// What is wrong with an envelope, and where: pointer, offset, line, fault.
pub use crate::json::JsonError as DsseError;

/// A signature as it came: nothing about it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// A hint at the key, empty when unset. Never trusted.
    pub keyid: String,
    /// The signature's bytes, of whatever algorithm.
    pub sig: Vec<u8>,
}

/// An envelope as it came: nothing about it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The type of the payload; signed.
    pub payload_type: String,
    /// The bytes that are signed, at most [`limits::PAYLOAD_BYTES_MAX`]. Whoever reads the payload
    /// reads these, and decodes nothing a second time.
    pub payload: Vec<u8>,
    /// 1 to [`limits::SIGNATURES_MAX`] signatures.
    pub signatures: Vec<Signature>,
}

impl Envelope {
    /// Reads an envelope. Unknown members are passed over, whatever their value; a member that stands
    /// twice is refused; base64 is padded, in the standard or the URL-safe alphabet.
    ///
    /// # Errors
    /// [`DsseError`], with [`Fault::TooLarge`] or [`Fault::TooMany`] where a limit is passed.
    pub fn parse(bytes: &[u8]) -> Result<Self, DsseError> {
        let mut scanner = Scanner::new(bytes)?;
        let envelope = scanner.envelope()?;
        scanner.end()?;
        Ok(envelope)
    }

    /// The bytes that each signature covers.
    #[must_use]
    pub fn pae(&self) -> Vec<u8> {
        pae(&self.payload_type, &self.payload)
    }

    /// Signs `payload` with each key; keyid is the identity that the key begins.
    #[must_use]
    pub fn sign(payload_type: &str, payload: &[u8], keys: &[PrivateKey]) -> Self {
        let pae = pae(payload_type, payload);
        let sign = |key: &PrivateKey| Signature {
            keyid: alloc::format!("{}", key.public().identity()),
            sig: key.sign(&pae),
        };
        Self {
            payload_type: payload_type.into(),
            payload: payload.into(),
            signatures: keys.iter().map(sign).collect(),
        }
    }

    /// Compact JSON: payloadType, payload, signatures of keyid and sig, in standard base64.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let signatures = self
            .signatures
            .iter()
            .map(|s| (s.keyid.as_bytes(), s.sig.as_slice()));
        push_envelope(&mut out, &self.payload_type, &self.payload, signatures);
        out
    }
}

impl Scanner<'_> {
    /// Reads an envelope of any spelling.
    fn envelope(&mut self) -> Result<Envelope, DsseError> {
        let (mut payload_type, mut payload, mut signatures) = (None, None, None);
        self.object(|scanner, name| match name.as_ref() {
            "payloadType" => scanner.once(&mut payload_type, Self::payload_type),
            "payload" => scanner.once(&mut payload, |s| s.base64(limits::PAYLOAD_BYTES_MAX)),
            "signatures" => scanner.once(&mut signatures, Self::signatures),
            _ => scanner.skip(),
        })?;
        Ok(Envelope {
            payload_type: self.need(payload_type, "payloadType")?,
            payload: self.need(payload, "payload")?,
            signatures: self.need(signatures, "signatures")?,
        })
    }

    pub(crate) fn payload_type(&mut self) -> Result<String, DsseError> {
        let start = self.offset();
        let text = self.string()?;
        let (limit, bytes) = (limits::PAYLOAD_TYPE_BYTES_MAX, text.len());
        if bytes > limit {
            return self.fail_at(start, Fault::TooLarge { limit, bytes });
        }
        Ok(text.into_owned())
    }

    fn signatures(&mut self) -> Result<Vec<Signature>, DsseError> {
        let start = self.offset();
        let mut signatures = Vec::new();
        self.array(|scanner, index| {
            if index >= limits::SIGNATURES_MAX {
                return scanner.fail(Fault::TooMany {
                    limit: limits::SIGNATURES_MAX,
                });
            }
            signatures.push(scanner.signature()?);
            Ok(())
        })?;
        if signatures.is_empty() {
            return self.fail_at(start, Fault::Form("at least one signature"));
        }
        Ok(signatures)
    }

    fn signature(&mut self) -> Result<Signature, DsseError> {
        let (mut keyid, mut sig) = (None, None);
        self.object(|scanner, name| match name.as_ref() {
            "keyid" => scanner.once(&mut keyid, |s| {
                // Writers of other languages spell an unset keyid as null.
                if s.peek() == Some(b'n') {
                    s.literal("null").map(|()| String::new())
                } else {
                    Ok(s.string()?.into_owned())
                }
            }),
            "sig" => scanner.once(&mut sig, |s| s.base64(limits::SIGNATURE_BYTES_MAX)),
            _ => scanner.skip(),
        })?;
        Ok(Signature {
            keyid: keyid.unwrap_or_default(),
            sig: self.need(sig, "sig")?,
        })
    }

    /// Reads a string of padded base64 in either alphabet (DSSE 1.0.2: both must be accepted).
    fn base64(&mut self, limit: usize) -> Result<Vec<u8>, DsseError> {
        let start = self.offset();
        let text = self.string()?;
        // Four symbols are at most three bytes: refused before anything is allocated.
        if text.len() / 4 > limit.div_ceil(3) {
            return self.fail_at(
                start,
                Fault::TooLarge {
                    limit,
                    bytes: text.len() / 4 * 3,
                },
            );
        }
        let decoded = STANDARD
            .decode(text.as_bytes())
            .or_else(|error| match error {
                ::base64::DecodeError::InvalidByte(_, b'-' | b'_') => {
                    URL_SAFE.decode(text.as_bytes())
                }
                error => Err(error),
            });
        match decoded {
            Ok(bytes) if bytes.len() <= limit => Ok(bytes),
            Ok(bytes) => self.fail_at(
                start,
                Fault::TooLarge {
                    limit,
                    bytes: bytes.len(),
                },
            ),
            Err(error) => self.fail_at(start, Fault::Base64(Base64Error::from(error))),
        }
    }
}

/// The pre-authentication encoding: `DSSEv1 len(type) type len(body) body`, lengths in bytes.
#[must_use]
pub fn pae(payload_type: &str, body: &[u8]) -> Vec<u8> {
    let head = alloc::format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        body.len()
    );
    let mut out = Vec::with_capacity(head.len() + body.len());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
    out
}

/// A key that verified, and by which signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Index in the keys given.
    pub key: usize,
    /// Index in the signatures given.
    pub signature: usize,
}

/// The distinct keys that verify at least one of `signatures` over `pae`, in the order of the keys.
///
/// A signature that fails is passed over. The same key under two keyids, or listed twice, counts once
/// (DSSE 1.0.2). A keyid only decides which keys are tried first.
#[must_use]
pub fn count(pae: &[u8], signatures: &[Signature], keys: &[PublicKey]) -> Vec<Counted> {
    let ids: Vec<IdentityId> = keys.iter().map(PublicKey::identity).collect();
    let mut counted: Vec<Counted> = Vec::new();
    for (index, signature) in signatures.iter().enumerate() {
        let hinted =
            |key: &usize| !signature.keyid.is_empty() && keys[*key].matches_hint(&signature.keyid);
        let (first, then): (Vec<usize>, Vec<usize>) = (0..keys.len()).partition(hinted);
        // A key that has counted is tried no more: another signature of its own adds nothing.
        let fresh = |key: &usize| !counted.iter().any(|c| ids[c.key] == ids[*key]);
        let found = first
            .into_iter()
            .chain(then)
            .filter(fresh)
            .find(|&key| keys[key].verify(pae, &signature.sig));
        counted.extend(found.map(|key| Counted {
            key,
            signature: index,
        }));
    }
    counted.sort_by_key(|c| c.key);
    counted
}

/// Appends an envelope as compact JSON, in the order and spelling that leaves store. The keyids are
/// UTF-8 each.
pub(crate) fn push_envelope<'s>(
    out: &mut Vec<u8>,
    payload_type: &str,
    payload: &[u8],
    signatures: impl Iterator<Item = (&'s [u8], &'s [u8])>,
) {
    out.extend_from_slice(b"{\"payloadType\":");
    push_string(out, payload_type);
    out.extend_from_slice(b",\"payload\":\"");
    push_base64(out, payload);
    out.extend_from_slice(b"\",\"signatures\":[");
    for (i, (keyid, sig)) in signatures.enumerate() {
        out.extend_from_slice(if i > 0 {
            b",{\"keyid\":"
        } else {
            b"{\"keyid\":"
        });
        push_utf8(out, keyid);
        out.extend_from_slice(b",\"sig\":\"");
        push_base64(out, sig);
        out.extend_from_slice(b"\"}");
    }
    out.extend_from_slice(b"]}");
}

/// Appends standard padded base64.
pub(crate) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(
        written.ok(),
        Some(out.len() - start),
        "padded base64 has one length"
    );
}
