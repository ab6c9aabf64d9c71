//! The documents: what they print can be typed, the program they hold tells good evidence from bad, and their links lead somewhere.
//!
//! A fenced block below a line `<!-- run -->` is run by `sh -eu`, all of a page in one go, in an empty folder beside a fresh
//! development log. `<!-- run: namespaces -->`: where a network namespace can be had; `<!-- run: python -->` and the like: where that is.
//! `<!-- file: NAME -->`: a file's content.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use countersign_verifier::base64;
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Service, Start, clean, countersign, files, workspace};

fn page(name: &str) -> String {
    std::fs::read_to_string(workspace().join(name)).expect("a page")
}

/// The fenced blocks that stand right below a line of this text.
fn blocks<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    let below = format!("\n{mark}\n```");
    let rest = page.match_indices(&below).map(|(at, found)| {
        let rest = &page[at + found.len()..];
        &rest[rest.find('\n').expect("the end of the fence's line") + 1..]
    });
    rest.map(|rest| &rest[..rest.find("```").expect("the end of the block")])
        .collect()
}

fn has(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command.args(arguments).stdout(Stdio::null());
    command
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// A folder with a served development log in `countersign-data`.
struct Session {
    home: TempDir,
    _service: Service,
}

impl Session {
    /// As `make up` begins it.
    fn begin() -> Session {
        Session::with(Start::witnessed)
    }

    fn with(start: fn(&Path) -> Start) -> Session {
        let home = tempfile::tempdir().expect("a temporary folder");
        let service = start(&home.path().join("countersign-data")).run();
        Session {
            home,
            _service: service,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let bin = countersign().parent().expect("the executable's folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = clean(Path::new(program));
        command
            .current_dir(self.home.path())
            .env("PATH", format!("{}:{path}", bin.display()))
            .stdin(Stdio::null());
        command
    }

    /// What the shell blocks of a page write to standard output.
    fn run(&self, page: &str) -> String {
        self.run_marked(page, "<!-- run -->")
    }

    /// The same of the blocks with this mark.
    fn run_marked(&self, page: &str, mark: &str) -> String {
        let script = blocks(page, mark).join("\n");
        assert!(!script.is_empty(), "no block to run");
        let output = self
            .command("sh")
            .args(["-euc", &script])
            .output()
            .expect("sh");
        let text = text(&output);
        assert!(output.status.success(), "{script}\n{text}");
        text
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
        + "\n"
        + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_readme_does_what_it_says() {
    let page = page("README.md");
    let session = Session::begin();
    let said = session.run(&page);
    assert!(
        said.contains("\twitnessed\tnew\tevidence/1.evidence.json"),
        "{said}"
    );
    assert!(said.lines().any(|line| line == "holds"), "{said}");
    assert!(said.contains("quorum local met by witness-"), "{said}");
    let offline = blocks(&page, "<!-- run: namespaces -->");
    assert_eq!(offline.len(), 1);
    if has("unshare", &["-rn", "true"]) {
        let output = session.command("sh").args(["-euc", offline[0]]).output();
        let output = output.expect("sh");
        assert!(output.status.success(), "{}", text(&output));
    }
}

#[test]
fn the_first_hour_does_what_it_says() {
    if !has("curl", &["--version"]) {
        return eprintln!("skipped: no curl");
    }
    let said = Session::begin().run(&page("docs/start.md"));
    for word in [
        "\tduplicate",
        "exit code 1: THRESHOLD_NOT_MET",
        "exit code 1: KEY_REVOKED",
        "\"leaf_hash\"",
        "localhost/dev\n",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("does not hold"), "{said}");
    let held = said.lines().filter(|line| *line == "holds").count();
    assert!(held >= 5, "{held} hold: {said}");
}

/// Whether a page's program can be tried here. Where it must be, in CI, it is no test that is left out.
fn can_run(program: &str, arguments: &[&str]) -> bool {
    let can = has(program, arguments);
    let must = std::env::var_os("CI").is_some();
    assert!(can || !must, "{program} {arguments:?} is needed in CI");
    if !can {
        eprintln!("skipped: no {program} for {arguments:?}");
    }
    can
}

#[test]
fn programs_in_other_languages_sign_lease_and_resolve() {
    let page = page("docs/clients.md");
    let session = Session::begin();
    session.run(&page);
    let programs = [
        (
            "agent.py",
            "python",
            can_run("python3", &["-c", "import cryptography"]),
        ),
        ("agent.mjs", "node", can_run("node", &["-e", "fetch"])),
    ];
    let both = programs.iter().all(|(.., can)| *can);
    for (at, (file, language, can)) in programs.into_iter().enumerate() {
        if !can {
            continue;
        }
        let program = blocks(&page, &format!("<!-- file: {file} -->"))[0];
        std::fs::write(session.path(file), program).expect("a program");
        let said = session.run_marked(&page, &format!("<!-- run: {language} -->"));
        for word in [
            "receipt: leaf ",
            " witnessed",
            "agent_key",
            "checked out: leaf ",
        ] {
            assert!(said.contains(word), "{file}: {word}: {said}");
        }
        let item = format!("item: T-{} done", at + 1);
        assert!(said.contains(&item) || !both, "{file}: {item}: {said}");
    }
    if both {
        let said = session.run_marked(&page, "<!-- run: evidence -->");
        assert!(said.contains("14 files: 14 hold"), "{said}");
    }
}

#[test]
fn an_agent_is_at_work_in_five_minutes() {
    if !can_run("curl", &["--version"]) {
        return;
    }
    let said = Session::begin().run(&page("docs/agents.md"));
    for word in [
        "\"class\":\"seat_key\"",
        "\"status\":\"awaiting_review\"",
        "\"outcome\":\"delivered\"",
        "\"class\":\"session_key\"",
        "\"protocolVersion\":\"2025-11-25\"",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn bodies_are_kept_and_erased_and_a_tool_is_called_by_curl() {
    let session = Session::begin();
    let said = session.run(&page("docs/blobs.md"));
    assert!(said.lines().any(|line| line == "holds"), "{said}");
    assert!(said.contains("exit code 3: body erased"), "{said}");
    if can_run("curl", &["--version"]) {
        let said = session.run(&page("docs/mcp.md"));
        assert!(said.contains("\"structuredContent\""), "{said}");
    }
}

#[test]
fn a_board_of_another_tracker_comes_in_and_goes_out_the_same() {
    if !can_run("python3", &["--version"]) {
        return;
    }
    let page = page("docs/board.md");
    let session = Session::begin();
    for file in ["issues.jsonl", "convert.py"] {
        let content = blocks(&page, &format!("<!-- file: {file} -->"))[0];
        std::fs::write(session.path(file), content).expect("a file");
    }
    let said = session.run_marked(&page, "<!-- run: python -->");
    assert!(
        said.contains("3 new, 0 to change, 0 to pass over"),
        "{said}"
    );
    assert!(
        said.lines().any(|line| line.starts_with("bd-1  pending")),
        "{said}"
    );
    assert!(said.contains("- [x]"), "{said}");
    assert_eq!(said.matches("\"drift\":0").count(), 2, "{said}");
}

/// Changes what the text of a string member says.
type Change = fn(&str) -> String;

#[test]
fn the_page_of_python_tells_good_evidence_from_bad() {
    if !has("python3", &["--version"]) {
        return eprintln!("skipped: no python3");
    }
    let session = Session::with(Start::up);
    session.run(&page("README.md"));
    let by_hand = page("docs/verify-by-hand.md");
    let program = blocks(&by_hand, "<!-- file: verify.py -->");
    std::fs::write(session.path("verify.py"), program[0]).expect("verify.py");
    let policy = session.path("countersign-data/accounts/dev/policy");
    let holds = |evidence: &Path, policy: &Path| {
        let mut python = session.command("python3");
        let output = python.arg("verify.py").arg(evidence).arg(policy).output();
        let output = output.expect("python3");
        let held = String::from_utf8_lossy(&output.stdout).starts_with("holds: ");
        assert_eq!(held, output.status.success(), "{}", text(&output));
        (held, text(&output))
    };
    let good = files(&session.path("evidence"), "json");
    assert_eq!(good.len(), 2, "of the owner and of an enrolled key");
    for file in &good {
        let (held, said) = holds(file, &policy);
        assert!(held, "{}: {said}", file.display());
    }
    let other = session.path("other-policy");
    let vkey = "example.com/other+7a2a2b9c+AXm2LMHJKqXcfP3yYbXYcNgYyOGsVwn1rlX1mTnRp8aH";
    std::fs::write(&other, format!("log {vkey}\nquorum none\n")).expect("a policy");
    assert!(!holds(&good[0], &other).0, "under another log's policy");

    let last = good.last().expect("a file");
    let evidence: Value = serde_json::from_slice(&std::fs::read(last).expect("evidence")).unwrap();
    let bad = session.path("bad.json");
    let changes: &[(&str, &str, Change)] = &[
        ("the leaf's payload", "/leaf", |leaf| {
            in_leaf(leaf, "\"payload\":\"")
        }),
        ("a signature", "/leaf", |leaf| in_leaf(leaf, "\"sig\":\"")),
        ("leaf 0", "/support/0/leaf", |leaf| {
            in_leaf(leaf, "\"public_key\":\"")
        }),
        ("an enrolment", "/support/1/leaf", |leaf| {
            in_leaf(leaf, "\"payload\":\"")
        }),
        ("a path", "/support/1/path/0", |hash| flip(hash, 3)),
        ("the leaf's path", "/proof", |proof| {
            flip(proof, proof.find("\nindex ").unwrap() + 12)
        }),
        ("the root", "/proof", |proof| {
            let (_, note) = proof.split_once("\n\n").unwrap();
            let root = note.lines().nth(2).unwrap();
            flip(proof, proof.find(root).unwrap() + 5)
        }),
        ("the log's signature", "/proof", |proof| {
            flip(proof, proof.len() - 9)
        }),
        ("the index", "/proof", |proof| {
            proof.replacen("\nindex ", "\nindex 1", 1)
        }),
    ];
    for (what, pointer, change) in changes {
        let mut evidence = evidence.clone();
        let member = evidence.pointer_mut(pointer).expect("a member");
        *member = change(member.as_str().expect("a string")).into();
        std::fs::write(&bad, evidence.to_string()).expect("bad evidence");
        let (held, said) = holds(&bad, &policy);
        assert!(!held, "{what} was changed: {said}");
    }
    let mut alone = evidence.clone();
    alone["support"] = Value::Array(Vec::new());
    std::fs::write(&bad, alone.to_string()).expect("bad evidence");
    assert!(!holds(&bad, &policy).0, "nothing shows the signer");
}

/// Changes a character some way behind the first `after` in a leaf.
fn in_leaf(leaf: &str, after: &str) -> String {
    let bytes = base64::decode(leaf).expect("base64");
    let text = String::from_utf8(bytes).expect("a leaf");
    let at = text.find(after).expect("in the leaf") + after.len() + 9;
    base64::encode(flip(&text, at).as_bytes())
}

/// Another character of base64 at this place.
fn flip(text: &str, at: usize) -> String {
    let other = if &text[at..=at] == "A" { "B" } else { "A" };
    [&text[..at], other, &text[at + 1..]].concat()
}

#[test]
fn relative_links_lead_somewhere() {
    let mut pages = files(&workspace().join("docs"), "md");
    let beside = workspace().read_dir().expect("the workspace").flatten();
    pages.extend(
        beside
            .map(|entry| entry.path())
            .filter(|p| p.extension().is_some_and(|e| e == "md")),
    );
    assert!(pages.len() > 15);
    let mut dead = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).expect("a page");
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            let there = if anchor.is_empty() {
                target.exists()
            } else {
                std::fs::read_to_string(&target)
                    .is_ok_and(|text| headings(&text).any(|h| h == anchor))
            };
            if !there {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// The targets of links that are no URL, outside of fenced blocks.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1));
    targets
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
        .collect()
}

/// The anchors of a page's headings, as hosts of repositories make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
}
