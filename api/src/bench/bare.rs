//! The yardstick: `verify_strict` alone, on messages and signatures that lie ready.

use std::{thread, time::Duration};

use anyhow::{Context as _, bail};
use countersign_verifier::key::PublicKey;

use super::{material::Signed, watch};

/// How fast something goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// How many a second.
    pub per_second: f64,
    /// Microseconds of processor time for one.
    pub cpu_us_each: f64,
}

impl Rate {
    /// Of `count` in `elapsed`, for which all threads together used `cpu`.
    #[must_use]
    pub fn of(count: u64, elapsed: Duration, cpu: Duration) -> Rate {
        Rate {
            per_second: count as f64 / elapsed.as_secs_f64(),
            cpu_us_each: cpu.as_secs_f64() * 1e6 / count as f64,
        }
    }
}

/// How fast `threads` threads verify signatures together for about `window`, each going round its own share.
///
/// # Errors
/// Another key than Ed25519, nothing to verify, or a signature that fails.
pub fn rate(
    key: &PublicKey,
    signed: &[Signed],
    threads: usize,
    window: Duration,
) -> anyhow::Result<Rate> {
    let PublicKey::Ed25519(key) = key else {
        bail!("the yardstick is Ed25519, not {key}");
    };
    let share = signed.len().div_ceil(threads.max(1)).max(1);
    let started = watch::now();
    let done: anyhow::Result<(u64, Duration)> = thread::scope(|scope| {
        let shares: Vec<_> = signed
            .chunks(share)
            .map(|signed| {
                scope.spawn(move || {
                    let mut verified = 0_u64;
                    for (message, signature) in signed.iter().cycle() {
                        key.verify_strict(message, signature)?;
                        verified += 1;
                        // Looked at once in 32, so that the clock costs nothing.
                        if verified.is_multiple_of(32) && started.elapsed() >= window {
                            break;
                        }
                    }
                    Ok::<_, ed25519_dalek::SignatureError>((verified, watch::thread_cpu()))
                })
            })
            .collect();
        shares
            .into_iter()
            .try_fold((0, Duration::ZERO), |sum, share| {
                let one = share
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                let (verified, cpu) = one.context("a signature of the bench's own")?;
                Ok((sum.0 + verified, sum.1 + cpu))
            })
    });
    let (verified, cpu) = done?;
    anyhow::ensure!(verified > 0, "nothing to verify");
    Ok(Rate::of(verified, started.elapsed(), cpu))
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
        let good = rate(&key.public(), &signed, 2, window).expect("all good");
        assert!(good.per_second > 0.0 && good.cpu_us_each > 0.0);
        let other = PrivateKey::from_secret(Algorithm::Ed25519, &[8; 32]).expect("a seed");
        assert!(rate(&other.public(), &signed, 2, window).is_err());
        assert!(rate(&key.public(), &[], 2, window).is_err());
        let p256 = PrivateKey::from_secret(Algorithm::EcdsaP256, &[7; 32]).expect("a scalar");
        assert!(rate(&p256.public(), &signed, 2, window).is_err());
    }
}
