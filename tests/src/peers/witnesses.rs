//! Witnesses of three makers over logs of two: litewitness, omniwitness and ours cosign our log, and Tessera's.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use countersign_verifier::{
    hash::leaf_hash,
    key::{Algorithm, PrivateKey},
    note::Note,
    policy::Policy,
    proof::TlogProof,
    vkey::{NoteSigner, VerifierKey},
};
use rustix::process::Signal;
use serde_json::Value;

mod makers;

use self::makers::{Cosigner, Three, built};
use super::{success, tools};
use crate::rig::{
    Auditor, JSON, Service, Start, clean, countersign, files, receipt, receipts, verify,
};

/// An account with a policy of foreign witnesses and ours, under an auditor's eyes.
struct Witnessed {
    three: Three,
    start: Start,
    service: Service,
    auditor: Auditor,
    written: u64,
    home: tempfile::TempDir,
}

impl Witnessed {
    fn new(built: &Path, threshold: &str) -> Witnessed {
        let home = tempfile::tempdir().expect("a temporary folder");
        let dir = home.path().join("data");
        let made = clean(countersign())
            .args([
                "init",
                "--account",
                "dev",
                "--origin",
                "localhost/dev",
                "--dir",
            ])
            .arg(&dir)
            .output();
        let made = made.expect("countersign runs");
        assert!(made.status.success(), "{made:?}");
        let account = dir.join("accounts/dev");
        let vkey = fs::read_to_string(account.join("log.vkey")).expect("log.vkey");
        let vkey = vkey.trim_end();
        let three = Three::new(home.path(), built, vkey, threshold);
        let policy = format!("log {vkey}\n{}", three.policy);
        // An era of its own: what `init` published, leaf 0, was published without witnesses.
        let eras = account.join("policy.d");
        fs::create_dir_all(&eras).expect("a folder of policies");
        fs::copy(account.join("policy"), eras.join("0.policy")).expect("the first policy");
        fs::write(eras.join("2.policy"), &policy).expect("a policy");
        fs::write(account.join("policy"), &policy).expect("a policy");
        let start = Start::up(&dir);
        let service = start.run();
        Witnessed {
            auditor: Auditor::new(&service),
            three,
            start,
            service,
            written: 0,
            home,
        }
    }

    /// A receipt that must become witnessed; then the whole tree is looked at, every checkpoint under the policy.
    fn write(&mut self) {
        self.written += 1;
        let pem = fs::read_to_string(self.start.dir.join("owner.key")).expect("owner.key");
        let owner = PrivateKey::parse(&pem).expect("a key");
        let envelope = receipt(&format!("witnessed {}", self.written), &owner).to_json();
        let asked = receipts("?wait=witnessed&deadline_ms=50000");
        let mut answer = self.service.http().post(&asked, JSON, &envelope);
        // After a start, until enough witnesses have shown that nothing is missing; whoever failed a moment ago is asked later.
        for _ in 0..900 {
            if answer.status != 503 {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            answer = self.service.http().post(&asked, JSON, &envelope);
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["state"], "witnessed", "{}", answer.text());
        self.auditor.check(&mut self.service.http());
    }

    fn restart(&mut self) {
        self.service.stop();
        self.service = self.start.run();
        self.auditor.check(&mut self.service.http());
    }

    /// The whole log by golang.org/x/mod and by Tessera's client, the quorum by Tessera; these witnesses' lines by x/mod's notes.
    fn read_by_others(&self, tools: &Path, witnesses: &[&Cosigner]) {
        let mut command = Command::new(tools.join("readlog"));
        for witness in witnesses {
            command.args(["-witness", &witness.vkey]);
        }
        let output = command
            .arg("-policy")
            .arg(&self.service.policy)
            .args([&format!("{}/log/dev", self.service.url), &self.service.vkey])
            .output();
        let read = success(&output.expect("readlog runs"));
        assert_eq!(read["cosignatures"], witnesses.len());
        assert!(read["size"].as_u64() > Some(self.written), "{read}");
    }
}

#[test]
fn two_of_three_makers_are_enough_whoever_is_away() {
    let Some((tools, built)) = tools().zip(built()) else {
        return;
    };
    let mut log = Witnessed::new(&built, "2");
    log.write();
    log.read_by_others(tools, &[]);
    for away in 0..log.three.all.len() {
        log.three.all[away].end(Signal::KILL);
        log.write();
        // The two that are left must have cosigned: the note is opened under both.
        let there = log
            .three
            .all
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != away);
        let there: Vec<&Cosigner> = there.map(|(_, witness)| witness).collect();
        log.read_by_others(tools, &there);
        log.three.all[away].start();
    }
    // With one away the guard is content too: two are in every quorum of two of three.
    // Those must hold what was published last, so that it is written while the third is away.
    log.three.all[0].end(Signal::TERM);
    log.write();
    log.restart();
    log.write();
    log.three.all[0].start();
    log.three.all.iter_mut().for_each(Cosigner::restart);
    log.restart();
    log.write();
    log.read_by_others(tools, &[]);
}

