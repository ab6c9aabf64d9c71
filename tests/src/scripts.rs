//! Readable sessions against the real executables: `tests/scripts/*.txt`.
//!
//! A harness of our own, because ports, keys, hashes and times differ from run to run: what a session shows are the words that
//! must stand in an output and the exit codes, not whole outputs, and it starts, stops and kills a service in between.
//!
//! A line is a command, until the first `-- NAME --`; from there on come files, each below its name.
//! - `serve` runs `countersign up` on `$DIR`, stopped when the script ends; `stop` and `kill` end it before
//! - `exec COMMAND` runs a shell command in the script's folder; it must exit with 0, or as the `exit N` that follows says
//! - `stdout TEXT`, `stderr TEXT`: the text stands in what the last command wrote; `! stdout TEXT`: it does not
//! - `exists FILE`, `! exists FILE`
//!
//! The built executables come first in `PATH`. `$DIR`, `$URL`, `$POLICY` and `$WORK` stand for what they say.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::rig::{Service, Start, clean, countersign, workspace};

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test] fn $name() { Script::run(stringify!($name)); })*

        #[test]
        fn every_script_is_run() {
            let run = [$(stringify!($name)),*];
            for path in crate::rig::files(&workspace().join("tests/scripts"), "txt") {
                let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
                assert!(run.contains(&&*name), "tests/scripts/{name}.txt is run by nobody");
            }
        }
    };
}

scripts! {
    auditors
    bench
    demo
    ending
    exit_codes
    identities
    keys
    start
    submit
    tokens
    verify_evidence
}

struct Script {
    home: TempDir,
    variables: BTreeMap<&'static str, String>,
    service: Option<Service>,
    last: Option<Done>,
    /// Where in the script it is, for messages.
    place: String,
}

/// What the last command did.
struct Done {
    command: String,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Script {
    fn run(name: &str) {
        let path = workspace().join(format!("tests/scripts/{name}.txt"));
        let text = std::fs::read_to_string(&path).expect("a script");
        let home = tempfile::tempdir().expect("a temporary folder");
        let (steps, files) = split(&text);
        let work = home.path().join("work");
        std::fs::create_dir(&work).expect("a folder");
        for (name, text) in files {
            std::fs::write(work.join(name), text).expect("a file of the script");
        }
        let dir = home.path().join("data");
        let variables = [("DIR", &dir), ("WORK", &work)];
        let mut script = Script {
            variables: variables.map(|(n, p)| (n, p.display().to_string())).into(),
            home,
            service: None,
            last: None,
            place: String::new(),
        };
        for (number, line) in steps.iter().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            script.place = format!("tests/scripts/{name}.txt:{}: {line}", number + 1);
            let exit = next_exit(&steps[number + 1..]);
            script.step(line, exit);
        }
        if let Some(mut service) = script.service.take() {
            service.stop();
        }
    }

    fn step(&mut self, line: &str, exit: i32) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "serve" => self.serve(),
            "stop" => self.service.take().expect("a running service").stop(),
            "kill" => self.service.take().expect("a running service").kill(),
            "exec" => self.exec(rest, exit),
            // Looked at before the command ran.
            "exit" => {}
            "!" => {
                let (word, rest) = rest.split_once(' ').expect("a word");
                assert!(
                    !self.holds(word, rest.trim()),
                    "{}\n{}",
                    self.place,
                    self.shown()
                );
            }
            word => assert!(self.holds(word, rest), "{}\n{}", self.place, self.shown()),
        }
    }

    fn holds(&self, word: &str, text: &str) -> bool {
        let text = self.expand(text);
        let last = || self.last.as_ref().expect("a command before");
        match word {
            "stdout" => last().stdout.contains(&text),
            "stderr" => last().stderr.contains(&text),
            "exists" => self.work().join(text).exists(),
            other => panic!("{}: `{other}` is no command", self.place),
        }
    }

    fn shown(&self) -> String {
        self.last.as_ref().map_or(String::new(), |done| {
            let Done {
                command,
                code,
                stdout,
                stderr,
            } = done;
            format!("after: {command}\nexit code {code:?}\nstdout:\n{stdout}\nstderr:\n{stderr}")
        })
    }

    fn serve(&mut self) {
        let service = Start::up(&self.home.path().join("data")).run();
        self.variables.insert("URL", service.url.clone());
        self.variables
            .insert("POLICY", service.policy.display().to_string());
        self.service = Some(service);
    }

    fn exec(&mut self, command: &str, exit: i32) {
        let bins = countersign().parent().expect("a folder").to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(bins).chain(std::env::split_paths(&path));
        let output = clean(Path::new("sh"))
            .args(["-c", command])
            .current_dir(self.work())
            .env("PATH", std::env::join_paths(paths).expect("a path"))
            .env("COUNTERSIGN_DIR", &self.variables["DIR"])
            .envs(&self.variables)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.last = Some(Done {
            command: command.to_owned(),
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        });
        assert_eq!(
            output.status.code(),
            Some(exit),
            "{}\n{}",
            self.place,
            self.shown()
        );
        assert!(
            !text(&output.stderr).contains("panicked"),
            "{}\n{}",
            self.place,
            self.shown()
        );
    }

    fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// Replaces `$NAME` by what it stands for.
    fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.variables {
            text = text.replace(&format!("${name}"), value);
        }
        text
    }
}

/// The commands, and the files behind them.
fn split(text: &str) -> (Vec<&str>, BTreeMap<&str, String>) {
    let mut steps = Vec::new();
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    let mut file = None;
    for line in text.lines() {
        let name = line.strip_prefix("-- ").and_then(|l| l.strip_suffix(" --"));
        match (name, file) {
            (Some(name), _) => {
                files.insert(name, String::new());
                file = Some(name);
            }
            (None, None) => steps.push(line),
            (None, Some(name)) => {
                let text = files.entry(name).or_default();
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    (steps, files)
}

/// The code that the assertions behind a command ask for.
fn next_exit(after: &[&str]) -> i32 {
    let assertions = after.iter().map(|line| line.trim());
    let own = assertions.take_while(|line| {
        !["exec", "serve", "stop", "kill"]
            .iter()
            .any(|word| line.starts_with(word))
    });
    let mut exits = own.filter_map(|line| line.strip_prefix("exit "));
    exits
        .next()
        .map_or(0, |code| code.trim().parse().expect("a code"))
}
