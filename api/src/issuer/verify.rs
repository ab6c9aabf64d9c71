//! The signatures of tokens, verified by `ring`: the library that TLS is done with here already (docs/decisions/0025).

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
};
use ring::signature as by;
use signature::Verifier;

static RING: CryptoProvider = CryptoProvider {
    signer_factory,
    verifier_factory,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has tokens verified so in this process.
pub(super) fn install() {
    // A second time it is there already.
    let _ = RING.install_default();
}

/// Nothing is signed here.
fn signer_factory(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier_factory(
    algorithm: &Algorithm,
    key: &DecodingKey,
) -> Result<Box<dyn JwtVerifier>, Error> {
    Ok(Box::new(Ring {
        algorithm: *algorithm,
        key: key.kind().clone(),
    }))
}

struct Ring {
    algorithm: Algorithm,
    key: DecodingKeyKind,
}

impl Ring {
    /// RSA keys of 2,048 to 8,192 bits.
    fn rsa(&self) -> Option<&'static by::RsaParameters> {
        Some(match self.algorithm {
            Algorithm::RS256 => &by::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::RS384 => &by::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::RS512 => &by::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::PS256 => &by::RSA_PSS_2048_8192_SHA256,
            Algorithm::PS384 => &by::RSA_PSS_2048_8192_SHA384,
            Algorithm::PS512 => &by::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    fn curve(&self) -> Option<&'static dyn by::VerificationAlgorithm> {
        Some(match self.algorithm {
            Algorithm::ES256 => &by::ECDSA_P256_SHA256_FIXED,
            Algorithm::ES384 => &by::ECDSA_P384_SHA384_FIXED,
            Algorithm::EdDSA => &by::ED25519,
            _ => return None,
        })
    }
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (&self.key, self.rsa(), self.curve()) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, Some(rsa), _) => {
                by::RsaPublicKeyComponents { n, e }.verify(rsa, message, signature)
            }
            (DecodingKeyKind::SecretOrDer(point), _, Some(curve)) => {
                by::UnparsedPublicKey::new(curve, point).verify(message, signature)
            }
            // A key of another kind than the algorithm's.
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
