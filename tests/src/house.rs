//! The rules of the house: what the compiler cannot check about the sources.
//!
//! The scans are approximate on purpose: they read lines, after comments and strings are blanked. A rule that meets a good
//! exception gets it in the list beside it, with the reason.

use std::path::Path;

use crate::rig::{files, workspace};

/// Files that may have more than 300 lines of code, and why.
const LONG_FILES: &[(&str, &str)] = &[
    (
        "log/src/store/rocks.rs",
        "one trait on one database: apart, its methods would only share what they must not",
    ),
    (
        "api/src/state/identity/verbs.rs",
        "three judgements and what each changes, side by side so that they can be compared",
    ),
    (
        "api/src/config.rs",
        "every setting with what it is at first, in one piece, as the reference shows them",
    ),
];
/// Functions that may have more than 70 lines, and why.
const LONG_FUNCTIONS: &[(&str, &str)] = &[
    (
        "api/src/service.rs: fn serve",
        "the order in which a service takes its lock, comes up and goes down, to be read in one piece",
    ),
    (
        "api/src/bench/ndjson.rs: fn run",
        "one round of a measurement, whose sides must interleave",
    ),
    (
        "api/src/bench/coordinate/state.rs: fn run",
        "two services that are filled, measured in turns and started again, in this order",
    ),
    ("api/src/cli/bench.rs: fn measure", "an arm a bench"),
    (
        "api/src/doors/listen.rs: fn serve",
        "two lines over: one loop of accept, whose parts share all its names",
    ),
];

const FILE_LINES_MAX: usize = 300;
const FUNCTION_LINES_MAX: usize = 70;

/// One source file.
struct Source {
    /// Below the workspace, with `/`.
    path: String,
    /// As it is.
    text: String,
    /// Comments, and what is inside strings, blanked; as many lines as `text`.
    code: String,
}

impl Source {
    fn read(path: &Path) -> Source {
        let text = std::fs::read_to_string(path).expect("a source file");
        let below = path.strip_prefix(workspace()).expect("in the workspace");
        Source {
            path: below.to_string_lossy().into_owned(),
            code: blank(&text),
            text,
        }
    }

    /// What is no test: up to the first `#[cfg(test)]` of a module, or nothing in a file of tests.
    fn product(&self) -> &str {
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") {
            return "";
        }
        let at = self.code.find("#[cfg(test)]\nmod ");
        &self.code[..at.unwrap_or(self.code.len())]
    }

    /// Every `use crate::a::…` and `crate::a::…` in what is no test: the module names after `crate::`.
    fn modules_used(&self) -> Vec<String> {
        let code = self.product();
        let mut found = Vec::new();
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + "crate::".len()..];
            match rest.strip_prefix('{') {
                Some(list) => found.extend(heads(list)),
                None => found.push(word(rest)),
            }
        }
        found
    }
}

/// The first names in the items of a `{…}` list, nested lists left out.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut fresh, mut found) = (0, true, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if fresh && depth == 0 && !c.is_whitespace() => {
                found.push(word(&list[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// Blanks comments and the inside of strings. Characters and lifetimes are told apart by the quote that closes a character.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let used = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if c == '"' {
            string_end(rest)
        } else if let Some(hashes) = raw_string(rest, out.chars().next_back()) {
            let close = format!("\"{}", "#".repeat(hashes));
            let open = hashes + 2;
            rest[open..]
                .find(&close)
                .map_or(rest.len(), |end| open + end + close.len())
        } else if let Some(end) = character(rest) {
            end
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(
            rest[..used]
                .chars()
                .map(|c| if c == '\n' { c } else { ' ' }),
        );
        rest = &rest[used..];
    }
    out
}

fn string_end(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The number of `#` of a raw string that begins here.
fn raw_string(rest: &str, before: Option<char>) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let begins = !before.is_some_and(|c| c.is_alphanumeric() || c == '_') || before == Some('b');
    (begins && after[hashes..].starts_with('"')).then_some(hashes)
}

fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let mut chars = inside.chars();
    match chars.next()? {
        '\\' => {
            let end = inside[2..].find('\'')?;
            Some(1 + 2 + end + 1)
        }
        c => (chars.next() == Some('\'')).then(|| 2 + c.len_utf8()),
    }
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let paths = folders
        .iter()
        .flat_map(|f| files(&workspace().join(f), "rs"));
    let sources: Vec<Source> = paths.map(|path| Source::read(&path)).collect();
    assert!(sources.len() > 3, "nothing found in {folders:?}");
    sources
}

