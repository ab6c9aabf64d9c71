//! The load generator: every connection sends its next request when it has the answer to the last (closed loop), or requests
//! go out at fixed times whatever becomes of the earlier ones (open loop). All of it runs on the calling thread.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use tokio::{
    sync::{Notify, mpsc},
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};

use super::{
    answers::{self, Tally, Wait},
    material::Receipts,
    stats::Latencies,
    watch::{self, Instant},
    wire::Connection,
};

/// How long the last answers may take once nothing more is sent.
const PATIENCE: Duration = Duration::from_secs(60);

/// One accepted receipt in so many is kept for a look at its evidence.
const SAMPLE_EVERY: u64 = 8192;

/// Where receipts go.
#[derive(Clone, Debug)]
pub struct Door {
    /// The server.
    pub address: SocketAddr,
    /// The log's path, as `/log/dev`.
    pub log: String,
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where to.
    pub door: Door,
    /// What, each once and in order.
    pub receipts: Arc<Receipts>,
    /// Receipts a request: 1 is an envelope as JSON, more are NDJSON.
    pub per_request: usize,
    /// The state in which an answer counts.
    pub wait: Wait,
    /// Time before answers are counted.
    pub warm_up: Duration,
    /// Time during which they are.
    pub window: Duration,
}

/// What came back within the window.
#[derive(Debug, Default)]
pub struct Measured {
    /// Receipts accepted in the state asked for.
    pub accepted: u64,
    /// The same, from the first request to the last answer.
    pub accepted_in_all: u64,
    /// How long the window was.
    pub elapsed: Duration,
    /// One a request.
    pub latencies: Latencies,
    /// Processor time of the generator.
    pub generator_cpu: Duration,
    /// Receipts not accepted, from the first request to the last answer.
    pub refused: u64,
    /// What was said of one of those.
    pub complaint: Option<String>,
    /// Some accepted receipts: place in the material, index in the log.
    pub sample: Vec<(usize, u64)>,
    /// The material ran out before the window ended.
    pub ran_out: bool,
}

impl Measured {
    /// Receipts a second; `NaN` when the window was too short for a single answer.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.accepted == 0 {
            return f64::NAN;
        }
        self.accepted as f64 / self.elapsed.as_secs_f64()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Window,
    Over,
}

struct Run {
    load: Load,
    head: Vec<u8>,
    next: Cell<usize>,
    phase: Cell<Phase>,
    ran_out: Notify,
    seen: RefCell<Measured>,
}

/// Keeps `connections` requests under way until the window is over.
///
/// # Errors
/// A connection that fails, or answers that do not come.
pub fn closed(load: Load, connections: usize) -> anyhow::Result<Measured> {
    Run::new(load).go(|run, tasks| {
        for _ in 0..connections {
            let run = run.clone();
            tasks.spawn_local(async move {
                let mut connection = Connection::new(run.load.door.address);
                let mut started = watch::now();
                while let Some(at) = run.take() {
                    started = run.exchange(&mut connection, at, started).await?;
                }
                Ok(())
            });
        }
    })
}

/// Sends `rate` requests a second, on as many connections as that takes. Latency counts from the time at which a request
/// was due, so that a server that stalls pays for all that it kept waiting.
///
/// # Errors
/// As [`closed`].
pub fn open(load: Load, rate: f64) -> anyhow::Result<Measured> {
    Run::new(load).go(|run, tasks| {
        let run = run.clone();
        tasks.spawn_local(async move {
            let idle = Rc::new(RefCell::new(Vec::new()));
            let mut due = pacer(rate);
            let mut under_way = JoinSet::new();
            while let Some(due) = due.recv().await {
                let Some(at) = run.take() else {
                    break;
                };
                let (run, idle) = (run.clone(), idle.clone());
                under_way.spawn_local(async move {
                    let connection = idle.borrow_mut().pop();
                    let mut connection =
                        connection.unwrap_or_else(|| Connection::new(run.load.door.address));
                    run.exchange(&mut connection, at, due).await?;
                    idle.borrow_mut().push(connection);
                    anyhow::Ok(())
                });
            }
            all(under_way).await
        });
    })
}

