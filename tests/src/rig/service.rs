//! One process of the service: started, asked, stopped or killed.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{Http, bins, keeper};

/// Reaching it is a failure, whatever the machine is busy with.
const PATIENCE: Duration = Duration::from_secs(90);

/// How to start a service.
#[derive(Clone)]
pub struct Start {
    pub dir: PathBuf,
    /// What a client trusts, where the service speaks TLS.
    pub trust: Option<Arc<rustls::ClientConfig>>,
    /// Where it is started, which its directory may be named from.
    pub cwd: Option<PathBuf>,
    /// With three witnesses, not by `--no-witnesses`.
    pub witnesses: bool,
    /// The command that serves: `up`, or `serve` with what follows it.
    pub verb: &'static [&'static str],
    /// The account that its ready line names.
    pub account: &'static str,
    /// After `--listen 127.0.0.1:0 --dir DIR`.
    pub more: Vec<String>,
    pub variables: Vec<(String, String)>,
}

/// A running process and what its ready line says.
pub struct Service {
    pub address: SocketAddr,
    pub url: String,
    pub vkey: String,
    pub policy: PathBuf,
    /// How many its ready line says.
    pub witnesses: usize,
    trust: Option<Arc<rustls::ClientConfig>>,
    child: Child,
    log: PathBuf,
    _stdout: BufReader<ChildStdout>,
}

/// A process that is no more.
#[derive(Debug)]
pub struct Ended {
    /// `None`: by a signal.
    pub code: Option<i32>,
    pub stderr: String,
}

/// A command without the variables that would configure it.
pub fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("COUNTERSIGN_") {
            command.env_remove(name);
        }
    }
    command
}

impl Start {
    /// A development account in this directory.
    pub fn up(dir: &Path) -> Start {
        Start {
            dir: dir.to_owned(),
            trust: None,
            witnesses: false,
            cwd: None,
            verb: &["up"],
            account: "dev",
            more: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// The same with witnesses.
    pub fn witnessed(dir: &Path) -> Start {
        Start {
            witnesses: true,
            ..Start::up(dir)
        }
    }

    /// Starts it.
    pub fn run(&self) -> Service {
        match self.try_run() {
            Ok(service) => service,
            Err(ended) => panic!(
                "no ready line, exit code {:?}:\n{}",
                ended.code, ended.stderr
            ),
        }
    }

    /// Where its standard error goes: beside the directory.
    pub fn log(&self) -> PathBuf {
        let dir = match &self.cwd {
            Some(cwd) => cwd.join(&self.dir),
            None => self.dir.clone(),
        };
        dir.with_extension("stderr")
    }

    fn spawn(&self) -> Child {
        let stderr = std::fs::File::create(self.log()).expect("a file for standard error");
        let child = clean(bins::countersign())
            .args(self.verb)
            .args(["--listen", "127.0.0.1:0", "--dir"])
            .arg(&self.dir)
            .args((self.verb == ["up"] && !self.witnesses).then_some("--no-witnesses"))
            .args(&self.more)
            .envs(self.variables.iter().cloned())
            .current_dir(self.cwd.as_deref().unwrap_or(Path::new(".")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("countersign starts");
        keeper::keep(&child);
        child
    }

    /// Starts it and kills it after this time, wherever it is then.
    pub fn abort(&self, after: Duration) {
        let mut child = self.spawn();
        std::thread::sleep(after);
        end(&mut child, true);
    }

    /// Starts it; an error once it has ended without a ready line.
    pub fn try_run(&self) -> Result<Service, Ended> {
        let log = self.log();
        let mut child = self.spawn();
        let stdout = child.stdout.take().expect("its standard output");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = tell.send((line, stdout));
        });
        let Ok((line, stdout)) = told.recv_timeout(PATIENCE) else {
            end(&mut child, true);
            panic!("no ready line in {PATIENCE:?}:\n{}", text(&log));
        };
        if line.is_empty() {
            let code = end(&mut child, false);
            let stderr = text(&log);
            return Err(Ended { code, stderr });
        }
        let ready = Ready::parse(&line, self.account);
        Ok(Service {
            address: ready.address,
            url: ready.url,
            vkey: ready.vkey,
            policy: ready.policy,
            witnesses: ready.witnesses,
            trust: self.trust.clone(),
            child,
            log,
            _stdout: stdout,
        })
    }
}

struct Ready {
    address: SocketAddr,
    url: String,
    vkey: String,
    policy: PathBuf,
    witnesses: usize,
}

impl Ready {
    /// `ready URL account=NAME log=URL/log/NAME vkey=… policy=… dir=…`, to the letter, and with witnesses ` witnesses=3`.
    fn parse(line: &str, name: &str) -> Ready {
        let line = line.trim_end();
        let (line, witnesses) = match line.strip_suffix(" witnesses=3") {
            Some(line) => (line, 3),
            None => (line, 0),
        };
        let words: Vec<&str> = line.split(' ').collect();
        let &["ready", url, account, log, vkey, policy, dir] = &words[..] else {
            panic!("not a ready line: {line}");
        };
        assert_eq!(account, format!("account={name}"));
        assert_eq!(log, format!("log={url}/log/{name}"));
        assert!(dir.starts_with("dir="), "{line}");
        let (_, address) = url.split_once("://").expect("a URL");
        Ready {
            address: address.parse().expect("an address"),
            url: url.to_owned(),
            vkey: vkey.strip_prefix("vkey=").expect("vkey=").to_owned(),
            policy: policy.strip_prefix("policy=").expect("policy=").into(),
            witnesses,
        }
    }
}

impl Service {
    /// A new connection.
    pub fn http(&self) -> Http {
        Http::new(self.address, self.trust.clone())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // OK because a child that has not been waited for keeps its number.
        kill_process(Pid::from_child(&self.child), signal).expect("a signal to the service");
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        end(&mut self.child, true);
    }

    /// SIGTERM; the exit code must be 0.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let ended = self.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }

    /// Until it has ended by itself.
    pub fn wait(&mut self) -> Ended {
        let code = end(&mut self.child, false);
        let stderr = text(&self.log);
        Ended { code, stderr }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        end(&mut self.child, true);
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Waits for the end, after a `kill -9` if so told. Its exit code.
fn end(child: &mut Child, kill: bool) -> Option<i32> {
    if kill {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let begun = Instant::now();
    let mut late = false;
    loop {
        if let Some(status) = child.try_wait().expect("waiting for the service") {
            keeper::forget(child);
            assert!(!late, "the service had to be killed after {PATIENCE:?}");
            return status.code();
        }
        if begun.elapsed() > PATIENCE && !late {
            late = true;
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
