//! `countersign shim`: a client of the Model Context Protocol with a key of its own.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use tokio::{
    io::{BufReader, stdin, stdout},
    signal::unix::{SignalKind, signal},
};

use super::{
    block_on, out,
    place::{KeyArg, Place},
};
use crate::{
    client::{Agent, CheckIn},
    doors::{
        mcp::stdio,
        shim::{BOUND, Shim},
    },
};

/// Stand between a client of the Model Context Protocol and the service: standard input in, signed calls out
///
/// Checks in, and binds a key to the session that is made for it and lives in this process alone; that key signs each call, so that
/// the leaves say `session_key`: nothing that the service could have made up. Heartbeats are sent while the client is there, and it is
/// checked out when it goes. Both eras of the protocol are spoken.
#[derive(Debug, Args)]
#[command(after_help = "\
As an MCP server of a client's configuration:
  {\"command\": \"countersign\", \"args\": [\"shim\", \"--url\", \"http://127.0.0.1:8780\", \"--account\", \"dev\", \"--key\", \"agent.key\"]}")]
pub struct ShimArgs {
    /// As what to check in: one of the roles of the key's identity
    #[arg(long, default_value = "agent")]
    role: String,
    /// The session ends when nothing was heard of this process for so many seconds: 10 to 86400
    #[arg(long, value_name = "N", default_value_t = 900, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    ttl_s: u64,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

/// Serves the client at standard input until it goes, or SIGTERM or SIGINT come.
///
/// # Errors
/// A key that cannot be used, or a check-in that is refused; afterwards only what the system says of input and output.
pub fn run(args: &ShimArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let key = args.key.read(&args.place.site.dir)?;
        let service = args.key.service(&args.place).await?;
        let origin = service.origin().await?;
        let agent = Agent::new(service.client.clone(), origin, key);
        let asked = CheckIn {
            harness: (
                "countersign-shim".into(),
                Some(env!("CARGO_PKG_VERSION").into()),
            ),
            session_key: Some(BOUND),
            ..CheckIn::new(&*args.role, "").ttl(Duration::from_secs(args.ttl_s))
        };
        let (mut term, mut int) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let shim = Shim::begin(agent, asked)
            .await
            .map_err(|error| service.explain(error))?;
        let shim = Arc::new(shim);
        out::note(format_args!(
            "countersign shim: session {} in role {} at {}",
            shim.session_id().await,
            args.role,
            service.client.url()
        ));
        let served = tokio::select! {
            served = stdio::serve(BufReader::new(stdin()), stdout(), &shim) => served,
            () = shim.beat() => Ok(()),
            _ = term.recv() => Ok(()),
            _ = int.recv() => Ok(()),
        };
        if let Err(error) = shim.end().await {
            out::note(format_args!(
                "countersign shim: not checked out, so the session ends by itself: {error}"
            ));
        }
        served.context("standard input or output")?;
        Ok(ExitCode::SUCCESS)
    })
}
