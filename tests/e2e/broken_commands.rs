//! Commands on a disk that fails at one call, wherever that is: what each makes is whole or not there, what was there stays, and the
//! same command does it once the disk is well.

use std::{fs, path::Path};

use rustix::io::Errno;

use super::recovery::{Said, Site, copy, submit};
use crate::rig::{
    clean, countersign, files,
    injector::{ALL, Fault, Faults, places},
};

/// So many of a command's calls fail, each in a run of its own.
const STEPS: i64 = 20;

/// A site whose log has some leaves, and a disk for what lies in its folder.
struct Broken {
    site: Site,
    faults: Faults,
    variables: [(String, String); 3],
    _control: tempfile::TempDir,
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// A command, and its folder.
fn on(dir: &Path, words: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    args.extend(["--dir".to_owned(), text(dir)]);
    args
}

impl Broken {
    fn new() -> Broken {
        let site = Site::new();
        for part in 0..2 {
            let mut service = site.start.run();
            submit(&site, &service, part * 20..part * 20 + 20, "included");
            service.stop();
        }
        let control = tempfile::tempdir().expect("a folder");
        let (faults, variables) = Faults::below(site.home.path(), &control.path().join("control"));
        Broken {
            site,
            faults,
            variables,
            _control: control,
        }
    }

    fn data(&self) -> &Path {
        &self.site.start.dir
    }

    fn run(&self, args: &[String]) -> Said {
        let output = clean(countersign())
            .args(args)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("countersign runs");
        let said = Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        eprintln!("{args:?}: {:?} {}", said.code, said.stderr);
        assert!(said.code.is_some() && !said.stderr.contains("panicked"));
        said
    }

    #[track_caller]
    fn done(&self, args: &[String]) {
        let said = self.run(args);
        assert_eq!(
            said.code,
            Some(0),
            "{args:?}: {}{}",
            said.stdout,
            said.stderr
        );
    }

    #[track_caller]
    fn holds(&self, dir: &Path) {
        self.done(&on(dir, &["check"]));
    }

    /// Runs a command with one call that fails, on a place of its own each time that `begin` makes ready; `after` is told whether it
    /// said that it was done. First once on a disk that is well.
    fn wherever(
        &self,
        begin: impl Fn(&Path),
        args: impl Fn(&Path) -> Vec<String>,
        after: impl Fn(&Path, bool),
    ) {
        let place = |name: &str| {
            let at = self.site.path(name);
            begin(&at);
            at
        };
        let whole = place("whole");
        self.faults.count_only(ALL, "");
        self.done(&args(&whole));
        let all = self.faults.seen();
        self.faults.heal();
        after(&whole, true);
        assert!(all >= STEPS, "{all}");
        let mut failed = 0;
        for good in places(all, STEPS) {
            let error = [Errno::NOSPC, Errno::IO][usize::from(good % 2 == 0)];
            let at = place(&format!("at-{good}"));
            self.faults.begin(Fault::every(ALL, error).once(good));
            let done = self.run(&args(&at)).code == Some(0);
            self.faults.heal();
            failed += u32::from(!done);
            after(&at, done);
        }
        assert!(failed > 0, "it never failed");
    }
}

#[test]
fn a_directory_is_made_whole_or_not_at_all() {
    let broken = Broken::new();
    let init = |at: &Path| on(at, &["init", "--origin", "log.example.com/main"]);
    broken.wherever(
        |_| (),
        init,
        |at, done| {
            if !done && !at.exists() {
                broken.done(&init(at));
            }
            broken.holds(at);
        },
    );
}

#[test]
fn a_backup_is_whole_or_not_there() {
    let broken = Broken::new();
    let backup = |at: &Path| on(broken.data(), &["backup", &text(at), "--with-keys"]);
    broken.wherever(
        |_| (),
        backup,
        |at, done| {
            if !done && !at.exists() {
                broken.done(&backup(at));
            }
            let again = at.with_extension("restored");
            broken.done(&on(&again, &["restore", &text(at)]));
        },
    );
    broken.holds(broken.data());
}

#[test]
fn what_is_restored_is_whole_or_not_there() {
    let broken = Broken::new();
    let from = broken.site.path("backup");
    broken.done(&on(broken.data(), &["backup", &text(&from), "--with-keys"]));
    let restore = |at: &Path| on(at, &["restore", &text(&from)]);
    broken.wherever(
        |_| (),
        restore,
        |at, done| {
            if !done && !at.exists() {
                broken.done(&restore(at));
            }
            broken.holds(at);
        },
    );
}

#[test]
fn a_copy_for_readers_goes_on_where_a_disk_ended_it() {
    let broken = Broken::new();
    let export = |at: &Path| on(broken.data(), &["export", &text(at)]);
    let policy = text(&broken.site.account("policy"));
    broken.wherever(
        |_| (),
        export,
        |at, _| {
            broken.done(&export(at));
            let audit = ["audit", &text(at), "--policy", &policy].map(str::to_owned);
            broken.done(&audit);
        },
    );
    broken.holds(broken.data());
}

#[test]
fn what_comes_back_from_a_copy_goes_on_where_a_disk_ended_it() {
    let broken = Broken::new();
    let from = broken.site.path("copy");
    broken.done(&on(broken.data(), &["export", &text(&from)]));
    let recover = |at: &Path| on(at, &["recover", "--from", &text(&from)]);
    broken.wherever(
        |at| {
            copy(broken.data(), at);
            fs::remove_dir_all(at.join("accounts/dev/db")).expect("the database");
        },
        recover,
        |at, _| {
            broken.done(&recover(at));
            broken.holds(at);
        },
    );
}

#[test]
fn a_quorum_is_set_or_not() {
    let broken = Broken::new();
    let file = broken.site.path("policy");
    let before = fs::read_to_string(broken.site.account("policy")).expect("a policy");
    fs::write(&file, format!("{before}# another\n")).expect("a policy");
    let set = |at: &Path| on(at, &["quorum", "set", &text(&file)]);
    broken.wherever(
        |at| copy(broken.data(), at),
        set,
        |at, _| {
            broken.done(&set(at));
            broken.holds(at);
        },
    );
}

#[test]
fn what_follows_from_the_leaves_is_made_again_or_stays_as_it_was() {
    let broken = Broken::new();
    let damaged = broken.site.path("damaged");
    let found = files(&broken.site.account("db"), "sst")
        .into_iter()
        .any(|table| {
            let _ = fs::remove_dir_all(&damaged);
            copy(broken.data(), &damaged);
            let name = table.file_name().expect("a name");
            let table = damaged.join("accounts/dev/db").join(name);
            let mut bytes = fs::read(&table).expect("a table");
            bytes[40] ^= 0x10;
            fs::write(&table, bytes).expect("a table");
            let of_copy = broken.site.path("looked");
            copy(&damaged, &of_copy);
            let mended = broken.run(&on(&of_copy, &["check", "--repair"])).code == Some(0);
            let _ = fs::remove_dir_all(&of_copy);
            mended && broken.run(&on(&damaged, &["check"])).code == Some(1)
        });
    assert!(found, "nothing that can be mended was damaged");
    let repair = |at: &Path| on(at, &["check", "--repair"]);
    broken.wherever(
        |at| copy(&damaged, at),
        repair,
        |at, _| {
            broken.done(&repair(at));
            broken.holds(at);
        },
    );
}
