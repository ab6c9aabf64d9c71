//! Witnesses of three makers, each a process on a directory.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::super::tools;
use crate::rig::{clean, countersign_witness, forget, keep, workspace};

/// The foreign witnesses, and the command that runs them; built apart from the other tools, since they are the larger part.
pub fn built() -> Option<PathBuf> {
    static BUILT: std::sync::Once = std::sync::Once::new();
    let folder = tools()?.join("witnesses");
    BUILT.call_once(|| {
        fs::create_dir_all(&folder).expect("a folder for the witnesses");
        let status = Command::new("go")
            .current_dir(workspace().join("tests/peers/witnesses"))
            .args(["build", "-o"])
            .arg(&folder)
            .args(["tool", "./cmd/runwitness"])
            .status()
            .expect("go runs");
        assert!(status.success(), "go build: {status}");
    });
    Some(folder)
}

/// A witness on a directory: `litewitness`, `omniwitness` or `ours`.
pub struct Cosigner {
    pub maker: &'static str,
    home: PathBuf,
    built: PathBuf,
    /// Where it listens, with each start again.
    pub address: Option<String>,
    pub vkey: String,
    running: Option<(Child, BufReader<ChildStdout>)>,
}

impl Cosigner {
    /// Started, and knows this log.
    pub fn new(maker: &'static str, home: &Path, built: &Path, log: &str) -> Cosigner {
        let mut cosigner = Cosigner {
            maker,
            home: home.to_owned(),
            built: built.to_owned(),
            address: None,
            vkey: String::new(),
            running: None,
        };
        fs::write(home.join("logs"), format!("{log}\n")).expect("a list of logs");
        if maker == "ours" {
            for arguments in [
                ["init", "--name", "witness.example/ours"].as_slice(),
                &["add-log", log],
            ] {
                let mut made = clean(countersign_witness());
                let made = made
                    .args(arguments)
                    .arg("--dir")
                    .arg(cosigner.dir())
                    .output();
                let made = made.expect("countersign-witness runs");
                assert!(made.status.success(), "{made:?}");
            }
        }
        cosigner.start();
        cosigner
    }

    pub fn dir(&self) -> PathBuf {
        self.home.join(self.maker)
    }

    pub fn start(&mut self) {
        let listen = self.address.as_deref();
        let mut command = if self.maker == "ours" {
            let mut command = clean(countersign_witness());
            command.args([
                "serve",
                "--listen",
                listen.unwrap_or("127.0.0.1:0"),
                "--dir",
            ]);
            command
        } else {
            let mut command = Command::new(self.built.join("runwitness"));
            command.arg("-binary").arg(self.built.join(self.maker));
            command.arg("-logs").arg(self.home.join("logs"));
            command.args(["-name", &format!("witness.example/{}", self.maker)]);
            command.args(listen.iter().flat_map(|address| ["-listen", address]));
            command.arg("-dir");
            command
        };
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir().with_extension("stderr"));
        let mut child = command
            .arg(self.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.expect("a file for standard error"))
            .spawn()
            .expect("a witness starts");
        keep(&child);
        let mut stdout = BufReader::new(child.stdout.take().expect("its standard output"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a ready line");
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let &["ready", url, _, vkey] = &words[..] else {
            panic!("{}: not a ready line: {line:?}", self.maker);
        };
        let address = url.strip_prefix("http://").expect("http");
        self.address = Some(address.to_owned());
        self.vkey = vkey.strip_prefix("vkey=").expect("vkey=").to_owned();
        self.running = Some((child, stdout));
    }

    pub fn end(&mut self, signal: Signal) {
        if let Some((mut child, _)) = self.running.take() {
            kill_process(Pid::from_child(&child), signal).expect("a signal");
            child.wait().expect("its end");
            forget(&child);
        }
    }

    /// SIGTERM, and again on the same directory and address.
    pub fn restart(&mut self) {
        self.end(Signal::TERM);
        self.start();
    }
}

impl Drop for Cosigner {
    fn drop(&mut self) {
        self.end(Signal::KILL);
    }
}

/// One of each maker, knowing the same log, and a policy of them.
pub struct Three {
    pub all: Vec<Cosigner>,
    /// Without the log's line.
    pub policy: String,
}

impl Three {
    pub fn new(home: &Path, built: &Path, log: &str, threshold: &str) -> Three {
        let makers = ["litewitness", "omniwitness", "ours"];
        let all: Vec<Cosigner> = makers
            .into_iter()
            .map(|maker| Cosigner::new(maker, home, built, log))
            .collect();
        let lines = all.iter().map(|witness| {
            let address = witness.address.as_deref().expect("an address");
            format!(
                "witness {} {} http://{address}\n",
                witness.maker, witness.vkey
            )
        });
        let policy = format!(
            "{}group three {threshold} {}\nquorum three\n",
            lines.collect::<String>(),
            makers.join(" ")
        );
        Three { all, policy }
    }
}
