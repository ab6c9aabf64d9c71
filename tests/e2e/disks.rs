//! A disk that was lost, the account's keys kept: all leaves come back from an export, however often that is killed.

use std::{fs, time::Instant};

use super::{
    export::{export, text},
    recovery::{PATIENCE, Site, mirror, send, submit, writes},
};
use crate::rig::{clean, countersign, receipt, receipts};

/// More than one commit's worth of leaves.
const LEAVES: u32 = 2_500;

#[test]
fn a_lost_database_comes_back_and_a_kill_leaves_nothing_half_taken_as_whole() {
    let site = Site::new();
    let witnesses = site.witnessed();
    let mut service = site.start.run();
    writes(&service);
    let owner = site.owner();
    let lines: Vec<Vec<u8>> = (0..LEAVES)
        .map(|n| receipt(&n.to_string(), &owner).to_json())
        .collect();
    let target = receipts("?deadline_ms=30000");
    for some in lines.chunks(1_000) {
        let body = some.join(&b'\n');
        let kind = "application/x-ndjson";
        let answer = service.http().post(&target, kind, &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    submit(&site, &service, LEAVES..LEAVES + 1, "witnessed");
    let kept = site.path("mirror");
    let exported = export(&kept, &["--dir", text(&site.start.dir)]);
    let size = exported.done()["size"].as_u64().expect("a size");
    let root = exported.done()["root"].as_str().expect("a root").to_owned();
    assert!(size > u64::from(LEAVES));
    service.stop();
    let from = kept.display().to_string();

    // The folder gone, or empty; the mark gone with it, or kept.
    let lose = |folder: bool, mark: bool| {
        fs::remove_dir_all(site.account("db")).expect("the database");
        if folder {
            fs::create_dir(site.account("db")).expect("a folder");
        }
        if mark {
            fs::remove_file(site.account("published")).expect("the mark");
        }
        let refused = site.start.try_run().err().expect("it does not start");
        assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    };
    lose(true, false);
    // A mirror that has not all of it: nothing is begun.
    let bundle = countersign_verifier::tile::bundles(size)
        .next()
        .expect("a bundle");
    let short = site.path("short");
    for path in ["checkpoint".to_owned(), bundle.path()] {
        let (from, to) = (kept.join(&path), short.join(&path));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(from, to).expect("a copy");
    }
    let refused = site.run(&["recover", "--from", &short.display().to_string()]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let begun = site.account("db").read_dir().expect("the folder").count();
    assert_eq!(begun, 0);
    let said = site.done(&["recover", "--from", &from]);
    assert!(said.contains(&format!("size {size}")), "{said}");

    // Killed as soon as each of these is there; whoever is not whole by then does not start, and is whole after the next run.
    for seen in ["recover.part", "published", "db.new", "db", "db/000005.log"] {
        lose(false, true);
        let mut child = clean(countersign())
            .args(["recover", "--from", &from, "--dir"])
            .arg(&site.start.dir)
            .spawn()
            .expect("countersign runs");
        let begun = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().expect("its status") {
                break Some(status);
            }
            if site.account(seen).exists() {
                child.kill().expect("a kill");
                break None;
            }
            assert!(begun.elapsed() < PATIENCE, "{seen}");
        };
        child.wait().expect("its end");
        if ended.is_none() {
            // It may have come to its end at just that moment.
            match site.start.try_run() {
                Err(refused) => assert_eq!(refused.code, Some(5), "{seen}: {}", refused.stderr),
                Ok(mut service) => {
                    writes(&service);
                    let whole = mirror(&service, &site.path("whole"));
                    assert!(whole.size >= size, "{seen}: {}", whole.size);
                    service.stop();
                }
            }
        }
        site.done(&["recover", "--from", &from]);
        let again = site.done(&["recover", "--from", &from]);
        assert!(again.contains("nothing is missing"), "{seen}: {again}");
    }
    let mut service = site.start.run();
    writes(&service);
    let again = mirror(&service, &site.path("again"));
    assert_eq!(again.root.to_base64(), root);
    let known = send(&service, &receipt("250", &site.owner()));
    assert_eq!(known.json()["duplicate"], true, "{}", known.text());
    submit(&site, &service, LEAVES + 1..LEAVES + 2, "witnessed");
    drop(witnesses);
    service.stop();
}
