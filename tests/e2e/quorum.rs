//! Another quorum while the service runs: an era begins, nothing is lost, and nothing is shown under the wrong policy.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::Value;

use super::recovery::{Site, evidence, submit, until, writes};
use crate::rig::{Cosigners, JSON, receipt, verify};

#[test]
fn a_running_service_takes_another_quorum_over() {
    let site = Site::new();
    let mut service = site.start.run();
    submit(&site, &service, 0..2, "included");
    let witnesses = Cosigners::of(site.home.path(), 3, &site.vkey);
    let set = |name: &str, text: String| {
        let file = site.path(name);
        fs::write(&file, text).expect("a policy");
        site.run(&["quorum", "set", &file.display().to_string()])
    };
    let first = evidence_of(&site, &service, 1);
    let two = witnesses.policy(&site.vkey, 2);
    let said = set("two", two.clone());
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // Leaf 0 and two receipts were published.
    assert!(said.stdout.contains("from size 4 on"), "{}", said.stdout);
    writes(&service);
    assert_eq!(service.http().get("/log/dev/policy").text(), two);
    submit(&site, &service, 2..4, "witnessed");
    let second = evidence_of(&site, &service, 3);

    // What is no policy of this log changes nothing.
    let foreign = two.replace("localhost/dev+", "localhost/dev2+");
    assert_eq!(set("foreign", foreign).code, Some(2));
    assert_eq!(set("none", "quorum".into()).code, Some(2));
    submit(&site, &service, 4..5, "witnessed");

    // While it is written to: whoever is turned away is told to come again, and what was answered is there.
    let done = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let owner = site.owner();
            let mut http = service.http();
            let mut taken = Vec::new();
            let mut n = 100;
            while !done.load(Ordering::SeqCst) {
                let envelope = receipt(&n.to_string(), &owner);
                let answer = http.post("/log/dev/receipts", JSON, &envelope.to_json());
                match answer.status {
                    200 | 202 => taken.push((n, answer.json()["index"].clone())),
                    _ => {
                        let retry = answer.header("retry-after").map(str::to_owned);
                        assert!(retry.is_some(), "{}", answer.text());
                        assert_eq!(answer.status, 503, "{}", answer.text());
                    }
                }
                assert_eq!(http.get("/log/dev/checkpoint").status, 200, "reads go on");
                n += 1;
            }
            taken
        });
        let said = set("three", witnesses.policy(&site.vkey, 3));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        writes(&service);
        submit(&site, &service, 5..6, "witnessed");
        done.store(true, Ordering::SeqCst);
        writer.join().expect("the writer")
    });
    assert!(!taken.is_empty());
    for (n, index) in taken {
        let again = receipt(&n.to_string(), &site.owner()).to_json();
        let again = service
            .http()
            .post("/log/dev/receipts?deadline_ms=30000", JSON, &again);
        assert_eq!(again.json()["index"], index, "{}", again.text());
        assert_eq!(again.json()["duplicate"], true);
    }
    let third = evidence_of(&site, &service, 4);
    let shown: Value =
        serde_json::from_str(&site.done(&["quorum", "show", "--json"])).expect("JSON");
    assert_eq!(shown["eras"].as_array().map(Vec::len), Some(3), "{shown}");

    // Each proof is judged by the era of its size, and the newest one by three of three.
    let verified = verify(&[first, second, third], &site.account("policy.d"), &[]);
    for verdict in &verified.verdicts {
        assert_eq!(verdict["verdict"], "holds", "{verified:?}");
    }
    assert_eq!(
        verified.verdicts[2]["cosigners"].as_array().map(Vec::len),
        Some(3)
    );
    service.stop();
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 6..7, "witnessed");
    let policies = site.account("policy.d").display().to_string();
    let log = format!("{}/log/dev", service.url);
    site.done_elsewhere(&["audit", &log, "--policy", &policies, "--replay"]);
    service.stop();
}

/// Evidence in a file, under the newest published checkpoint.
fn evidence_of(site: &Site, service: &crate::rig::Service, index: u64) -> std::path::PathBuf {
    let size = service.http().get("/health").json()["accounts"][0]["size"].to_string();
    let file = site.path(&format!("{index}-under-{size}.evidence.json"));
    evidence(service, index, &file);
    file
}

#[test]
fn a_lost_witness_of_the_era_before_is_asked_all_the_same() {
    let site = Site::new();
    let mut witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 0..2, "witnessed");
    // The quorum that published it may be the two that are lost: one that holds less does not count for the guard.
    until("all three hold it", || {
        let health = service.http().get("/health").json();
        let row = &health["accounts"][0];
        let witnesses = row["witnesses"].as_array();
        witnesses.is_some_and(|all| all.iter().all(|w| w["size"] == row["size"]))
    });
    let file = site.path("one");
    fs::write(&file, witnesses.policy(&site.vkey, 1)).expect("a policy");
    for witness in &mut witnesses.0[..2] {
        witness.kill();
    }
    // One of three must do from here on; that nothing is missing is still the word of two.
    site.done(&["quorum", "set", &file.display().to_string()]);
    let envelope = receipt("2", &site.owner()).to_json();
    let refused = service.http().post("/log/dev/receipts", JSON, &envelope);
    refused.problem(503, "READ_ONLY");
    let at = witnesses.0[0].url.trim_start_matches("http://").to_owned();
    witnesses.0[0].serve(&at);
    writes(&service);
    submit(&site, &service, 2..3, "witnessed");
    service.stop();
}

#[test]
fn witnesses_of_this_machine_are_asked_past_any_proxy_and_without_certificates() {
    let mut site = Site::new();
    let witnesses = site.witnessed();
    // Nobody listens there, and no certificate is trusted.
    for name in ["http_proxy", "https_proxy", "all_proxy"] {
        for name in [name.to_owned(), name.to_uppercase()] {
            let pair = (name, "http://127.0.0.1:1".to_owned());
            site.start.variables.push(pair);
        }
    }
    let empty = site.path("certificates");
    fs::write(&empty, "").expect("a file");
    let pair = ("SSL_CERT_FILE".to_owned(), empty.display().to_string());
    site.start.variables.push(pair);
    let mut service = site.start.run();
    writes(&service);
    submit(&site, &service, 0..2, "witnessed");
    drop(witnesses);
    service.stop();
}
