//! `countersign account create`: one more account in a directory.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use countersign_log::{SystemClocks, store::rocks::Shared};
use countersign_verifier::key::PublicKey;
use serde_json::{Value, json};

use super::{
    super::{block_on, out::Out, place::DirArg},
    hold, in_use,
};
use crate::{
    client::{ClientError, admin_create_account},
    data_dir::DataDir,
    init::{self, Another},
    local_witnesses,
};

/// Make an account: a log of its own, with its own keys; a service that runs on the directory takes it in
///
/// It is private unless --public is given: its origin then ends in 26 random characters, its name is known here alone, and reading
/// it needs a token. Where the directory has witnesses of its own, they come to know its log, and its policy asks for two of the
/// three.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Its local name: a-z 0-9 -
    name: String,
    /// Its log's origin, for ever: such as log.example.com/team; of a private account what stands before its random end [default:
    /// the host of the first account]
    #[arg(long)]
    origin: Option<String>,
    /// Its owner's public key [default: that of DIR/owner.key]
    #[arg(long, value_name = "FILE")]
    owner: Option<PathBuf>,
    /// Let anybody read it
    #[arg(long)]
    public: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dir: DirArg,
}

/// Makes it.
///
/// # Errors
/// Anything that keeps it from being made; nothing is ever overwritten.
pub fn run(args: &CreateArgs) -> anyhow::Result<ExitCode> {
    let owner = match &args.owner {
        Some(path) => {
            let bytes =
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            let key = PublicKey::parse(text.as_bytes())
                .with_context(|| format!("{} holds no public key", path.display()))?;
            Some((text, key))
        }
        None => None,
    };
    let dir = args.dir.open();
    let made = match hold(&dir)? {
        Some(_held) => directly(&dir, args, owner.map(|(_, key)| key))?,
        None => {
            let plan = json!({
                "name": args.name,
                "origin": args.origin,
                "owner": owner.map(|(text, _)| text),
                "public": args.public,
            });
            let socket = dir.admin_socket();
            let asked = block_on(async { Ok(admin_create_account(&socket, &plan).await) })?;
            match asked {
                Err(ClientError::Unreachable { .. }) => return Err(in_use(&dir)),
                asked => asked?,
            }
        }
    };
    let mut out = Out::stdout();
    if args.json {
        out.line(&made)?;
    } else {
        let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
        let who = if args.public { "public" } else { "private" };
        out.line(format_args!("account {}, {who}", text("name")))?;
        out.line(format_args!("origin {}", text("origin")))?;
        out.line(format_args!("vkey {}", text("vkey")))?;
        out.line(format_args!("policy {}", text("policy")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// No service runs: by the code that it would run.
fn directly(dir: &DataDir, args: &CreateArgs, owner: Option<PublicKey>) -> anyhow::Result<Value> {
    let plan = Another {
        name: args.name.clone(),
        origin: args.origin.clone(),
        owner,
        public: args.public,
    };
    // Small: one commit is made.
    let shared = Shared::new(8 << 20, 8 << 20);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let made = init::add(dir, &plan, (&shared, Arc::new(SystemClocks)), |vkey| {
        runtime.block_on(local_witnesses::admit_running(dir, (vkey, plan.public)))
    })?;
    Ok(json!({
        "name": plan.name,
        "origin": made.origin,
        "vkey": made.vkey,
        "public": plan.public,
        "policy": dir.account(&plan.name).policy(),
    }))
}