#[test]
fn three_makers_cosign_and_one_that_was_restored_from_an_older_copy_forks_nothing() {
    // P003: it holds less than it once cosigned (T51), is told so by nobody, and is led forward by proofs alone.
    let Some((tools, built)) = tools().zip(built()) else {
        return;
    };
    let mut log = Witnessed::new(&built, "all");
    log.write();
    let lite = |log: &mut Witnessed, work: &dyn Fn(&Path, &Path)| {
        log.three.all[0].end(Signal::TERM);
        work(&log.three.all[0].dir(), &log.home.path().join("older"));
        log.three.all[0].start();
    };
    lite(&mut log, &|dir, older| copy(dir, older));
    for _ in 0..3 {
        log.write();
    }
    lite(&mut log, &|dir, older| {
        fs::remove_dir_all(dir).expect("removed");
        copy(older, dir);
    });
    log.write();
    log.read_by_others(tools, &log.three.all.iter().collect::<Vec<_>>());
    // And once more, with the log coming up while that witness is behind.
    lite(&mut log, &|dir, older| {
        fs::remove_dir_all(dir).expect("removed");
        copy(older, dir);
    });
    log.restart();
    log.write();
    log.three.all.iter_mut().for_each(Cosigner::restart);
    log.write();
    log.read_by_others(tools, &log.three.all.iter().collect::<Vec<_>>());
}

/// The files of a stopped witness; sockets are none.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}

#[test]
fn a_tessera_log_is_cosigned_by_ours_and_its_checkpoints_hold_under_a_policy() {
    const ORIGIN: &str = "log.example.com/peer";
    let Some((tools, built)) = tools().zip(built()) else {
        return;
    };
    for (threshold, seed) in [("2", [7; 32]), ("all", [8; 32])] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &seed).expect("a seed");
        let PrivateKey::Ed25519(key) = key else {
            panic!("a key of Ed25519")
        };
        let signer = NoteSigner::new(ORIGIN, key).expect("a signer");
        let vkey = signer.vkey().to_string();
        let three = Three::new(home.path(), &built, &vkey, threshold);
        let asked = home.path().join("asked");
        fs::write(&asked, &three.policy).expect("a policy");
        let proofs = home.path().join("proofs");
        let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
        let output = Command::new(tools.join("writelog"))
            .args([
                "-entries", "3000", "-origin", ORIGIN, "-seed", &hex, "-policy",
            ])
            .arg(&asked)
            .arg("-dir")
            .arg(home.path().join("log"))
            .arg("-proofs")
            .arg(&proofs)
            .output();
        let made = success(&output.expect("writelog runs"));
        assert_eq!(made["vkey"], vkey);
        let policy_file = proofs.join("policy");
        let policy = fs::read(&policy_file).expect("a policy");
        let policy = Policy::parse(&policy).expect("a policy");
        let proofs = files(&proofs, "tlog-proof");
        check_tessera(&proofs, &policy, threshold);
        let file = proofs.first().expect("a proof");
        let leaf = file.with_extension("leaf");
        let verified = verify(
            std::slice::from_ref(file),
            &policy_file,
            &["--leaf".as_ref(), leaf.as_os_str()],
        );
        for name in ["inclusion", "checkpoint", "witnesses"] {
            assert_eq!(check(&verified.verdicts[0], name), "pass", "{verified:#?}");
        }
        // A policy of three others is not met by these.
        let others = (0..3).map(|n| format!("witness w{n} {} \n", stranger(n)));
        let text = format!("log {vkey}\n{}quorum w0\n", others.collect::<String>());
        let strict = Policy::parse(text.as_bytes()).expect("a policy");
        let proof = fs::read(file).expect("a proof");
        let proof = TlogProof::parse(&proof).expect("a proof");
        let leaf = leaf_hash(&fs::read(leaf).expect("a leaf"));
        assert!(proof.verify(&leaf, &strict).is_err());
    }
}

fn check_tessera(proofs: &[PathBuf], policy: &Policy, threshold: &str) {
    assert!(!proofs.is_empty());
    for file in proofs {
        let leaf = fs::read(file.with_extension("leaf")).expect("a leaf");
        let bytes = fs::read(file).expect("a proof");
        let proof = TlogProof::parse(&bytes).expect("a proof");
        proof.verify(&leaf_hash(&leaf), policy).expect("it holds");
        // Tessera publishes as soon as its quorum is met, so that of two of three it may be any two.
        let at = bytes
            .windows(2)
            .position(|two| two == b"\n\n")
            .expect("a note");
        let note = Note::parse(&bytes[at + 2..]).expect("a note");
        let accepted = policy.check(&note).expect("a quorum");
        let wanted = if threshold == "all" { 3 } else { 2 };
        assert!(accepted.cosignatures.len() >= wanted, "{accepted:?}");
    }
}

fn check<'v>(verdict: &'v Value, name: &str) -> &'v Value {
    let checks = verdict["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["name"] == name);
    &found.expect(name)["status"]
}

/// The cosigner key of a witness that signed nothing.
fn stranger(n: u8) -> VerifierKey {
    let key = PrivateKey::from_secret(Algorithm::Ed25519, &[100 + n; 32]).expect("a seed");
    let PrivateKey::Ed25519(key) = key else {
        panic!("a key of Ed25519")
    };
    let signer = NoteSigner::new(&format!("witness.example/stranger{n}"), key).expect("a signer");
    signer.vkey().as_cosigner().expect("a cosigner key")
}