/// Everything that is compiled into a product.
fn products() -> Vec<Source> {
    sources(&["verifier/src", "log/src", "witness/src", "api/src"])
}

/// Everything in Rust that is ours.
fn all() -> Vec<Source> {
    sources(&[
        "verifier/src",
        "verifier/tests",
        "log/src",
        "witness/src",
        "witness/tests",
        "api/src",
        "tests/src",
        "tests/e2e",
        "tests/no_std/src",
        "tests/fuzz/src",
    ])
}

/// Fails with one line a fault.
fn none(faults: &[String], rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

/// Lines, from 1, on which one of `words` stands as a whole word.
fn lines_with<'s>(code: &'s str, words: &[&str]) -> Vec<(usize, &'s str)> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let holds = |line: &str| {
        words.iter().any(|word| {
            line.match_indices(word).any(|(at, _)| {
                !is_part(line[..at].chars().next_back())
                    && !is_part(line[at + word.len()..].chars().next())
            })
        })
    };
    let lines = code.lines().enumerate();
    lines
        .filter(|(_, line)| holds(line))
        .map(|(n, line)| (n + 1, line))
        .collect()
}

#[test]
fn the_verifier_says_that_it_has_no_std() {
    let map = Source::read(&workspace().join("verifier/src/lib.rs"));
    assert!(
        map.code.lines().any(|line| line == "#![no_std]"),
        "verifier/src/lib.rs"
    );
    // std comes in with the command line's feature, and nothing but the command line uses it.
    let mut faults = Vec::new();
    for source in sources(&["verifier/src"]) {
        let for_people = ["verifier/src/command", "verifier/src/bin/"];
        if for_people
            .iter()
            .any(|place| source.path.starts_with(place))
        {
            continue;
        }
        for (n, line) in lines_with(source.product(), &["std"]) {
            if line.trim() != "extern crate std;" {
                faults.push(format!("{}:{n}: {}", source.path, line.trim()));
            }
        }
    }
    none(&faults, "the verifier uses std outside its command line");
}

#[test]
fn the_log_knows_nothing_of_agents() {
    let manifest =
        std::fs::read_to_string(workspace().join("log/Cargo.toml")).expect("log/Cargo.toml");
    assert!(!manifest.contains("countersign-api"), "log depends on api");
    let verifier = std::fs::read_to_string(workspace().join("verifier/Cargo.toml"))
        .expect("verifier/Cargo.toml");
    let depends = verifier.lines().any(|l| l.starts_with("countersign-"));
    assert!(!depends, "verifier depends on a crate of ours");
    let mut faults = Vec::new();
    for source in sources(&["log/src"]) {
        // Comments count too: words are how the layers leak.
        let text = source.text.replace("tokio::task", "").replace("task::", "");
        for (n, line) in lines_with(
            &text,
            &["agent", "agents", "lease", "leases", "task", "tasks"],
        ) {
            faults.push(format!("{}:{n}: {}", source.path, line.trim()));
        }
    }
    none(&faults, "the log says agent, lease or task");
}

