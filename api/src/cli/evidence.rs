//! `countersign evidence`: evidence files of leaves that are in the log.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use countersign_verifier::hash::Hash;

use super::{
    REFUSED, UNKNOWN, UNUSABLE, block_on, client_exit_code, out,
    out::Out,
    place::{Place, Service},
    save,
};
use crate::client::{ClientError, EvidenceFile};

/// Fetch the evidence of leaves: files that `verify` checks offline
#[derive(Debug, Args)]
pub struct EvidenceArgs {
    /// Which leaves
    #[arg(required = true, value_name = "INDEX|LEAF_HASH", value_parser = which)]
    leaves: Vec<Which>,
    /// The folder for <index>.evidence.json, made if it is not there; - prints the evidence, one line each
    #[arg(long, value_name = "DIR|-", default_value = "-")]
    out: PathBuf,
    /// How long to wait for a leaf that is not published yet, in seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    wait_s: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Index(u64),
    Hash(Hash),
}

fn which(text: &str) -> Result<Which, String> {
    if let Ok(hash) = Hash::from_hex(text) {
        return Ok(Which::Hash(hash));
    }
    let index = text
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten();
    index
        .map(Which::Index)
        .ok_or_else(|| "an index from 0, or a leaf hash of 64 lowercase hexadecimal digits".into())
}

/// Runs it.
///
/// # Errors
/// A folder that cannot be used, or no service.
pub fn run(args: &EvidenceArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let service = args.place.service().await?;
        let to_folder = args.out.as_os_str() != "-";
        if to_folder {
            save::make_folder(&args.out)?;
        }
        let mut out = Out::stdout();
        let mut codes = Vec::new();
        for which in &args.leaves {
            let file = match fetch(&service, *which, Duration::from_secs(args.wait_s)).await {
                Ok(file) => file,
                Err(error) if matches!(error, ClientError::Unreachable { .. }) => {
                    return Err(service.explain(error));
                }
                Err(error) => {
                    out::note(format_args!("countersign: {error}"));
                    codes.push(client_exit_code(&error));
                    continue;
                }
            };
            if !to_folder {
                out.bytes(&file.bytes).context("standard output")?;
                continue;
            }
            match save::save(&args.out, &file) {
                Ok(path) => out.line(path.display()).context("standard output")?,
                Err(error) => {
                    out::note(format_args!("countersign: {error}"));
                    codes.push(UNUSABLE);
                }
            }
        }
        Ok(ExitCode::from(worst(&codes)))
    })
}

async fn fetch(
    service: &Service,
    which: Which,
    patience: Duration,
) -> Result<EvidenceFile, ClientError> {
    match which {
        Which::Index(index) => service.client.evidence_when_ready(index, patience).await,
        Which::Hash(hash) => service.client.evidence_by_hash(&hash).await,
    }
}

/// Of several exit codes the one that counts: 2, 1, 3, 0.
pub fn worst(codes: &[u8]) -> u8 {
    [UNUSABLE, REFUSED, UNKNOWN]
        .into_iter()
        .find(|code| codes.contains(code))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_an_index_or_a_hash() {
        assert_eq!(which("0"), Ok(Which::Index(0)));
        assert_eq!(which(&u64::MAX.to_string()), Ok(Which::Index(u64::MAX)));
        // 64 digits are a hash, whatever they would be as a number.
        assert!(matches!(which(&"1".repeat(64)), Ok(Which::Hash(_))));
        for bad in [
            "",
            "-1",
            "+1",
            "1.5",
            "99999999999999999999",
            &"A".repeat(64),
        ] {
            assert!(which(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn of_several_codes_the_worst_counts() {
        assert_eq!(worst(&[]), 0);
        assert_eq!(worst(&[UNKNOWN]), UNKNOWN);
        assert_eq!(worst(&[UNKNOWN, REFUSED]), REFUSED);
        assert_eq!(worst(&[REFUSED, UNUSABLE, UNKNOWN]), UNUSABLE);
    }
}
