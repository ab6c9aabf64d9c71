//! `countersign man`: manual pages, out of the arguments themselves.

use std::{fs, io, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use super::out::{Out, note};

/// Print the manual page of `countersign`, or write those of all commands into a folder
///
/// countersign man | man -l -
#[derive(Debug, Args)]
pub struct ManArgs {
    /// A folder for one page a command; made where there is none. Pages of these names are written over
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// A folder that cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut root = super::Cli::command();
    root.build();
    let Some(folder) = &args.out else {
        Out::stdout().bytes(&page(&root, None)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| shown.to_string())?;
    let pages = pages(&root, None)?;
    for (name, page) in &pages {
        let path = folder.join(name);
        fs::write(&path, page).with_context(|| path.display().to_string())?;
    }
    note(format_args!("{} pages in {shown}", pages.len()));
    Ok(ExitCode::SUCCESS)
}

/// The page of a command and those of the commands below it, each under the name of its file.
fn pages(command: &Command, above: Option<&str>) -> io::Result<Vec<(String, Vec<u8>)>> {
    let name = title(command);
    let mut all = vec![(format!("{name}.1"), page(command, above)?)];
    for below in visible(command) {
        all.extend(pages(below, Some(name))?);
    }
    Ok(all)
}

/// `countersign-token-new`.
fn title(command: &Command) -> &str {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name())
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// One page. Tables and examples below the options keep their lines, which the crate's own page would let run together.
fn page(command: &Command, above: Option<&str>) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .source(concat!("Countersign ", env!("CARGO_PKG_VERSION")))
        .manual("Countersign");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    let mut more = Roff::new();
    if visible(command).next().is_some() {
        more.control("SH", ["COMMANDS"]);
    }
    for below in visible(command) {
        more.control("TP", []);
        more.text([bold(title(below)), roman("(1)")]);
        let about = below.get_about().map(ToString::to_string);
        more.text([roman(about.unwrap_or_default())]);
    }
    if let Some(help) = command.get_after_help() {
        more.control("SH", ["NOTES"]);
        more.control("nf", []);
        for line in help.to_string().lines() {
            more.text([roman(line)]);
        }
        more.control("fi", []);
    }
    if let Some(above) = above {
        more.control("SH", ["SEE ALSO"]);
        more.text([bold(above), roman("(1)")]);
    }
    more.to_writer(&mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let mut root = super::super::Cli::command();
        root.build();
        let pages = pages(&root, None).unwrap();
        let names: std::collections::BTreeSet<&str> =
            pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), pages.len());
        for name in [
            "countersign.1",
            "countersign-check.1",
            "countersign-token-new.1",
            "countersign-witness-serve.1",
        ] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        assert!(
            !names
                .iter()
                .any(|name| name.contains("reference") || name.contains("help"))
        );
        for (name, page) in &pages {
            let page = String::from_utf8(page.clone()).unwrap();
            assert!(
                page.contains(".SH NAME") && page.contains(".SH DESCRIPTION"),
                "{name}"
            );
        }
    }
}
