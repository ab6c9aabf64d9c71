//! What must not outlive a bench that is told to stop: its servers and their directories.

use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::watch;

/// How long servers may take to end before they are killed.
const END_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Live {
    servers: Vec<Pid>,
    folders: Vec<PathBuf>,
}

static LIVE: Mutex<Live> = Mutex::new(Live {
    servers: Vec::new(),
    folders: Vec::new(),
});

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn server(pid: Pid) {
    live().servers.push(pid);
}

/// Called before its process is waited for: afterwards the number can be another's.
pub(super) fn server_ends(pid: Pid) {
    live().servers.retain(|one| *one != pid);
}

pub(super) fn folder(path: PathBuf) {
    live().folders.push(path);
}

pub(super) fn folder_goes(path: &PathBuf) {
    live().folders.retain(|one| one != path);
}

/// Ends the servers and removes the directories of every bench of this process, which must do nothing afterwards but exit.
pub fn abandon() {
    let Live { servers, folders } = std::mem::take(&mut *live());
    for signal in [Signal::TERM, Signal::KILL] {
        // Gone already is as good.
        let _: Vec<_> = servers
            .iter()
            .map(|pid| kill_process(*pid, signal))
            .collect();
        let asked = watch::now();
        // Nobody waits for these children any more, so one that has ended still has its number.
        while asked.elapsed() < END_WITHIN && servers.iter().any(|pid| runs(*pid)) {
            thread::sleep(Duration::from_millis(20));
        }
    }
    for folder in folders {
        // What cannot be removed is left behind.
        let _ = fs::remove_dir_all(folder);
    }
}

fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_server_that_has_ended_and_is_not_waited_for_does_not_run() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat");
        let pid = Pid::from_child(&child);
        assert!(runs(pid));
        drop(child.stdin.take());
        while runs(pid) {
            thread::sleep(Duration::from_millis(1));
        }
        child.wait().expect("its end");
        assert!(!runs(pid));
    }
}
