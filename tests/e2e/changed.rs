//! Accounts whose files become others while the service runs: what this process has not opened before, or has opened as something else,
//! is neither signed with nor shown.

use std::{fs, path::PathBuf, thread, time::Duration};

use serde_json::json;

use super::{
    accounts::{create, done, get, list, token},
    log_read::Watcher,
    recovery::{Site, copy, submit, until},
};
use crate::rig::{Service, clean, countersign};

/// A site whose accounts are closed as soon as nobody asks.
fn idle() -> (Site, Service, String) {
    let site = Site::new();
    let config = "[accounts]\nidle_s = 1\n";
    fs::write(site.start.dir.join("config.toml"), config).expect("the settings");
    let service = site.start.run();
    let token = token(&site);
    (site, service, token)
}

fn folder(site: &Site, name: &str) -> PathBuf {
    site.start.dir.join("accounts").join(name)
}

fn closed(site: &Site, name: &str) {
    until("it is closed", || {
        list(site).contains(&(name.to_owned(), "closed".into()))
    });
    // What its store had still to write is written then.
    thread::sleep(Duration::from_millis(500));
}

fn put(site: &Site, from: &str, name: &str) {
    let to = folder(site, name);
    fs::remove_dir_all(&to).expect("the folder");
    copy(&site.path(from), &to);
}

#[test]
fn what_lies_in_the_place_of_a_closed_account_is_not_opened() {
    let (site, mut service, token) = idle();
    create(&site, "open", &["--public"]);
    create(&site, "team", &[]);
    let item = |n: u32| json!({"item": {"id": format!("i{n}"), "title": "t"}, "wait": "included"});
    done(&service, &token, ("open", "board_upsert"), &item(0));
    let of_open = |token| get(&service, token, "/log/open/checkpoint");
    let keep = |name: &str, to: &str| {
        closed(&site, name);
        copy(&folder(&site, name), &site.path(to));
    };
    keep("open", "older");
    done(&service, &token, ("open", "board_upsert"), &item(1));
    let newest = of_open(None).text();
    keep("open", "newest");
    keep("team", "private");
    keep("dev", "twin");
    // An older copy, another account's folder, a private one: each would be signed with, or shown.
    for (from, why) in [
        ("older", "another copy lies in its place"),
        ("twin", "this account was"),
        ("private", "this account was"),
    ] {
        put(&site, from, "open");
        let refused = of_open(None);
        refused.problem(503, "BUSY");
        assert!(!refused.text().contains(why), "{}", refused.text());
        let trace = fs::read_to_string(site.start.log()).expect("the trace");
        assert!(trace.contains(why), "{from}: {trace}");
        // Before the next one is tried.
        put(&site, "newest", "open");
        until("it is open again", || of_open(None).status == 200);
        assert_eq!(of_open(None).text(), newest);
        closed(&site, "open");
    }
    // Without its mark of who may read it.
    let about = folder(&site, "team").join("account.json");
    let text = fs::read_to_string(&about).expect("account.json");
    assert!(text.contains("\"public\": false"), "{text}");
    fs::write(&about, text.replace("false", "true")).expect("account.json");
    closed(&site, "team");
    assert_eq!(get(&service, None, "/log/team/checkpoint").status, 401);
    get(&service, Some(&token), "/log/team/checkpoint").problem(503, "BUSY");
    service.stop();
}

#[test]
fn a_folder_that_was_laid_beside_is_not_taken_in_because_its_name_is_asked_for() {
    let (site, mut service, token) = idle();
    closed_or_only(&site);
    copy(&folder(&site, "dev"), &folder(&site, "twin"));
    let said = site.run(&["account", "create", "twin"]);
    assert!(said.stderr.contains("NAME_TAKEN"), "{}", said.stderr);
    thread::sleep(Duration::from_millis(1_500));
    assert_eq!(
        get(&service, Some(&token), "/log/twin/checkpoint").status,
        404
    );
    service.stop();
    let ended = site.start.try_run().err().expect("no service");
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

/// The only account is what the service is there for, and stays open: a copy of it is one of a store that is written to.
fn closed_or_only(site: &Site) {
    assert_eq!(list(site), [("dev".to_owned(), "open".to_owned())]);
}

#[test]
fn watchers_hear_on_after_a_change_of_the_quorum_and_one_that_fails_is_tried_again() {
    let site = Site::new();
    let mut service = site.start.run();
    let token = token(&site);
    let mut watcher = Watcher::at(service.address, &token, "/v1/events", &[]);
    let file = site.path("policy");
    let before = fs::read_to_string(site.account("policy")).expect("a policy");
    fs::write(&file, format!("{before}# the same\n")).expect("a policy");
    let file = file.display().to_string();
    site.done(&["quorum", "set", &file]);
    submit(&site, &service, 0..1, "included");
    assert_eq!(watcher.next().0, 1);

    // What lies among the policies can be read by nobody: the log is closed, and open again once it can.
    let folder = site.account("policy.d");
    let odd = folder.join("9.policy");
    fs::create_dir_all(&odd).expect("a folder");
    let said = site.run(&["quorum", "set", &file]);
    assert_ne!(said.code, Some(0));
    assert!(said.stderr.contains("tried again"), "{}", said.stderr);
    get(&service, None, "/log/dev/checkpoint").problem(503, "BUSY");
    assert_eq!(get(&service, None, "/health").json()["status"], "degraded");
    let trace = fs::read_to_string(site.start.log()).expect("the trace");
    assert!(
        trace.contains("did not open again after a change of its quorum"),
        "{trace}"
    );
    fs::remove_dir(&odd).expect("a folder");
    until("it is open again", || {
        get(&service, None, "/log/dev/checkpoint").status == 200
    });
    submit(&site, &service, 1..2, "included");
    service.stop();
}

#[test]
fn a_directory_that_is_moved_away_is_written_to_and_nothing_else_is() {
    for whole in [true, false] {
        let site = Site::new();
        let mut service = site.start.run();
        submit(&site, &service, 0..3, "included");
        let backup = site.path("backup").display().to_string();
        site.done(&["backup", &backup, "--with-keys"]);
        submit(&site, &service, 3..6, "included");
        // The whole directory, or the account in it; and another copy in its place.
        let (place, away) = match whole {
            true => (site.start.dir.clone(), site.path("away")),
            false => (site.account(""), site.path("dev")),
        };
        fs::rename(&place, &away).expect("moved");
        let again = site.path("again").display().to_string();
        let restored = clean(countersign())
            .args(["restore", &backup, "--dir", &again])
            .output()
            .expect("countersign runs");
        assert!(restored.status.success(), "{restored:?}");
        let from = match whole {
            true => site.path("again"),
            false => site.path("again/accounts/dev"),
        };
        fs::rename(from, &place).expect("put there");
        let ended = service.wait();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("was moved or exchanged"),
            "{}",
            ended.stderr
        );
        // What lies there holds, and so does what was moved.
        site.done(&["check"]);
        let size = |site: &Site| {
            let mut service = site.start.run();
            let health = get(&service, None, "/health").json();
            service.stop();
            health["accounts"][0]["size"].as_u64().expect("a size")
        };
        assert_eq!(size(&site), 4);
        fs::remove_dir_all(&place).expect("the copy");
        fs::rename(&away, &place).expect("moved back");
        site.done(&["check"]);
        assert_eq!(size(&site), 7);
    }
}
