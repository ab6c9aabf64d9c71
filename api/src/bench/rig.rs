//! Both servers, material for both, and rounds in which one is measured after the other.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use countersign_verifier::key::PrivateKey;

use super::{
    answers::Wait,
    fetch,
    load::{Door, Load, Measured},
    material::{Receipts, read_key},
    report::{Report, Side, say},
    servers::{self, Scratch, Server},
    watch,
};
use crate::data_dir::DataDir;

/// Receipts a second and processor that no round is planned beyond: each costs a signature verification.
const RATE_A_CPU_MAX: f64 = 40_000.0;

/// Time before answers are counted.
pub const WARM_UP: Duration = Duration::from_millis(500);

/// Length of the round before the first, which shows how much material a round takes and is not reported.
const TRIAL: Duration = Duration::from_secs(1);

/// What all benches take.
#[derive(Clone, Debug)]
pub struct Common {
    /// The binary whose `up` is measured.
    pub binary: PathBuf,
    /// Rounds that are reported.
    pub rounds: usize,
    /// Length of a round's window for each side.
    pub window: Duration,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Beside whom.
    pub peer: Option<Peer>,
    /// Where the directories of the servers are made, and removed again.
    pub scratch: PathBuf,
}

/// Another server with the same door.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A program started with `-dir DIR -keys FILE`.
    Binary(PathBuf),
    /// One that runs at `url` and has the key of this private key file enrolled.
    Running {
        /// Its URL.
        url: String,
        /// The private key.
        key: PathBuf,
    },
}

/// The servers of one run. They end, and then their directories go, when this is dropped.
#[derive(Debug)]
pub struct Rig {
    /// This project's service.
    pub ours: Server,
    /// The peer.
    pub peer: Option<Server>,
    key: PrivateKey,
    peer_key: Option<PrivateKey>,
    run: u64,
    next_number: u64,
    payload_bytes: usize,
    scratch: Scratch,
}

/// What each round of a bench does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Receipts a request.
    pub per_request: usize,
    /// Requests that can be under way.
    pub connections: usize,
    /// The state asked for.
    pub wait: Wait,
    /// Receipts a second where that is fixed.
    pub rate: Option<f64>,
}

/// One side's part of one round.
#[derive(Debug)]
pub struct Part {
    /// What came back.
    pub measured: Measured,
    /// Processor time of the server, from the first request to the last answer.
    pub server_cpu: Option<Duration>,
}

/// One round.
#[derive(Debug)]
pub struct Round {
    /// This project's service.
    pub ours: Part,
    /// The peer.
    pub peer: Option<Part>,
}

impl Rig {
    /// Starts the servers.
    ///
    /// # Errors
    /// One that does not start, or a key that cannot be read.
    pub fn start(common: &Common) -> anyhow::Result<Rig> {
        Rig::with(common, false)
    }

    /// Starts this project's service with its three witnesses, and no peer.
    ///
    /// # Errors
    /// As [`Rig::start`].
    pub fn start_witnessed(common: &Common) -> anyhow::Result<Rig> {
        let alone = Common {
            peer: None,
            ..common.clone()
        };
        Rig::with(&alone, true)
    }

    fn with(common: &Common, witnesses: bool) -> anyhow::Result<Rig> {
        let scratch = Scratch::new(&common.scratch)?;
        let dir = scratch.path().join("countersign");
        let ours = Server::countersign(&common.binary, &dir, witnesses)?;
        let key = read_key(&DataDir::new(&dir).owner_key())?;
        let (peer, peer_key) = match &common.peer {
            None => (None, None),
            Some(Peer::Binary(binary)) => (
                Some(Server::peer(
                    binary,
                    &scratch.path().join("peer"),
                    &key.public(),
                )?),
                None,
            ),
            Some(Peer::Running { url, key }) => (Some(Server::remote(url)?), Some(read_key(key)?)),
        };
        let (run, payload_bytes) = (servers::random()?, common.payload_bytes);
        Ok(Rig {
            ours,
            peer,
            key,
            peer_key,
            run,
            next_number: 0,
            payload_bytes,
            scratch,
        })
    }

