//! `countersign blob erase`: a body is gone for good.

use std::process::ExitCode;

use clap::Args;
use countersign_verifier::hash::Hash;
use serde_json::json;

use super::commitment;
use crate::cli::tool::SignedArgs;

/// Erase a body and its salt for good; a leaf says so. Signed with your own key
///
/// No hash of the log changes. The leaves that refer to it hold as before, and `verify` says of them that the body was erased, given
/// the evidence of this leaf. It is never taken again.
#[derive(Debug, Args)]
pub struct EraseArgs {
    /// The commitment, 64 hexadecimal digits
    #[arg(value_parser = commitment)]
    commitment: Hash,
    /// Why; it stands in the leaf for ever
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    signed: SignedArgs,
}

pub(super) async fn run(args: &EraseArgs) -> anyhow::Result<ExitCode> {
    let opened = args.signed.open().await?;
    let mut arguments = json!({"commitment": args.commitment.to_hex()});
    if let Some(reason) = &args.reason {
        arguments["reason"] = reason.as_str().into();
    }
    args.signed.write(&opened, "blob_erase", arguments).await
}
