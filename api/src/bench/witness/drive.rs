//! The load on a witness: every connection sends the next request of its lane when it has the answer to the last.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::{
    sync::Notify,
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};

use super::requests::Request;
use crate::bench::{stats::Latencies, watch, wire::Connection};

/// How long all that is left may take once nothing more is sent, and how long one pass over all logs.
const PATIENCE: Duration = Duration::from_secs(120);

/// One answer in so many is kept for a look at its cosignature.
const SAMPLE_EVERY: u64 = 512;

/// When answers count.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time before answers are counted.
    pub warm_up: Duration,
    /// Time during which they are.
    pub window: Duration,
}

/// What came back.
#[derive(Debug, Default)]
pub struct Measured {
    /// Cosignatures within the window.
    pub cosigned: u64,
    /// From the first request to the last answer.
    pub cosigned_in_all: u64,
    /// How long the window was.
    pub elapsed: Duration,
    /// One a cosignature of the window.
    pub latencies: Latencies,
    /// Processor time of the generator within the window.
    pub generator_cpu: Duration,
    /// Of each log, how many heads were cosigned.
    pub by_log: Vec<usize>,
    /// Log, number of the head, and the answer.
    pub sample: Vec<(usize, usize, Vec<u8>)>,
    /// A lane was used up before the window ended, which it then did.
    pub ran_out: bool,
}

impl Measured {
    /// Cosignatures a second; `NaN` when the window was too short for one.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.cosigned == 0 {
            return f64::NAN;
        }
        self.cosigned as f64 / self.elapsed.as_secs_f64()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Window,
    Over,
}

struct Run {
    phase: Cell<Phase>,
    used_up: Notify,
    seen: RefCell<Measured>,
}

/// Sends the lanes to the witness at `address`: for a time, or without `times` to their ends.
///
/// # Errors
/// A connection that fails, an answer other than 200, or answers that do not come.
pub fn drive(
    address: SocketAddr,
    lanes: Vec<Vec<Request>>,
    logs: usize,
    times: Option<Times>,
) -> anyhow::Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let begins_in = times.map_or(Phase::Window, |_| Phase::WarmUp);
    let run = Rc::new(Run {
        phase: Cell::new(begins_in),
        used_up: Notify::new(),
        seen: RefCell::new(Measured {
            by_log: vec![0; logs],
            ..Measured::default()
        }),
    });
    runtime.block_on(LocalSet::new().run_until(async move {
        let mut tasks = JoinSet::new();
        for lane in lanes {
            tasks.spawn_local(run.clone().lane(address, lane));
        }
        let tasks = tokio::task::spawn_local(all(tasks));
        let (elapsed, generator_cpu) = run.time(times, tasks).await?;
        let mut measured = run.seen.take();
        (measured.elapsed, measured.generator_cpu) = (elapsed, generator_cpu);
        Ok(measured)
    }))
}

async fn all(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

impl Run {
    /// Goes through the phases beside the lanes. Length of the window, and the generator's processor time in it.
    async fn time(
        &self,
        times: Option<Times>,
        mut lanes: tokio::task::JoinHandle<anyhow::Result<()>>,
    ) -> anyhow::Result<(Duration, Duration)> {
        let late = "answers that do not come";
        let Some(Times { warm_up, window }) = times else {
            let (began, cpu) = (watch::now(), watch::thread_cpu());
            timeout(PATIENCE, lanes).await.context(late)???;
            return Ok((began.elapsed(), watch::thread_cpu() - cpu));
        };
        let timed = async {
            sleep(warm_up).await;
            let (began, cpu) = (watch::now(), watch::thread_cpu());
            self.phase.set(Phase::Window);
            let early = timeout(window, self.used_up.notified()).await.is_ok();
            self.phase.set(Phase::Over);
            self.seen.borrow_mut().ran_out = early;
            (began.elapsed(), watch::thread_cpu() - cpu)
        };
        let found = tokio::select! {
            biased; // when every lane is used up, both are ready
            found = timed => found,
            failed = &mut lanes => {
                failed??;
                anyhow::bail!("all requests were used up before the window began");
            }
        };
        timeout(PATIENCE, lanes).await.context(late)???;
        Ok(found)
    }

    async fn lane(self: Rc<Run>, address: SocketAddr, lane: Vec<Request>) -> anyhow::Result<()> {
        let mut connection = Connection::new(address);
        for request in lane {
            if self.phase.get() == Phase::Over {
                return Ok(());
            }
            let sent = watch::now();
            let answer = connection.exchange(&request.bytes, b"").await?;
            ensure!(
                answer.status == 200,
                "log {}, head {}: {} {}",
                request.log,
                request.head,
                answer.status,
                String::from_utf8_lossy(answer.body).trim_end()
            );
            self.record(&request, answer.body, sent.elapsed());
        }
        self.used_up.notify_one();
        Ok(())
    }

    fn record(&self, request: &Request, body: &[u8], latency: Duration) {
        let mut seen = self.seen.borrow_mut();
        if seen.cosigned_in_all.is_multiple_of(SAMPLE_EVERY) {
            seen.sample.push((request.log, request.head, body.to_vec()));
        }
        seen.cosigned_in_all += 1;
        seen.by_log[request.log] += 1;
        if self.phase.get() == Phase::Window {
            seen.cosigned += 1;
            seen.latencies.add(latency);
        }
    }
}
