//! Foreign readers and writers of logs, in Go: they share no code with what they look at.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

mod witnesses;

use crate::{
    e2e::{
        audit::audit,
        export::{Web, export, text as utf8},
    },
    rig::{NDJSON, Rig, receipt, receipts, verify, workspace},
};
use countersign_verifier::{
    hash::{Hash, leaf_hash},
    policy::Policy,
    proof::TlogProof,
    tree::{verify_consistency, verify_inclusion},
};
use serde_json::Value;

/// The built tools; `None` where there is no Go, which CI must have.
fn tools() -> Option<&'static Path> {
    static TOOLS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = TOOLS.get_or_init(|| {
        if Command::new("go").arg("version").output().is_err() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI has no go");
            eprintln!("SKIPPED: no `go` here to build the peers with");
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
        // A folder that is there: go makes one of that name otherwise, or a file.
        std::fs::create_dir_all(&folder).expect("a folder for the peers");
        let status = Command::new("go")
            .current_dir(workspace().join("tests/peers"))
            .args(["build", "-o"])
            .arg(&folder)
            .args(["./cmd/fscklog", "./cmd/readlog", "./cmd/writelog"])
            .status()
            .expect("go runs");
        assert!(status.success(), "go build: {status}");
        Some(folder)
    });
    built.as_deref()
}

fn success(output: &Output) -> Value {
    let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {stderr}", output.status);
    serde_json::from_slice(stdout).expect("one line of JSON")
}

#[test]
fn foreign_readers_read_the_whole_log() {
    let Some(tools) = tools() else { return };
    let mut rig = Rig::up();
    let leaves = rig.scratch();
    for to in [1_u64, 2, 255, 256, 257, 700] {
        let owner = rig.owner();
        let lines = (rig.size()..to).map(|n| receipt(&format!("{n}"), &owner).to_json());
        let body = lines.collect::<Vec<_>>().join(&b'\n');
        rig.http().post(&receipts(""), NDJSON, &body);
        rig.check();
        assert_eq!(rig.size(), to);
        for (index, leaf) in rig.auditor.leaves().iter().enumerate() {
            std::fs::write(leaves.join(format!("{index}.leaf")), leaf).expect("a leaf");
        }
        let output = Command::new(tools.join("readlog"))
            .args([
                "-size",
                &to.to_string(),
                "-origin",
                "localhost/dev",
                "-leaves",
            ])
            .arg(&leaves)
            .args([&format!("{}/log/dev", rig.service.url), &rig.service.vkey])
            .output();
        let read = success(&output.expect("readlog runs"));
        let head = rig.auditor.head(&mut rig.http());
        assert_eq!(read["size"], to);
        assert_eq!(read["entries"], to);
        assert_eq!(read["leaves_compared"], to);
        let root = read["root"].as_str().expect("a root");
        assert!(
            [head.root.to_hex(), head.root.to_base64()].contains(&root.to_owned()),
            "{read}"
        );
        assert!(read["inclusion_checked"].as_u64() >= Some(to), "{read}");
        is_held_by_fsck(
            tools,
            &format!("{}/log/dev", rig.service.url),
            &rig.service.vkey,
            to,
        );
    }
    // Another key, or another size, is not read: the reader looks.
    for (size, vkey) in [
        ("699", rig.service.vkey.clone()),
        (
            "700",
            rig.service.vkey.replacen("localhost", "otherhost", 1),
        ),
    ] {
        let output = Command::new(tools.join("readlog"))
            .args([
                "-size",
                size,
                &format!("{}/log/dev", rig.service.url),
                &vkey,
            ])
            .output();
        assert_ne!(
            output.expect("readlog runs").status.code(),
            Some(0),
            "{size} {vkey}"
        );
    }
}

/// Tessera's own fsck finds nothing in a log of this size.
fn is_held_by_fsck(tools: &Path, log: &str, vkey: &str, size: u64) {
    let output = Command::new(tools.join("fscklog"))
        .args([log, vkey])
        .output();
    assert_eq!(success(&output.expect("fscklog runs"))["size"], size);
}

