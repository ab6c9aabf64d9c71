//! `countersign identity enroll`: a key becomes an identity.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use countersign_verifier::{base64, leaf::Class};
use serde_json::json;

use crate::{
    cli::{
        enrol::class,
        keys, out,
        possession::{Claim, proof},
        tool::SignedArgs,
    },
    state::session::STARTER_ROLES,
    tools::hint,
};

/// Enroll a public key under a name; signed by the owner
///
/// Where the new key's private half is at hand (`--public-key` names its file, or `--possession` does), the proof that it is
/// goes with it. Of a public key alone your word stands: it may then sign receipts, and no operation.
#[derive(Debug, Args)]
pub struct EnrollArgs {
    /// A label, unique in the account: 1 to 64 of A-Z a-z 0-9 . _ - @
    name: String,
    /// The key to enroll: SPKI PEM, an OpenSSH Ed25519 line, a private key's file, or a vkey itself
    #[arg(long, value_name = "FILE|VKEY")]
    public_key: String,
    /// The proof that the key is at hand: what `key prove` printed, or the private key
    #[arg(long, value_name = "FILE")]
    possession: Option<PathBuf>,
    /// Where the key lives
    #[arg(long, default_value = "agent_key", value_parser = class())]
    class: Class,
    /// What it may be, by the account's policy; more than once for several [default: agent]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    #[command(flatten)]
    signed: SignedArgs,
}

pub(super) async fn run(args: &EnrollArgs) -> anyhow::Result<ExitCode> {
    let (public, private) = keys::public(&args.public_key)?;
    let to = args.signed.open().await?;
    let origin = to.1.origin().await?;
    let claim = Claim {
        origin: &origin,
        identity: public.identity(),
        class: args.class,
    };
    let possession = proof(&public, private.as_ref(), args.possession.as_deref(), claim)?;
    let mut arguments = json!({"name": args.name, "public_key": base64::encode(&public.spki_der()), "class": args.class.name()});
    for role in args
        .roles
        .iter()
        .filter(|role| !STARTER_ROLES.contains(&role.as_str()))
    {
        let meant = hint(role, STARTER_ROLES);
        if !meant.is_empty() {
            out::note(format_args!(
                "note: {role} becomes a role of its own{meant}"
            ));
        }
    }
    if !args.roles.is_empty() {
        arguments["roles"] = args.roles.clone().into();
    }
    match possession {
        Some(signature) => arguments["possession"] = signature.into(),
        None => out::note(format_args!(
            "note: only your word says that {} is at hand, so it may sign receipts and no operation; `countersign key prove` \
             where the private key is, and --possession here, would prove it",
            args.name
        )),
    }
    args.signed.write(&to, "identity_enroll", arguments).await
}
