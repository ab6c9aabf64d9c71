//! Accounts whose disks break, one after the other: each is answered for by itself, and the others go on as if nothing were.

use std::{fs, path::PathBuf, thread};

use rustix::io::Errno;
use serde_json::json;

use super::{
    accounts::{call, create, done, get, list, token},
    recovery::{Site, until},
};
use crate::rig::{
    Service, files,
    injector::{ALL, Fault, Faults},
};

fn account(site: &Site, name: &str) -> PathBuf {
    site.start.dir.join("accounts").join(name)
}

/// A write and a read of each of these, which must be answered.
fn are_well(service: &Service, token: &str, names: &[&str], n: &str) {
    for name in names {
        let item = json!({"item": {"id": n, "title": format!("{name} {n}")}, "wait": "included"});
        done(service, token, (name, "board_upsert"), &item);
        let item = done(service, token, (name, "board_get"), &json!({"id": n}));
        assert_eq!(item["result"]["item"]["title"], format!("{name} {n}"));
    }
}

#[test]
fn an_account_whose_disk_fails_leaves_the_others_alone_and_comes_back() {
    let mut site = Site::new();
    let faults = Faults::of(&mut site.start);
    let mut service = site.start.run();
    let token = token(&site);
    for name in ["sick", "well"] {
        create(&site, name, &[]);
        are_well(&service, &token, &[name], "first");
    }
    let others = ["dev", "well"];
    // Its store fails again and again as it is opened again and again.
    faults.begin(Fault::every(ALL, Errno::IO).of("/accounts/sick/"));
    let item = json!({"item": {"id": "i", "title": "T"}});
    until("its writes are refused", || {
        call(&service, &token, ("sick", "board_upsert"), &item).status == 503
    });
    thread::scope(|scope| {
        let asks = scope.spawn(|| {
            for _ in 0..20 {
                let refused = call(&service, &token, ("sick", "board_upsert"), &item);
                refused.problem(503, "BUSY");
                let read = get(&service, Some(&token), "/log/sick/checkpoint");
                assert_eq!(read.status, 200, "reads go on: {}", read.text());
            }
        });
        for n in 0..20 {
            are_well(&service, &token, &others, &format!("beside {n}"));
        }
        asks.join().expect("a client");
    });
    assert!(faults.failed() > 1);
    faults.heal();
    until("it writes by itself", || {
        call(&service, &token, ("sick", "board_upsert"), &item).status == 200
    });
    are_well(&service, &token, &["dev", "sick", "well"], "after");
    service.stop();
    assert_eq!(site.run(&["check"]).code, Some(0));
}

#[test]
fn an_account_whose_files_are_ruined_or_gone_is_said_to_be_so_and_no_other() {
    let site = Site::new();
    for name in ["gone", "ruined", "well"] {
        create(&site, name, &[]);
    }
    let token = token(&site);
    let others = ["dev", "well"];
    // While it runs: the folder of one is moved away under it.
    let mut service = site.start.run();
    are_well(
        &service,
        &token,
        &["dev", "gone", "ruined", "well"],
        "first",
    );
    let aside = site.path("aside");
    fs::rename(account(&site, "gone"), &aside).expect("moved");
    for n in 0..5 {
        are_well(&service, &token, &others, &format!("beside {n}"));
        // Whatever it answers, it answers.
        let item = json!({"item": {"id": format!("{n}"), "title": "T"}});
        let answer = call(&service, &token, ("gone", "board_upsert"), &item);
        assert!(
            [200, 202, 503].contains(&answer.status),
            "{}",
            answer.text()
        );
    }
    service.kill();
    // At a start: one is gone, another has a database that cannot be read.
    for file in ["sst", "log"]
        .iter()
        .flat_map(|kind| files(&account(&site, "ruined"), kind))
    {
        fs::write(&file, b"no database").expect("a ruined file");
    }
    let mut service = site.start.run();
    are_well(&service, &token, &others, "started");
    let refused = call(&service, &token, ("ruined", "board_list"), &json!({}));
    refused.problem(503, "BUSY");
    assert!(list(&site).contains(&("ruined".into(), "failing".into())));
    assert_eq!(get(&service, None, "/health").json()["status"], "degraded");
    assert_eq!(get(&service, None, "/health/ready").status, 200);
    assert!(list(&site).iter().all(|(name, _)| name != "gone"));
    are_well(&service, &token, &others, "still");
    service.stop();
    // Put back, it is what it was.
    fs::rename(&aside, account(&site, "gone")).expect("moved");
    let mut service = site.start.run();
    let item = done(
        &service,
        &token,
        ("gone", "board_get"),
        &json!({"id": "first"}),
    );
    assert_eq!(item["result"]["item"]["title"], "gone first");
    are_well(&service, &token, &["dev", "gone", "well"], "back");
    service.stop();
    let checked = site.run(&["check", "--account", "gone"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stdout);
    let checked = site.run(&["check", "--account", "ruined"]);
    assert_eq!(checked.code, Some(1), "{}", checked.stdout);
}
