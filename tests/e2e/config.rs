//! What keeps a service from starting, and what it says then.

use std::{fs, path::Path};

use crate::rig::{Ended, Rig, Start, clean, countersign};

/// Starts again and expects it not to come up. What it said.
fn refuses(rig: &mut Rig, code: i32) -> String {
    let ended = match rig.start.try_run() {
        Ok(service) => panic!("it came up at {}", service.url),
        Err(ended) => ended,
    };
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended.stderr
}

/// Every file below a folder, with its bytes.
fn everything(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            // A socket has no bytes.
            let bytes = fs::read(&path).unwrap_or_default();
            found.push((path.display().to_string(), bytes));
        }
    }
    found.sort();
    found
}

#[test]
fn a_wrong_configuration_is_refused_and_named() {
    let mut rig = Rig::up();
    rig.service.stop();
    let file = rig.dir().join("config.toml");
    for (text, named) in [
        ("lisen = \"127.0.0.1:1\"", "lisen"),
        ("[limits]\nrequest = 1", "request"),
        ("[limits]\nrequests = 0", "limits"),
        ("[limits]\nrequests = \"many\"", "requests"),
        ("listen = \"localhost\"", "listen"),
        ("public_url = \"https://log.example.com/\"", "public_url"),
        ("[metrics]\nlisten = \"0.0.0.0:9\"", "metrics.listen"),
        (
            "[tls]\ncert = \"missing.pem\"\nkey = \"missing.key\"",
            "missing.pem",
        ),
        ("[tls]\ncert = \"missing.pem\"", "key"),
        ("[trace]\nfilter = \"=[[\"", "filter"),
        ("[trace]\nformat = \"xml\"", "format"),
        ("not toml", "config.toml"),
    ] {
        fs::write(&file, text).unwrap();
        let said = refuses(&mut rig, 2);
        assert!(said.contains(named), "{text}: {said}");
    }
    fs::write(&file, "").unwrap();
    for (name, value) in [
        ("COUNTERSIGN_LISEN", "127.0.0.1:1"),
        ("COUNTERSIGN_LIMITS__REQUESTS", "many"),
    ] {
        rig.start.variables = vec![(name.into(), value.into())];
        let said = refuses(&mut rig, 2);
        assert!(said.contains(name), "{said}");
    }
    // A variable lies over the file.
    fs::write(&file, "[limits]\nrequests = 7\n").unwrap();
    rig.start.variables = vec![("COUNTERSIGN_LIMITS__REQUESTS".into(), "9".into())];
    rig.begin_again();
    assert_eq!(rig.get("/health").json()["limits"]["requests_max"], 9);
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let mut rig = Rig::up();
    let other = Rig::up();
    rig.service.stop();
    let taken = other.service.address.to_string();
    rig.start.more = vec!["--listen".into(), taken.clone()];
    // The last of two counts, or none does; both are usage.
    let ended = rig.start.try_run().map(|_| ()).unwrap_err();
    if !ended.stderr.contains("cannot be used multiple times") {
        assert!(ended.stderr.contains(&taken), "{}", ended.stderr);
    }
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    rig.start.more.clear();
    fs::write(
        rig.dir().join("config.toml"),
        format!("[metrics]\nlisten = \"{taken}\"\n"),
    )
    .unwrap();
    let said = refuses(&mut rig, 2);
    assert!(said.contains(&taken), "{said}");
    fs::write(rig.dir().join("config.toml"), "").unwrap();
    rig.begin_again();
}

#[test]
fn a_second_process_is_refused_and_told_who_holds_the_directory() {
    // B105
    let mut rig = Rig::up();
    let said = refuses(&mut rig, 4);
    assert!(said.contains(&rig.service.pid().to_string()), "{said}");
    let output = clean(countersign())
        .args(["serve", "--listen", "127.0.0.1:0", "--dir"])
        .arg(rig.dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&rig.service.pid().to_string()), "{said}");
    rig.check();
    // A lock is the process's: it goes with it, whatever the file says.
    rig.crash();
}

#[test]
fn a_key_that_is_missing_is_never_made_again() {
    // B104
    let mut rig = Rig::up();
    rig.service.stop();
    for name in ["log.key", "service.key"] {
        let path = rig.account(name);
        let away = path.with_extension("away");
        fs::rename(&path, &away).unwrap();
        let said = refuses(&mut rig, 5);
        assert!(said.contains(name), "{said}");
        assert!(!path.exists(), "{name} was made");
        // Neither a damaged nor another key.
        fs::write(&path, "-----BEGIN PRIVATE KEY-----\n").unwrap();
        let said = refuses(&mut rig, 5);
        assert!(said.contains(name), "{said}");
        fs::rename(&away, &path).unwrap();
    }
    let other = Rig::up();
    let key = rig.account("log.key");
    let own = fs::read(&key).unwrap();
    fs::copy(other.account("log.key"), &key).unwrap();
    let said = refuses(&mut rig, 5);
    assert!(said.contains("log.vkey"), "{said}");
    fs::write(&key, own).unwrap();
    rig.begin_again();
}

