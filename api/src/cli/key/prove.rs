//! `countersign key prove`: the proof that a key is at hand, for its enrolment elsewhere.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use countersign_verifier::{key::IdentityId, leaf::Class};

use crate::cli::{
    enrol::class,
    keys,
    out::Out,
    possession::{Claim, PossessionFile},
};

/// Sign the proof that a key is at hand, so that somebody else can enrol it
///
/// What it prints is no secret: give it, and the public key, to whoever enrols it with `identity enroll --possession`.
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// The private key
    key: PathBuf,
    /// The origin of the log in which it is to be enrolled, such as localhost/dev
    #[arg(long)]
    origin: String,
    /// Where the key lives
    #[arg(long, default_value = "agent_key", value_parser = class())]
    class: Class,
    /// The identity that is to get this key, if it exists already (`identity rotate`) [default: the one that this key begins]
    #[arg(long, value_name = "ID")]
    identity: Option<IdentityId>,
}

pub(super) fn run(args: &ProveArgs) -> anyhow::Result<ExitCode> {
    let key = keys::private(&args.key)?;
    let identity = args.identity.unwrap_or_else(|| key.public().identity());
    let claim = Claim {
        origin: &args.origin,
        identity,
        class: args.class,
    };
    let file = PossessionFile::sign(&key, claim);
    Out::stdout().line(serde_json::to_string(&file)?)?;
    Ok(ExitCode::SUCCESS)
}
