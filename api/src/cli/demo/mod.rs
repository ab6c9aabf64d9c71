//! `countersign demo`: two agents and a human at work on a board, every step in front of the reader's eyes.

mod board;
mod own;
mod proof;
mod show;
mod story;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_verifier::key::PrivateKey;
use serde_json::json;

use self::{
    own::Own,
    show::{Show, Step},
};
use super::{
    Fail, REFUSED, block_on,
    place::{self, DirArg, KeyArg, Place},
};
use crate::{
    client::{Agent, Client, ClientError},
    data_dir::DataDir,
};

/// Two agents and a human work on a board of 118 items before your eyes, and every leaf of it is checked offline
///
/// Runs against the service of DIR (or of --url), and leaves the board and two revoked agents there; where none runs, against one of
/// its own, with three witnesses, in a temporary folder that is gone afterwards. Takes half a minute: one agent is killed, and
/// its work comes back by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  every step was as it must be, and all evidence holds
  1  one was not
  2  wrong usage, or a file that cannot be used
  3  the service does not answer")]
pub struct DemoArgs {
    /// Print one line of JSON a step
    #[arg(long)]
    json: bool,
    /// Keep the evidence of every leaf, and the policy, in this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// What the evidence is checked with [default: the policy in the data directory]
    #[arg(long, value_name = "FILE|FOLDER")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

/// Where the demonstration plays.
struct Stage {
    client: Client,
    origin: String,
    /// Of whoever may enrol agents: the human of the story.
    owner: PrivateKey,
    policy: PathBuf,
}

/// Runs it.
///
/// # Errors
/// Whatever was not as it must be.
pub fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let mut show = Show::new(args.json);
        if is_served(args).await {
            let stage = of_place(args).await?;
            let said = format!(
                "the service at {}, account {}",
                stage.client.url(),
                stage.client.account()
            );
            begin(&mut show, said, &stage)?;
            play(args, &stage, &mut show).await?;
            return Ok(ExitCode::SUCCESS);
        }
        show.say("No service runs here, so this starts one of its own; `countersign up` makes one that stays.")?;
        let own = Own::start().await?;
        let stage = of_own(&own)?;
        let said = format!("a service of its own at {}, with three witnesses", own.url);
        begin(&mut show, said, &stage)?;
        let played = play(args, &stage, &mut show).await;
        own.stop().await;
        played.map(|()| ExitCode::SUCCESS)
    })
}

/// Whether there is a service to play at: one that was named, or one that answers for the data directory.
async fn is_served(args: &DemoArgs) -> bool {
    if args.place.site.url.is_some() {
        return true;
    }
    let Some(running) = args.place.site.dir.open().running() else {
        return false;
    };
    match Client::new(&running.url, "", None) {
        Ok(client) => client.health().await.is_ok(),
        Err(_) => false,
    }
}

async fn of_place(args: &DemoArgs) -> anyhow::Result<Stage> {
    let owner = args.key.read(&args.place.site.dir)?;
    let service = args.key.service(&args.place).await?;
    let policy = match (&args.policy, service.policy()) {
        (Some(policy), _) => policy.clone(),
        (None, Some(policy)) => policy,
        (None, None) => bail!(
            "--policy is needed: what the evidence is checked with must not come from the service that is checked"
        ),
    };
    Ok(Stage {
        origin: service.origin().await?,
        client: service.client,
        owner,
        policy,
    })
}

fn of_own(own: &Own) -> anyhow::Result<Stage> {
    let dir = DataDir::new(&own.dir);
    Ok(Stage {
        client: Client::new(&own.url, "dev", None)?,
        origin: "localhost/dev".into(),
        owner: place::owner_key(&DirArg {
            dir: Some(own.dir.clone()),
        })?,
        policy: dir.account("dev").policy_for_verifiers(),
    })
}

fn begin(show: &mut Show, said: String, stage: &Stage) -> anyhow::Result<()> {
    show.look(Step {
        who: "demo",
        name: "service",
        words: format!("plays at {said}"),
        more: json!({"url": stage.client.url(), "account": stage.client.account(), "origin": stage.origin}),
    })
}

async fn play(args: &DemoArgs, stage: &Stage, show: &mut Show) -> anyhow::Result<()> {
    let key = PrivateKey::parse(&stage.owner.to_pem()).context("the owner's key")?;
    let human = Agent::new(stage.client.clone(), &*stage.origin, key);
    let out = args.out.as_deref();
    told(story::tell(&human, show).await)?;
    told(proof::prove(&stage.client, &stage.policy, out, show).await)?;
    told(story::end(&human, show).await)?;
    if let Some(out) = out {
        let name = stage.policy.file_name().map(Path::new);
        let policy = out.join(name.unwrap_or(Path::new("policy")));
        show.say(&format!(
            "\nThe evidence is in {}. It stays true without the service:\n  countersign verify {}/*.evidence.json --policy {}",
            out.display(),
            out.display(),
            policy.display()
        ))?;
    }
    Ok(())
}

/// What is not as it must be ends with 1; what keeps the service from being asked, as it does everywhere.
fn told(step: anyhow::Result<()>) -> anyhow::Result<()> {
    step.map_err(|error| match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(_)) | None => Fail {
            code: REFUSED,
            message: format!("not as it must be: {error:#}"),
        }
        .into(),
        Some(_) => error,
    })
}
