//! What an operator does beside the service while it is killed: accounts that are made, copies of the store that are checked, backups.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::PATIENCE;
use crate::rig::{Random, Rig, clean, countersign, forget, keep};

/// The accounts that were asked for.
#[derive(Default)]
pub struct Names {
    /// The command said that it is there.
    sure: Vec<String>,
    /// It was cut off: it is there, whole, or it is not.
    unsure: Vec<String>,
    /// Those that were seen to be whole.
    seen: usize,
    /// Backups that were said to be made.
    backups: Vec<PathBuf>,
}

/// Commands that run beside the service.
pub struct Beside {
    name: String,
    account: Child,
    check: Option<Child>,
    backup: Option<(PathBuf, Child)>,
}

fn command(rig: &Rig, args: &[&str]) -> Command {
    let mut command = clean(countersign());
    command
        .args(args)
        .arg("--dir")
        .arg(rig.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn start(rig: &Rig, args: &[&str]) -> Child {
    let child = command(rig, args).spawn().expect("countersign runs");
    keep(&child);
    child
}

/// Its exit code, killed first where that is said; `None`: by the kill.
fn end(mut child: Child, kill: bool) -> Option<i32> {
    if kill {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("its status") {
            forget(&child);
            return status.code();
        }
        assert!(begun.elapsed() < PATIENCE, "a command without an end");
        thread::sleep(Duration::from_millis(2));
    }
}

impl Names {
    /// Begins what the kill will cut off.
    pub fn begin(&self, rig: &Rig, random: &mut Random, n: usize) -> Beside {
        let name = format!("m{n}");
        let account = start(rig, &["account", "create", &name]);
        // One at a time: whoever comes second is told so.
        let patient = n % 25 == 3;
        let what = if patient { 1 } else { random.below(3) };
        let (check, backup) = match what {
            0 => (Some(start(rig, &["check"])), None),
            1 => {
                let to = rig.dir().with_extension(format!("backup-{n}"));
                let text = to.to_str().expect("a path that is text");
                let mut child = start(rig, &["backup", text, "--with-keys"]);
                if patient {
                    // The kill comes once it is done: it was made while others wrote. Not often, as the log grows meanwhile.
                    let begun = Instant::now();
                    while child.try_wait().expect("its status").is_none() {
                        assert!(begun.elapsed() < PATIENCE, "a backup without an end");
                        thread::sleep(Duration::from_millis(2));
                    }
                }
                (None, Some((to, child)))
            }
            _ => (None, None),
        };
        Beside {
            name,
            account,
            check,
            backup,
        }
    }

    /// The service is no more: neither are they, by themselves or not.
    pub fn end(&mut self, beside: Beside, random: &mut Random) {
        let made = end(beside.account, random.below(2) == 0) == Some(0);
        match made {
            true => self.sure.push(beside.name),
            false => self.unsure.push(beside.name),
        }
        // A check may not come to its end (3, 4); of what is whole it never says that it is not.
        let checked = beside.check.and_then(|c| end(c, random.below(2) == 0));
        let known = matches!(checked, None | Some(0 | 3 | 4));
        assert!(known, "a check of a copy ended with {checked:?}");
        if let Some((to, child)) = beside.backup {
            let made = end(child, random.below(2) == 0);
            // It has its name once it is whole, and no sooner; by then the kill may have come before its last word.
            assert!(made != Some(0) || to.exists(), "{}", to.display());
            self.backups.extend(to.exists().then_some(to));
        }
    }

    /// An account that is made where no service runs, killed too.
    pub fn without_a_service(&mut self, rig: &Rig, random: &mut Random, n: usize) {
        let name = format!("n{n}");
        let child = start(rig, &["account", "create", &name]);
        thread::sleep(Duration::from_micros(random.below(200_000)));
        match end(child, true) == Some(0) {
            true => self.sure.push(name),
            false => self.unsure.push(name),
        }
    }

    /// Each is there and whole, or not there and can be made.
    pub fn settle(&mut self, rig: &Rig, n: usize) {
        let bearer = format!("Bearer {}", rig.token());
        let is_there = |name: &str| {
            let begun = Instant::now();
            let mut http = rig.http();
            loop {
                let headers = [("authorization", bearer.as_str())];
                let target = format!("/log/{name}/checkpoint");
                let answer = http.send("GET", &target, &headers, b"");
                match answer.status {
                    200 => return true,
                    404 => return false,
                    // All rooms are taken for the moment; of one that does not open it stays so.
                    _ => assert!(begun.elapsed() < PATIENCE, "{name}: {}", answer.text()),
                }
                thread::sleep(Duration::from_millis(20));
            }
        };
        for name in std::mem::take(&mut self.sure) {
            assert!(is_there(&name), "round {n}: account {name} is gone");
            self.seen += 1;
        }
        for name in std::mem::take(&mut self.unsure) {
            if !is_there(&name) {
                let made = end(start(rig, &["account", "create", &name]), false);
                assert_eq!(made, Some(0), "round {n}: account {name} cannot be made");
                assert!(is_there(&name), "round {n}: account {name}");
            }
            self.seen += 1;
        }
    }

    /// Everything in the directory of a stopped service, and each backup: it is whole, and nothing else lies about.
    pub fn check(&self, rig: &Rig) {
        let checked = command(rig, &["check"]).status().expect("countersign runs");
        assert_eq!(checked.code(), Some(0), "{} accounts", self.seen);
        assert!(
            self.seen == 0 || !self.backups.is_empty(),
            "no backup was ever made"
        );
        for from in &self.backups {
            let to = from.with_extension("restored");
            let restored = clean(countersign())
                .arg("restore")
                .arg(from)
                .arg("--dir")
                .arg(&to)
                .output()
                .expect("countersign runs");
            let said = String::from_utf8_lossy(&restored.stderr);
            assert_eq!(
                restored.status.code(),
                Some(0),
                "{}: {said}",
                from.display()
            );
            std::fs::remove_dir_all(&to).expect("a directory");
        }
    }
}
