//! The witnesses as processes: `countersign witness serve`, started before the log signs anything, started again when they die,
//! and ended with whoever started them.
//!
//! Each has the other end of its standard input held by this process: when that is gone, however it went, the pipe closes and the
//! witness stops. They have process groups of their own, so that Ctrl-C in a terminal reaches this process alone, which ends them
//! once the last head is cosigned.

use std::{
    fs::File,
    io::{self, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{LocalError, LocalWitness, Served};
use crate::files;

/// How long an address may stay taken at a start: witnesses of a process that was killed are on their way out.
const TAKEN_TIME: Duration = Duration::from_secs(10);
/// How long they may take to accept requests before the log goes on without them.
const READY_TIME: Duration = Duration::from_secs(15);
/// One that died is started again after this long, then twice as long after each further death.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// One that ran for longer is no longer held to have died before.
const STEADY: Duration = Duration::from_secs(30);
/// How long one may take to stop.
const END_TIME: Duration = Duration::from_secs(10);
/// A file of output that is larger is put aside at the next start of its witness, in place of the one that was.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// Running witnesses.
pub struct Children {
    stop: watch::Sender<bool>,
    watchers: Vec<JoinHandle<()>>,
}

/// How one run of a witness ended.
enum Ended {
    /// As it was told to.
    Stopped,
    /// By itself, or somebody killed it.
    Died(String),
}

/// What it takes to start one.
struct Starter {
    program: PathBuf,
    local: LocalWitness,
    /// The others, with whom it compares what it has cosigned.
    peers: Vec<String>,
    /// The logs that this process serves, where heads of two sizes are settled.
    logs: Vec<Served>,
}

impl Children {
    /// Starts these witnesses beside `logs` and waits until they accept requests, for some seconds at most: one that does not come up is tried
    /// again, and a quorum of the others is enough.
    ///
    /// # Errors
    /// [`LocalError::Taken`] if somebody else listens at an address of theirs; [`LocalError::File`].
    pub async fn start(
        witnesses: Vec<LocalWitness>,
        logs: &[Served],
    ) -> Result<Children, LocalError> {
        let (stop, stopping) = watch::channel(false);
        let mut children = Children {
            stop,
            watchers: Vec::with_capacity(witnesses.len()),
        };
        if witnesses.is_empty() {
            return Ok(children);
        }
        for local in &witnesses {
            until_free(local).await?;
        }
        let program = std::env::current_exe().map_err(super::file(Path::new("countersign")))?;
        let mut up = Vec::with_capacity(witnesses.len());
        let urls: Vec<_> = witnesses
            .iter()
            .map(|w| (w.number, format!("http://{}", w.address)))
            .collect();
        for local in witnesses {
            let (ready, is_ready) = oneshot::channel();
            up.push((local.number, is_ready));
            let program = program.clone();
            let others = urls.iter().filter(|(number, _)| *number != local.number);
            let starter = Starter {
                program,
                peers: others.map(|(_, url)| url.clone()).collect(),
                logs: logs.to_vec(),
                local,
            };
            let watcher = tokio::spawn(starter.keep_up(stopping.clone(), ready));
            children.watchers.push(watcher);
        }
        let all = async {
            for (number, is_ready) in up {
                if is_ready.await.is_err() {
                    tracing::warn!(witness = number, "nobody keeps it up");
                }
            }
        };
        if timeout(READY_TIME, all).await.is_err() {
            tracing::warn!("not every witness accepts requests yet");
        }
        Ok(children)
    }

    /// Ends all of them and waits for that.
    pub async fn end(self) {
        self.stop.send_replace(true);
        for watcher in self.watchers {
            if let Err(error) = watcher.await {
                tracing::error!(%error, "who kept a witness up ended in a panic");
            }
        }
    }
}

/// Waits until nobody listens at its address.
async fn until_free(local: &LocalWitness) -> Result<(), LocalError> {
    let began = Instant::now();
    loop {
        match TcpListener::bind(local.address) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                return Err(super::file(&local.dir)(error));
            }
            Err(_) if began.elapsed() < TAKEN_TIME => sleep(PAUSE).await,
            Err(_) => {
                return Err(LocalError::Taken {
                    address: local.address,
                    number: local.number,
                    path: local.dir.with_file_name("listen.json"),
                });
            }
        }
    }
}

