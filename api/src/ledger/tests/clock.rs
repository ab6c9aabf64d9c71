//! A wall clock that somebody sets: what runs ends late, never early, across restarts.

use super::*;

impl Rig {
    /// Stops the log, sets the wall clock ahead, and starts it again, told to accept that.
    pub(super) fn set_ahead(&mut self, ms: i128) {
        *self.clocks.1.lock().unwrap() += ms;
        self.again(true);
    }

    /// Stops the log and starts it again.
    pub(super) fn again(&mut self, accept_clock: bool) {
        self.log.close();
        let log = Log::start(Options {
            origin: ORIGIN.into(),
            signer: signer(),
            store: self.store.clone(),
            judge: ledger(),
            clocks: self.clocks.clone(),
            witnesses: None,
            accept_clock,
        });
        self.log = log.unwrap();
    }

    /// When session and lease end, in log time.
    fn ends(&self, session: &str, lease: u64) -> (u64, u64) {
        let state = self.state();
        let lease = state.leases.get(lease).unwrap();
        (self.session(session).expires, lease.expires)
    }
}

#[test]
fn b122_what_runs_is_put_off_by_the_jump_and_never_ends_early() {
    let mut rig = Rig::of(&[1]);
    let session = rig.checkin(1, json!({"ttl_s": 3_000}));
    let asked = json!({"resource": "item:1", "ttl_s": 600});
    let (lease, _) = rig
        .within(1, Some(&session), "ars_lease_acquire", asked)
        .unwrap();
    let granted = rig.state().at;
    // Five minutes are no reason to stop; log time goes on as it did.
    rig.later(5_000);
    *rig.clocks.1.lock().unwrap() += 300_000;
    rig.tick();
    assert!(
        rig.state().at < granted + 60_000,
        "log time follows no step"
    );
    let before = rig.ends(&session, lease);
    // An hour stops it.
    *rig.clocks.1.lock().unwrap() += 3_600_000;
    let operation = rig.operation("receipt_policy", json!({}));
    assert!(rig.attempt(100, &operation).is_none(), "it writes on");
    let stood = rig.state().at;
    rig.later(20_000);
    rig.again(true);
    rig.tick();
    let said = rig.events();
    let said: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    assert_eq!(said["type"], "clock_adjusted");
    let time = |name: &str| said[name].as_str().unwrap().parse::<Millis>().unwrap().0;
    let jump = time("to") - time("from");
    assert_eq!((time("from"), time("to")), (stood, rig.now()));
    let after = rig.ends(&session, lease);
    assert_eq!(after, (before.0 + jump, before.1 + jump));
    // And stays so, told to accept or not.
    for accept in [false, true] {
        rig.again(accept);
        rig.tick();
        assert_eq!(rig.ends(&session, lease), after);
        assert!(rig.state().leases.get(lease).unwrap().ended.is_none());
    }
    // It ends in its time, which is not before what was promised of real time.
    rig.later(i128::from(after.1 - rig.state().at));
    rig.tick();
    let ended = rig.state().leases.get(lease).unwrap().ended.unwrap();
    assert!(ended.at >= after.1, "{ended:?}");
    rig.audit();
    rig.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_jumps_and_restarts_end_anything_before_its_time(steps in prop::collection::vec((0..4u8, 0..1_200_000u32), 1..12)) {
        let mut rig = Rig::of(&[1]);
        let session = rig.checkin(1, json!({"ttl_s": 3_600}));
        let asked = json!({"resource": "item:1", "ttl_s": 1_800});
        let (lease, _) = rig.within(1, Some(&session), "ars_lease_acquire", asked).unwrap();
        let begun = *rig.clocks.0.lock().unwrap();
        for (step, ms) in steps {
            match step {
                0 => rig.set_ahead(i128::from(ms) * 4 + 600_001),
                1 => rig.again(true),
                2 => rig.again(false),
                _ => rig.later(ms.into()),
            }
            let passed = *rig.clocks.0.lock().unwrap() - begun;
            rig.tick();
            let ended = rig.state().leases.get(lease).unwrap().ended;
            prop_assert!(ended.is_none() || passed >= 1_800_000, "after {} ms", passed);
        }
        rig.audit();
        rig.check();
    }
}
