//! Clocks, disks, power, and the people at the witnesses.

use super::*;

impl Story<'_> {
    /// Time passes, or somebody sets the clock.
    pub(super) fn time(&mut self) {
        let witnessed = self.world.net.is_some();
        match self.random.below(20) {
            0..9 => {
                let ms = 1 + self.random.below(90_000);
                self.pass(ms);
            }
            9..13 => {
                let ms = self.random.below(HOUR_MS);
                self.pass(ms);
            }
            13 => {
                let ms = self.random.below(100 * HOUR_MS);
                self.pass(ms);
            }
            14 => {
                let ms = self.random.below(3 * YEAR_MS);
                self.pass(ms);
            }
            // Witnesses stand beside it and have its clock: it is not set back under them, whose times never go back.
            15..18 => self.set(300_000, witnessed),
            18 => self.set(5_000_000, witnessed),
            _ => self.set(i64::try_from(YEAR_MS).unwrap_or(0), witnessed),
        }
    }

    /// The machine runs on, or sleeps: nothing is done in between, and what fell due meanwhile is written afterwards.
    fn pass(&mut self, ms: u64) {
        self.say(format!("{ms} ms pass"));
        self.world.clocks.pass(ms);
    }

    fn set(&mut self, most_ms: i64, ahead_only: bool) {
        let most = most_ms.unsigned_abs();
        let by = i64::try_from(self.random.below(2 * most)).unwrap_or(0) - most_ms;
        let by = if ahead_only { by.abs() } else { by };
        // Not before the log's own beginning: nobody's clock is so wrong that a leaf of this year is refused by its form.
        let before = self.world.clocks.wall_ms().saturating_add_signed(by) < 1_600_000_000_000;
        let by = if before { by.abs() } else { by };
        self.say(format!("the wall clock is set by {by} ms"));
        self.world.clocks.set(by);
    }

    /// A step of the disk will fail.
    pub(super) fn fail(&mut self) {
        let when = self.when();
        let step = match self.random.below(16) {
            0..7 => Step::Commit,
            7..11 => Step::Read,
            11..13 => Step::Snapshot,
            13 => Step::Mark,
            14 => Step::KeepSigned,
            _ => Step::Reload,
        };
        self.say(format!("{step:?} will fail {when:?}"));
        self.world.disk.fail_next(step, when);
        if step == Step::Reload {
            self.world.disk.fail_next(Step::Commit, when);
        }
    }

    fn when(&mut self) -> When {
        match self.one_in(2) {
            true => When::Before,
            false => When::After,
        }
    }

    /// The power goes in the middle of a write.
    pub(super) fn cut(&mut self) {
        let (when, machine) = (self.when(), self.one_in(2));
        let step = match (self.world.net.is_some(), self.random.below(8)) {
            (_, 0..5) => Step::Commit,
            (true, 5) => Step::KeepPublished,
            (true, 6) => Step::KeepSigned,
            _ => Step::Mark,
        };
        let count = 1 + self.random.below(4);
        let sent: Vec<Sent> = (0..count).filter_map(|_| self.anything()).collect();
        self.say(format!(
            "the power goes {when:?} {step:?}, machine: {machine}"
        ));
        self.world.disk.cut_at(step, when);
        self.all(vec![sent]);
        self.world.crash(machine);
    }

    /// It is stopped and started, or ends between two steps.
    pub(super) fn stop(&mut self) {
        match self.random.below(4) {
            0 => {
                self.say("it is stopped and started".into());
                self.world.restart(false);
            }
            1 => {
                self.say("it is stopped and started, told to accept the clock".into());
                self.world.restart(true);
            }
            n => {
                self.say(format!("it ends, the machine too: {}", n == 3));
                self.world.crash(n == 3);
            }
        }
    }

    /// A witness, or the wire to it, changes.
    pub(super) fn people(&mut self) {
        let n = usize::try_from(self.random.below(3)).unwrap_or(0);
        let mood = match self.random.below(12) {
            0..6 => Mood::Well,
            6 => Mood::Dead,
            7 => Mood::Silent,
            8 => Mood::Lost,
            9 => Mood::Babbles,
            10 => Mood::Claims(self.random.below(200)),
            _ => Mood::Claims(u64::MAX),
        };
        let Some(net) = &self.world.net else {
            return self.work();
        };
        net.set(n, mood);
        self.say(format!("w{n} is {mood:?}"));
    }
}
