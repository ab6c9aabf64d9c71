//! `countersign key show`: a public key in all its forms.

use std::{path::Path, process::ExitCode};

use clap::Args;
use countersign_verifier::{base64, key::PublicKey};
use serde_json::{Value, json};

use crate::cli::{keys, out::Out};

/// Show a public key in all its forms
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A public or a private key file (only its public half is shown), or a vkey
    #[arg(value_name = "FILE|VKEY")]
    file: String,
    /// The name in the vkey [default: the file's, without extension]
    #[arg(long)]
    name: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let (key, _private) = keys::public(&args.file)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => keys::name_of(Path::new(&args.file)),
    };
    let forms = forms(&key, &name);
    let mut out = Out::stdout();
    if args.json {
        out.line(forms)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (label, member) in [
        ("identity", "identity"),
        ("algorithm", "algorithm"),
        ("vkey", "vkey"),
        ("openssh", "openssh"),
        ("spki base64", "public_key"),
    ] {
        if let Some(form) = forms[member].as_str() {
            out.line(format_args!("{label:<12} {form}"))?;
        }
    }
    out.bytes(key.spki_pem().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn forms(key: &PublicKey, name: &str) -> Value {
    let mut forms = json!({
        "identity": key.identity().to_string(),
        "algorithm": key.algorithm().name(),
        "public_key": base64::encode(&key.spki_der()),
        "pem": key.spki_pem(),
    });
    for (member, form) in [
        ("vkey", keys::vkey(key, name)),
        ("openssh", keys::openssh_line(key)),
    ] {
        if let Some(form) = form {
            forms[member] = form.into();
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_verifier::key::{Algorithm, PrivateKey};

    #[test]
    fn every_form_reads_back_as_the_key() {
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[9; 32])
            .unwrap()
            .public();
        let forms = forms(&key, "ci");
        for member in ["vkey", "openssh", "pem"] {
            assert_eq!(
                PublicKey::parse(forms[member].as_str().unwrap().as_bytes()).unwrap(),
                key
            );
        }
        let spki = base64::decode(forms["public_key"].as_str().unwrap()).unwrap();
        assert_eq!(PublicKey::from_spki(&spki).unwrap(), key);
    }
}
