//! The load: every agent begins the next unit of its work when it has ended the last.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{task::LocalSet, time::sleep};

use super::{agents::Agent, work::Work};
use crate::bench::{stats::Latencies, watch};

/// How long the last answers may take once nothing more is begun.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the work goes on.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// For a window, after a warm-up.
    Over(Duration, Duration),
    /// Until so many units are done.
    Done(usize),
}

/// What was done.
#[derive(Debug, Default)]
pub struct Measured {
    /// Units within the window.
    pub units: u64,
    /// Units from the first request to the last answer.
    pub units_in_all: u64,
    /// How long the window was.
    pub elapsed: Duration,
    /// One a unit of the window.
    pub latencies: Latencies,
    /// Processor time of the generator within the window, its signing included.
    pub generator_cpu: Duration,
}

impl Measured {
    /// Units a second; `NaN` when the window was too short for one.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        match self.units {
            0 => f64::NAN,
            units => units as f64 / self.elapsed.as_secs_f64(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Window,
    Over,
}

struct Run {
    work: Work,
    phase: Cell<Phase>,
    next: Cell<usize>,
    end: usize,
    seen: RefCell<Measured>,
}

/// Has the agents do `work`; `first` is the number of the first unit.
///
/// # Errors
/// The first unit that fails, or answers that do not come.
pub async fn drive(
    agents: &[Rc<Agent>],
    work: Work,
    first: usize,
    until: Until,
) -> anyhow::Result<Measured> {
    let (phase, end) = match until {
        Until::Over(..) => (Phase::WarmUp, usize::MAX),
        Until::Done(units) => (Phase::Window, first + units),
    };
    let run = Rc::new(Run {
        work,
        phase: Cell::new(phase),
        next: Cell::new(first),
        end,
        seen: RefCell::default(),
    });
    let local = LocalSet::new();
    let (began, cpu) = local.run_until(run.clone().go(agents, until)).await?;
    let mut measured = run.seen.take();
    (measured.elapsed, measured.generator_cpu) = (began, cpu);
    Ok(measured)
}

impl Run {
    async fn go(
        self: Rc<Self>,
        agents: &[Rc<Agent>],
        until: Until,
    ) -> anyhow::Result<(Duration, Duration)> {
        let tasks = agents
            .iter()
            .map(|agent| tokio::task::spawn_local(self.clone().agent(agent.clone())));
        let tasks: Vec<_> = tasks.collect();
        let (mut began, mut cpu) = (watch::now(), watch::thread_cpu());
        let mut window = None;
        if let Until::Over(warm_up, length) = until {
            sleep(warm_up).await;
            (began, cpu) = (watch::now(), watch::thread_cpu());
            self.phase.set(Phase::Window);
            sleep(length).await;
            self.phase.set(Phase::Over);
            window = Some((began.elapsed(), watch::thread_cpu() - cpu));
        }
        for task in tasks {
            let all = async { task.await? };
            match until {
                Until::Over(..) => tokio::time::timeout(PATIENCE, all)
                    .await
                    .context("answers that do not come")??,
                Until::Done(_) => all.await?,
            }
        }
        Ok(window.unwrap_or_else(|| (began.elapsed(), watch::thread_cpu() - cpu)))
    }

    async fn agent(self: Rc<Self>, agent: Rc<Agent>) -> anyhow::Result<()> {
        let mut connection = agent.connect();
        while self.phase.get() != Phase::Over && self.next.get() < self.end {
            let n = self.next.replace(self.next.get() + 1);
            let latency = self.work.once(&agent, &mut connection, n).await?;
            let mut seen = self.seen.borrow_mut();
            seen.units_in_all += 1;
            if self.phase.get() == Phase::Window {
                seen.units += 1;
                seen.latencies.add(latency);
            }
        }
        Ok(())
    }
}
