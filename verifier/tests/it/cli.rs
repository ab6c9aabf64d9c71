//! The binary: files in, verdicts and exit codes out.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_verifier::statement;
use serde_json::{Value, json};

use crate::keys::ed25519;
use crate::support;
use crate::world::{ORIGIN, World, relabel};

/// A folder of its own for each test, with a log's evidence and a policy in it.
struct Desk {
    dir: PathBuf,
    world: World,
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Desk {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let mut world = World::with_agent();
        world.agent_receipt(b"a payload");
        let desk = Self { dir, world };
        desk.put("good.json", desk.world.evidence(2, &[0, 1]).to_json());
        desk.put("policy", support::v1_policy("w"));
        desk.put("agent.pub", ed25519(3).public().spki_pem());
        desk.put("other.pub", ed25519(9).public().spki_pem());
        let mut bad = desk.world.evidence(2, &[0, 1]);
        bad.leaf = desk.world.leaves[1].clone();
        desk.put("bad.json", bad.to_json());
        desk.put("newer.json", br#"{"format":"countersign.evidence/9"}"#);
        desk
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.dir.join(name), bytes).unwrap();
    }

    fn run(&self, line: &str) -> Ran {
        self.run_with(line, b"")
    }

    fn run_with(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_countersign-verify"))
            .args(line.split_whitespace())
            .current_dir(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A run that does not read its input may have ended already.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn one_line_a_check_and_the_verdict_last() {
    let desk = Desk::new("lines");
    let ran = desk.run("good.json --policy policy");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 9, "{}", ran.out);
    assert_eq!((lines[0], lines[8]), ("good.json", "holds"));
    for (line, start) in lines[1..8].iter().zip([
        "  leaf        pass     receipt, ",
        "  envelope    pass     signature by id_",
        "  signers     pass     id_",
        "  payload     skipped  opaque bytes",
        "  inclusion   pass     included at index 2 in a tree of size 3",
        "  checkpoint  pass     tree of 3 leaves",
        "  witnesses   pass     quorum w met by w at 2023-11-14T22:13:20.000Z; so this tree and all in it existed by 2023-11-14T22:13:20.000Z; the leaf claims 2023-11-14T22:12:22.468Z, 57.532 s before",
    ]) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(!ran.out.contains('\u{1b}'), "no colour");
    assert!(
        ran.out
            .contains("that it was not revoked since is the operator's word until an audit")
    );
}

#[test]
fn json_is_one_line_an_input() {
    let desk = Desk::new("json");
    let ran = desk.run("good.json bad.json newer.json --policy policy --json");
    assert_eq!(ran.code, 1);
    let lines: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let verdicts: Vec<&str> = lines
        .iter()
        .map(|line| line["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["holds", "does_not_hold", "cannot_tell"]);
    let good = &lines[0];
    assert_eq!(good["evidence"], "good.json");
    let names: Vec<&str> = good["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "leaf",
            "envelope",
            "signers",
            "payload",
            "inclusion",
            "checkpoint",
            "witnesses"
        ]
    );
    assert_eq!(
        (&good["subject"]["index"], &good["subject"]["origin"]),
        (&json!(2), &json!(ORIGIN))
    );
    assert_eq!(
        good["by"]["identity"],
        ed25519(3).public().identity().to_string()
    );
    assert_eq!(good["by"]["class"], "agent_key");
    assert_eq!(
        good["cosigners"],
        json!([{"name": "w", "key": "witness.example/w", "time": 1_700_000_000, "at": "2023-11-14T22:13:20.000Z"}])
    );
    assert_eq!(
        (&lines[2]["subject"], &lines[2]["by"]),
        (&Value::Null, &Value::Null)
    );
    for line in &lines {
        assert_eq!(line["checks"].as_array().unwrap().len(), 7);
    }
}

#[test]
fn of_several_the_worst_exit_code_counts() {
    let desk = Desk::new("codes");
    for (files, code) in [
        ("good.json", 0),
        ("good.json good.json", 0),
        ("bad.json", 1),
        ("newer.json", 3),
        ("absent.json", 2),
        ("good.json newer.json", 3),
        ("newer.json bad.json good.json", 1),
        ("bad.json absent.json newer.json", 2),
    ] {
        let ran = desk.run(&format!("{files} --policy policy"));
        assert_eq!(ran.code, code, "{files}: {}{}", ran.out, ran.err);
    }
    let ran = desk.run("good.json bad.json newer.json absent.json --policy policy");
    assert!(
        ran.out
            .ends_with("4 files: 1 hold, 1 do not hold, 1 cannot be told, 1 cannot be read\n"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("absent.json"), "{}", ran.err);
}

#[test]
fn usage_and_what_cannot_be_read() {
    let desk = Desk::new("usage");
    desk.put("broken.policy", "log x\n");
    desk.put("empty.pub", "# nothing\n");
    for (line, words) in [
        ("", "EVIDENCE"),
        ("good.json", "--policy"),
        ("good.json --policy absent", "absent"),
        ("good.json --policy broken.policy", "broken.policy"),
        ("good.json --policy policy --keys absent.pub", "absent.pub"),
        ("good.json --policy policy --keys empty.pub", "no key"),
        ("good.json --policy policy --keys good.json", "good.json"),
        ("good.json --policy policy --payload absent", "absent"),
        ("good.json --policy policy --artifact absent", "absent"),
        ("good.json --policy policy --leaf absent", "absent"),
        ("good.json bad.json --policy policy --leaf policy", "--leaf"),
        ("- - --policy policy", "standard input"),
        ("good.json --policy policy --fetch", "--fetch"),
    ] {
        let ran = desk.run(line);
        assert_eq!(ran.code, 2, "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{line}: {}", ran.err);
    }
}

/// B104: an absent key is an error, and no file appears that was not there.
#[test]
fn b104_nothing_is_created() {
    let desk = Desk::new("b104");
    let before = desk.names();
    for line in [
        "good.json --policy policy --keys absent.pub",
        "good.json --policy absent.policy",
        "absent.json --policy policy",
        "good.json --policy policy --keys agent.pub",
    ] {
        desk.run(line);
    }
    assert_eq!(desk.names(), before);
}

#[test]
fn keys_pin_signers() {
    let desk = Desk::new("keys");
    let ran = desk.run("good.json --policy policy --keys agent.pub");
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("; pinned by you"));
    // Several files after one --keys, or one each.
    assert_eq!(
        desk.run("good.json --policy policy --keys other.pub agent.pub")
            .code,
        0
    );
    assert_eq!(
        desk.run("good.json --policy policy --keys other.pub --keys agent.pub")
            .code,
        0
    );
    let ran = desk.run("good.json --policy policy --keys other.pub");
    assert_eq!(ran.code, 3);
    assert!(
        ran.out.contains("unknown key") && ran.out.ends_with("cannot tell\n"),
        "{}",
        ran.out
    );
    assert!(
        desk.run("good.json --policy policy")
            .out
            .contains("enrolled by the log, not pinned by you")
    );
}

#[test]
fn payload_and_artifact() {
    let mut desk = Desk::new("payload");
    desk.put("payload", b"a payload");
    desk.put("longer", b"a payload\n");
    desk.put("artifact", vec![7; 200_000]);
    assert_eq!(
        desk.run("good.json --policy policy --payload payload").code,
        0
    );
    let ran = desk.run("good.json --policy policy --payload longer");
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("payload     fail     the signed payload of 9 bytes differs from the file of 10 bytes, from byte 9 on"));
    assert_eq!(
        desk.run("good.json --policy policy --artifact artifact")
            .code,
        1
    );
    let sha256 = countersign_verifier::hash::sha256(&vec![7; 200_000]).to_hex();
    let value = json!({"_type": statement::TYPE, "subject": [{"digest": {"sha256": sha256}}], "predicateType": "https://example.com/p"});
    let agent = ed25519(3);
    let at = desk.world.receipt(
        statement::PAYLOAD_TYPE,
        value.to_string().as_bytes(),
        &[(agent.public().identity(), &agent)],
    );
    desk.put("built.json", desk.world.evidence(at, &[0, 1]).to_json());
    assert_eq!(
        desk.run("built.json --policy policy --artifact artifact")
            .code,
        0
    );
    // B076: a valid envelope about something else.
    assert_eq!(
        desk.run("built.json --policy policy --artifact payload")
            .code,
        1
    );
}

#[test]
fn standard_input_and_bare_proofs() {
    let desk = Desk::new("stdin");
    let evidence = desk.world.evidence(2, &[0, 1]);
    let ran = desk.run_with("- --policy policy", &evidence.to_json());
    assert_eq!((ran.code, ran.out.lines().next()), (0, Some("-")));
    desk.put("2.tlog-proof", evidence.proof.to_text());
    desk.put("2.leaf", &evidence.leaf);
    desk.put("other.leaf", relabel(&evidence.leaf, "22.468Z", "22.469Z"));
    // Nothing in a bare proof shows whose key it is; the reader's own keys can.
    assert_eq!(
        desk.run("2.tlog-proof --leaf 2.leaf --policy policy").code,
        3
    );
    assert_eq!(
        desk.run("2.tlog-proof --leaf 2.leaf --policy policy --keys agent.pub")
            .code,
        0
    );
    assert_eq!(
        desk.run("2.tlog-proof --leaf other.leaf --policy policy --keys agent.pub")
            .code,
        1
    );
    assert_eq!(
        desk.run_with(
            "- --leaf 2.leaf --policy policy --keys agent.pub",
            evidence.proof.to_text().as_bytes()
        )
        .code,
        0
    );
    let ran = desk.run("2.tlog-proof --policy policy");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("name the file of its leaf with --leaf"));
    // A leaf of another application is taken as it is.
    let text = support::V1;
    let tree = support::Tree::of(["a", "b", "c"]);
    let proof = countersign_verifier::proof::TlogProof {
        extra: None,
        index: 1,
        path: tree.inclusion(1, 3),
        checkpoint: text.into(),
    };
    desk.put("b.tlog-proof", proof.to_text());
    desk.put("b", "b");
    let ran = desk.run("b.tlog-proof --leaf b --policy policy");
    assert_eq!(ran.code, 0, "{}", ran.out);
    // B162: a newer version is told apart from a broken file.
    desk.put("v2.tlog-proof", proof.to_text().replace("@v1", "@v2"));
    let ran = desk.run("v2.tlog-proof --leaf b --policy policy");
    assert_eq!(ran.code, 3);
    assert!(ran.out.contains("unsupported version"));
    desk.put("cut.tlog-proof", &proof.to_text()[..60]);
    assert_eq!(desk.run("cut.tlog-proof --leaf b --policy policy").code, 1);
}

/// B156: a proof is judged by the policy of its size.
#[test]
fn b156_a_folder_of_eras() {
    let desk = Desk::new("eras");
    let era = |name: &str, policy: &str| {
        fs::create_dir_all(desk.dir.join("policy.d")).unwrap();
        desk.put(&format!("policy.d/{name}"), policy);
    };
    let stranger = format!("log {}\nquorum none\n", support::LOG_VKEY);
    era("0.policy", &support::v1_policy("w"));
    era("4.policy", &stranger);
    era("README", "not a policy");
    let ran = desk.run("good.json --policy policy.d");
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("quorum w met"));
    fs::rename(
        desk.dir.join("policy.d/4.policy"),
        desk.dir.join("policy.d/3.policy"),
    )
    .unwrap();
    assert!(
        desk.run("good.json --policy policy.d")
            .out
            .contains("quorum none")
    );
    fs::remove_file(desk.dir.join("policy.d/0.policy")).unwrap();
    fs::rename(
        desk.dir.join("policy.d/3.policy"),
        desk.dir.join("policy.d/4.policy"),
    )
    .unwrap();
    let ran = desk.run("good.json --policy policy.d");
    assert_eq!(ran.code, 3, "{}", ran.out);
    for bad in ["04.policy", "x.policy", "-1.policy"] {
        era(bad, &stranger);
        assert_eq!(desk.run("good.json --policy policy.d").code, 2, "{bad}");
        fs::remove_file(desk.dir.join("policy.d").join(bad)).unwrap();
    }
    fs::remove_file(desk.dir.join("policy.d/4.policy")).unwrap();
    assert_eq!(desk.run("good.json --policy policy.d").code, 2);
}

