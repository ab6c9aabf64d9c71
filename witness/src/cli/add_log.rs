//! `witness add-log`.

use std::process::ExitCode;

use clap::Args;

use super::reach::{Reach, block_on};
use super::{At, Fail, REFUSED, print};
use crate::roster::{Addition, Outcome};

/// Add logs to those that are cosigned; while the witness runs too. There is no way to remove one: a log that came back could be cosigned on another branch
#[derive(Debug, Args)]
pub struct AddLogArgs {
    #[command(flatten)]
    at: At,
    /// The log's verifier key
    #[arg(value_name = "VKEY")]
    vkey: String,
    /// The first line of its checkpoints, where it is not the name of its key
    #[arg(long)]
    origin: Option<String>,
}

pub(super) fn run(args: &AddLogArgs) -> Result<ExitCode, Fail> {
    let additions = [Addition {
        vkey: args.vkey.clone(),
        origin: args.origin.clone(),
        qpd: None,
        list: None,
    }];
    let outcomes = block_on(async {
        let reach = Reach::find(&args.at.dir()).await?;
        reach.add(&additions).await
    })?;
    tell(&additions, &outcomes)
}

/// One line a log that is new or refused.
fn tell(additions: &[Addition], outcomes: &[Outcome]) -> Result<ExitCode, Fail> {
    let (mut lines, mut refused) = (String::new(), false);
    for (addition, outcome) in additions.iter().zip(outcomes) {
        let name = addition.origin.as_deref();
        let name = name.or(addition.vkey.split('+').next()).unwrap_or_default();
        match outcome {
            Outcome::Added => lines += &format!("added {name}\n"),
            Outcome::KeyAdded => lines += &format!("added a key of {name}\n"),
            Outcome::Known => lines += &format!("known already: {name}\n"),
            Outcome::Kept => lines += &format!("kept as it is: {name}\n"),
            Outcome::Refused { why } => {
                refused = true;
                eprintln!("refused: {name}: {why}");
            }
        }
    }
    print(&lines)?;
    Ok(if refused {
        ExitCode::from(REFUSED)
    } else {
        ExitCode::SUCCESS
    })
}
