//! The servers under load: this binary's own service and the peer, each a process of its own on a directory that is removed
//! afterwards.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    iter::Sum,
    net::{SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use countersign_verifier::{base64, key::PublicKey};
use rustix::process::{Pid, Signal, kill_process};

use super::{live, load::Door, watch};

/// How long a server may take to say that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long it may take to end.
const END_WITHIN: Duration = Duration::from_secs(30);

/// A folder of this run, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder in `parent`.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(parent: &Path) -> anyhow::Result<Scratch> {
        let path = parent.join(format!(
            "countersign-bench-{}-{:08x}",
            std::process::id(),
            random()? >> 32
        ));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        live::folder(path.clone());
        Ok(Scratch(path))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it lies in memory, where a synced write costs nothing and the figures say nothing about a disk.
    #[must_use]
    pub fn in_memory(&self) -> bool {
        const TMPFS: u64 = 0x0102_1994; // linux/magic.h
        rustix::fs::statfs(&self.0).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left behind; the figures stand.
        let _ = fs::remove_dir_all(&self.0);
        live::folder_goes(&self.0);
    }
}

/// 64 random bits.
///
/// # Errors
/// What the system says.
pub fn random() -> anyhow::Result<u64> {
    getrandom::u64().map_err(|e| anyhow!("no randomness: {e}"))
}

/// A server that takes receipts.
#[derive(Debug)]
pub struct Server {
    /// What it is called in tables.
    pub name: &'static str,
    /// Where it takes receipts.
    pub door: Door,
    /// The policy file that its evidence is judged by, where it has one.
    pub policy: Option<PathBuf>,
    process: Option<Process>,
}