/// Sends the times at which requests are due, at those times, until the receiver is gone. A thread of its own, because the
/// timers of the runtime are exact to a millisecond only.
fn pacer(rate: f64) -> mpsc::UnboundedReceiver<Instant> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let first = watch::now();
    thread::spawn(move || {
        for number in 0_u32.. {
            let due = first + Duration::from_secs_f64(f64::from(number) / rate);
            thread::sleep(due.saturating_duration_since(watch::now()));
            if sender.send(due).is_err() {
                break;
            }
        }
    });
    receiver
}

async fn all(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

impl Run {
    fn new(load: Load) -> Rc<Run> {
        let (wait, many) = (load.wait.name(), load.per_request > 1);
        let kind = if many {
            "application/x-ndjson"
        } else {
            "application/json"
        };
        let bytes = load
            .receipts
            .lines(0..load.per_request.min(load.receipts.len()))
            .len()
            - usize::from(!many);
        let head = format!(
            "POST {}/receipts?wait={wait} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n\r\n",
            load.door.log, load.door.address
        );
        Rc::new(Run {
            load,
            head: head.into_bytes(),
            next: Cell::new(0),
            phase: Cell::new(Phase::WarmUp),
            ran_out: Notify::new(),
            seen: RefCell::default(),
        })
    }

    /// Runs the tasks that `start` makes through warm-up, window and the last answers.
    fn go(
        self: Rc<Self>,
        start: impl FnOnce(&Rc<Self>, &mut JoinSet<anyhow::Result<()>>),
    ) -> anyhow::Result<Measured> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let run = self.clone();
        let local = LocalSet::new();
        runtime.block_on(local.run_until(async move {
            let mut tasks = JoinSet::new();
            start(&run, &mut tasks);
            let Load { warm_up, window, .. } = run.load;
            let mut tasks = tokio::task::spawn_local(all(tasks));
            let timed = async {
                sleep(warm_up).await;
                let (began, cpu) = (watch::now(), watch::thread_cpu());
                run.phase.set(Phase::Window);
                let early = timeout(window, run.ran_out.notified()).await.is_ok();
                run.phase.set(Phase::Over);
                (began.elapsed(), watch::thread_cpu() - cpu, early)
            };
            let (elapsed, generator_cpu, ran_out) = tokio::select! {
                biased; // when the material runs out, both are ready
                timed = timed => timed,
                failed = &mut tasks => return failed?.and(Err(anyhow!("the material ran out before the window began"))),
            };
            timeout(PATIENCE, tasks).await.context("answers that do not come")???;
            let mut measured = run.seen.take();
            (measured.elapsed, measured.generator_cpu, measured.ran_out) = (elapsed, generator_cpu, ran_out);
            Ok(measured)
        }))
    }

    /// The place of the next request's first receipt.
    fn take(&self) -> Option<usize> {
        let at = self.next.get();
        if self.phase.get() == Phase::Over {
            return None;
        }
        if at + self.load.per_request > self.load.receipts.len() {
            self.ran_out.notify_one();
            return None;
        }
        self.next.set(at + self.load.per_request);
        Some(at)
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        at: usize,
        started: Instant,
    ) -> anyhow::Result<Instant> {
        let Load {
            receipts,
            per_request,
            wait,
            ..
        } = &self.load;
        let many = *per_request > 1;
        let body = if many {
            receipts.lines(at..at + per_request)
        } else {
            receipts.one(at)
        };
        let answer = connection.exchange(&self.head, body).await?;
        let ended = watch::now();
        self.record(
            at,
            answers::read(answer, *per_request, many, *wait),
            ended - started,
        );
        Ok(ended)
    }

    fn record(&self, at: usize, tally: Tally, latency: Duration) {
        let mut seen = self.seen.borrow_mut();
        let (accepted, sent) = (tally.accepted as u64, self.load.per_request as u64);
        if let Some(index) = tally.first_index
            && (seen.accepted_in_all == 0
                || seen.accepted_in_all / SAMPLE_EVERY
                    != (seen.accepted_in_all + accepted) / SAMPLE_EVERY)
        {
            seen.sample.push((at, index));
        }
        seen.accepted_in_all += accepted;
        seen.refused += sent - accepted.min(sent);
        if seen.complaint.is_none() {
            seen.complaint = tally.complaint;
        }
        if self.phase.get() == Phase::Window && accepted > 0 {
            seen.accepted += accepted;
            seen.latencies.add(latency);
        }
    }
}
