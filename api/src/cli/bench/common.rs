//! What all benches are told.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Args;

use super::words::{positive, seconds};
use crate::bench::rig::{Common, Peer};

#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    /// Rounds; medians over them are reported
    #[arg(long, default_value_t = 5, value_parser = positive)]
    rounds: usize,
    /// Seconds for which each side is measured in each round
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Size of each signed payload
    #[arg(long, default_value_t = 1024)]
    payload_bytes: usize,
    /// A peer, started as `PEER -dir DIR -keys FILE`, or a witness as `PEER -dir DIR -logs FILE`
    #[arg(long, value_name = "PEER", conflicts_with = "peer")]
    peer_binary: Option<PathBuf>,
    /// A peer that runs already
    #[arg(long, value_name = "URL", requires = "peer_key")]
    peer: Option<String>,
    /// The private key that the running peer knows
    #[arg(long, value_name = "FILE", requires = "peer")]
    peer_key: Option<PathBuf>,
    /// The program whose service is measured, as an older release; by default this one
    #[arg(long, value_name = "COUNTERSIGN")]
    service: Option<PathBuf>,
    /// Where the servers' directories are made; by default where temporary files go
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Every round as JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

impl CommonArgs {
    /// What the bench goes by.
    ///
    /// # Errors
    /// No path of this program.
    pub(super) fn read(&self) -> anyhow::Result<Common> {
        let peer = match (&self.peer_binary, &self.peer, &self.peer_key) {
            (Some(binary), ..) => Some(Peer::Binary(binary.clone())),
            (None, Some(url), Some(key)) => Some(Peer::Running {
                url: url.clone(),
                key: key.clone(),
            }),
            _ => None,
        };
        Ok(Common {
            binary: match &self.service {
                Some(service) => service.clone(),
                None => std::env::current_exe().context("this program's own path")?,
            },
            rounds: self.rounds,
            window: Duration::from_secs_f64(self.seconds),
            payload_bytes: self.payload_bytes,
            peer,
            scratch: self.scratch.clone().unwrap_or_else(std::env::temp_dir),
        })
    }
}