#[test]
fn a_stolen_witness_counts_in_no_era() {
    let desk = Desk::new("stolen");
    fs::create_dir(desk.dir.join("policy.d")).unwrap();
    desk.put("policy.d/0.policy", support::v1_policy("w"));
    desk.put("policy.d/9.policy", support::v1_policy("none"));
    assert_eq!(desk.run("good.json --policy policy.d").code, 0);
    desk.put("policy.d/stolen", support::WITNESS_VKEY);
    let ran = desk.run("good.json --policy policy.d");
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("by no witness of quorum w"), "{}", ran.out);
    desk.put("policy.d/stolen", support::LOG_VKEY);
    assert_eq!(desk.run("good.json --policy policy.d").code, 3);
    desk.put("policy.d/stolen", "w\n");
    assert_eq!(desk.run("good.json --policy policy.d").code, 2);
}

/// B161: what was verified once is verified again by the files alone; B162: newer is not invalid.
#[test]
fn b161_b162_no_network_and_no_alarm() {
    let desk = Desk::new("b161");
    for _ in 0..2 {
        assert_eq!(desk.run("good.json --policy policy").code, 0);
    }
    let ran = desk.run("newer.json --policy policy");
    assert_eq!(ran.code, 3);
    assert!(
        ran.out.contains("unsupported version") && ran.out.ends_with("cannot tell\n"),
        "{}",
        ran.out
    );
}

