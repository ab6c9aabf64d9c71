//! Signed receipts, made before they are needed, so that making them costs the measured time nothing.

use std::{ops::Range, thread};

use anyhow::{Context as _, ensure};
use countersign_verifier::{
    dsse::{self, Envelope},
    key::PrivateKey,
};

use super::watch;

/// The type that the receipts claim: one that no service reads into.
pub const PAYLOAD_TYPE: &str = "application/vnd.example.bench+json";

/// A payload shorter than this has no room for what makes it distinct.
pub const PAYLOAD_BYTES_MIN: usize = 72;

/// Distinct envelopes as compact JSON, all of one length, each with a line feed after it.
#[derive(Debug)]
pub struct Receipts {
    lines: Vec<u8>,
    line_bytes: usize,
}

/// A message and a signature over it.
pub type Signed = (Vec<u8>, ed25519_dalek::Signature);

impl Receipts {
    /// Signs one envelope for each number in `numbers`, on all processors. The same `run` and number give the same payload,
    /// whatever the key.
    ///
    /// # Errors
    /// Payloads outside of what a receipt may have.
    pub fn sign(
        key: &PrivateKey,
        run: u64,
        numbers: Range<u64>,
        payload_bytes: usize,
    ) -> anyhow::Result<Receipts> {
        let most = countersign_verifier::limits::PAYLOAD_BYTES_MAX;
        ensure!(
            (PAYLOAD_BYTES_MIN..=most).contains(&payload_bytes),
            "payloads of {PAYLOAD_BYTES_MIN} to {most} bytes can be made, not of {payload_bytes}"
        );
        let keyid = key.public().identity().to_string();
        let one = |number| envelope(key, &keyid, payload(run, number, payload_bytes));
        let line_bytes = one(numbers.start).len();
        let share = (numbers.end - numbers.start)
            .div_ceil(watch::cpus() as u64)
            .max(1);
        let mut lines = Vec::new();
        thread::scope(|scope| {
            let shares: Vec<_> = numbers
                .clone()
                // OK because a share of more than usize::MAX receipts could not be held anyway.
                .step_by(usize::try_from(share).unwrap_or(usize::MAX))
                .map(|from| {
                    let (one, until) = (&one, (from + share).min(numbers.end));
                    scope.spawn(move || (from..until).flat_map(one).collect::<Vec<u8>>())
                })
                .collect();
            for share in shares {
                match share.join() {
                    Ok(signed) => lines.extend_from_slice(&signed),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        ensure!(
            lines.len() % line_bytes == 0,
            "envelopes of different lengths"
        );
        Ok(Receipts { lines, line_bytes })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len() / self.line_bytes
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The envelope at `at`, without its line feed. Panics beyond the last.
    #[must_use]
    pub fn one(&self, at: usize) -> &[u8] {
        &self.lines[at * self.line_bytes..(at + 1) * self.line_bytes - 1]
    }

    /// The envelopes of `range`, a line each. Panics beyond the last.
    #[must_use]
    pub fn lines(&self, range: Range<usize>) -> &[u8] {
        &self.lines[range.start * self.line_bytes..range.end * self.line_bytes]
    }

    /// What the first `count` signatures are over, and the signatures.
    ///
    /// # Errors
    /// Never of what [`Receipts::sign`] made with an Ed25519 key.
    pub fn signed(&self, count: usize) -> anyhow::Result<Vec<Signed>> {
        (0..count.min(self.len()))
            .map(|at| {
                let envelope =
                    Envelope::parse(self.one(at)).context("an envelope of the bench's own")?;
                let signature = envelope.signatures.first().context("no signature")?;
                Ok((
                    envelope.pae(),
                    ed25519_dalek::Signature::from_slice(&signature.sig)?,
                ))
            })
            .collect()
    }
}

/// A private key file.
///
/// # Errors
/// One that cannot be read.
pub fn read_key(path: &std::path::Path) -> anyhow::Result<PrivateKey> {
    let text = zeroize::Zeroizing::new(
        std::fs::read_to_string(path).with_context(|| path.display().to_string())?,
    );
    PrivateKey::parse(&text).with_context(|| path.display().to_string())
}

/// Signs by hand: [`Envelope::sign`] would work the key's identity out again for each.
fn envelope(key: &PrivateKey, keyid: &str, payload: Vec<u8>) -> Vec<u8> {
    let sig = key.sign(&dsse::pae(PAYLOAD_TYPE, &payload));
    let signature = dsse::Signature {
        keyid: keyid.to_owned(),
        sig,
    };
    let mut line = Envelope {
        payload_type: PAYLOAD_TYPE.to_owned(),
        payload,
        signatures: vec![signature],
    }
    .to_json();
    line.push(b'\n');
    line
}

/// A JSON object of exactly `bytes` bytes.
pub(super) fn payload(run: u64, number: u64, bytes: usize) -> Vec<u8> {
    let text = format!(r#"{{"run":"{run:016x}","number":"{number:012}","of":""#);
    let rest = bytes.saturating_sub(text.len() + 2);
    let seed = run ^ number.wrapping_mul(STEP);
    [&text, &letters(seed, rest), "\"}"].concat().into_bytes()
}

/// So many letters that no compression makes much smaller, since a store that compresses would otherwise be flattered.
#[must_use]
pub fn letters(seed: u64, count: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(count);
    let mut random = seed;
    while text.len() < count {
        random = random.wrapping_add(STEP);
        let mut word = mixed(random);
        // Ten letters a step.
        for _ in 0..(count - text.len()).min(10) {
            text.push(char::from(LETTERS[(word & 63) as usize]));
            word >>= 6;
        }
    }
    text
}

/// The step of splitmix64 (Steele, Lea, Flood 2014).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number that looks like chance, and is the same for the same one: what splitmix64 makes of its state.
#[must_use]
pub const fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use countersign_verifier::key::Algorithm;

    use super::*;

    #[test]
    fn receipts_are_distinct_of_one_length_and_signed() {
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]).expect("a seed");
        for bytes in [PAYLOAD_BYTES_MIN, 73, 1024] {
            let receipts = Receipts::sign(&key, 1, 5..106, bytes).expect("signed");
            assert_eq!(receipts.len(), 101);
            let payloads: HashSet<Vec<u8>> = (0..101)
                .map(|at| {
                    let envelope = Envelope::parse(receipts.one(at)).expect("an envelope");
                    assert!(
                        key.public()
                            .verify(&envelope.pae(), &envelope.signatures[0].sig)
                    );
                    assert!(key.public().matches_hint(&envelope.signatures[0].keyid));
                    assert_eq!(envelope.payload.len(), bytes);
                    assert!(serde_json::from_slice::<serde_json::Value>(&envelope.payload).is_ok());
                    envelope.payload
                })
                .collect();
            assert_eq!(payloads.len(), 101);
            assert_eq!(
                receipts.lines(3..5),
                [receipts.one(3), b"\n", receipts.one(4), b"\n"].concat()
            );
            assert_eq!(receipts.signed(7).expect("signatures").len(), 7);
        }
    }

    #[test]
    fn sizes_that_cannot_be() {
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]).expect("a seed");
        for bytes in [0, PAYLOAD_BYTES_MIN - 1, 40_001] {
            assert!(Receipts::sign(&key, 1, 0..1, bytes).is_err(), "{bytes}");
        }
    }
}
