//! Cosignatures of a witness, beside another witness: real processes, both durable before they answer, every request of a head of
//! its own with a proof.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use countersign_verifier::{note::parse_signatures, vkey::VerifierKey};
use serde_json::json;

mod drive;
mod requests;
mod tree;

use self::{
    drive::{Measured, Times, drive},
    requests::Logs,
};
use super::{
    report::{Report, Side, Want, say},
    rig::{Common, Peer, WARM_UP},
    seconds,
    servers::{self, Scratch, Server},
    watch,
};

/// What is promised beside litewitness, for as many connections and logs at least.
const TIMES_THE_PEER: (f64, usize, usize) = (8.0, 32, 100);

/// What is promised for a single connection.
const SINGLY: f64 = 1.0;

/// Cosignatures a second and processor that no round is planned beyond: each costs two signatures and two verifications.
const RATE_A_CPU_MAX: f64 = 10_000.0;

/// Length of the round before the first, which is not reported.
const TRIAL: Duration = Duration::from_secs(1);

/// What `bench witness` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench.
    pub common: Common,
    /// Logs that the witness knows, and that grow.
    pub logs: usize,
    /// Requests under way; each connection has logs of its own.
    pub connections: usize,
}

/// A witness, and how far the logs are there.
struct Witness {
    server: Server,
    key: VerifierKey,
    cosigned: Vec<usize>,
    /// Cosignatures a second, as far as known.
    rate: f64,
}

/// What a round found of a witness.
struct Part {
    measured: Measured,
    cpu: Option<Duration>,
    written: Option<u64>,
    /// Memory at the end, bytes.
    memory: Option<u64>,
}

/// Measures cosignatures a second and their latency.
///
/// # Errors
/// A witness that fails, a request that is not cosigned, or a cosignature that does not verify.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let Options { common, .. } = options;
    let scratch = Scratch::new(&common.scratch)?;
    let mut logs = Logs::new(options.logs)?;
    let lanes = options.connections.min(options.logs);
    let mut all = start(common, &scratch, &logs)?;
    for witness in &mut all {
        witness.all_logs_once(&mut logs, lanes)?;
    }
    let mut rounds: Vec<Vec<Vec<f64>>> = all.iter().map(|_| Vec::new()).collect();
    let mut ran_out = false;
    for round in 0..=common.rounds {
        let window = if round == 0 { TRIAL } else { common.window };
        for at in 0..all.len() {
            let name = all[at].server.name;
            say(&format!("round {round} of {}: {name}", common.rounds));
            servers::settle(&all.iter().map(|w| &w.server).collect::<Vec<_>>());
            let part = all[at]
                .round(&mut logs, lanes, window)
                .with_context(|| format!("under load: {name}"))?;
            if round > 0 {
                ran_out |= part.measured.ran_out;
                rounds[at].push(part.row());
            }
        }
    }
    let sides = all.iter().zip(rounds).map(|(witness, rounds)| Side {
        name: witness.server.name.to_owned(),
        rounds,
    });
    let mut report = report(options, lanes, sides.collect());
    if ran_out {
        report
            .notes
            .push("a window ended early, all requests made for it were used up".into());
    }
    if scratch.in_memory() {
        report.notes.push(
            "the directories of the witnesses lie in memory, so synced writes cost nothing".into(),
        );
    }
    Ok(report)
}

fn report(options: &Options, lanes: usize, sides: Vec<Side>) -> Report {
    let Options {
        common,
        logs,
        connections,
    } = options;
    let mut report = Report {
        bench: "witness",
        what: format!(
            "add-checkpoint, one head a request with its proof; {logs} logs, {lanes} connections at work, {} CPUs, {} rounds of {}",
            watch::cpus(),
            common.rounds,
            seconds(common.window)
        ),
        settings: json!({
            "logs": logs,
            "connections": connections,
            "connections_at_work": lanes,
            "cpus": watch::cpus(),
            "rounds": common.rounds,
            "window_s": common.window.as_secs_f64(),
        }),
        figures: vec![
            "cosignatures/s",
            "p50 ms",
            "p99 ms",
            "witness CPU us each",
            "bytes written each",
            "generator CPU us each",
            "witness memory MiB",
        ],
        sides,
        ..Report::default()
    };
    let (times, at_connections, at_logs) = TIMES_THE_PEER;
    let want = match lanes {
        1 => Want::AtLeast(SINGLY),
        lanes if lanes >= at_connections && *logs >= at_logs => Want::AtLeast(times),
        _ => Want::Nothing,
    };
    report.compare(0, 0, 1, want);
    report.compare(1, 1, 0, Want::Nothing);
    report.compare(3, 1, 0, Want::Nothing);
    if lanes < *connections {
        report.notes.push(format!(
            "a log grows by one head at a time, so {} of the connections have nothing to do",
            connections - lanes
        ));
    }
    if common.peer.is_none() {
        report
            .notes
            .push("no peer was named (--peer-binary), so nothing is beside these figures".into());
    }
    report
}

