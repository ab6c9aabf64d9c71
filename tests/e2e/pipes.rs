//! Pipes where plain files are due: whoever may write in a folder keeps no command waiting, and no service from being stopped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::recovery::{Site, submit};
use crate::rig::{clean, countersign};

/// Reaching it is a failure, whatever the machine is busy with; `timeout` then exits with 124.
const PATIENCE_S: &str = "90";

/// A file, and the commands that refuse a pipe in its place, with their exit codes.
type Case<'a> = (&'a str, &'a [(&'a [&'a str], i32)]);

/// The same of a witness.
const WITNESS_FILES: &[(&str, i32)] = &[
    ("witness.key", 5),
    ("witness.vkey", 5),
    ("commits", 5),
    ("gossip.json", 2),
];

/// A pipe in the place of a file, or of none; what was there is put back when this goes.
struct Pipe {
    path: PathBuf,
    aside: PathBuf,
}

impl Pipe {
    fn at(path: PathBuf, aside: PathBuf) -> Pipe {
        if path.exists() {
            fs::rename(&path, &aside).expect("moved aside");
        }
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success(), "{}", path.display());
        Pipe { path, aside }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // What fails here fails what comes next.
        let _ = fs::remove_file(&self.path);
        let _ = fs::rename(&self.aside, &self.path);
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn words<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

/// Runs a command that must end by itself, with this exit code, and say why.
fn refuses(args: &[&str], code: i32, what: &str) {
    let output = clean(Path::new("timeout"))
        .args(["-k", "1", PATIENCE_S])
        .arg(countersign())
        .args(args)
        .output()
        .expect("timeout runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert_eq!(output.status.code(), Some(code), "{what}: {args:?}: {said}");
    assert!(said.contains("no plain file"), "{what}: {args:?}: {said}");
    assert!(!said.contains("panicked"), "{what}: {args:?}: {said}");
}

/// A site at rest whose log has some leaves.
fn site() -> Site {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..20, "included");
    service.stop();
    site
}

/// The one partial tile, or bundle, below this folder of a copy.
fn partial(copy: &Path, folder: &str) -> PathBuf {
    let mut entries = fs::read_dir(copy.join(folder)).expect("a folder").flatten();
    entries.next().expect("a partial tile").path()
}

#[test]
fn a_pipe_in_a_data_directory_keeps_no_command_waiting() {
    let site = site();
    let dir = text(&site.start.dir);
    let out = text(&site.path("out"));
    let check = ["check", "--dir", &dir];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--dir", &dir];
    let export = ["export", &out, "--dir", &dir];
    let config = ["config", "check", "--dir", &dir];
    let hash = "0".repeat(64);
    let revoke = ["token", "revoke", &hash, "--dir", &dir];
    let cases: &[Case<'_>] = &[
        ("accounts/dev/account.json", &[(&check, 1), (&serve, 1)]),
        (
            "accounts/dev/policy",
            &[(&check, 1), (&serve, 1), (&export, 2)],
        ),
        ("accounts/dev/policy.next", &[(&check, 1), (&serve, 1)]),
        (
            "accounts/dev/policy.d/0.policy",
            &[(&check, 1), (&serve, 1)],
        ),
        ("accounts/dev/log.key", &[(&check, 1), (&serve, 5)]),
        ("accounts/dev/service.key", &[(&check, 1), (&serve, 5)]),
        ("accounts/dev/seat.secret", &[(&check, 1), (&serve, 5)]),
        ("config.toml", &[(&config, 2), (&serve, 2)]),
        ("owner.token", &[(&serve, 1)]),
        ("owner.key", &[(&revoke, 2)]),
        ("lock", &[(&check, 2), (&serve, 2)]),
    ];
    for (file, commands) in cases {
        let path = site.start.dir.join(file);
        let folder = path.parent().expect("a folder");
        let made = fs::create_dir(folder).is_ok();
        let pipe = Pipe::at(path.clone(), site.path("aside"));
        for (args, code) in *commands {
            refuses(args, *code, file);
        }
        drop(pipe);
        if made {
            fs::remove_dir(folder).expect("as it was");
        }
    }
    let mut service = site.start.run();
    service.stop();
}

#[test]
fn a_pipe_in_a_copy_of_a_log_keeps_no_reader_waiting() {
    let site = site();
    let (copy, dir) = (site.path("copy"), text(&site.start.dir));
    let policy = site.path("one.policy");
    fs::copy(site.account("policy"), &policy).expect("a policy");
    let said = site.run(&["export", &text(&copy)]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let (log, policy) = (text(&copy), text(&policy));
    let by = ["--policy", policy.as_str()];
    let (out, pins) = (text(&site.path("out")), text(&site.path("pins")));
    let audit = words(&[&["audit", &log], &by]);
    let export = words(&[&["export", &out, &log], &by]);
    let sizes = words(&[&["watch", &log, "--once", "--from", "0"], &by]);
    let leaves = words(&[&sizes, &["--type", "x"]]);
    let pin = words(&[&["pin", "add", &log, "--pins", &pins], &by]);
    let recover = words(&[&["recover", "--from", &log, "--dir", &dir]]);
    let readers: &[(PathBuf, &[&Vec<&str>])] = &[
        (
            copy.join("checkpoint"),
            &[&audit, &export, &sizes, &leaves, &pin, &recover],
        ),
        (
            partial(&copy, "tile/entries/000.p"),
            &[&audit, &export, &leaves],
        ),
        (partial(&copy, "tile/0/000.p"), &[&audit]),
    ];
    for (path, commands) in readers {
        let _pipe = Pipe::at(path.clone(), site.path("aside"));
        for args in *commands {
            refuses(args, 3, &text(path));
        }
    }
    // A policy of several eras, of which one is a pipe.
    let eras = site.path("eras");
    fs::create_dir(&eras).expect("a folder");
    fs::copy(&policy, eras.join("0.policy")).expect("a policy");
    let eras_by = text(&eras);
    for name in ["5.policy", "stolen"] {
        let _pipe = Pipe::at(eras.join(name), site.path("aside"));
        for args in [&audit, &export, &sizes, &pin] {
            let named = args.iter().map(|arg| match *arg == policy {
                true => eras_by.as_str(),
                false => *arg,
            });
            refuses(&named.collect::<Vec<&str>>(), 2, name);
        }
    }
}

#[test]
fn a_pipe_where_an_export_goes_keeps_it_from_nothing_but_this() {
    let site = site();
    let copy = site.path("copy");
    let dir = text(&site.start.dir);
    let there = text(&copy);
    let again = ["export", &there, "--dir", &dir];
    let whole = ["export", &there, "--whole", "--dir", &dir];
    assert_eq!(site.run(&again[..2]).code, Some(0));
    for file in ["log.json", "checkpoint", "log.vkey", "policy"] {
        let _pipe = Pipe::at(copy.join(file), site.path("aside"));
        refuses(&again, 2, file);
    }
    for folder in ["tile/0/000.p", "tile/entries/000.p"] {
        let _pipe = Pipe::at(partial(&copy, folder), site.path("aside"));
        refuses(&whole, 2, folder);
    }
    assert_eq!(site.run(&whole[..3]).code, Some(0));
}

#[test]
fn a_pipe_in_the_directory_of_a_witness_keeps_it_from_starting() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let root = home.path().join("witness");
    let dir = text(&root);
    let made = clean(countersign())
        .args(["witness", "init", "--name", "w.example/w", "--dir", &dir])
        .status();
    assert!(made.expect("countersign runs").success());
    let serve = ["witness", "serve", "--listen", "127.0.0.1:0", "--dir", &dir];
    for (file, code) in WITNESS_FILES {
        let _pipe = Pipe::at(root.join(file), home.path().join("aside"));
        refuses(&serve, *code, file);
    }
}
