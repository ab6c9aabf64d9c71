//! A service of the demonstration's own, in a temporary folder that is gone afterwards.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::client::new_nonce;

/// A start makes keys, four databases and a first witnessed head: seconds on any machine.
const START: Duration = Duration::from_secs(60);
/// What was answered is durable, so that killing it late loses nothing.
const END: Duration = Duration::from_secs(15);

/// A folder that goes with its owner.
pub struct Folder(PathBuf);

/// A running service with its witnesses.
pub struct Own {
    /// Its data directory.
    pub dir: PathBuf,
    /// Where it answers.
    pub url: String,
    child: Child,
    _folder: Folder,
}

impl Folder {
    /// Makes one that only this user can read.
    pub fn new() -> anyhow::Result<Folder> {
        let path = std::env::temp_dir().join(format!("countersign-demo-{}", new_nonce()?));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| path.display().to_string())?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is in the folder of temporary files: whatever cannot be removed goes with those.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Own {
    /// Starts `countersign up` and waits for its ready line.
    pub async fn start() -> anyhow::Result<Own> {
        let folder = Folder::new()?;
        let dir = folder.path().join("data");
        let log = folder.path().join("stderr");
        let stderr = fs::File::create(&log).with_context(|| log.display().to_string())?;
        let program = std::env::current_exe().context("this executable")?;
        let mut command = Command::new(program);
        command.args(["up", "--listen", "127.0.0.1:0", "--dir"]);
        let mut child = command
            .arg(&dir)
            // It is told everything that it is to know.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .context("countersign up")?;
        // OK because it was asked for a pipe.
        let stdout = child.stdout.take().expect("Own::start: a pipe");
        let mut line = String::new();
        let mut lines = BufReader::new(stdout);
        let read = tokio::time::timeout(START, lines.read_line(&mut line)).await;
        let url = line
            .strip_prefix("ready ")
            .and_then(|rest| rest.split(' ').next());
        let (Ok(Ok(_)), Some(url)) = (read, url) else {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("`countersign up` did not come up:\n{said}");
        };
        Ok(Own {
            url: url.to_owned(),
            dir,
            child,
            _folder: folder,
        })
    }

    /// Stops it, and its witnesses with it.
    pub async fn stop(mut self) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // It has ended already: then there is nothing to stop.
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(END, self.child.wait()).await.is_err() {
            // Gone in any case once it is dropped.
            let _ = self.child.kill().await;
        }
    }
}