#[test]
fn many_files_come_out_in_order() {
    let mut desk = Desk::new("many");
    for i in 0..200u8 {
        desk.world.agent_receipt(&[i]);
    }
    for at in 2..200u64 {
        desk.put(
            &format!("{at}.json"),
            desk.world.evidence(at, &[0, 1]).to_json(),
        );
    }
    let files: Vec<String> = (2..200).map(|at| format!("{at}.json")).collect();
    let ran = desk.run(&format!("{} --policy policy --json", files.join(" ")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let order: Vec<String> = ran
        .out
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["evidence"]
                .as_str()
                .unwrap()
                .into()
        })
        .collect();
    assert_eq!(order, files);
}

#[test]
fn what_a_file_says_cannot_draw_on_the_terminal() {
    let mut desk = Desk::new("terminal");
    let next = ed25519(6);
    let class = countersign_verifier::leaf::Class::AgentKey;
    desk.world
        .enroll(&ed25519(4), "\u{1b}[2Jevil\u{202e}", &next, class, true);
    let at = desk.world.receipt(
        "text/plain\u{7}",
        b"x",
        &[(next.public().identity(), &next)],
    );
    desk.put("evil.json", desk.world.evidence(at, &[0, 3]).to_json());
    let ran = desk.run("evil.json --policy policy");
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(
        !ran.out.contains(['\u{1b}', '\u{202e}', '\u{7}']),
        "{:?}",
        ran.out
    );
}