#[test]
fn files_of_two_accounts_do_not_mix() {
    let mut rig = Rig::up();
    let other = Rig::up();
    rig.service.stop();
    // Another owner in account.json than leaf 0 names.
    let about = rig.account("account.json");
    let own = fs::read(&about).unwrap();
    fs::copy(other.account("account.json"), &about).unwrap();
    let ended = rig.start.try_run().map(|_| ()).unwrap_err();
    assert!(matches!(ended.code, Some(1 | 5)), "{ended:?}");
    fs::write(&about, own).unwrap();
    // A policy under which nothing of this log would verify.
    let policy = rig.account("policy");
    let own = fs::read(&policy).unwrap();
    fs::copy(other.account("policy"), &policy).unwrap();
    let ended = rig.start.try_run().map(|_| ()).unwrap_err();
    assert!(ended.stderr.contains("policy"), "{ended:?}");
    fs::write(&policy, own).unwrap();
    rig.begin_again();
}

#[test]
fn nothing_is_ever_begun_over_something() {
    // B113
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    fs::create_dir_all(dir.join("tile/0")).unwrap();
    fs::write(dir.join("tile/0/000"), "somebody's").unwrap();
    let before = everything(&dir);
    let Ended { code, stderr } = Start::up(&dir).try_run().map(|_| ()).unwrap_err();
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("not empty"), "{stderr}");
    assert_eq!(everything(&dir), before, "something was made or changed");
    let init = || {
        clean(countersign())
            .args(["init", "--origin", "log.example.com/main", "--dir"])
            .arg(&dir)
            .output()
            .unwrap()
    };
    assert_eq!(init().status.code().map(|c| c != 0), Some(true));
    assert_eq!(everything(&dir), before);
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(
        init().status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&init().stderr)
    );
    let made = everything(&dir);
    assert_ne!(init().status.code(), Some(0), "a second init");
    assert_eq!(everything(&dir), made);
    // Secrets are their owner's to read, nobody else's.
    use std::os::unix::fs::PermissionsExt;
    for (path, _) in made {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        if [".key", ".token"]
            .iter()
            .any(|secret| path.ends_with(secret))
        {
            assert_eq!(mode, 0o600, "{path}");
        }
    }
}

#[test]
fn a_directory_without_an_account_is_no_data_directory() {
    let home = tempfile::tempdir().unwrap();
    let output = clean(countersign())
        .args(["serve", "--listen", "127.0.0.1:0", "--dir"])
        .arg(home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let missing = home.path().join("missing");
    let output = clean(countersign())
        .args(["serve", "--listen", "127.0.0.1:0", "--dir"])
        .arg(&missing)
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(!missing.exists(), "serve makes nothing");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn a_copy_of_an_account_beside_it_does_not_come_to_life() {
    let mut rig = Rig::up();
    rig.service.stop();
    let (own, beside) = (rig.account(""), rig.dir().join("accounts/dev2"));
    copy(&own, &beside);
    let ended = rig.start.try_run().map(|_| ()).unwrap_err();
    assert!(matches!(ended.code, Some(1 | 2 | 5)), "{ended:?}");
    assert!(
        ended.stderr.contains("dev2") && ended.stderr.contains("localhost/dev"),
        "{ended:?}"
    );
    // Under a name that no account has it is passed over.
    fs::rename(&beside, rig.dir().join("accounts/dev.bak")).unwrap();
    rig.begin_again();
    assert_eq!(rig.get("/log/dev.bak/checkpoint").status, 404);
}

#[test]
fn a_lock_file_that_somebody_removed_unlocks_nothing() {
    let mut rig = Rig::up();
    fs::remove_file(rig.dir().join("lock")).unwrap();
    refuses(&mut rig, 4);
    rig.check();
}

#[test]
fn a_token_that_was_cut_is_none() {
    let mut rig = Rig::up();
    rig.service.stop();
    let path = rig.dir().join("owner.token");
    let whole = fs::read_to_string(&path).unwrap();
    for cut in ["", "cst_", &whole[..20]] {
        fs::write(&path, cut).unwrap();
        let ended = rig.start.try_run().map(|_| ()).unwrap_err();
        assert!(ended.stderr.contains("owner.token"), "{ended:?}");
    }
    // Without the file there is no token, and nobody who guesses one.
    fs::remove_file(&path).unwrap();
    rig.begin_again();
    for guess in ["Bearer ", "Bearer cst_", "Bearer"] {
        let answer = rig
            .http()
            .send("GET", "/metrics", &[("authorization", guess)], b"");
        answer.problem(401, "TOKEN_INVALID");
    }
}

#[test]
fn a_first_run_that_was_killed_leaves_nothing_in_the_way() {
    let home = tempfile::tempdir().unwrap();
    let start = Start::up(&home.path().join("data"));
    let mut random = crate::rig::seed("killed first run");
    for _ in 0..8 {
        start.abort(std::time::Duration::from_micros(random.below(120_000)));
    }
    let mut service = start.run();
    assert_eq!(service.http().get("/log/dev/evidence/0").status, 200);
    service.stop();
}