/// Ours, and the peer where there is one.
fn start(common: &Common, scratch: &Scratch, logs: &Logs) -> anyhow::Result<Vec<Witness>> {
    let write = |name: &str, text: String| {
        let path = scratch.path().join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok::<_, anyhow::Error>(path)
    };
    let list = write("logs.list", logs.list())?;
    let vkeys = write("logs.vkeys", logs.vkeys())?;
    let dir = |name: &str| scratch.path().join(name);
    let mut servers = vec![Server::witness(&common.binary, &dir("countersign"), &list)?];
    match &common.peer {
        None => {}
        Some(Peer::Binary(binary)) => servers.push(peer(binary, &dir("peer"), &vkeys)?),
        Some(Peer::Running { .. }) => {
            anyhow::bail!("a peer of this bench is started by it: --peer-binary")
        }
    }
    let witness = |(server, vkey): (Server, String)| {
        Ok(Witness {
            server,
            key: VerifierKey::parse(&vkey).with_context(|| vkey.clone())?,
            cosigned: vec![0; logs.len()],
            rate: RATE_A_CPU_MAX * watch::cpus() as f64,
        })
    };
    servers.into_iter().map(witness).collect()
}

fn peer(binary: &Path, dir: &Path, vkeys: &Path) -> anyhow::Result<(Server, String)> {
    Server::peer_witness(binary, dir, vkeys).with_context(|| binary.display().to_string())
}

impl Witness {
    /// The first head of every log, which needs no proof and is not measured.
    fn all_logs_once(&mut self, logs: &mut Logs, lanes: usize) -> anyhow::Result<()> {
        let address = self.server.door.address;
        let first = logs.lanes(lanes, &self.cosigned, 1, address)?;
        let seen = drive(address, first, logs.len(), None)?;
        self.take(logs, &seen)
    }

    fn round(&mut self, logs: &mut Logs, lanes: usize, window: Duration) -> anyhow::Result<Part> {
        let address = self.server.door.address;
        let heads = self.rate * 1.5 * (WARM_UP + window).as_secs_f64() / logs.len() as f64;
        // OK because a rate of at most some millions for some minutes is far below 2^52.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let heads = heads.ceil() as usize + 2;
        let requests = logs.lanes(lanes, &self.cosigned, heads, address)?;
        let (cpu, written) = (self.server.cpu(), self.server.written());
        let times = Times {
            warm_up: WARM_UP,
            window,
        };
        let measured = drive(address, requests, logs.len(), Some(times))?;
        let since = |after: Option<Duration>| Some(after?.saturating_sub(cpu?));
        let cpu = since(self.server.cpu());
        let written = self
            .server
            .written()
            .zip(written)
            .map(|(after, before)| after.saturating_sub(before));
        self.take(logs, &measured)?;
        if !measured.per_second().is_nan() {
            self.rate = measured.per_second();
        }
        Ok(Part {
            measured,
            cpu,
            written,
            memory: self.server.memory(),
        })
    }

    /// Notes how far the logs came, and verifies some of the cosignatures.
    fn take(&mut self, logs: &Logs, measured: &Measured) -> anyhow::Result<()> {
        for (cosigned, more) in self.cosigned.iter_mut().zip(&measured.by_log) {
            *cosigned += more;
        }
        for (log, head, answer) in &measured.sample {
            let text = logs.text(*log, *head);
            let lines = parse_signatures(answer).context("an answer that is no signature lines")?;
            let good = lines
                .iter()
                .any(|line| self.key.verify(&text, &line.signature).is_ok());
            ensure!(
                good,
                "log {log}, head {head}: the cosignature does not verify"
            );
        }
        Ok(())
    }
}

impl Part {
    fn row(&self) -> Vec<f64> {
        let m = &self.measured;
        let each = |total: f64| total / m.cosigned_in_all as f64;
        vec![
            m.per_second(),
            m.latencies.percentile_ms(50),
            m.latencies.percentile_ms(99),
            self.cpu
                .map_or(f64::NAN, |cpu| each(cpu.as_secs_f64() * 1e6)),
            self.written
                .map_or(f64::NAN, |written| each(written as f64)),
            m.generator_cpu.as_secs_f64() * 1e6 / m.cosigned as f64,
            self.memory
                .map_or(f64::NAN, |bytes| bytes as f64 / f64::from(1 << 20)),
        ]
    }
}
