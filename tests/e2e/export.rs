//! `countersign export`: static copies of logs that are served, at rest, private and mirrored, behind a web server that knows nothing.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{
    accounts::{self, create, done},
    audit::audit,
    recovery::Site,
};
use crate::rig::{NDJSON, Rig, clean, countersign, forget, keep, receipt, receipts};

/// A web server over a folder, of somebody else's making.
pub(crate) struct Web {
    pub(crate) url: String,
    child: Child,
}

impl Web {
    pub(crate) fn of(folder: &Path) -> Web {
        let mut child = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"])
            .arg("--directory")
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3");
        keep(&child);
        let mut said = String::new();
        let stdout = child.stdout.take().expect("its standard output");
        BufReader::new(stdout)
            .read_line(&mut said)
            .expect("what it serves");
        // Serving HTTP on 127.0.0.1 port 40001 (http://127.0.0.1:40001/) ...
        let url = said
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once("/)"));
        let url = url.unwrap_or_else(|| panic!("{said:?}")).0.to_owned();
        Web { url, child }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        forget(&self.child);
    }
}

/// What the command said.
pub(crate) struct Exported {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
    pub(crate) stderr: String,
}

pub(crate) fn export(dest: &Path, args: &[&str]) -> Exported {
    let output = clean(countersign())
        .arg("export")
        .arg(dest)
        .arg("--json")
        .args(args)
        .output()
        .expect("countersign runs");
    Exported {
        code: output.status.code(),
        report: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Exported {
    /// The report of one that was done.
    pub(crate) fn done(&self) -> &Value {
        assert_eq!(self.code, Some(0), "{} {}", self.report, self.stderr);
        &self.report
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Receipts of the owner's, until the log has so many leaves.
pub(crate) fn fill(rig: &mut Rig, to: u64) {
    let owner = rig.owner();
    let lines = (rig.size()..to).map(|n| receipt(&format!("{n}"), &owner).to_json());
    let body = lines.collect::<Vec<_>>().join(&b'\n');
    let answer = rig.http().post(&receipts(""), NDJSON, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    rig.check();
}

#[test]
fn a_copy_of_a_running_and_of_a_stopped_log_holds_under_a_plain_web_server() {
    let mut rig = Rig::up();
    let (dest, dir) = (rig.scratch().join("www"), text(rig.dir()).to_owned());
    fill(&mut rig, 300);
    let report = export(&dest, &["--dir", &dir]).done().clone();
    assert_eq!((&report["size"], &report["from"]), (&json!(300), &json!(0)));
    let web = Web::of(&dest);
    // By the copy's own policy, which whoever trusts the operator may take from it.
    let policy = dest.join("policy");
    for log in [web.url.as_str(), text(&dest)] {
        let audited = audit(log, &policy, &["--replay"]);
        audited.holds(&["witnesses"]);
        assert_eq!(audited.report["size"], 300);
    }
    // While it is served it is brought up to date, from the service and from the stopped directory.
    fill(&mut rig, 600);
    let report = export(&dest, &["--dir", &dir]).done().clone();
    assert_eq!(
        (&report["size"], &report["from"]),
        (&json!(600), &json!(300))
    );
    assert_eq!(report["removed"], 2);
    audit(&web.url, &policy, &["--replay"]).holds(&["witnesses"]);
    fill(&mut rig, 610);
    rig.service.stop();
    let report = export(&dest, &[&dir]).done().clone();
    assert_eq!(
        (&report["size"], &report["from"]),
        (&json!(610), &json!(600))
    );
    assert_eq!(export(&dest, &[&dir, "--whole"]).done()["written"], 0);
    audit(&web.url, &policy, &["--replay"]).holds(&["witnesses"]);
    // A mirror of the copy is the copy.
    let mirror = rig.scratch().join("mirror");
    let mirrored = ["--policy", text(&policy)];
    let log = [&[web.url.as_str()], &mirrored[..]].concat();
    assert_eq!(export(&mirror, &log).done()["size"], 610);
    let same = Command::new("diff")
        .args(["-r"])
        .args([&dest, &mirror])
        .output();
    let same = same.expect("diff");
    let said = String::from_utf8_lossy(&same.stdout);
    // Partial tiles of older sizes are only where they once were needed.
    assert!(
        said.lines()
            .all(|line| line.starts_with(&format!("Only in {}", text(&dest)))),
        "{said}"
    );
    // Somebody changed the copy: the mirror takes nothing of it.
    let entries = dest.join("tile/entries/000");
    let mut bytes = fs::read(&entries).expect("entries");
    bytes[40] ^= 1;
    fs::write(&entries, bytes).expect("entries");
    let elsewhere = rig.scratch().join("elsewhere");
    let refused = export(&elsewhere, &log);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(!elsewhere.join("checkpoint").exists());
    rig.begin_again();
}

#[test]
fn what_an_export_cannot_do_it_says_with_its_exit_code() {
    let mut rig = Rig::up();
    let (dest, dir) = (rig.scratch().join("www"), text(rig.dir()).to_owned());
    let url = format!("{}/log/dev", rig.service.url);
    let code = |args: &[&str]| {
        let said = export(&dest, args);
        (said.code, said.stderr)
    };
    let (told, why) = code(&[&url]);
    assert!(told == Some(2) && why.contains("--policy"), "{why}");
    assert_eq!(code(&["--dir", text(&rig.scratch())]).0, Some(2));
    assert_eq!(code(&[&dir, "--account", "nobody"]).0, Some(2));
    for inside in ["www", "accounts/www", "none/of/these"] {
        let said = export(&rig.dir().join(inside), &["--dir", &dir]);
        assert!(said.code == Some(2) && !rig.dir().join(inside).exists());
        assert!(said.stderr.contains("in the data directory"), "{inside}");
    }
    // A policy of another log; nothing is made for a log that is not shown to be one.
    let policy = rig.scratch().join("other.policy");
    fs::write(
        &policy,
        "log sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8\nquorum none\n",
    )
    .expect("a policy");
    assert_ne!(code(&[&url, "--policy", text(&policy)]).0, Some(0));
    assert!(!dest.exists());
    fill(&mut rig, 20);
    let right = text(&rig.service.policy).to_owned();
    export(&dest, &[&url, "--policy", &right]).done();
    // A folder of something else.
    let (told, why) = {
        let said = export(&rig.scratch(), &[&url, "--policy", &right]);
        (said.code, said.stderr)
    };
    assert!(told == Some(2) && why.contains("no copy of a log"), "{why}");
    // A published file differs.
    fs::write(dest.join("tile/0/000.p/20"), [1; 640]).expect("a tile");
    let (told, why) = code(&[&url, "--policy", &right, "--whole"]);
    assert!(told == Some(1) && why.contains("tile/0/000.p/20"), "{why}");
}

#[test]
fn a_private_account_is_copied_with_a_token_and_with_a_warning() {
    let site = Site::new();
    let service = site.start.run();
    let token = accounts::token(&site);
    let made = create(&site, "team", &[]);
    let policy = made["policy"].as_str().expect("a policy").to_owned();
    let item = json!({"item": {"id": "a", "title": "t"}, "wait": "included"});
    done(&service, &token, ("team", "board_upsert"), &item);
    let url = format!("{}/log/team", service.url);
    let refused = export(&site.path("none"), &[&url, "--policy", &policy]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let secret = site.start.dir.join("owner.token");
    let shown = [
        url.as_str(),
        "--policy",
        &policy,
        "--log-token",
        text(&secret),
    ];
    export(&site.path("shown"), &shown).done();
    // Of the directory, by its own token; of several accounts one is named.
    let dir = text(&site.start.dir).to_owned();
    assert_eq!(export(&site.path("both"), &[&dir]).code, Some(2));
    let own = export(&site.path("own"), &[&dir, "--account", "team"]);
    assert!(
        own.stderr.contains("account team is private"),
        "{}",
        own.stderr
    );
    assert_eq!(own.done()["origin"], made["origin"]);
    let files = [site.path("own/policy"), site.path("own/log.vkey")];
    assert!(files.iter().all(|file| file.is_file()));
    audit(text(&site.path("own")), &files[0], &["--replay"]).holds(&["witnesses"]);
    let warned = export(&site.path("dev"), &[&dir, "--account", "dev"]);
    assert!(!warned.stderr.contains("private"), "{}", warned.stderr);
    warned.done();
}
