//! `countersign key new`: a fresh key in a file of its own.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use countersign_verifier::key::{Algorithm, PrivateKey};
use zeroize::Zeroizing;

use crate::{
    cli::{keys, out::Out},
    data_dir::{write_public, write_secret},
};

/// Make a key: FILE gets the private half (PKCS#8 PEM, mode 0600), FILE.pub the public one
///
/// Prints its identity, and of an Ed25519 key its vkey. Nothing is ever overwritten.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Where the private key goes; must not exist, and neither must FILE.pub
    file: PathBuf,
    /// The kind of key
    #[arg(long, value_enum, default_value_t = Alg::Ed25519)]
    alg: Alg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Alg {
    Ed25519,
    P256,
    P384,
}

impl From<Alg> for Algorithm {
    fn from(alg: Alg) -> Algorithm {
        match alg {
            Alg::Ed25519 => Algorithm::Ed25519,
            Alg::P256 => Algorithm::EcdsaP256,
            Alg::P384 => Algorithm::EcdsaP384,
        }
    }
}

pub(super) fn run(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let key = generate(args.alg.into())?;
    let public_file = write(&args.file, &key)?;
    let public = key.public();
    let mut out = Out::stdout();
    out.line(format_args!("{}", public.identity()))?;
    if let Some(vkey) = keys::vkey(&public, &keys::name_of(&args.file)) {
        out.line(vkey)?;
    }
    crate::cli::out::note(format_args!(
        "made {} (keep it to yourself) and {}",
        args.file.display(),
        public_file.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// A key of the system's randomness.
fn generate(algorithm: Algorithm) -> anyhow::Result<PrivateKey> {
    let bytes = if algorithm == Algorithm::EcdsaP384 {
        48
    } else {
        32
    };
    loop {
        let mut secret = Zeroizing::new(vec![0; bytes]);
        getrandom::fill(&mut secret).context("no randomness from the system")?;
        // Of random scalars fewer than one in 2^32 is none; draw again.
        if let Ok(key) = PrivateKey::from_secret(algorithm, &secret) {
            return Ok(key);
        }
    }
}

/// Writes both halves and returns where the public one is.
fn write(file: &Path, key: &PrivateKey) -> anyhow::Result<PathBuf> {
    let mut public = file.as_os_str().to_owned();
    public.push(".pub");
    let public = PathBuf::from(public);
    // Looked at first, so that no private key is left behind without its public half.
    if let Some(there) = [file, &public].into_iter().find(|path| path.exists()) {
        bail!(
            "{} exists, and nothing is overwritten: choose another name",
            there.display()
        );
    }
    match write_secret(file, key.to_pem().as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!(
                "{} exists, and nothing is overwritten: choose another name",
                file.display()
            )
        }
        written => written.with_context(|| format!("{}", file.display()))?,
    }
    write_public(&public, key.public().spki_pem().as_bytes()).with_context(|| {
        format!(
            "{}: the key is in {}; `countersign key show` prints its public half",
            public.display(),
            file.display()
        )
    })?;
    Ok(public)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use countersign_verifier::key::PublicKey;

    #[test]
    fn both_halves_are_written_once_and_fit() {
        for alg in [Alg::Ed25519, Alg::P256, Alg::P384] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("ci.key");
            let key = generate(alg.into()).unwrap();
            let public = write(&file, &key).unwrap();
            assert_eq!(public, dir.path().join("ci.key.pub"));
            assert_eq!(
                fs::metadata(&file).unwrap().permissions().mode() & 0o777,
                0o600
            );
            assert_eq!(keys::private(&file).unwrap().public(), key.public());
            assert_eq!(
                PublicKey::parse(&fs::read(&public).unwrap()).unwrap(),
                key.public()
            );
            let before = fs::read(&file).unwrap();
            assert!(write(&file, &generate(alg.into()).unwrap()).is_err());
            fs::remove_file(&public).unwrap();
            let error = write(&file, &generate(alg.into()).unwrap())
                .unwrap_err()
                .to_string();
            assert!(error.contains("nothing is overwritten"), "{error}");
            assert_eq!(fs::read(&file).unwrap(), before);
            assert!(!public.exists());
        }
    }
}