#[test]
fn foreign_readers_read_a_static_copy() {
    let Some(tools) = tools() else { return };
    let mut rig = Rig::up();
    let (dest, dir) = (rig.scratch().join("www"), utf8(rig.dir()).to_owned());
    let web = {
        std::fs::create_dir(&dest).expect("a folder");
        Web::of(&dest)
    };
    // Each size grows out of the one before, with its partial tiles still there.
    for to in [1_u64, 255, 256, 257, 700] {
        crate::e2e::export::fill(&mut rig, to);
        assert_eq!(export(&dest, &["--dir", &dir]).done()["size"], to);
        for log in [web.url.as_str(), utf8(&dest)] {
            is_held_by_fsck(tools, log, &rig.service.vkey, to);
        }
        let output = Command::new(tools.join("readlog"))
            .args(["-size", &to.to_string(), &web.url, &rig.service.vkey])
            .output();
        assert_eq!(success(&output.expect("readlog runs"))["entries"], to);
    }
    // What our own audit would find, fsck finds too: it looks.
    let tile = dest.join("tile/0/001");
    let mut bytes = std::fs::read(&tile).expect("a tile");
    bytes[0] ^= 1;
    std::fs::write(&tile, bytes).expect("a tile");
    let output = Command::new(tools.join("fscklog"))
        .args([utf8(&dest), &rig.service.vkey])
        .output();
    assert_eq!(output.expect("fscklog runs").status.code(), Some(1));
}

/// A log that Tessera's POSIX driver writes, with a policy that names it.
fn foreign_log(tools: &Path, folder: &Path, args: &[&str]) -> (PathBuf, PathBuf, Value) {
    let (log, proofs) = (folder.join("log"), folder.join("proofs"));
    let output = Command::new(tools.join("writelog"))
        .args(["-origin", "log.example.com/peer", "-index", "0", "-dir"])
        .arg(&log)
        .arg("-proofs")
        .arg(&proofs)
        .args(args)
        .output();
    let made = success(&output.expect("writelog runs"));
    (log, proofs.join("policy"), made)
}

