//! `witness add-log`.

use std::process::ExitCode;

use clap::Args;

use super::list_source;
use super::reach::{Reach, block_on};
use super::{At, Fail, REFUSED, note, print};
use crate::roster::{Addition, Outcome};

/// Add logs to those that are cosigned; while the witness runs too
#[derive(Debug, Args)]
pub struct AddLogArgs {
    #[command(flatten)]
    at: At,
    /// The log's verifier key
    #[arg(
        value_name = "VKEY",
        required_unless_present = "list",
        conflicts_with = "list"
    )]
    vkey: Option<String>,
    /// The first line of its checkpoints, where it is not the name of its key
    #[arg(long, requires = "vkey")]
    origin: Option<String>,
    /// All logs of a witness-network list (logs/v0) that are not known yet; nothing of those that are is changed
    #[arg(long, value_name = "FILE|URL")]
    list: Option<String>,
    /// Where the log answers `consistency` and `node`, the part before them: heads that others show are settled there
    #[arg(long, requires = "vkey", value_name = "URL")]
    url: Option<String>,
    /// Its heads are not among those that everybody may ask for
    #[arg(long, requires = "vkey")]
    private: bool,
    /// A witness that is asked for the heads of this private log; may be repeated
    #[arg(long = "peer", requires = "private", value_name = "URL")]
    peers: Vec<String>,
}

pub(super) fn run(args: &AddLogArgs) -> Result<ExitCode, Fail> {
    block_on(async {
        let additions = match (&args.vkey, &args.list) {
            (_, Some(place)) => list_source::read(place).await?,
            (Some(vkey), None) => vec![Addition {
                vkey: vkey.clone(),
                origin: args.origin.clone(),
                url: args.url.clone(),
                private: args.private,
                peers: args.peers.clone(),
                ..Addition::default()
            }],
            // OK because one of them must be given.
            (None, None) => Vec::new(),
        };
        let reach = Reach::find(&args.at.dir()).await?;
        let outcomes = reach.add(&additions).await?;
        tell(&additions, &outcomes)
    })
}

/// One line a log.
fn tell(additions: &[Addition], outcomes: &[Outcome]) -> Result<ExitCode, Fail> {
    let (mut lines, mut refused) = (String::new(), false);
    for (addition, outcome) in additions.iter().zip(outcomes) {
        let name = addition.origin.as_deref();
        let name = name.or(addition.vkey.split('+').next()).unwrap_or_default();
        match outcome {
            Outcome::Added => lines += &format!("added {name}\n"),
            Outcome::KeyAdded => lines += &format!("added a key of {name}\n"),
            Outcome::Changed => lines += &format!("changed {name}\n"),
            Outcome::Known => lines += &format!("known already: {name}\n"),
            Outcome::Kept => lines += &format!("kept as it is: {name}\n"),
            Outcome::Refused { why } => {
                refused = true;
                note(format_args!("refused: {name}: {why}"));
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