/// A process that ends with its handle.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Held open: a server must not fail because nobody reads what it prints.
    held: Option<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts `binary up` on the new directory `dir`, with three witnesses or none.
    ///
    /// # Errors
    /// A service that does not become ready; what it said on standard error is part of the message.
    pub fn countersign(binary: &Path, dir: &Path, witnesses: bool) -> anyhow::Result<Server> {
        let mut command = Command::new(binary);
        command
            .args(["up", "--listen", "127.0.0.1:0", "--dir"])
            .arg(dir);
        if !witnesses {
            command.arg("--no-witnesses");
        }
        let (process, ready) = start(command, &dir.with_extension("stderr"))?;
        let word = |name| {
            ready
                .split_whitespace()
                .find_map(|word| word.strip_prefix(name))
        };
        let account = word("account=").context("no account in its ready line")?;
        Ok(Server {
            name: "countersign",
            door: Door {
                address: address(url(&ready)?)?,
                log: format!("/log/{account}"),
            },
            policy: word("policy=").map(PathBuf::from),
            process: Some(process),
        })
    }

    /// Ends its process, and waits for that.
    pub fn end(&mut self) {
        self.process = None;
    }

    /// Ends its process without a word, as a machine that loses power does, and waits for that.
    pub fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            // Gone already is as good.
            let _ = process.child.kill();
        }
        self.process = None;
    }

    /// Starts `binary`, the peer, on the new directory `dir` with one enrolled key.
    ///
    /// # Errors
    /// As [`Server::countersign`].
    pub fn peer(binary: &Path, dir: &Path, key: &PublicKey) -> anyhow::Result<Server> {
        let keys = dir.with_extension("keys");
        fs::write(&keys, base64::encode(&key.raw()) + "\n")
            .with_context(|| keys.display().to_string())?;
        let mut command = Command::new(binary);
        command.arg("-dir").arg(dir).arg("-keys").arg(keys);
        let (process, ready) = start(command, &dir.with_extension("stderr"))?;
        Ok(Server {
            process: Some(process),
            ..Server::remote(url(&ready)?)?
        })
    }

    /// Makes a witness at the new directory `dir` and starts it, with the logs of a witness-network list. Its verifier key beside it.
    ///
    /// # Errors
    /// As [`Server::countersign`].
    pub fn witness(binary: &Path, dir: &Path, list: &Path) -> anyhow::Result<(Server, String)> {
        let at = |arguments: &[&str]| {
            let mut command = Command::new(binary);
            command.arg("witness").args(arguments).arg("--dir").arg(dir);
            command
        };
        for mut command in [at(&["init", "--name", "bench.example.com/witness"]), {
            let mut add = at(&["add-log"]);
            add.arg("--list").arg(list);
            add
        }] {
            let done = command
                .output()
                .with_context(|| binary.display().to_string())?;
            ensure!(
                done.status.success(),
                "{}",
                String::from_utf8_lossy(&done.stderr).trim()
            );
        }
        let serve = at(&["serve", "--listen", "127.0.0.1:0"]);
        Server::cosigner("countersign", serve, dir)
    }

    /// Starts `binary`, another witness, on the new directory `dir` with the logs whose verifier keys are the lines of `vkeys`.
    ///
    /// # Errors
    /// As [`Server::countersign`].
    pub fn peer_witness(
        binary: &Path,
        dir: &Path,
        vkeys: &Path,
    ) -> anyhow::Result<(Server, String)> {
        let mut command = Command::new(binary);
        command.arg("-dir").arg(dir).arg("-logs").arg(vkeys);
        Server::cosigner("peer", command, dir)
    }

    fn cosigner(
        name: &'static str,
        command: Command,
        dir: &Path,
    ) -> anyhow::Result<(Server, String)> {
        let (process, ready) = start(command, &dir.with_extension("stderr"))?;
        let vkey = ready
            .split_whitespace()
            .find_map(|word| word.strip_prefix("vkey="))
            .context("no vkey in its ready line")?;
        let server = Server {
            name,
            process: Some(process),
            ..Server::remote(url(&ready)?)?
        };
        Ok((server, vkey.to_owned()))
    }

    /// A peer that runs already at `url`, with the path of its log where that is not `/log/peer`.
    ///
    /// # Errors
    /// A URL that names no address.
    pub fn remote(url: &str) -> anyhow::Result<Server> {
        let path = url.find("/log/").map_or("/log/peer", |at| &url[at..]);
        let door = Door {
            address: address(url)?,
            log: path.trim_end_matches('/').to_owned(),
        };
        Ok(Server {
            name: "peer",
            door,
            policy: None,
            process: None,
        })
    }

    /// Over the process and what it started.
    fn sum<T: Sum>(&self, of: impl Fn(u32) -> io::Result<T>) -> Option<T> {
        let own = self.process.as_ref()?.child.id();
        let all = watch::family(own).into_iter();
        all.map(|pid| of(pid).ok()).sum()
    }

    /// Processor time that it and what it started have used; `None` of a process that is not ours.
    #[must_use]
    pub fn cpu(&self) -> Option<Duration> {
        self.sum(watch::process_cpu)
    }

    /// Bytes of memory that it and what it started have at hand; `None` of a process that is not ours.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        self.sum(watch::process_memory)
    }

    /// The most bytes of memory that it and what it started ever had at hand; `None` of a process that is not ours.
    #[must_use]
    pub fn memory_peak(&self) -> Option<u64> {
        self.sum(watch::process_memory_peak)
    }

    /// Bytes that it and what it started have had written; `None` of a process that is not ours.
    #[must_use]
    pub fn written(&self) -> Option<u64> {
        self.sum(watch::process_written)
    }
}

impl Process {
    fn new(child: Child) -> Process {
        let process = Process { child, held: None };
        process.pid().into_iter().for_each(live::server);
        process
    }

    /// Starts one that says nothing when it is ready; what it says on standard error goes to this file.
    ///
    /// # Errors
    /// What the system says.
    pub fn quiet(mut command: Command, stderr: &Path) -> anyhow::Result<Process> {
        let log = File::create(stderr).with_context(|| stderr.display().to_string())?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let shown = command.get_program().to_string_lossy().into_owned();
        Ok(Process::new(command.spawn().context(shown)?))
    }

