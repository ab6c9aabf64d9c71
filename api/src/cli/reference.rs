//! `countersign reference`: the pages of docs/reference/commands.md, out of the arguments themselves.

use std::{fmt::Write as _, process::ExitCode};

use clap::{Arg, ArgAction, Args, Command, CommandFactory as _};

use super::out::Out;

/// Print the reference of all commands in Markdown
#[derive(Debug, Args)]
pub struct ReferenceArgs {}

/// Runs it.
///
/// # Errors
/// Standard output that cannot be written.
pub fn run(_args: &ReferenceArgs) -> anyhow::Result<ExitCode> {
    Out::stdout().bytes(markdown().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The heading of the arguments that many commands share.
const SHARED: &str = "Where";

/// The whole reference.
fn markdown() -> String {
    let mut root = super::Cli::command();
    root.build();
    let mut out = String::from(
        "# Commands\n\nMade by `countersign reference`; do not edit.\n\n## Where\n\nWhich directory, service, account and key a command \
         uses; each command names those that it takes.\n\n",
    );
    let mut shared: Vec<Arg> = Vec::new();
    collect(&root, &mut shared);
    for arg in &shared {
        argument(&mut out, arg);
    }
    for command in visible(&root) {
        page(&mut out, "countersign", command);
    }
    out
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// The shared arguments of a command and of those below it, each once.
fn collect(command: &Command, shared: &mut Vec<Arg>) {
    for arg in command
        .get_arguments()
        .filter(|arg| is_shared(arg) && !arg.is_hide_set())
    {
        if shared.iter().all(|seen| seen.get_id() != arg.get_id()) {
            shared.push(arg.clone());
        }
    }
    for command in command.get_subcommands() {
        collect(command, shared);
    }
}

fn is_shared(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(SHARED)
}

fn page(out: &mut String, before: &str, command: &Command) {
    let name = format!("{before} {}", command.get_name());
    // OK, here and below, because writing to a String cannot fail.
    let _ = writeln!(out, "\n## {name}");
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let _ = writeln!(out, "\n{}", about.to_string().trim());
    }
    if visible(command).next().is_none() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim();
        let _ = writeln!(out, "\n```\n{usage}\n```\n");
        let own = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set() && !is_of_every_command(arg));
        let (shared, own): (Vec<_>, Vec<_>) = own.partition(|arg| is_shared(arg));
        for arg in own {
            argument(out, arg);
        }
        let names: Vec<_> = shared
            .iter()
            .filter_map(|arg| Some(format!("`--{}`", arg.get_long()?)))
            .collect();
        if !names.is_empty() {
            let _ = writeln!(out, "- [Where](#where): {}", names.join(", "));
        }
    }
    if let Some(help) = command.get_after_help() {
        let _ = writeln!(out, "\n```\n{}\n```", help.to_string().trim());
    }
    for subcommand in visible(command) {
        page(out, &name, subcommand);
    }
}

fn is_of_every_command(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
}

/// One item of a list: the argument, what it says, its values, its default, its variable.
fn argument(out: &mut String, arg: &Arg) {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let many = if matches!(arg.get_action(), ArgAction::Append) {
        "…"
    } else {
        ""
    };
    let takes_value = arg.get_action().takes_values();
    let spelled = match (arg.get_long(), takes_value) {
        (Some(long), true) => format!("--{long} <{values}>{many}"),
        (Some(long), false) => format!("--{long}"),
        (None, _) => format!("<{values}>{many}"),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let _ = write!(out, "- `{spelled}` — {}", help.trim());
    let possible = arg.get_possible_values();
    if takes_value && !possible.is_empty() {
        let names: Vec<String> = possible
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let _ = write!(out, "; one of {}", names.join(", "));
    }
    let default: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if takes_value && !default.is_empty() {
        let _ = write!(out, " [default: {}]", default.join(" "));
    }
    if let Some(env) = arg.get_env() {
        let _ = write!(out, " [env: `{}`]", env.to_string_lossy());
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_in_docs_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/commands.md");
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == markdown(),
            "docs/reference/commands.md is old: countersign reference > docs/reference/commands.md"
        );
    }

    #[test]
    fn every_argument_says_what_it_is_for() {
        fn walk(name: &str, command: &Command) {
            assert!(command.get_about().is_some(), "{name}");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{name} {}", arg.get_id());
            }
            for sub in command.get_subcommands() {
                walk(&format!("{name} {}", sub.get_name()), sub);
            }
        }
        walk("countersign", &super::super::Cli::command());
    }
}