#[test]
fn the_witness_knows_neither_log_nor_service() {
    let manifest = std::fs::read_to_string(workspace().join("witness/Cargo.toml"));
    let manifest = manifest.expect("witness/Cargo.toml");
    let product = manifest.split("[dev-dependencies]").next();
    let ours: Vec<&str> = product
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with("countersign-"))
        .collect();
    assert_eq!(ours, ["countersign-verifier.workspace = true"]);
    // What it decides is pure.
    let decides = Source::read(&workspace().join("witness/src/decide.rs"));
    let forbidden = [
        "tokio",
        "rocksdb",
        "Clock",
        "SystemTime",
        "Instant",
        "async",
    ];
    let faults: Vec<String> = lines_with(decides.product(), &forbidden)
        .iter()
        .map(|(n, line)| format!("{}:{n}: {}", decides.path, line.trim()))
        .collect();
    none(
        &faults,
        "the witness's decision knows a runtime, a store or a clock",
    );
}

/// What each layer of `api` may name after `crate::`, beside itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("api/src/state", &["code", "policy", "state"]),
    (
        "api/src/ledger",
        &["code", "error", "ledger", "policy", "state"],
    ),
    (
        "api/src/submit",
        &[
            "account", "code", "error", "ledger", "seat", "state", "submit",
        ],
    ),
    (
        "api/src/query.rs",
        &["code", "error", "ledger", "query", "state"],
    ),
    ("api/src/query/", &["code", "error", "ledger", "state"]),
    (
        "api/src/tools",
        &[
            "code", "error", "policy", "query", "seat", "state", "submit", "tools", "versions",
        ],
    ),
    (
        "api/src/foreign",
        &["client", "data_dir", "files", "foreign"],
    ),
    ("api/src/pins", &["files", "foreign", "pins"]),
    (
        "api/src/audit",
        &[
            "account", "audit", "blobs", "data_dir", "files", "foreign", "ledger", "sealed",
            "state", "succeed",
        ],
    ),
    ("api/src/export", &["audit", "export", "files", "foreign"]),
    (
        "api/src/monitor",
        &["audit", "client", "foreign", "monitor", "pins", "sealed"],
    ),
    (
        "api/src/backup",
        &["audit", "backup", "blobs", "data_dir", "files", "state"],
    ),
];

#[test]
fn layers_of_the_api_name_only_what_is_below_them() {
    let mut faults = Vec::new();
    let sources = sources(&["api/src"]);
    for (place, allowed) in LAYERS {
        let inside = sources.iter().filter(|s| s.path.starts_with(place));
        let mut any = false;
        for source in inside {
            any = true;
            for module in source.modules_used() {
                if !allowed.contains(&module.as_str()) {
                    faults.push(format!("{} uses crate::{module}", source.path));
                }
            }
        }
        assert!(any, "there is no {place}");
    }
    // Doors decide nothing, and nothing that decides knows a door.
    for source in sources
        .iter()
        .filter(|s| !s.path.starts_with("api/src/doors"))
    {
        // Those that put the parts together (the shim is a door without a service behind it); and the reference and the
        // configuration, which name the doors' constants.
        let builds = ["app", "service", "cli/shim", "reference", "config"]
            .map(|n| format!("api/src/{n}.rs"));
        if source.modules_used().iter().any(|m| m == "doors") && !builds.contains(&source.path) {
            faults.push(format!("{} uses crate::doors", source.path));
        }
    }
    faults.dedup();
    none(&faults, "a layer of api looks up");
}

