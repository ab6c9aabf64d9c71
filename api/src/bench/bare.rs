//! The yardstick: `verify_strict` alone, on messages and signatures that lie ready.

use std::{thread, time::Duration};

use anyhow::{Context as _, bail};
use countersign_verifier::key::PublicKey;

use super::{material::Signed, watch};

/// Signatures a second that `threads` threads verify together for about `window`, each going round its own share.
///
/// # Errors
/// Another key than Ed25519, nothing to verify, or a signature that fails.
pub fn rate(
    key: &PublicKey,
    signed: &[Signed],
    threads: usize,
    window: Duration,
) -> anyhow::Result<f64> {
    let PublicKey::Ed25519(key) = key else {
        bail!("the yardstick is Ed25519, not {key}");
    };
    let share = signed.len().div_ceil(threads.max(1)).max(1);
    let started = watch::now();
    let verified: anyhow::Result<u64> = thread::scope(|scope| {
        let shares: Vec<_> = signed
            .chunks(share)
            .map(|signed| {
                scope.spawn(move || {
                    let mut verified = 0_u64;
                    for (message, signature) in signed.iter().cycle() {
                        key.verify_strict(message, signature)?;
                        verified += 1;
                        // Looked at once in 32, so that the clock costs nothing.
                        if verified % 32 == 0 && started.elapsed() >= window {
                            break;
                        }
                    }
                    Ok::<_, ed25519_dalek::SignatureError>(verified)
                })
            })
            .collect();
        shares.into_iter().try_fold(0, |sum, share| {
            let verified = share
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(sum + verified.context("a signature of the bench's own")?)
        })
    });
    let (verified, elapsed) = (verified?, started.elapsed());
    anyhow::ensure!(verified > 0, "nothing to verify");
    Ok(verified as f64 / elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use countersign_verifier::key::{Algorithm, PrivateKey};

    use super::{super::material::Receipts, *};

    #[test]
    fn only_good_signatures_count() {
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[7; 32]).expect("a seed");
        let receipts = Receipts::sign(&key, 1, 0..40, 100).expect("signed");
        let signed = receipts.signed(40).expect("signatures");
        let window = Duration::from_millis(1);
        assert!(rate(&key.public(), &signed, 2, window).expect("all good") > 0.0);
        let other = PrivateKey::from_secret(Algorithm::Ed25519, &[8; 32]).expect("a seed");
        assert!(rate(&other.public(), &signed, 2, window).is_err());
        assert!(rate(&key.public(), &[], 2, window).is_err());
        let p256 = PrivateKey::from_secret(Algorithm::EcdsaP256, &[7; 32]).expect("a scalar");
        assert!(rate(&p256.public(), &signed, 2, window).is_err());
    }
}