impl Starter {
    /// Starts it, and again whenever it has ended, until told to stop.
    async fn keep_up(self, mut stop: watch::Receiver<bool>, ready: oneshot::Sender<()>) {
        let number = self.local.number;
        let (mut ready, mut pause) = (Some(ready), PAUSE);
        loop {
            let began = Instant::now();
            let ended = self.run(&mut stop, &mut ready).await;
            let why = match ended {
                Ok(Ended::Stopped) => return,
                Ok(Ended::Died(why)) => why,
                Err(error) => format!("could not be run: {error}"),
            };
            let log = self.output();
            tracing::warn!(witness = number, log = %log.display(), "a witness {why}; it is started again");
            if began.elapsed() > STEADY {
                pause = PAUSE;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stopped(&mut stop) => return,
            }
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// One process of it, from its start to its end.
    async fn run(
        &self,
        stop: &mut watch::Receiver<bool>,
        ready: &mut Option<oneshot::Sender<()>>,
    ) -> io::Result<Ended> {
        let mut output = open_output(&self.output())?;
        let mut child = self.command(&output)?.spawn()?;
        // Taken, because waiting for a child closes what it still has of its pipes.
        let _held = child.stdin.take();
        // OK because it was asked for.
        let stdout = child.stdout.take().expect("Starter::run: standard output");
        let mut lines = BufReader::new(stdout).lines();
        let mut is_open = true;
        loop {
            tokio::select! {
                ended = child.wait() => return Ok(Ended::Died(describe(ended?))),
                line = lines.next_line(), if is_open => match line {
                    Ok(Some(line)) => {
                        // A full disk keeps no witness from being used.
                        let _ = writeln!(output, "{line}");
                        if line.starts_with("ready ") && let Some(ready) = ready.take() {
                            // Who no longer waits has gone on without it.
                            let _ = ready.send(());
                        }
                    }
                    Ok(None) | Err(_) => is_open = false,
                },
                () = stopped(stop) => {
                    end(&mut child).await?;
                    return Ok(Ended::Stopped);
                }
            }
        }
    }

    fn command(&self, output: &File) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .args(["witness", "serve", "--with-parent", "--listen"])
            .arg(self.local.address.to_string())
            .arg("--dir")
            .arg(&self.local.dir)
            .args(self.peers.iter().flat_map(|url| ["--peer", url]))
            .args(self.logs.iter().flat_map(|l| ["--log", &l.vkey, &l.url]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output.try_clone()?)
            .process_group(0)
            .kill_on_drop(true);
        Ok(command)
    }

    fn output(&self) -> PathBuf {
        self.local.dir.join("log")
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that nobody can say "stop" any more, which is as good as having said it.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// SIGTERM, and SIGKILL for one that takes too long, which harms nothing: what it said was durable.
async fn end(child: &mut Child) -> io::Result<()> {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, Signal::TERM)
    {
        tracing::warn!(%error, "a witness could not be told to stop");
    }
    match timeout(END_TIME, child.wait()).await {
        Ok(ended) => ended.map(|_| ()),
        Err(_) => child.kill().await,
    }
}

fn describe(ended: ExitStatus) -> String {
    match ended.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => format!("was ended ({ended})"),
    }
}

/// Opens the file of a witness's output for more of it.
fn open_output(path: &Path) -> io::Result<File> {
    if path.metadata().is_ok_and(|m| m.len() > OUTPUT_BYTES_MAX) {
        std::fs::rename(path, path.with_extension("old"))?;
    }
    files::append_plain(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_bounded() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        let mut file = open_output(&path).unwrap();
        file.write_all(&[b'x'; 1 << 20]).unwrap();
        file = open_output(&path).unwrap();
        file.write_all(b"y").unwrap();
        open_output(&path).unwrap().write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(
            home.path().join("log.old").metadata().unwrap().len(),
            OUTPUT_BYTES_MAX + 1
        );
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = LocalWitness {
            number: 1,
            dir: "w/1".into(),
            address: listener.local_addr().unwrap(),
        };
        let waiting = tokio::spawn(async move { until_free(&local).await });
        tokio::task::yield_now().await;
        drop(listener);
        assert!(waiting.await.unwrap().is_ok());
    }
}