/// Where a file is read that its user names, which may be a pipe on purpose. What such a module reads of a folder, it opens by `files`.
const NAMED_FILES: &[&str] = &[
    "api/src/cli/account/create.rs",
    "api/src/cli/blob/put.rs",
    "api/src/cli/board/import.rs",
    "api/src/cli/config/mod.rs",
    "api/src/cli/export.rs",
    "api/src/cli/foreign.rs",
    "api/src/cli/head/submit.rs",
    "api/src/cli/init.rs",
    "api/src/cli/keys.rs",
    "api/src/cli/local.rs",
    "api/src/cli/place.rs",
    "api/src/cli/policy.rs",
    "api/src/cli/possession.rs",
    "api/src/cli/quorum.rs",
    "api/src/cli/sign.rs",
    "api/src/cli/submit/input.rs",
    "api/src/cli/token/revoke.rs",
    "api/src/cli/watch.rs",
    "witness/src/cli/list_source.rs",
];
/// Where a folder is opened, to be locked or to be made durable.
const OPENED_FOLDERS: &[&str] = &[
    "api/src/backup/stage.rs",
    "api/src/data_dir.rs",
    "api/src/export/dest.rs",
    "api/src/files.rs",
    "witness/src/dir.rs",
];
/// Where a file is opened that this process has just made.
const OWN_FILES: &[&str] = &["api/src/audit/check/mend.rs", "api/src/cli/demo/own.rs"];

#[test]
fn what_lies_in_a_folder_is_opened_without_waiting() {
    // A pipe in the place of a file would keep a command, or a service that is told to stop, waiting for ever.
    let mut faults = Vec::new();
    for source in sources(&["api/src", "witness/src"]) {
        let is_in = |list: &[&str]| list.contains(&source.path.as_str());
        if source.path.starts_with("api/src/bench") || is_in(NAMED_FILES) || is_in(OWN_FILES) {
            continue;
        }
        for (n, line) in source.product().lines().enumerate() {
            let reads = ["fs::read(", "fs::read_to_string("]
                .iter()
                .any(|call| line.contains(call));
            let opens = line.contains("File::open(") && !is_in(OPENED_FOLDERS);
            if reads || opens {
                faults.push(format!("{}:{}: {}", source.path, n + 1, line.trim()));
            }
        }
    }
    none(
        &faults,
        "a file is read that may be a pipe: `files::read_small`, `read_plain` or `open_plain`",
    );
}

#[test]
fn every_decision_has_a_number_of_its_own() {
    let folder = workspace().join("docs/decisions");
    let rows = std::fs::read_dir(folder).expect("the decisions").flatten();
    let mut seen = std::collections::BTreeMap::new();
    for name in rows.map(|row| row.file_name().to_string_lossy().into_owned()) {
        let number = name.split('-').next().unwrap_or_default().to_owned();
        if let Some(other) = seen.insert(number, name.clone()) {
            panic!("{name} and {other} have one number");
        }
    }
}

#[test]
fn the_state_is_pure() {
    let mut faults = Vec::new();
    for source in sources(&["api/src/state"]) {
        let forbidden = [
            "tokio",
            "rocksdb",
            "countersign_log",
            "Instant",
            "SystemTime",
            "Clocks",
            "HashMap",
            "HashSet",
            "async",
            "axum",
        ];
        for (n, line) in lines_with(source.product(), &forbidden) {
            faults.push(format!("{}:{n}: {}", source.path, line.trim()));
        }
    }
    none(
        &faults,
        "the state knows a runtime, a store, a clock, or an order that is no order",
    );
}

#[test]
fn only_the_configuration_reads_the_environment() {
    let mut faults = Vec::new();
    for source in products().iter().filter(|s| s.path != "api/src/config.rs") {
        for (n, line) in source.product().lines().enumerate() {
            if ["env::var", "env::vars", "env!(\"HOME"]
                .iter()
                .any(|call| line.contains(call))
            {
                faults.push(format!("{}:{}: {}", source.path, n + 1, line.trim()));
            }
        }
    }
    none(&faults, "the environment is read outside config");
}

#[test]
fn nothing_is_printed_by_what_panics() {
    // Where standard error lies on a full disk, or nobody reads it, `eprintln!` ends whoever says something.
    let mut faults = Vec::new();
    for source in products().iter().filter(|s| !s.path.contains("/bench")) {
        for (n, line) in source.product().lines().enumerate() {
            if ["println!(", "print!("]
                .iter()
                .any(|call| line.contains(call))
            {
                faults.push(format!("{}:{}: {}", source.path, n + 1, line.trim()));
            }
        }
    }
    none(
        &faults,
        "a remark goes through `note`, a result through `Out`",
    );
}

