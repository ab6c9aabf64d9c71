//! `countersign blob`: bodies beside the log.

mod erase;
mod get;
mod put;

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use countersign_verifier::{hash::Hash, key::PrivateKey};

use crate::{
    cli::place::{KeyArg, Place, Service},
    client::By,
};

/// Keep, read and erase bodies beside the log, to which leaves refer by a commitment
#[derive(Debug, Args)]
pub struct BlobArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Put(put::PutArgs),
    Get(get::GetArgs),
    Erase(erase::EraseArgs),
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &BlobArgs) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        match &args.command {
            Command::Put(args) => put::run(args).await,
            Command::Get(args) => get::run(args).await,
            Command::Erase(args) => erase::run(args).await,
        }
    })
}

/// A commitment as an argument.
fn commitment(text: &str) -> Result<Hash, String> {
    Hash::from_hex(text).map_err(|_| "64 lowercase hexadecimal digits".into())
}

/// Who asks, and where: a key, and the origin that it signs for, or the token.
struct Asking {
    service: Service,
    key: Option<(PrivateKey, String)>,
}

impl Asking {
    async fn of(key: &KeyArg, place: &Place) -> anyhow::Result<Asking> {
        let (service, key) = key.reach(place).await?;
        let key = match key {
            Some(key) => Some((key, service.origin().await?)),
            None if service.client.has_token() => None,
            None => bail!(
                "neither a key nor a token: --key, COUNTERSIGN_KEY, --token-file, COUNTERSIGN_TOKEN, or a data directory that has one"
            ),
        };
        Ok(Asking { service, key })
    }

    fn by(&self) -> Option<By<'_>> {
        let (key, origin) = self.key.as_ref()?;
        Some(By {
            key,
            origin,
            session: None,
        })
    }
}
