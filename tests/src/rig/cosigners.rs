//! Real witnesses beside a log, each a process with a directory of its own.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Stdio},
};

use countersign_verifier::checkpoint::origin_hash;

use super::{Http, bins, keeper, service::clean};

/// One of them.
pub struct Cosigner {
    dir: PathBuf,
    vkey: String,
    /// Where it is, or was when it was last served.
    pub url: String,
    running: Option<(Child, BufReader<ChildStdout>)>,
}

/// Some of them, which cosign for one log.
pub struct Cosigners(pub Vec<Cosigner>);

impl Cosigners {
    /// `count` witnesses of the log of this key, serving.
    pub fn of(folder: &Path, count: usize, log: &str) -> Cosigners {
        let made = (0..count).map(|n| {
            let dir = folder.join(format!("witness-{n}"));
            let said = run(&dir, &["init", "--name", &format!("w{n}.example.com")]);
            let vkey = said.trim().to_owned();
            run(&dir, &["add-log", log]);
            let mut witness = Cosigner {
                dir,
                vkey,
                url: String::new(),
                running: None,
            };
            witness.serve("127.0.0.1:0");
            witness
        });
        Cosigners(made.collect())
    }

    /// A policy of this log: so many of them.
    pub fn policy(&self, log: &str, need: usize) -> String {
        let mut text = format!("log {log}\n");
        let mut names = String::new();
        for (n, witness) in self.0.iter().enumerate() {
            text.push_str(&format!("witness w{n} {} {}\n", witness.vkey, witness.url));
            names.push_str(&format!(" w{n}"));
        }
        text + &format!("group g {need}{names}\nquorum g\n")
    }
}

impl Cosigner {
    /// Begins to serve at this address.
    pub fn serve(&mut self, listen: &str) {
        let mut child = clean(bins::countersign_witness())
            .args(["serve", "--listen", listen, "--dir"])
            .arg(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("countersign-witness starts");
        keeper::keep(&child);
        let mut stdout = BufReader::new(child.stdout.take().expect("its standard output"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a ready line");
        let url = line.split(' ').nth(1).expect("a ready line");
        self.url = url.to_owned();
        self.running = Some((child, stdout));
    }

    /// The newest checkpoint of the log of this origin that it shows.
    pub fn checkpoint(&self, origin: &str) -> String {
        let address = self.url.trim_start_matches("http://");
        let mut http = Http::new(address.parse().expect("an address"), None);
        let answer = http.get(&format!("/{}/checkpoint", origin_hash(origin).to_hex()));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// Has it cosign for another log too, while it runs.
    pub fn add_log(&self, log: &str) {
        run(&self.dir, &["add-log", log]);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.running.take() {
            let _ = child.kill();
            child.wait().expect("its end");
            keeper::forget(&child);
        }
    }
}

impl Drop for Cosigner {
    fn drop(&mut self) {
        self.kill();
    }
}

fn run(dir: &Path, arguments: &[&str]) -> String {
    let output = clean(bins::countersign_witness())
        .args(arguments)
        .arg("--dir")
        .arg(dir)
        .output()
        .expect("countersign-witness runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