#[test]
fn help_says_what_is_checked_and_how_it_ends() {
    let desk = Desk::new("help");
    let ran = desk.run("--help");
    assert_eq!(ran.code, 0);
    for words in [
        "EVIDENCE",
        "--policy",
        "--keys",
        "--payload",
        "--artifact",
        "--leaf",
        "--json",
        "Exit codes",
        "`countersign audit --replay` does",
        "skipped for quorum none",
    ] {
        assert!(ran.out.contains(words), "{words}");
    }
    assert!(desk.run("--version").out.starts_with("countersign-verify "));
}

#[test]
fn a_body_is_held_against_the_reference_and_an_erased_one_cannot_be_told() {
    use countersign_verifier::blob::commitment;
    let mut desk = Desk::new("bodies");
    let (salt, body) = ([9; 32], b"a long report");
    let named = commitment(&salt, body).to_hex();
    let payload = json!({"commitment": named, "bytes": body.len(), "media_type": "text/plain"});
    let about = desk.world.agent_receipt(payload.to_string().as_bytes());
    let owner = ed25519(4);
    let (by, asked) = (
        (owner.public().identity(), &owner),
        json!({"commitment": named}),
    );
    let erased = desk
        .world
        .change_as(by, "blob_erase", asked.clone(), &asked);
    desk.put("about.json", desk.world.evidence(about, &[0, 1]).to_json());
    desk.put(
        "erased.json",
        desk.world.evidence(erased, &[0, 1]).to_json(),
    );
    desk.put("body", body);
    let salt = "09".repeat(32);
    for (more, code, says) in [
        (
            format!("--body body --salt {salt}"),
            0,
            "refers as \"text/plain\"",
        ),
        (
            format!("--body policy --salt {salt}"),
            1,
            "none of the payload's",
        ),
        ("--erased erased.json".to_owned(), 3, "body erased: "),
        (
            format!("--body policy --salt {salt} --erased erased.json"),
            3,
            "body erased: ",
        ),
        (
            format!("--body body --salt {salt} --erased erased.json"),
            0,
            "refers as",
        ),
        ("--body body".to_owned(), 2, "--salt"),
        ("--body body --salt 09".to_owned(), 2, "--salt"),
        (
            "--erased good.json".to_owned(),
            2,
            "good.json: this leaf erases no body",
        ),
        ("--erased bad.json".to_owned(), 2, "bad.json: does_not_hold"),
    ] {
        let ran = desk.run(&format!("about.json --policy policy {more}"));
        assert_eq!(ran.code, code, "{more}: {}{}", ran.out, ran.err);
        assert!(
            ran.out.contains(says) || ran.err.contains(says),
            "{more}: {}{}",
            ran.out,
            ran.err
        );
    }
    let ran = desk.run("about.json --policy policy --erased erased.json --json");
    let verdict: Value = serde_json::from_str(ran.out.trim()).unwrap();
    assert_eq!(verdict["verdict"], "cannot_tell");
}
