//! The texts that keys come in: PEM, OpenSSH lines, vkeys.

use alloc::string::String;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::{KeyError, PublicKey};
use crate::base64;
use crate::vkey::{Algorithm, VerifierKey, VkeyError};

const SSH_ED25519: &[u8] = b"ssh-ed25519";

pub(super) fn parse_all(bytes: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
    if bytes.first() == Some(&0x30) {
        return Ok([PublicKey::from_spki(bytes)?].into());
    }
    let text = core::str::from_utf8(bytes).map_err(|_| KeyError::Malformed("a key file"))?;
    if text.contains("-----BEGIN ") {
        return pem_blocks(text)?
            .iter()
            .map(|(label, der)| match label.as_str() {
                "PUBLIC KEY" => PublicKey::from_spki(der),
                label if label.ends_with("PRIVATE KEY") => Err(KeyError::Private),
                _ => Err(KeyError::Malformed("a PUBLIC KEY in PEM")),
            })
            .collect();
    }
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(line)
        .collect()
}

fn line(line: &str) -> Result<PublicKey, KeyError> {
    let mut words = line.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some("ssh-ed25519"), Some(blob)) => {
            let blob =
                base64::decode(blob).map_err(|_| KeyError::Malformed("an OpenSSH key line"))?;
            let mut blob = SshReader(&blob);
            let key = (blob.string() == Some(SSH_ED25519))
                .then(|| blob.string())
                .flatten();
            match key.and_then(|key| key.try_into().ok()) {
                Some(key) if blob.0.is_empty() => PublicKey::from_ed25519(key),
                _ => Err(KeyError::Malformed("an OpenSSH key line")),
            }
        }
        (Some(kind), Some(_))
            if kind.starts_with("ssh-")
                || kind.starts_with("ecdsa-")
                || kind.starts_with("sk-") =>
        {
            Err(KeyError::Algorithm)
        }
        _ if line.contains("PRIVATE+KEY+") => Err(KeyError::Private),
        _ => vkey(line),
    }
}

/// A vkey of a log's kind (0x01, 0x02). A cosigner's (0x04, 0x06) is not taken: one key must not serve two
/// statements.
pub(super) fn vkey(text: &str) -> Result<PublicKey, KeyError> {
    let vkey = VerifierKey::parse(text).map_err(|error| match error {
        VkeyError::Mismatch { .. } => KeyError::Malformed("a vkey whose key id fits its key"),
        _ => KeyError::Malformed("a public key in PEM, DER, an OpenSSH line or a vkey"),
    })?;
    match vkey.algorithm {
        Algorithm::Ed25519(key) => PublicKey::from_ed25519(key.as_bytes()),
        Algorithm::EcdsaP256(key) => Ok(PublicKey::EcdsaP256(key)),
        Algorithm::CosignatureV1(_) | Algorithm::MlDsa44(_) | Algorithm::Other { .. } => {
            Err(KeyError::Algorithm)
        }
    }
}

/// Label and bytes of each block.
pub(crate) fn pem_blocks(text: &str) -> Result<Vec<(String, Vec<u8>)>, KeyError> {
    const FORM: KeyError = KeyError::Malformed("PEM");
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let (label, after) = after.split_once("-----").ok_or(FORM)?;
        let (body, after) = after.split_once("-----END ").ok_or(FORM)?;
        rest = after
            .strip_prefix(label)
            .and_then(|after| after.strip_prefix("-----"))
            .ok_or(FORM)?;
        // It may be a private key's, so it is wiped.
        let symbols: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let symbols = Zeroizing::new(symbols);
        blocks.push((label.into(), base64::decode(&symbols).map_err(|_| FORM)?));
    }
    Ok(blocks)
}

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let mut out = alloc::format!("-----BEGIN {label}-----\n");
    for line in base64::encode(der).as_bytes().chunks(64) {
        out.extend(line.iter().map(|&symbol| char::from(symbol)));
        out.push('\n');
    }
    out + "-----END " + label + "-----\n"
}

/// A public key as SSH writes it on the wire (RFC 4253 section 6.6, RFC 5656 section 3.1).
pub(super) fn ssh_blob(key: &PublicKey) -> Vec<u8> {
    let raw = key.raw();
    let strings: &[&[u8]] = match key {
        PublicKey::Ed25519(_) => &[SSH_ED25519, &raw],
        PublicKey::EcdsaP256(_) => &[b"ecdsa-sha2-nistp256", b"nistp256", &raw],
        PublicKey::EcdsaP384(_) => &[b"ecdsa-sha2-nistp384", b"nistp384", &raw],
    };
    let mut out = Vec::new();
    for string in strings {
        let len = u32::try_from(string.len()).expect("OK because all of these are short");
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(string);
    }
    out
}

/// Reads SSH's length-prefixed strings.
pub(super) struct SshReader<'a>(pub(super) &'a [u8]);

impl<'a> SshReader<'a> {
    pub(super) fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (string, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(string)
    }
}
