//! `countersign identity revoke`: an identity ends.

use std::process::ExitCode;

use clap::Args;
use countersign_verifier::key::IdentityId;
use serde_json::json;

use crate::cli::{
    enrol::named,
    place::{KeyArg, Place},
    tool::{self, WaitArgs},
};

/// End an identity: nothing that it signs counts from the next leaf on. Signed by the owner, or by the identity itself
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Who
    #[arg(value_name = "IDENTITY|NAME")]
    identity: String,
    /// Why; stays in the log for ever
    #[arg(long)]
    reason: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &RevokeArgs) -> anyhow::Result<ExitCode> {
    let caller = args.key.read(&args.place.site.dir)?;
    let service = args.key.service(&args.place).await?;
    let identity = match args.identity.parse::<IdentityId>() {
        Ok(id) => id.to_string(),
        Err(_) => {
            named(&service, Some(&caller), &args.identity)
                .await?
                .identity
        }
    };
    let mut arguments = json!({ "identity": identity });
    if let Some(reason) = &args.reason {
        arguments["reason"] = reason.as_str().into();
    }
    let answer = tool::write(
        &service,
        &caller,
        ("identity_revoke", arguments),
        None,
        args.wait,
    )
    .await?;
    tool::show(&answer, args.json)
}