/// Places that read the time for something that is no decision of a log, and why.
const TIME: &[(&str, &str)] = &[
    ("log/src/clock.rs", "the clock"),
    ("witness/src/clock.rs", "the clock of a witness"),
    (
        "verifier/src/command",
        "a reader's clock judges cosignatures from the future",
    ),
    (
        "api/src/cli/",
        "clients sign when they sign, by their own clock",
    ),
    (
        "api/src/client/",
        "clients sign when they sign, by their own clock",
    ),
    ("api/src/bench/", "measures"),
];

#[test]
fn only_the_clock_reads_the_time() {
    let mut faults = Vec::new();
    for source in products() {
        if TIME.iter().any(|(place, _)| source.path.starts_with(place)) {
            continue;
        }
        let calls = ["SystemTime", "clock_gettime", "UNIX_EPOCH"];
        for (n, line) in lines_with(source.product(), &calls) {
            faults.push(format!("{}:{n}: {}", source.path, line.trim()));
        }
    }
    none(&faults, "the wall clock is read outside a clock");
}

#[test]
fn only_submission_appends() {
    let mut faults = Vec::new();
    for source in sources(&["api/src"]) {
        if ["api/src/submit.rs", "api/src/bench/"]
            .iter()
            .any(|p| source.path.starts_with(p))
        {
            continue;
        }
        for (n, line) in source.product().lines().enumerate() {
            if line.contains("log.submit(") {
                faults.push(format!("{}:{}: {}", source.path, n + 1, line.trim()));
            }
        }
    }
    none(
        &faults,
        "something else than submit hands work to a log's writer",
    );
}

#[test]
fn files_and_functions_are_short() {
    let mut faults = Vec::new();
    for source in &products() {
        let product = source.product();
        let lines = product.lines().filter(|l| !l.trim().is_empty()).count();
        let listed = |list: &[(&str, &str)], name: &str| {
            list.iter().any(|(n, why)| *n == name && !why.is_empty())
        };
        if lines > FILE_LINES_MAX && !listed(LONG_FILES, &source.path) {
            faults.push(format!("{}: {lines} lines of code", source.path));
        }
        for (name, lines) in functions(product) {
            let place = format!("{}: fn {name}", source.path);
            if lines > FUNCTION_LINES_MAX && !listed(LONG_FUNCTIONS, &place) {
                faults.push(format!("{place}: {lines} lines"));
            }
        }
    }
    none(
        &faults,
        "too long (file 300, function 70), and not listed with a reason",
    );
}

/// Functions and their lines of code: from `fn` to the brace at the same indentation, as rustfmt leaves it.
fn functions(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some((before, after)) = line.split_once("fn ") else {
            continue;
        };
        let qualifiers = ["pub", "pub(crate)", "pub(super)", "async", "const"];
        if !before.split_whitespace().all(|w| qualifiers.contains(&w)) {
            continue;
        }
        let end = lines[at..].iter().position(|l| {
            l.starts_with('}') && indent == 0
                || l.len() > indent && l[..indent].trim().is_empty() && l[indent..].starts_with('}')
        });
        let body = &lines[at..at + end.unwrap_or(0)];
        let code = body.iter().filter(|l| !l.trim().is_empty()).count();
        found.push((word(after), code + 1));
    }
    found
}

