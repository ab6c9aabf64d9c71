//! `countersign sign`: bytes become a DSSE envelope.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, builder::NonEmptyStringValueParser};
use countersign_verifier::{
    dsse::Envelope,
    key::PrivateKey,
    limits::{PAYLOAD_BYTES_MAX, SIGNATURES_MAX},
};

use super::{
    keys,
    out::Out,
    place::{DirArg, owner_key},
};

/// No envelope that the service takes is longer as JSON.
const ENVELOPE_BYTES_MAX: usize = 256 << 10;

/// Sign a file: one DSSE envelope on standard output
///
/// The envelope is compact JSON in one line, so that several make NDJSON for `submit`. With --add, your signatures are added to
/// those of an envelope that others have signed.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// What is signed, as it is, byte for byte; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "add")]
    file: Option<PathBuf>,
    /// The payload's type, which is signed with it, such as application/vnd.in-toto+json
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "add", value_parser = NonEmptyStringValueParser::new())]
    payload_type: Option<String>,
    /// A key to sign with; several sign side by side [default: owner.key in the data directory]
    #[arg(
        long = "key",
        value_name = "FILE",
        env = "COUNTERSIGN_KEY",
        hide_env_values = true
    )]
    keys: Vec<PathBuf>,
    /// An envelope to sign as well; - for standard input. FILE and --type, if given, must be what it holds
    #[arg(long, value_name = "ENVELOPE")]
    add: Option<PathBuf>,
    #[command(flatten)]
    dir: DirArg,
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used.
pub fn run(args: &SignArgs) -> anyhow::Result<ExitCode> {
    let keys = read_keys(args)?;
    let payload = args
        .file
        .as_deref()
        .map(|file| read(file, PAYLOAD_BYTES_MAX).and_then(|bytes| fits(file, bytes)))
        .transpose()?;
    let envelope = match (&args.add, payload, &args.payload_type) {
        (Some(add), payload, payload_type) => {
            ensure!(
                !(is_stdin(add) && args.file.as_deref().is_some_and(is_stdin)),
                "standard input (-) can be read once"
            );
            let bytes = read(add, ENVELOPE_BYTES_MAX)?;
            let envelope = Envelope::parse(&bytes)
                .with_context(|| format!("{}: not a DSSE envelope", add.display()))?;
            agree(&envelope, payload.as_deref(), payload_type.as_deref())?;
            cosign(envelope, &keys)
        }
        (None, Some(payload), Some(payload_type)) => Envelope::sign(payload_type, &payload, &keys),
        // OK because clap demands both without --add.
        _ => bail!("FILE and --type are needed without --add"),
    };
    let signatures = envelope.signatures.len();
    ensure!(
        signatures <= SIGNATURES_MAX,
        "{signatures} signatures; an envelope has at most {SIGNATURES_MAX}"
    );
    let mut line = envelope.to_json();
    line.push(b'\n');
    Out::stdout().bytes(&line).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn read_keys(args: &SignArgs) -> anyhow::Result<Vec<PrivateKey>> {
    if args.keys.is_empty() {
        return owner_key(&args.dir).map(|key| vec![key]);
    }
    args.keys.iter().map(|path| keys::private(path)).collect()
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads up to one byte more than `limit`.
fn read(path: &Path, limit: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let take = |reader: &mut dyn Read, bytes: &mut Vec<u8>| {
        reader.take(limit as u64 + 1).read_to_end(bytes)
    };
    let read = if is_stdin(path) {
        take(&mut io::stdin().lock(), &mut bytes)
    } else {
        File::open(path).and_then(|mut file| take(&mut file, &mut bytes))
    };
    read.with_context(|| format!("{}", path.display()))?;
    Ok(bytes)
}

fn fits(path: &Path, bytes: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    ensure!(
        bytes.len() <= PAYLOAD_BYTES_MAX,
        "{}: longer than the {PAYLOAD_BYTES_MAX} bytes that one receipt can hold; sign a statement of its SHA-256 instead, such as an \
         in-toto statement with it as a subject",
        path.display()
    );
    Ok(bytes)
}

/// What is signed again must be what the caller thinks it is.
fn agree(
    envelope: &Envelope,
    payload: Option<&[u8]>,
    payload_type: Option<&str>,
) -> anyhow::Result<()> {
    if let Some(payload_type) = payload_type {
        let held = &envelope.payload_type;
        ensure!(
            payload_type == held,
            "the envelope's type is {held:?}, not {payload_type:?}"
        );
    }
    ensure!(
        payload.is_none_or(|payload| payload == envelope.payload),
        "the envelope's payload is not FILE: it was signed over other bytes"
    );
    Ok(())
}

/// The envelope with a signature by each key; one that a key has made before takes the place of the earlier one.
fn cosign(mut envelope: Envelope, keys: &[PrivateKey]) -> Envelope {
    let new = Envelope::sign(&envelope.payload_type, &envelope.payload, keys).signatures;
    envelope
        .signatures
        .retain(|old| new.iter().all(|new| new.keyid != old.keyid));
    envelope.signatures.extend(new);
    envelope
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_verifier::{dsse::count, key::Algorithm};

    fn key(n: u8) -> PrivateKey {
        PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).unwrap()
    }

    #[test]
    fn signatures_are_added_and_none_stands_twice() {
        let envelope = Envelope::sign("a/b", b"x", &[key(1)]);
        let both = cosign(envelope.clone(), &[key(2)]);
        assert_eq!(
            count(
                &both.pae(),
                &both.signatures,
                &[key(1).public(), key(2).public()]
            )
            .len(),
            2
        );
        assert_eq!(both.signatures[0], envelope.signatures[0]);
        assert_eq!(cosign(both.clone(), &[key(2), key(1)]).signatures.len(), 2);
    }

    #[test]
    fn what_is_signed_again_must_be_what_was_named() {
        let envelope = Envelope::sign("a/b", b"x", &[key(1)]);
        assert!(agree(&envelope, None, None).is_ok());
        assert!(agree(&envelope, Some(b"x"), Some("a/b")).is_ok());
        assert!(agree(&envelope, Some(b"y"), None).is_err());
        assert!(agree(&envelope, None, Some("a/c")).is_err());
    }

    #[test]
    fn a_payload_beyond_the_limit_is_refused_with_a_way_out() {
        let path = Path::new("big");
        assert!(fits(path, vec![0; PAYLOAD_BYTES_MAX]).is_ok());
        let error = fits(path, vec![0; PAYLOAD_BYTES_MAX + 1])
            .unwrap_err()
            .to_string();
        assert!(error.contains("in-toto"), "{error}");
    }
}