#[test]
fn the_audit_passes_logs_of_a_foreign_writer_and_their_mirrors() {
    let Some(tools) = tools() else { return };
    // Rekor v2 is Tessera, too: what is its own is the form of the entries.
    for args in [
        &["-entries", "1"][..],
        &["-entries", "256"],
        &["-entries", "700"],
        &["-entries", "300", "-rekor"],
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let (log, policy, made) = foreign_log(tools, home.path(), args);
        let web = Web::of(&log);
        let mirror = home.path().join("mirror");
        let mirrored = export(&mirror, &[&web.url, "--policy", utf8(&policy)]);
        assert_eq!(mirrored.done()["size"], made["size"]);
        let skipped = ["witnesses", "leaves", "signatures", "decisions"];
        for place in [web.url.as_str(), utf8(&log), utf8(&mirror)] {
            let audited = audit(place, &policy, &[]);
            audited.holds(&skipped);
            assert_eq!(
                (&audited.report["size"], &audited.report["root"]),
                (&made["size"], &made["root"])
            );
        }
        // `--replay` asks for nothing that such a log has not; a changed entry is found and named.
        audit(utf8(&log), &policy, &["--replay"]).holds(&skipped);
        let size = made["size"].as_u64().expect("a size");
        is_held_by_fsck(tools, utf8(&mirror), text(&made["vkey"]), size);
        let bundle = if size < 256 {
            format!("000.p/{size}")
        } else {
            "000".into()
        };
        let file = log.join("tile/entries").join(bundle);
        let mut bytes = std::fs::read(&file).expect("a bundle");
        bytes[2] ^= 1;
        std::fs::write(&file, bytes).expect("a bundle");
        audit(utf8(&log), &policy, &[]).has("entry", Some(0), "not the entry whose hash stands in");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn hashes(value: &Value) -> Vec<Hash> {
    let list = value.as_array().into_iter().flatten();
    list.map(|hash| Hash::from_base64(text(hash)).expect("a hash"))
        .collect()
}

#[test]
fn logs_of_a_foreign_writer_verify() {
    let Some(tools) = tools() else { return };
    for entries in [1_u32, 2, 255, 256, 257, 600] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let proofs = home.path().join("proofs");
        let output = Command::new(tools.join("writelog"))
            .args([
                "-entries",
                &entries.to_string(),
                "-origin",
                "log.example.com/peer",
                "-dir",
            ])
            .arg(home.path().join("log"))
            .arg("-proofs")
            .arg(&proofs)
            .output();
        let made = success(&output.expect("writelog runs"));
        assert_eq!(made["size"], entries);
        let policy_file = proofs.join("policy");
        let policy = std::fs::read_to_string(&policy_file).expect("a policy");
        let policy = Policy::parse(&policy).expect("a policy");
        let mut files: Vec<PathBuf> = crate::rig::files(&proofs, "tlog-proof");
        assert!(!files.is_empty());
        // By the library, each; by the command line, one of them: it looks at one leaf a run.
        for file in &files {
            let leaf = std::fs::read(file.with_extension("leaf")).expect("a leaf");
            let proof = TlogProof::parse(&std::fs::read(file).expect("a proof")).expect("a proof");
            let accepted = proof.verify(&leaf_hash(&leaf), &policy);
            assert_eq!(
                accepted.expect("a proof that holds").checkpoint.size,
                u64::from(entries)
            );
            assert!(proof.verify(&leaf_hash(b"another"), &policy).is_err());
        }
        let file = files.pop().expect("a proof");
        let leaf = file.with_extension("leaf");
        let more = ["--leaf".as_ref(), leaf.as_os_str()];
        let verified = verify(std::slice::from_ref(&file), &policy_file, &more);
        // A leaf of another application is none of ours to read: what is proved is its place.
        assert!(matches!(verified.code, 0 | 3), "{verified:#?}");
        let inclusion = verified.verdicts[0]["checks"]
            .as_array()
            .expect("checks")
            .iter()
            .find(|c| c["name"] == "inclusion");
        assert_eq!(inclusion.expect("a check")["status"], "pass");
        std::fs::write(&leaf, b"changed").expect("a leaf");
        assert_eq!(verify(&[file], &policy_file, &more).code, 1);
    }
}

#[test]
fn proofs_of_a_foreign_writer_verify() {
    let Some(tools) = tools() else { return };
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = home.path().join("vectors.json");
    let status = Command::new(tools.join("writelog"))
        .arg("-vectors")
        .arg(&file)
        .status();
    assert!(status.expect("writelog runs").success());
    let vectors: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("vectors")).expect("JSON");
    let of = |kind: &str| vectors[kind].as_array().expect("vectors").clone();
    let number = |value: &Value| value.as_u64().expect("a number");
    let hash = |value: &Value| Hash::from_base64(text(value)).expect("a hash");
    for v in of("inclusion") {
        let leaf = countersign_verifier::base64::decode(text(&v["leaf"])).expect("base64");
        let path = hashes(&v["path"]);
        verify_inclusion(
            &leaf_hash(&leaf),
            number(&v["index"]),
            number(&v["size"]),
            &path,
            &hash(&v["root"]),
        )
        .expect("an inclusion proof");
    }
    for v in of("consistency") {
        let path = hashes(&v["path"]);
        verify_consistency(
            number(&v["old_size"]),
            &hash(&v["old_root"]),
            number(&v["size"]),
            &hash(&v["root"]),
            &path,
        )
        .expect("a consistency proof");
    }
    assert!(of("inclusion").len() > 10 && of("consistency").len() > 10);
}
