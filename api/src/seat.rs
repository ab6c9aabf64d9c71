//! Seats: identities whose keys the service keeps, for clients that hold only a token. Whoever holds the service can sign for them,
//! and everything that they sign says so (`seat_key`).

use std::io;

use countersign_verifier::{
    base64,
    hash::Hash,
    key::{Algorithm, IdentityId, PrivateKey},
    leaf::Class,
    operation::possession_message,
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The seat of whoever holds the owner's token.
pub const OWNER_SEAT: &str = "owner.seat";

/// An account's secret, of which the key of each seat and the tag of each attestation are made.
pub struct Seats {
    secret: Zeroizing<[u8; 32]>,
    origin: String,
}

impl Seats {
    /// Of the account whose log has this origin.
    #[must_use]
    pub fn new(secret: Zeroizing<[u8; 32]>, origin: String) -> Seats {
        Seats { secret, origin }
    }

    /// A fresh secret, as `seat.secret` holds it.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn fresh() -> io::Result<Zeroizing<String>> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(io::Error::other)?;
        Ok(Zeroizing::new(base64::encode(&*secret) + "\n"))
    }

    /// The key of the seat of this name, whatever its case: the same at every call, and in every copy of the account.
    ///
    /// # Panics
    /// Never: any 32 bytes are an Ed25519 key.
    #[must_use]
    pub fn key(&self, name: &str) -> PrivateKey {
        let secret = self.derive("seat", name.to_ascii_lowercase().as_bytes());
        PrivateKey::from_secret(Algorithm::Ed25519, &*secret)
            .expect("OK because 32 bytes are a key")
    }

    /// The signature by which a seat's key shows that it is at hand; for its enrolment.
    #[must_use]
    pub fn possession(&self, name: &str) -> (PrivateKey, IdentityId, Vec<u8>) {
        let key = self.key(name);
        let id = key.public().identity();
        let proof = key.sign(&possession_message(&self.origin, id, Class::SeatKey));
        (key, id, proof)
    }

    /// A tag on a claim, which only this account can make and check.
    #[must_use]
    pub fn tag(&self, claim: &[u8]) -> Hash {
        let key = self.derive("attestation", b"");
        hmac(&key, claim)
    }

    /// A tag on what a cursor says, which only this account can make and check.
    #[must_use]
    pub fn cursor_tag(&self, cursor: &[u8]) -> Hash {
        let key = self.derive("cursor", b"");
        hmac(&key, cursor)
    }

    fn derive(&self, purpose: &str, of: &[u8]) -> Zeroizing<[u8; 32]> {
        let mut info = format!("countersign/{purpose}/1\n{}\n", self.origin).into_bytes();
        info.extend_from_slice(of);
        Zeroizing::new(hmac(&self.secret, &info).0)
    }
}

/// HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8; 32], message: &[u8]) -> Hash {
    // OK because any length is a key.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("seat::hmac: a key");
    mac.update(message);
    Hash(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_hmac_sha_256() {
        // RFC 4231, test case 1, its key padded to 32 bytes with zeros as HMAC pads it to 64.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hmac(&key, b"Hi There").to_hex(), expected);
    }

    #[test]
    fn a_seat_has_one_key_in_one_account_whatever_the_case_of_its_name() {
        let seats = |secret, origin: &str| Seats::new(Zeroizing::new([secret; 32]), origin.into());
        let id = |seats: &Seats, name| seats.key(name).public().identity();
        let a = seats(1, "example.com/a");
        assert_eq!(id(&a, "Builder"), id(&a, "builder"));
        assert_ne!(id(&a, "builder"), id(&a, "builder2"));
        assert_ne!(id(&a, "builder"), id(&seats(1, "example.com/b"), "builder"));
        assert_ne!(id(&a, "builder"), id(&seats(2, "example.com/a"), "builder"));
    }
}
