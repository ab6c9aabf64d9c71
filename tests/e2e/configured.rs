//! What a configuration says, told before and beside a service.

use std::fs;

use serde_json::Value;

use crate::rig::{Rig, clean, countersign};

/// `countersign config …` on the rig's directory: the code, and what it wrote to standard output and error.
fn config(rig: &Rig, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let output = clean(countersign())
        .arg("config")
        .args(arguments)
        .arg("--dir")
        .arg(rig.dir())
        .envs(variables.iter().copied())
        .output()
        .expect("countersign");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().expect("an exit code"),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn status(rig: &Rig) -> Value {
    let output = clean(countersign())
        .args(["status", "--json", "--dir"])
        .arg(rig.dir())
        .output()
        .expect("countersign");
    serde_json::from_slice(&output.stdout).expect("a status")
}

#[test]
fn a_configuration_is_judged_before_a_start_follows_it() {
    let mut rig = Rig::up();
    let file = rig.dir().join("config.toml");
    // Beside the running service, which goes on with what it has.
    let (code, said, _) = config(&rig, &["check"], &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("config.toml: a configuration"), "{said}");
    fs::write(
        &file,
        "lisen = 1\n[limits]\nrequests = 0\n[tls]\ncert = \"missing.pem\"\nkey = \"missing.key\"\n",
    )
    .unwrap();
    let (code, said, _) = config(&rig, &["check"], &[("COUNTERSIGN_TRACE__FORMAT", "xml")]);
    assert_eq!(code, 2, "{said}");
    for place in [
        "config.toml:1: lisen: ",
        "config.toml:3: limits.requests: ",
        "COUNTERSIGN_TRACE__FORMAT: trace.format: ",
    ] {
        assert!(said.contains(place), "{place}: {said}");
    }
    // A start says the same, all of it.
    rig.service.stop();
    let refused = rig.start.try_run().map(|_| ()).unwrap_err();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("config.toml:1: lisen: "),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("config.toml:3: limits.requests: "),
        "{}",
        refused.stderr
    );
    // What only shows in other files: they are absent, or do not belong together.
    fs::write(
        &file,
        "[tls]\ncert = \"missing.pem\"\nkey = \"missing.key\"\n[trace]\nfilter = \"=[[\"\n",
    )
    .unwrap();
    let (code, said, _) = config(&rig, &["check", "--json"], &[]);
    assert_eq!(code, 2, "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let keys: Vec<&str> = said["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["tls", "trace.filter"], "{said}");
    assert!(
        said["faults"][0]["why"]
            .as_str()
            .unwrap()
            .contains("missing.pem"),
        "{said}"
    );
    let pair = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["log.example.com".into()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let (cert, key) = pair();
    let folder = rig.scratch();
    fs::write(folder.join("cert.pem"), cert).unwrap();
    fs::write(folder.join("key.pem"), &key).unwrap();
    let named = folder.join("next.toml");
    let shown = folder.display();
    fs::write(
        &named,
        format!("[tls]\ncert = \"{shown}/cert.pem\"\nkey = \"{shown}/key.pem\"\n"),
    )
    .unwrap();
    let next = named.display().to_string();
    let (code, said, _) = config(&rig, &["check", &next], &[]);
    assert_eq!(code, 0, "{said}");
    fs::write(folder.join("key.pem"), pair().1).unwrap();
    let (code, said, _) = config(&rig, &["check", &next], &[]);
    assert_eq!(code, 2, "another certificate's key: {said}");
    assert!(!said.contains("PRIVATE KEY"), "{said}");
    // Nothing to look at.
    let (code, ..) = config(&rig, &["check", "no-such.toml"], &[]);
    assert_eq!(code, 2);
    fs::remove_file(&file).unwrap();
    let (code, said, _) = config(&rig, &["check"], &[]);
    assert_eq!((code, said.contains("no such file")), (0, true), "{said}");
    rig.begin_again();
}

#[test]
fn what_is_in_force_is_shown_with_where_it_comes_from() {
    let mut rig = Rig::with("[limits]\nrequests = 7\n");
    let variables = [("COUNTERSIGN_LIMITS__WATCHERS", "9")];
    let (code, said, note) = config(&rig, &["show"], &variables);
    assert_eq!(code, 0, "{note}");
    let line = |key: &str| {
        let found = said.lines().find(|line| line.contains(key));
        found.unwrap_or_else(|| panic!("{key}: {said}")).to_owned()
    };
    assert!(
        line("limits.requests = 7").ends_with("config.toml:2"),
        "{said}"
    );
    assert_eq!(
        line("limits.watchers = 9"),
        "limits.watchers = 9  # COUNTERSIGN_LIMITS__WATCHERS; the running service has 256"
    );
    assert!(line("# tls.cert is absent").contains("default"));
    // The service was told on its command line where to listen.
    assert!(
        line("listen = \"127.0.0.1:8780\"").contains("the running service has"),
        "{said}"
    );
    assert!(note.contains("2 of these"), "{note}");
    let secret = rig.token();
    assert!(!said.contains(&secret));
    assert_eq!(status(&rig)["restart_owed"], serde_json::json!([]));
    // Another file: the service goes on with the old one, and both say so.
    fs::write(rig.dir().join("config.toml"), "[limits]\nrequests = 8\n").unwrap();
    assert_eq!(
        status(&rig)["restart_owed"],
        serde_json::json!(["limits.requests"])
    );
    let (_, said, _) = config(&rig, &["show", "--json"], &[]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let rows = said["settings"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["key"] == "limits.requests")
        .unwrap();
    assert_eq!(
        (&row["value"], &row["running"]),
        (&8.into(), &7.into()),
        "{row}"
    );
    fs::write(rig.dir().join("config.toml"), "lisen = 1\n").unwrap();
    let owed = status(&rig)["restart_owed"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(owed.contains("config.toml:1: lisen"), "{owed}");
    let (code, _, said) = config(&rig, &["show"], &[]);
    assert_eq!(
        (code, said.contains("config.toml:1: lisen")),
        (2, true),
        "{said}"
    );
    fs::write(rig.dir().join("config.toml"), "").unwrap();
    // Where none runs there is nothing beside it.
    rig.service.stop();
    let (code, said, _) = config(&rig, &["show"], &[]);
    assert_eq!((code, said.contains("running")), (0, false), "{said}");
    rig.begin_again();
    assert_eq!(status(&rig)["restart_owed"], serde_json::json!([]));
}
