//! Nothing that a test started outlives the test, even when the test is killed.
//!
//! A shell reads process numbers from a pipe that only this process holds the other end of. When this process ends, however it
//! ends, the pipe closes and the shell kills what it has been told of and not told to forget.

use std::{
    io::Write,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
kept=' '
while read -r what pid; do
    case $what in
    keep) kept="$kept$pid " ;;
    # Only what is kept: cutting around a number that is not there would double the list.
    forget) case $kept in *" $pid "*) kept="${kept%% $pid *} ${kept#* $pid }" ;; esac ;;
    esac
done
for pid in $kept; do kill -9 "$pid" 2>/dev/null; done
"#;

struct Keeper {
    _shell: Child,
    pipe: ChildStdin,
}

fn say(what: &str, pid: u32) {
    static KEEPER: OnceLock<Mutex<Keeper>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let pipe = shell.stdin.take().expect("its standard input");
        Mutex::new(Keeper {
            _shell: shell,
            pipe,
        })
    });
    let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(keeper.pipe, "{what} {pid}").expect("the keeper listens");
}

/// Kills this process when ours ends.
pub fn keep(child: &Child) {
    say("keep", child.id());
}

/// It has ended and been waited for; its number may soon be another's.
pub fn forget(child: &Child) {
    say("forget", child.id());
}
