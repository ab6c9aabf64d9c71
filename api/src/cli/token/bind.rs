//! `countersign token bind`: the subject of an authorization server's tokens is a seat here.

use std::process::ExitCode;

use clap::Args;

use super::new::{make, seat_of};
use crate::{
    cli::{
        out,
        place::{KeyArg, Place},
        tool::{self, WaitArgs},
    },
    issuer::subject_hash,
};

/// Bind the subject of an authorization server's tokens to an identity, and make its seat where there is none of that name; signed by the owner
///
/// For `POST /mcp` where `mcp.authorization_server` is set: whoever comes with a token of that server's for this subject asks as this
/// identity. The log holds the SHA-256 of issuer, claim and subject, and neither of them. `token revoke` ends it, as any token.
#[derive(Debug, Args)]
pub struct BindArgs {
    /// The seat's name: 1 to 64 of A-Z a-z 0-9 . _ - @
    name: String,
    /// The authorization server, word for word as its tokens name it (`iss`)
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// Whom its tokens name
    #[arg(long, value_name = "TEXT")]
    subject: String,
    /// The claim that names the subject, as `mcp.subject_claim` has it
    #[arg(long, value_name = "NAME", default_value = "sub")]
    claim: String,
    /// What a new seat may be; more than once for several [default: agent]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// It ends by itself after so many seconds [default: when it is revoked]
    #[arg(long, value_name = "N")]
    ttl_s: Option<u64>,
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

pub(super) async fn run(args: &BindArgs) -> anyhow::Result<ExitCode> {
    let caller = args.key.read(&args.place.site.dir)?;
    let service = args.key.service(&args.place).await?;
    let seat = (args.name.as_str(), args.roles.as_slice());
    let identity = seat_of(&service, &caller, seat, args.wait).await?;
    let hash = subject_hash(&args.issuer, &args.claim, &args.subject);
    let token_new = (identity.as_str(), hash, args.ttl_s);
    let answer = make(&service, &caller, token_new, args.wait).await?;
    out::note(format_args!(
        "{} of {} asks as {} ({identity}); `countersign token revoke {}` ends it",
        args.subject,
        args.issuer,
        args.name,
        hash.to_hex()
    ));
    tool::show(&answer, args.json)
}
