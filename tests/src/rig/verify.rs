//! `countersign-verify`, as an auditor runs it.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{bins, service::clean};

/// What it said.
#[derive(Debug)]
#[allow(
    dead_code,
    reason = "standard error is there to be printed when a test fails"
)]
pub struct Verified {
    pub code: i32,
    /// One a file, with `--json`.
    pub verdicts: Vec<Value>,
    pub stderr: String,
}

/// Runs it on these files under a policy, with more arguments.
pub fn verify(files: &[PathBuf], policy: &Path, more: &[&OsStr]) -> Verified {
    let output = clean(bins::countersign_verify())
        .args(files)
        .arg("--policy")
        .arg(policy)
        .arg("--json")
        .args(more)
        .output()
        .expect("countersign-verify runs");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let verdicts = stdout.lines().map(serde_json::from_str);
    Verified {
        code: output.status.code().expect("an exit code"),
        verdicts: verdicts.map(|line| line.expect("a line of JSON")).collect(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
