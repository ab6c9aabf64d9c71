//! `countersign submit`: envelopes go into the log.

mod batch;
mod flow;
mod frame;
mod input;
mod progress;
mod report;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{anyhow, ensure};
use clap::Args;

use self::{flow::Flow, input::Inputs, report::Report};
use super::{block_on, out::Out, place::Place, save, tool::WaitArgs};
use crate::client::SubmitOptions;

/// Hand in receipts: DSSE envelopes, one or millions
///
/// Each input is one envelope, or several: one a line (NDJSON), of any length. What meets a busy service or a broken connection
/// is sent again, and may always be: what the log has already is answered, not added.
///
/// Prints a line for each envelope, in order, with tabs between: index, leaf hash, state, new or duplicate, and with --out the
/// evidence file. Of a refused one: -, -, refused and the code; what helps goes to standard error.
///
/// Exit codes: 0 all are in the state asked for; 1 some were refused; 3 of some it is not confirmed (run it again); 2 wrong
/// usage, or a file that cannot be read or written. Of several the first in the order 2, 1, 3, 0 counts.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Files of envelopes; - for standard input
    #[arg(required = true, value_name = "ENVELOPE")]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    wait: WaitArgs,
    /// A folder for the evidence of each, <index>.evidence.json, made if it is not there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How long to try again, in seconds of pauses; 0 for never
    #[arg(long, value_name = "N", default_value_t = 30)]
    retry_s: u64,
    /// Print one line of JSON for each envelope
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Runs it.
///
/// # Errors
/// No service, or a file or folder that cannot be used; nothing was sent then.
pub fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    let stdin = args
        .inputs
        .iter()
        .filter(|path| path.as_os_str() == "-")
        .count();
    ensure!(stdin <= 1, "standard input (-) can be read once");
    for path in args.inputs.iter().filter(|path| path.as_os_str() != "-") {
        // Now, so that a name with a typing error does not leave half of the work done.
        let is_folder = std::fs::metadata(path).map(|about| about.is_dir());
        let is_folder =
            is_folder.map_err(|e| anyhow!("{}: {e}; nothing was sent", path.display()))?;
        ensure!(
            !is_folder,
            "{}: is a folder; nothing was sent",
            path.display()
        );
    }
    if let Some(folder) = &args.out {
        save::make_folder(folder)?;
    }
    block_on(async {
        let service = args.place.service().await?;
        let options = SubmitOptions {
            wait: args.wait.wait,
            deadline: args.wait.deadline(),
            proof: false,
        };
        let work = flow::Work {
            client: service.client.clone(),
            options,
            folder: args.out.clone(),
            patience: Duration::from_secs(args.retry_s),
        };
        let report = Report::new(Out::stdout(), args.json);
        let report = Flow::new(work, Inputs::new(args.inputs.clone()), report)
            .with_hint(service.hint())
            .run()
            .await?;
        // In a pipe, whoever was to make the envelope has most likely failed.
        ensure!(
            !report.is_empty(),
            "there was no envelope in the input: nothing was sent"
        );
        Ok(ExitCode::from(report.exit_code()))
    })
}

#[cfg(test)]
mod tests;
