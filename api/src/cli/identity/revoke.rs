//! `countersign identity revoke`: an identity ends.

use std::process::ExitCode;

use clap::Args;
use countersign_verifier::key::IdentityId;
use serde_json::json;

use crate::cli::{enrol::named, tool::SignedArgs};

/// End an identity: nothing that it signs counts from the next leaf on. Signed by the owner, or by the identity itself
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Who
    #[arg(value_name = "IDENTITY|NAME")]
    identity: String,
    /// Why; stays in the log for ever
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    signed: SignedArgs,
}

pub(super) async fn run(args: &RevokeArgs) -> anyhow::Result<ExitCode> {
    let to = args.signed.open().await?;
    let (caller, service) = &to;
    let identity = match args.identity.parse::<IdentityId>() {
        Ok(id) => id.to_string(),
        Err(_) => named(service, Some(caller), &args.identity).await?.identity,
    };
    let mut arguments = json!({ "identity": identity });
    if let Some(reason) = &args.reason {
        arguments["reason"] = reason.as_str().into();
    }
    args.signed.write(&to, "identity_revoke", arguments).await
}