    /// Processor time that it and what it has started have used, ended or not.
    #[must_use]
    pub fn cpu_with_ended(&self) -> Option<Duration> {
        let own = self.child.id();
        let running: Option<Duration> = watch::family(own)
            .into_iter()
            .map(|pid| watch::process_cpu(pid).ok())
            .sum();
        Some(running? + watch::ended_children_cpu(own).ok()?)
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            live::server_ends(pid);
            // Gone already is as good.
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = watch::now();
        while asked.elapsed() < END_WITHIN {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until no server uses more than a few hundredths of a processor, for at most ten seconds: what one still owes (merging
/// files, publishing) must not be paid in the other's time.
pub fn settle(servers: &[&Server]) {
    settle_by(|| servers.iter().filter_map(|server| server.cpu()).sum());
}

/// The same of processes whose processor time is told by `used`.
pub fn settle_by(used: impl Fn() -> Duration) {
    const LOOK: Duration = Duration::from_millis(250);
    let began = watch::now();
    let mut before = used();
    while began.elapsed() < Duration::from_secs(10) {
        thread::sleep(LOOK);
        let after = used();
        if after.saturating_sub(before) <= LOOK / 12 {
            return;
        }
        before = after;
    }
}

/// Starts a server and waits for its `ready` line.
fn start(mut command: Command, stderr: &Path) -> anyhow::Result<(Process, String)> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let log = File::create(stderr).with_context(|| stderr.display().to_string())?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut process = Process::new(command.spawn().with_context(|| shown.clone())?);
    let stdout = process.child.stdout.take().context("no standard output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
        let read = stdout.read_line(&mut line);
        // Nobody waits any more: then the process is being ended.
        let _ = sender.send((stdout, read.map(|_| line)));
    });
    let ready = receiver.recv_timeout(READY_WITHIN);
    if let Ok((stdout, Ok(line))) = ready
        && line.starts_with("ready ")
    {
        process.held = Some(stdout);
        return Ok((process, line));
    }
    drop(process);
    let said = fs::read_to_string(stderr).unwrap_or_default();
    bail!("{shown} did not become ready: {}", said.trim());
}

fn url(ready: &str) -> anyhow::Result<&str> {
    ready
        .split_whitespace()
        .nth(1)
        .context("no URL in its ready line")
}

fn address(url: &str) -> anyhow::Result<SocketAddr> {
    let rest = url
        .strip_prefix("http://")
        .with_context(|| format!("{url}: only http:// can be driven"))?;
    let host = rest.split('/').next().unwrap_or_default();
    ensure!(!host.is_empty(), "{url}: no host");
    let host = if host.rsplit_once(':').is_some() {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    host.to_socket_addrs()?
        .next()
        .with_context(|| format!("{url}: no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, want) in [
            ("http://127.0.0.1:8780", Some("127.0.0.1:8780")),
            ("http://127.0.0.1:8780/log/x", Some("127.0.0.1:8780")),
            ("http://127.0.0.1", Some("127.0.0.1:80")),
            ("http://[::1]:8780/", Some("[::1]:8780")),
            ("https://127.0.0.1", None),
            ("http:///x", None),
        ] {
            assert_eq!(
                address(url).ok().map(|a| a.to_string()).as_deref(),
                want,
                "{url}"
            );
        }
    }

    #[test]
    fn a_server_that_fails_says_why() {
        let scratch = Scratch::new(&std::env::temp_dir()).expect("a folder");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such thing >&2"]);
        let error = start(command, &scratch.path().join("stderr")).expect_err("not ready");
        assert!(error.to_string().contains("no such thing"), "{error}");
    }

    #[test]
    fn a_server_is_ended_with_its_handle() {
        let scratch = Scratch::new(&std::env::temp_dir()).expect("a folder");
        let mut command = Command::new("sh");
        command.args(["-c", "trap 'exit 0' TERM; echo ready http://127.0.0.1:1 account=dev; while :; do sleep 0.05; done"]);
        let (process, ready) = start(command, &scratch.path().join("stderr")).expect("ready");
        assert_eq!(url(&ready).expect("a URL"), "http://127.0.0.1:1");
        let pid = process.child.id();
        drop(process);
        assert!(watch::process_cpu(pid).is_err());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
