//! `countersign completions`: what a shell completes, out of the arguments themselves.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::out::Out;

/// Print a shell's completion of these commands
///
/// countersign completions bash > /usr/local/share/bash-completion/completions/countersign
///
/// zsh: as `_countersign` in a folder of $fpath; fish: as `countersign.fish` in ~/.config/fish/completions.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Whose
    shell: Shell,
}

/// Runs it.
///
/// # Errors
/// Standard output that cannot be written.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut super::Cli::command(),
        "countersign",
        &mut script,
    );
    Out::stdout().bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
