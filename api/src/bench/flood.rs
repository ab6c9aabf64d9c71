//! An honest writer while others send signatures that do not hold: what it waits, alone and beside them.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Context as _, anyhow, ensure};
use countersign_verifier::dsse::Envelope;
use serde_json::json;
use tokio::task::{JoinSet, LocalSet};

use super::{
    answers::Wait,
    load::{self, Door, Load, Measured},
    material::Receipts,
    report::{Report, Side, Want, say},
    rig::{Common, Rig, WARM_UP},
    servers, watch,
    wire::Connection,
};

/// What is promised: a p99 in so many milliseconds, however many send what is not taken.
const P99_MS_MAX: f64 = 100.0;
/// Where the flood comes from: another address than the honest writer's.
const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Different receipts of the flood, sent over and over.
const BAD: usize = 256;

/// What `bench flood` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; the peer is not asked.
    pub common: Common,
    /// Receipts a second of the honest writer, each sent when it is due.
    pub rate: f64,
    /// Connections of the flood, each with a request under way.
    pub connections: usize,
}

/// Measures the honest writer alone and beside the flood, in turns.
///
/// # Errors
/// A service that fails, an honest receipt that is refused, or one of the flood that is taken.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let Options {
        common,
        rate,
        connections,
    } = options;
    let common = Common {
        peer: None,
        ..common.clone()
    };
    let mut rig = Rig::start(&common)?;
    let (bad, _) = rig.receipts(BAD)?;
    let bad = Arc::new(forged(&bad)?);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 1..=common.rounds {
        for flooded in [false, true] {
            let side = if flooded { "beside the flood" } else { "alone" };
            say(&format!("round {round} of {}: {side}", common.rounds));
            servers::settle(&[&rig.ours]);
            let flood = match flooded {
                true => Some(Flood::begin(&rig.ours.door, &bad, *connections)),
                false => None,
            };
            let measured = honest(&mut rig, &common, *rate)?;
            let refused = flood.map(Flood::end).transpose()?.unwrap_or(f64::NAN);
            let row = vec![
                measured.per_second(),
                measured.latencies.percentile_ms(50),
                measured.latencies.percentile_ms(99),
                refused,
            ];
            if flooded { &mut beside } else { &mut alone }.push(row);
        }
    }
    let mut report = Report {
        bench: "flood",
        what: format!(
            "signed receipts at {rate} a second, from when each was due until it was included, alone and beside {connections} \
             connections from another address that send receipts whose signatures do not hold; {}",
            common.words()
        ),
        settings: common.settings(json!({"rate": rate, "connections": connections})),
        figures: vec!["receipts/s", "p50 ms", "p99 ms", "refused/s"],
        sides: [("alone", alone), ("beside the flood", beside)]
            .map(|(name, rounds)| Side {
                name: name.into(),
                rounds,
            })
            .into(),
        ..Report::default()
    };
    report.compare(1, 1, 0, Want::Nothing);
    report.compare(2, 1, 0, Want::Nothing);
    report.promise(2, 1, P99_MS_MAX);
    report.notes.push(format!(
        "writer and flood share the {} CPUs with the service",
        watch::cpus()
    ));
    rig.note_scratch(&mut report);
    Ok(report)
}

/// The honest writer, for a window.
fn honest(rig: &mut Rig, common: &Common, rate: f64) -> anyhow::Result<Measured> {
    let seconds = (WARM_UP + common.window).as_secs_f64();
    // OK because a rate of at most some millions for some minutes is far below 2^52.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let count = (rate * 1.5 * seconds).ceil() as usize + 100;
    let (receipts, _) = rig.receipts(count)?;
    let load = Load {
        door: rig.ours.door.clone(),
        receipts,
        per_request: 1,
        wait: Wait::Included,
        warm_up: WARM_UP,
        window: common.window,
    };
    let measured = load::open(load, rate)?;
    let complaint = measured.complaint.clone().unwrap_or_default();
    ensure!(measured.accepted > 0, "nothing was accepted: {complaint}");
    ensure!(
        measured.refused == 0,
        "an honest receipt was refused: {complaint}"
    );
    Ok(measured)
}

/// The same receipts, each with a bit of its signature another one.
fn forged(receipts: &Receipts) -> anyhow::Result<Vec<Vec<u8>>> {
    let forge = |at| {
        let mut envelope = Envelope::parse(receipts.one(at)).context("an envelope of our own")?;
        let signature = envelope.signatures.first_mut().context("no signature")?;
        // In its second half, the scalar: the point still is one, so that all of the verification has to be done.
        *signature.sig.get_mut(40).context("a short signature")? ^= 1;
        Ok(envelope.to_json())
    };
    (0..receipts.len()).map(forge).collect()
}

/// Those who send what is not taken, on a thread of their own.
struct Flood {
    over: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
    began: watch::Instant,
    thread: thread::JoinHandle<anyhow::Result<()>>,
}

impl Flood {
    fn begin(door: &Door, bad: &Arc<Vec<Vec<u8>>>, connections: usize) -> Flood {
        let (over, refused) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (door, bad) = (door.clone(), bad.clone());
        let (ends, counts) = (over.clone(), refused.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            LocalSet::new().block_on(&runtime, async {
                let mut tasks = JoinSet::new();
                for first in 0..connections {
                    let (door, bad) = (door.clone(), bad.clone());
                    let (ends, counts) = (ends.clone(), counts.clone());
                    tasks
                        .spawn_local(async move { send(&door, &bad, first, &ends, &counts).await });
                }
                while let Some(ended) = tasks.join_next().await {
                    ended??;
                }
                Ok(())
            })
        });
        Flood {
            over,
            refused,
            began: watch::now(),
            thread,
        }
    }

    /// How many were refused a second.
    fn end(self) -> anyhow::Result<f64> {
        let (refused, time) = (self.refused.load(Ordering::Relaxed), self.began.elapsed());
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.join().map_err(|_| anyhow!("the flood died"))?;
        ended?;
        ensure!(refused > 0, "the flood did not reach the service");
        Ok(refused as f64 / time.as_secs_f64())
    }
}

/// One after the other on one connection, until it is over.
async fn send(
    door: &Door,
    bad: &[Vec<u8>],
    first: usize,
    over: &AtomicBool,
    refused: &AtomicU64,
) -> anyhow::Result<()> {
    let mut connection = Connection::from(FROM, door.address);
    for body in bad.iter().cycle().skip(first % bad.len()) {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let head = format!(
            "POST {}/receipts HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            door.log,
            door.address,
            body.len()
        );
        let status = connection.exchange(head.as_bytes(), body).await?.status;
        // 503 is an answer too: it is told to come again.
        ensure!([422, 429, 503].contains(&status), "answered with {status}");
        refused.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
