//! `countersign fork`: lines, JSON and exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use countersign_verifier::command::fork::{ForkArgs, run};
use countersign_verifier::fork::Fork;
use countersign_verifier::note::join;
use serde_json::{Value, json};

use crate::forks::{claim, signed, text, tree};
use crate::mldsa::signer;
use crate::support::{LOG_VKEY, V1_TIME, log_signer, v1_policy, witness_signer};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: ForkArgs,
}

/// A folder of its own for each test.
struct Desk(PathBuf);

impl Desk {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("fork-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let desk = Self(dir);
        let (one, other) = (tree(7, 100), tree(13, 6));
        desk.put("node.json", claim([&one, &other], 0, 6).to_json());
        desk.put("policy", v1_policy("w"));
        desk
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    /// Exit code and output, the folder's name left out.
    fn run(&self, line: &str) -> (u8, String) {
        let dir = self.0.to_str().unwrap();
        let line = line.replace("./", &format!("{dir}/"));
        let words = std::iter::once("fork").chain(line.split_whitespace());
        let args = Cli::try_parse_from(words).unwrap().args;
        let mut out = Vec::new();
        let code = run(&args, &mut out);
        (
            code,
            String::from_utf8(out)
                .unwrap()
                .replace(&format!("{dir}/"), ""),
        )
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_fork_is_told_in_words() {
    let desk = Desk::new("words");
    let (code, out) = desk.run("verify ./node.json --policy ./policy");
    assert_eq!(code, 0, "{out}");
    let lines: Vec<&str> = out.lines().collect();
    for (line, start) in lines.iter().zip([
        "node.json",
        "  log        log.example/a",
        "  first      7 leaves, root ",
        "  second     13 leaves, root ",
        "  fork       the log signed a tree of 13 leaves that does not extend its tree of 7: leaves 6 to 6,",
        "  meaning    no log that keeps its promise can sign both;",
        "holds: this log has FORKED",
    ]) {
        assert!(line.starts_with(start), "{line}");
    }
    assert_eq!(lines.len(), 7);
    assert!(lines[2].ends_with("signed by log.example/a+870806f8"));
    let (code, out) = desk.run("show ./node.json");
    assert_eq!(code, 0);
    assert!(out.contains("differs    node 6 of level 0: "), "{out}");
    assert!(
        out.contains("  meaning    if it holds, the log has FORKED: leaves 6 to 6 are not the same in the trees of 7 and of 13 leaves; no log"),
        "{out}"
    );
    assert!(
        out.ends_with("not verified: `fork verify` does that\n"),
        "{out}"
    );
}

#[test]
fn witnesses_on_both_branches_are_named() {
    let desk = Desk::new("witnesses");
    let ed = witness_signer();
    let pq = signer("witness.example/pq", 6);
    let note = |from, both: bool| {
        let tree = tree(5, from);
        let text = text(5, tree.root(5));
        let mut lines = vec![log_signer().sign(&text), ed.sign(&text, V1_TIME)];
        if both {
            lines.push(pq.sign(&text, V1_TIME, &[3; 32]).unwrap());
        } else {
            lines[1].replace_range(60..61, "A"); // a bad line of a witness takes nothing away
            lines.push(pq.sign(&text, V1_TIME + 1, &[3; 32]).unwrap());
        }
        join(&text, lines.iter().map(String::as_str))
    };
    let fork = Fork {
        checkpoints: [note(100, true), note(3, false)],
        node: None,
    };
    desk.put("roots.json", fork.to_json());
    desk.put(
        "policy",
        v1_policy("w").replace("quorum", &format!("witness pq {}\nquorum", pq.vkey())),
    );
    let (code, out) = desk.run("verify ./roots.json --policy ./policy");
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains(
            "; cosigned by w at 2023-11-14T22:13:20.000Z, pq at 2023-11-14T22:13:20.000Z\n"
        ),
        "{out}"
    );
    assert!(
        out.contains("; cosigned by pq at 2023-11-14T22:13:21.000Z\n"),
        "{out}"
    );
    assert!(
        out.contains("  witness    pq cosigned both, which no honest witness does\n"),
        "{out}"
    );
    assert_eq!(out.matches("  witness ").count(), 1);
    let (code, out) = desk.run("verify ./roots.json --policy ./policy --json");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        (&value["verdict"], &value["origin"]),
        (&json!("holds"), &json!("log.example/a"))
    );
    assert_eq!(value["forked"], json!(true));
    assert_eq!(value["heads"][0]["cosigners"][1]["name"], "pq");
    assert_eq!(
        (&value["heads"][1]["size"], &value["leaves"]),
        (&json!("5"), &Value::Null)
    );
}

#[test]
fn exit_codes_say_which() {
    let desk = Desk::new("codes");
    desk.put("newer.json", br#"{"format":"countersign.fork/9"}"#);
    desk.put("bad.json", b"{}");
    desk.put("other", format!("log {LOG_VKEY}\nquorum none\n"));
    desk.put("stranger", "quorum none\n");
    let (one, other) = (tree(5, 100), tree(9, 100));
    desk.put("honest.json", claim([&one, &other], 2, 0).to_json());
    let same = Fork {
        checkpoints: [signed(&one), signed(&one)],
        node: None,
    };
    desk.put("same.json", same.to_json());
    for (line, code, last) in [
        (
            "verify ./node.json --policy ./other",
            0,
            "holds: this log has FORKED",
        ),
        ("verify ./honest.json --policy ./policy", 1, "does not hold"),
        ("verify ./same.json --policy ./policy", 1, "does not hold"),
        ("verify ./bad.json --policy ./policy", 1, "does not hold"),
        ("verify ./newer.json --policy ./policy", 3, "cannot tell"),
        ("verify ./node.json --policy ./stranger", 3, "cannot tell"),
        (
            "verify ./node.json ./newer.json ./bad.json --policy ./policy",
            1,
            "does not hold",
        ),
        (
            "verify ./absent.json ./bad.json --policy ./policy",
            2,
            "does not hold",
        ),
        (
            "verify ./newer.json ./node.json --policy ./policy",
            3,
            "holds: this log has FORKED",
        ),
        (
            "show ./newer.json",
            3,
            "  unsupported version: format \"countersign.fork/9\"; this release reads countersign.fork/1",
        ),
        (
            "show ./bad.json",
            1,
            "  member format is missing (at the top, line 1, byte 2)",
        ),
    ] {
        let (got, out) = desk.run(line);
        assert_eq!(
            (got, out.lines().last().unwrap()),
            (code, last),
            "{line}: {out}"
        );
    }
    for line in [
        "verify ./node.json --policy ./absent",
        "show ./absent.json",
        "verify - - --policy ./policy",
    ] {
        assert_eq!(desk.run(line), (2, String::new()), "{line}");
    }
    let (code, out) = desk.run("verify ./absent.json --policy ./policy --json");
    assert_eq!(code, 2);
    assert!(
        out.starts_with("{\"evidence\":\"absent.json\",\"error\":"),
        "{out}"
    );
    // Control characters of what a file says are shown, not sent to the terminal.
    let odd = Fork {
        checkpoints: ["\u{1b}[2J".into(), String::new()],
        node: None,
    };
    desk.put("odd.json", odd.to_json());
    assert!(
        !desk
            .run("verify ./odd.json --policy ./policy")
            .1
            .contains('\u{1b}')
    );
    assert!(!desk.run("show ./odd.json").1.contains('\u{1b}'));
}

#[test]
fn every_era_names_the_log() {
    let desk = Desk::new("eras");
    fs::create_dir(desk.0.join("policy.d")).unwrap();
    desk.put("policy.d/0.policy", "quorum none\n");
    desk.put("policy.d/10.policy", v1_policy("w"));
    desk.put("policy.d/20.policy", v1_policy("none"));
    assert_eq!(desk.run("verify ./node.json --policy ./policy.d").0, 0);
    // A stolen key's signatures show nothing, of a fork either.
    desk.put(
        "policy.d/stolen",
        format!("# found in a bin\n\n{LOG_VKEY}\n"),
    );
    assert_eq!(desk.run("verify ./node.json --policy ./policy.d").0, 3);
    desk.put("policy.d/stolen", "log.example/a\n");
    assert_eq!(desk.run("verify ./node.json --policy ./policy.d").0, 2);
}