    /// The data directory of our service.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.scratch.path().join("countersign")
    }

    /// Starts our service again, without witnesses, on what it has written; it has been ended.
    ///
    /// # Errors
    /// As [`Rig::start`].
    pub fn start_again(&mut self, common: &Common) -> anyhow::Result<()> {
        Server::countersign(&common.binary, &self.dir(), false).map(|ours| self.ours = ours)
    }

    /// The key that signs what goes to our service.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// New receipts for our service and for the peer: the same ones, unless the peer knows another key.
    ///
    /// # Errors
    /// As [`Receipts::sign`].
    pub fn receipts(&mut self, count: usize) -> anyhow::Result<(Arc<Receipts>, Arc<Receipts>)> {
        let numbers = self.next_number..self.next_number + count as u64;
        self.next_number = numbers.end;
        let sign =
            |key| Receipts::sign(key, self.run, numbers.clone(), self.payload_bytes).map(Arc::new);
        let ours = sign(&self.key)?;
        let peers = self.peer_key.as_ref().map_or(Ok(ours.clone()), sign)?;
        Ok((ours, peers))
    }

    /// Measures one side after the other, once to learn how much is needed and then as often as `common` says, and checks
    /// that the work was real. After each reported round, `then` is called with what was sent.
    ///
    /// # Errors
    /// A connection that fails, nothing accepted, evidence that does not hold, or leaves that are not published.
    pub fn rounds(
        &mut self,
        common: &Common,
        plan: Plan,
        drive: impl Fn(Load) -> anyhow::Result<Measured>,
        mut then: impl FnMut(&Rig, &Receipts) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Round>> {
        let (size, peer_size) = (
            fetch::published(&self.ours.door)?,
            self.peer.as_ref().map(|peer| fetch::published(&peer.door)),
        );
        let most = plan.rate.unwrap_or(RATE_A_CPU_MAX * watch::cpus() as f64);
        let (mut rate, mut rounds, mut kept) = (most, Vec::new(), Vec::new());
        let (mut accepted, mut accepted_by_peer) = (0, 0);
        for round in 0..=common.rounds {
            let window = if round == 0 { TRIAL } else { common.window };
            let (receipts, peers) = self.receipts(plan.material(rate.min(most), window))?;
            let load = |door: &Door, receipts: &Arc<Receipts>| Load {
                door: door.clone(),
                receipts: receipts.clone(),
                per_request: plan.per_request,
                wait: plan.wait,
                warm_up: WARM_UP,
                window,
            };
            say(&format!(
                "round {round} of {}: {}",
                common.rounds, self.ours.name
            ));
            let ours = self.part(&self.ours, &drive, load(&self.ours.door, &receipts))?;
            let peer = match &self.peer {
                None => None,
                Some(peer) => {
                    say(&format!(
                        "round {round} of {}: {}",
                        common.rounds, peer.name
                    ));
                    Some(self.part(peer, &drive, load(&peer.door, &peers))?)
                }
            };
            fetch::keep(&mut kept, &receipts, &ours.measured)?;
            accepted += ours.measured.accepted_in_all;
            accepted_by_peer += peer
                .as_ref()
                .map_or(0, |peer| peer.measured.accepted_in_all);
            let fastest = peer.iter().chain([&ours]);
            rate = fastest
                .map(|part| part.measured.per_second())
                .filter(|rate| !rate.is_nan())
                .reduce(f64::max)
                .unwrap_or(most);
            if round > 0 {
                then(self, &receipts)?;
                rounds.push(Round { ours, peer });
            }
        }
        fetch::await_published(&self.ours, size + accepted)?;
        if let (Some(peer), Some(size)) = (&self.peer, peer_size) {
            fetch::await_published(peer, size? + accepted_by_peer)?;
        }
        fetch::verify(&self.ours, &kept)?;
        Ok(rounds)
    }

    fn part(
        &self,
        server: &Server,
        drive: impl Fn(Load) -> anyhow::Result<Measured>,
        load: Load,
    ) -> anyhow::Result<Part> {
        let all: Vec<&Server> = [&self.ours].into_iter().chain(&self.peer).collect();
        servers::settle(&all);
        let before = server.cpu();
        let measured = drive(load).with_context(|| format!("under load: {}", server.name))?;
        let server_cpu = server
            .cpu()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        ensure!(
            measured.accepted_in_all > 0,
            "{} accepted nothing: {}",
            server.name,
            measured.complaint.unwrap_or_default()
        );
        Ok(Part {
            measured,
            server_cpu,
        })
    }

    /// Where the directories of the servers are.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// What a reader should know of where the directories are.
    pub fn note_scratch(&self, report: &mut Report) {
        if self.scratch.in_memory() {
            report.notes.push(
                "the directories of the servers lie in memory, so synced writes cost nothing"
                    .into(),
            );
        }
    }

    /// What a reader of any bench should know of this run.
    pub fn note(&self, report: &mut Report, rounds: &[Round]) {
        let parts = |of: fn(&Round) -> Option<&Part>| {
            rounds
                .iter()
                .filter_map(of)
                .map(|part| &part.measured)
                .collect::<Vec<_>>()
        };
        let sides = [
            (self.ours.name, parts(|round| Some(&round.ours))),
            ("peer", parts(|round| round.peer.as_ref())),
        ];
        for (name, measured) in sides {
            let refused: u64 = measured.iter().map(|m| m.refused).sum();
            if let Some(complaint) = measured.iter().find_map(|m| m.complaint.as_ref()) {
                report.notes.push(format!("{name}: {refused} receipts were not accepted in the state asked for; one: {complaint}"));
            }
            if measured.iter().any(|m| m.accepted == 0) {
                report.notes.push(format!(
                    "{name}: not one request was answered within some window (give it more --seconds)"
                ));
            }
            if measured.iter().any(|m| m.ran_out) {
                report.notes.push(format!(
                    "{name}: a window ended early, all receipts made for it were used up"
                ));
            }
        }
        self.note_scratch(report);
        if self.peer.is_none() {
            report.notes.push(
                "no peer was named (--peer-binary, --peer), so nothing is beside these figures"
                    .into(),
            );
        }
    }
}

