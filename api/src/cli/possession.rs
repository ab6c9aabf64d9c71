//! The proof that a key is at hand: made where the key is, used where it is enrolled.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use countersign_verifier::{
    base64,
    key::{IdentityId, PrivateKey, PublicKey},
    leaf::Class,
    operation::possession_message,
};
use serde::{Deserialize, Serialize};

use super::keys;

const FORMAT: &str = "countersign.possession/1";

/// What `countersign key prove` writes: one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PossessionFile {
    format: String,
    origin: String,
    identity: String,
    class: String,
    public_key: String,
    signature: String,
}

/// What a proof is for.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The log.
    pub origin: &'a str,
    /// Who is to have the key.
    pub identity: IdentityId,
    /// Where the key lives.
    pub class: Class,
}

impl PossessionFile {
    /// Signs.
    pub fn sign(key: &PrivateKey, claim: Claim<'_>) -> PossessionFile {
        PossessionFile {
            format: FORMAT.into(),
            origin: claim.origin.into(),
            identity: claim.identity.to_string(),
            class: claim.class.name().into(),
            public_key: base64::encode(&key.public().spki_der()),
            signature: base64::encode(&sign(key, claim)),
        }
    }

    /// The signature in base64, if it is what the service will look for.
    fn check(&self, key: &PublicKey, claim: Claim<'_>) -> anyhow::Result<String> {
        ensure!(
            self.format == FORMAT,
            "its format is {:?}; this release reads {FORMAT}",
            self.format
        );
        let same = |what: &str, signed: &str, asked: &str| {
            ensure!(
                signed == asked,
                "it was signed for {what} {signed}, and this is for {asked}"
            );
            Ok(())
        };
        same("origin", &self.origin, claim.origin)?;
        same("identity", &self.identity, &claim.identity.to_string())?;
        same("class", &self.class, claim.class.name())?;
        same(
            "public key",
            &self.public_key,
            &base64::encode(&key.spki_der()),
        )?;
        let signature = base64::decode(&self.signature).context("its signature")?;
        let message = possession_message(claim.origin, claim.identity, claim.class);
        ensure!(
            key.verify(&message, &signature),
            "its signature does not verify"
        );
        Ok(self.signature.clone())
    }
}

fn sign(key: &PrivateKey, claim: Claim<'_>) -> Vec<u8> {
    key.sign(&possession_message(
        claim.origin,
        claim.identity,
        claim.class,
    ))
}

/// The proof for `key`, in base64: signed now with `private` or the private key in `file`, or taken from `file` as
/// `countersign key prove` wrote it.
pub fn proof(
    key: &PublicKey,
    private: Option<&PrivateKey>,
    file: Option<&Path>,
    claim: Claim<'_>,
) -> anyhow::Result<Option<String>> {
    let Some(path) = file else {
        return Ok(private.map(|private| base64::encode(&sign(private, claim))));
    };
    let name = || format!("{}", path.display());
    let text = std::fs::read(path).with_context(name)?;
    if let Ok(proof) = serde_json::from_slice::<PossessionFile>(&text) {
        return proof.check(key, claim).with_context(name).map(Some);
    }
    let Ok(private) = keys::private(path) else {
        bail!(
            "{}: neither a private key nor what `countersign key prove` writes",
            path.display()
        );
    };
    ensure!(
        private.public() == *key,
        "{}: the private key of another public key than the one to enrol",
        path.display()
    );
    Ok(Some(base64::encode(&sign(&private, claim))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_verifier::key::Algorithm;

    #[test]
    fn a_proof_is_good_for_one_log_identity_class_and_key() {
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[3; 32]).unwrap();
        let other = PrivateKey::from_secret(Algorithm::Ed25519, &[4; 32])
            .unwrap()
            .public();
        let public = key.public();
        let claim = Claim {
            origin: "localhost/dev",
            identity: public.identity(),
            class: Class::AgentKey,
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("proof");
        std::fs::write(
            &path,
            serde_json::to_vec(&PossessionFile::sign(&key, claim)).unwrap(),
        )
        .unwrap();
        let take = |key, claim| proof(key, None, Some(&path), claim).map_err(|e| format!("{e:#}"));
        let signature = take(&public, claim).unwrap().unwrap();
        assert!(public.verify(
            &possession_message("localhost/dev", claim.identity, Class::AgentKey),
            &base64::decode(&signature).unwrap()
        ));
        for (key, claim, word) in [
            (
                &public,
                Claim {
                    origin: "localhost/other",
                    ..claim
                },
                "origin",
            ),
            (
                &public,
                Claim {
                    identity: other.identity(),
                    ..claim
                },
                "identity",
            ),
            (
                &public,
                Claim {
                    class: Class::SeatKey,
                    ..claim
                },
                "class",
            ),
            (&other, claim, "public key"),
        ] {
            let error = take(key, claim).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(
            proof(&public, Some(&key), None, claim).unwrap(),
            Some(signature)
        );
        assert_eq!(proof(&public, None, None, claim).unwrap(), None);
        std::fs::write(&path, &*key.to_pem()).unwrap();
        assert!(take(&public, claim).unwrap().is_some());
        assert!(
            take(&other, claim)
                .unwrap_err()
                .contains("another public key")
        );
        std::fs::write(&path, "hello").unwrap();
        assert!(take(&public, claim).unwrap_err().contains("key prove"));
    }
}
