//! The audit of a large log that lies ready as static tiles, from its folder and over HTTP, beside its signatures alone.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use serde_json::json;

use super::{
    bare,
    report::{Report, Side, Want, say},
    rig::Common,
    static_log::StaticLog,
    watch,
};

/// What is promised: an audit in so many times the time of its signatures.
const OF_THE_SIGNATURES: f64 = 1.3;
/// Between two looks at an audit's memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What `bench audit` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; the peer is not asked.
    pub common: Common,
    /// Leaves.
    pub leaves: u64,
    /// Where the log is made and kept, or was made before; by default in a folder that is removed.
    pub log: Option<PathBuf>,
}

/// Makes the log, and audits it with `--replay`, each round from its folder, over HTTP from a server in this process, and beside
/// `verify_strict` alone on all processors.
///
/// # Errors
/// A folder that cannot be used, or an audit that does not hold.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let common = &options.common;
    let scratch = match &options.log {
        Some(_) => None,
        None => Some(super::servers::Scratch::new(&common.scratch)?),
    };
    let folder = match (&options.log, &scratch) {
        (Some(folder), _) => folder.clone(),
        (None, Some(scratch)) => scratch.path().join("log"),
        (None, None) => common.scratch.clone(),
    };
    let log = StaticLog::make(&folder, options.leaves, common.payload_bytes)?;
    let (signed, key) = (log.signed(options.leaves)?, log.key());
    let served = Served::begin(&folder)?;
    // Else the first audit shares the disk and the processors with what is still on its way there.
    rustix::fs::sync();
    let mut rounds: [Vec<Vec<f64>>; 3] = Default::default();
    for round in 1..=common.rounds {
        say(&format!("round {round} of {}", common.rounds));
        let from_folder = audit(&common.binary, folder.as_os_str(), &log.policy)?;
        let over_http = audit(&common.binary, served.url.as_ref(), &log.policy)?;
        let rate = bare::rate(&key, &signed, watch::cpus(), common.window)?;
        let alone = vec![options.leaves as f64 / rate.per_second, f64::NAN];
        for (side, row) in rounds.iter_mut().zip([from_folder, over_http, alone]) {
            side.push(row);
        }
    }
    let names = [
        "audit --replay of the folder",
        "audit --replay over HTTP",
        "verify_strict alone",
    ];
    let mut report = Report {
        bench: "audit",
        what: format!(
            "a static log of {} leaves, {}",
            options.leaves,
            common.words()
        ),
        settings: common.settings(json!({"leaves": options.leaves})),
        figures: vec!["seconds", "peak MiB"],
        sides: names
            .into_iter()
            .zip(rounds)
            .map(|(name, rounds)| Side {
                name: name.into(),
                rounds,
            })
            .collect(),
        ..Report::default()
    };
    report.compare(0, 0, 2, Want::AtMost(OF_THE_SIGNATURES));
    report.compare(0, 1, 2, Want::Nothing);
    report
        .notes
        .push("the server of the second side has the same processors".into());
    Ok(report)
}

/// How long it takes to audit a log, seconds, and how much memory that had at most, MiB.
fn audit(binary: &Path, log: &std::ffi::OsStr, policy: &Path) -> anyhow::Result<Vec<f64>> {
    let begun = watch::now();
    let mut child = Command::new(binary)
        .arg("audit")
        .arg(log)
        .arg("--policy")
        .arg(policy)
        .arg("--replay")
        .stdout(Stdio::null())
        .spawn()
        .context("countersign audit")?;
    let mut peak = 0;
    let status = loop {
        // One that has just ended has none.
        peak = peak.max(watch::process_memory(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(LOOK_EVERY);
    };
    ensure!(status.success(), "the audit does not hold: {status}");
    let seconds = begun.elapsed().as_secs_f64();
    Ok(vec![seconds, peak as f64 / f64::from(1 << 20)])
}

/// A folder under a web server, until this is dropped.
struct Served {
    url: String,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    fn begin(folder: &Path) -> anyhow::Result<Served> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let url = format!("http://{}", listener.local_addr()?);
        let app = Router::new().fallback(file).with_state(folder.to_owned());
        runtime.spawn(async move { axum::serve(listener, app).await });
        Ok(Served {
            url,
            _runtime: runtime,
        })
    }
}

async fn file(State(folder): State<PathBuf>, uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path.split('/').any(|part| part == "..") {
        return StatusCode::NOT_FOUND.into_response();
    }
    match tokio::fs::read(folder.join(path)).await {
        Ok(bytes) => Response::new(Body::from(bytes)),
        Err(_) => StatusCode::NOT_FOUND.into_response(),
    }
}
