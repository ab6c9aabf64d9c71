//! What an operator's machine makes of what we give it: completions in a real shell, manual pages through groff, units through
//! systemd. What is not installed is skipped and says so.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::rig::{clean, countersign, countersign_witness, files, workspace};

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn ours(arguments: &[&str]) -> String {
    let output = run(clean(countersign()).args(arguments));
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Whether a program of others is here.
fn has(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    let asked = command.arg(argument).stdin(Stdio::null()).output();
    let there = asked.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("SKIPPED: no {program} here");
    }
    there
}

#[test]
fn every_shell_has_a_completion_and_bash_completes() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for (shell, check) in [
        ("bash", Some("-n")),
        ("zsh", Some("-n")),
        ("fish", Some("--no-execute")),
        ("elvish", None),
        ("powershell", None),
    ] {
        let script = ours(&["completions", shell]);
        assert!(script.contains("countersign"), "{shell}");
        let path = home.path().join(shell);
        std::fs::write(&path, script).expect("a completion");
        if let Some(check) = check.filter(|_| has(shell, "--version")) {
            let output = run(Command::new(shell).arg(check).arg(&path));
            assert!(output.status.success(), "{shell}: {output:?}");
        }
    }
    if !has("bash", "--version") {
        return;
    }
    // As readline asks: the words so far, and which of them is being typed.
    let completed = |words: &str, at: usize| {
        let script = "source \"$1\"; read -ra COMP_WORDS <<<\"$2\"; COMP_CWORD=$3; COMPREPLY=(); \
                      _countersign countersign \"${COMP_WORDS[$3]}\" \"${COMP_WORDS[$3 - 1]}\"; echo \"${COMPREPLY[@]}\"";
        let mut bash = clean(Path::new("bash"));
        let bash = bash.args(["--norc", "-c", script, "bash"]);
        let output = run(bash
            .arg(home.path().join("bash"))
            .args([words, &at.to_string()]));
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(completed("countersign che", 1), "check");
    assert_eq!(completed("countersign token re", 2), "revoke");
    assert_eq!(completed("countersign completions ba", 2), "bash");
    let flags = completed("countersign serve --acc", 2);
    assert_eq!(flags, "--accept-clock");
}

#[test]
fn manual_pages_are_read_by_what_reads_manual_pages() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = home.path().join("man1");
    ours(&["man", "--out", &folder.display().to_string()]);
    let pages = files(&folder, "1");
    assert!(pages.len() > 60, "{}", pages.len());
    let main = ours(&["man"]);
    assert_eq!(
        std::fs::read_to_string(folder.join("countersign.1")).expect("the main page"),
        main
    );
    if has("groff", "--version") {
        for page in &pages {
            let mut groff = Command::new("groff");
            let output = run(groff.args(["-man", "-Tutf8", "-ww", "-Kutf8"]).arg(page));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{}: {said}", page.display());
            assert!(said.is_empty(), "{}: {said}", page.display());
        }
    }
    if has("mandoc", "-V") {
        let output = run(Command::new("mandoc").arg("-Wwarning").args(&pages));
        assert!(output.status.success(), "{output:?}");
    }
    if has("man", "--version") {
        let mut man = clean(Path::new("man"));
        let man = man.env("MANPAGER", "cat").env("MANWIDTH", "100");
        let output = run(man.arg("-l").arg(folder.join("countersign-check.1")));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.trim().is_empty() {
            // Small images have a `man` that says only how to get the pages back.
            return eprintln!("SKIPPED: the man here shows nothing");
        }
        assert!(output.status.success(), "{output:?}");
        // A table keeps its lines.
        for word in [
            "NAME",
            "countersign-check",
            "--json",
            "  tile   every tile",
            "COUNTERSIGN_DIR",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn units_are_what_systemd_reads_and_what_the_exit_codes_ask_for() {
    let units = workspace().join("docs/operate/systemd");
    let mut all = files(&units, "service");
    all.extend(files(&units, "timer"));
    assert!(all.len() >= 4, "{all:?}");
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut copies = Vec::new();
    for unit in &all {
        let text = std::fs::read_to_string(unit).expect("a unit");
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("# ") && text.contains("Not run by any test"),
            "{first}"
        );
        if text.contains(" serve ") {
            assert!(
                text.contains("RestartPreventExitStatus=2 4 5"),
                "{}",
                unit.display()
            );
        }
        // The executables lie elsewhere here.
        let text = text
            .replace(
                "/usr/local/bin/countersign-witness",
                &countersign_witness().display().to_string(),
            )
            .replace(
                "/usr/local/bin/countersign ",
                &format!("{} ", countersign().display()),
            );
        let copy = home.path().join(unit.file_name().expect("a name"));
        std::fs::write(&copy, text).expect("a unit");
        copies.push(copy);
    }
    if has("systemd-analyze", "--version") {
        let mut analyze = Command::new("systemd-analyze");
        let output = run(analyze.args(["verify", "--man=no"]).args(&copies));
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("countersign"), "{said}");
    }
    // What a unit runs is a command that there is.
    for unit in &all {
        let text = std::fs::read_to_string(unit).expect("a unit");
        for line in text
            .lines()
            .filter_map(|l| l.split("/usr/local/bin/countersign ").nth(1))
        {
            let verb = line.split(' ').next().unwrap_or_default();
            ours(&[verb, "--help"]);
        }
    }
}

#[test]
fn the_container_file_is_marked_and_runs_nobody_as_root() {
    let path = workspace().join("docs/operate/Containerfile");
    let text = std::fs::read_to_string(path).expect("the container file");
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.contains("NOT RUN"))
    );
    let last = text.rsplit("\nFROM ").next().unwrap_or_default();
    for word in [
        "\nUSER 10001:10001",
        "\nVOLUME /var/lib/countersign",
        "\nSTOPSIGNAL SIGTERM",
    ] {
        assert!(last.contains(word), "{word}");
    }
}
