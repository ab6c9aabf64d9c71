//! `countersign identity rotate`: an identity gets another key.

use std::{path::PathBuf, process::ExitCode};

use anyhow::bail;
use clap::Args;
use countersign_verifier::{base64, key::PrivateKey, leaf::Class};
use serde_json::json;

use crate::cli::{
    enrol::{Row, find, named},
    keys, out,
    place::Service,
    possession::{Claim, proof},
    tool::SignedArgs,
};

/// Give an identity another key; its id stays. Signed with its present key, or by the owner
#[derive(Debug, Args)]
pub struct RotateArgs {
    /// Whose key changes [default: yours]
    #[arg(value_name = "IDENTITY|NAME")]
    identity: Option<String>,
    /// The new key: SPKI PEM, an OpenSSH Ed25519 line, a private key's file, or a vkey itself
    #[arg(long, value_name = "FILE|VKEY")]
    public_key: String,
    /// The proof that the key is at hand: what `key prove --identity` printed, or the private key
    #[arg(long, value_name = "FILE")]
    possession: Option<PathBuf>,
    #[command(flatten)]
    signed: SignedArgs,
}

pub(super) async fn run(args: &RotateArgs) -> anyhow::Result<ExitCode> {
    let (public, private) = keys::public(&args.public_key)?;
    let to = args.signed.open().await?;
    let (caller, service) = &to;
    let row = target(service, caller, args.identity.as_deref()).await?;
    let Some(class) = Class::from_name(&row.class) else {
        bail!(
            "{} is of class {:?}, which this release does not know",
            row.identity,
            row.class
        );
    };
    let origin = service.origin().await?;
    let claim = Claim {
        origin: &origin,
        identity: row.id()?,
        class,
    };
    let mut arguments =
        json!({"identity": row.identity, "public_key": base64::encode(&public.spki_der())});
    if let Some(signature) = proof(&public, private.as_ref(), args.possession.as_deref(), claim)? {
        arguments["possession"] = signature.into();
    }
    let own = base64::encode(&caller.public().spki_der()) == row.public_key;
    let code = args.signed.write(&to, "identity_rotate", arguments).await?;
    if own {
        out::note(
            "from the next leaf on the key that signed this counts no more: sign with the new one (--key)",
        );
    }
    Ok(code)
}

/// The identity of this id or name, or the caller's own: the one whose present key the caller's is.
async fn target(
    service: &Service,
    caller: &PrivateKey,
    identity: Option<&str>,
) -> anyhow::Result<Row> {
    if let Some(identity) = identity {
        return named(service, Some(caller), identity).await;
    }
    let present = base64::encode(&caller.public().spki_der());
    match find(service, Some(caller), |row| row.public_key == present).await? {
        Some(row) => Ok(row),
        None => bail!(
            "your key is the present one of no identity of account {}: say whose key is to change",
            service.client.account()
        ),
    }
}