impl Plan {
    /// Receipts that a round takes at `rate` a second: half as much again, and what can be under way.
    fn material(self, rate: f64, window: Duration) -> usize {
        let requests = rate * 1.5 * (WARM_UP + window).as_secs_f64() / self.per_request as f64;
        // OK because a rate of at most some millions for some minutes is far below 2^52.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let requests = requests.ceil() as usize;
        (requests + 2 * self.connections) * self.per_request
    }
}

/// A side of a report for ours and one for the peer, where there is one; `row` gives the figures of one part.
pub fn sides(rounds: &[Round], row: impl Fn(&Part) -> Vec<f64>) -> Vec<Side> {
    let ours = rounds.iter().map(|round| row(&round.ours)).collect();
    let peer: Vec<_> = rounds
        .iter()
        .filter_map(|round| round.peer.as_ref())
        .map(row)
        .collect();
    let side = |name: &str, rounds| Side {
        name: name.to_owned(),
        rounds,
    };
    let mut sides = vec![side("countersign", ours)];
    if !peer.is_empty() {
        sides.push(side("peer", peer));
    }
    sides
}

impl Part {
    /// Processor time of the server in microseconds a receipt; `NaN` of a process that is not ours.
    #[must_use]
    pub fn server_us_each(&self) -> f64 {
        self.server_cpu.map_or(f64::NAN, |cpu| {
            cpu.as_secs_f64() * 1e6 / self.measured.accepted_in_all as f64
        })
    }

    /// Processor time of the generator in microseconds a receipt.
    #[must_use]
    pub fn generator_us_each(&self) -> f64 {
        self.measured.generator_cpu.as_secs_f64() * 1e6 / self.measured.accepted as f64
    }
}