#[test]
fn nothing_is_left_undone_or_skipped() {
    let mut faults = Vec::new();
    for source in all() {
        for (n, line) in source.code.lines().enumerate() {
            // Split, so that this file does not hold what it looks for.
            let undone = [
                concat!("todo", "!("),
                concat!("unimplemented", "!("),
                concat!("#[ign", "ore"),
                concat!("dbg", "!("),
            ];
            if undone.iter().any(|what| line.contains(what)) {
                faults.push(format!("{}:{}: {}", source.path, n + 1, line.trim()));
            }
        }
        for (n, line) in lines_with(
            &source.text,
            &[
                concat!("TO", "DO"),
                concat!("FIX", "ME"),
                concat!("XX", "X"),
            ],
        ) {
            faults.push(format!("{}:{n}: {}", source.path, line.trim()));
        }
    }
    none(&faults, "undone, or skipped");
}

#[test]
fn no_file_names_a_machine() {
    let mut faults = Vec::new();
    for path in tracked() {
        let Ok(text) = std::fs::read_to_string(workspace().join(&path)) else {
            continue; // not text, or listed and removed just now
        };
        if path.starts_with("tests/vectors/") || path.ends_with(".lock") || path.ends_with("go.sum")
        {
            continue;
        }
        for (n, line) in text.lines().enumerate() {
            let machines = [
                concat!("/wo", "rk/"),
                concat!("/ro", "ot/"),
                concat!("/ho", "me/"),
                concat!("/Use", "rs/"),
                concat!("/fa", "rm/"),
            ];
            // `$TMP/home/x` is nobody's home: a path of a machine begins with its first folder.
            let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric());
            let names = |m: &&str| line.match_indices(*m).any(|(at, _)| begins(at));
            if machines.iter().any(names) {
                faults.push(format!("{path}:{}: {}", n + 1, line.trim()));
            }
        }
    }
    none(&faults, "paths of one machine");
}

/// Files under version control; those of the folders that are ours where there is no git.
fn tracked() -> Vec<String> {
    let git = std::process::Command::new("git")
        .current_dir(workspace())
        .args(["ls-files", "-z"])
        .output();
    match git {
        Ok(output) if output.status.success() => {
            let list = String::from_utf8_lossy(&output.stdout).into_owned();
            list.split('\0')
                .filter(|p| !p.is_empty())
                .map(str::to_owned)
                .collect()
        }
        _ => all().into_iter().map(|source| source.path).collect(),
    }
}

#[test]
fn the_command_of_the_readme_is_what_ci_runs() {
    let read = |name: &str| {
        std::fs::read_to_string(workspace().join(name)).expect("a file of the workspace")
    };
    let (readme, makefile, ci) = (read("README.md"), read("Makefile"), read(".ci/run"));
    assert!(
        readme.contains("make test"),
        "README.md names no test command"
    );
    assert!(ci.contains("make test"), ".ci/run does not run `make test`");
    let recipe: Vec<&str> = makefile
        .lines()
        .skip_while(|l| !l.starts_with("test:"))
        .take_while(|l| !l.is_empty())
        .collect();
    let tests = |line: &&str| {
        ["$(CARGO) test", "--workspace", "--locked"]
            .iter()
            .all(|w| line.contains(w))
    };
    assert!(recipe.iter().any(tests), "{recipe:?}");
}

#[test]
fn the_scanner_sees_code_and_nothing_else() {
    let text = "let a = \"// no\\\"\"; // fn x\nlet b = 'x'; let c = '\\''; fn d<'a>() { r#\"fn\"# }\n/* fn */ let e = b'\"';";
    let blanked = blank(text);
    assert_eq!(blanked.lines().count(), text.lines().count());
    assert_eq!(blanked.matches("fn").count(), 1, "{blanked}");
    assert!(blanked.contains("fn d<'a>()"), "{blanked}");
    assert!(!blanked.contains("no"), "{blanked}");
    assert_eq!(heads("a::{b, c}, d as e, f}"), ["a", "d", "f"]);
    let code = "fn one() {\n    1\n}\n\nimpl X {\n    pub fn two(\n    ) {\n        2\n    }\n}\n";
    assert_eq!(functions(code), [("one".into(), 3), ("two".into(), 4)]);
}
