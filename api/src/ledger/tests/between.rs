//! Between commit and answer: what is durable and was never told is answered with the first result, and granted once.

use countersign_log::store::memory::{Step as At, When};

use super::{sessions::asked, *};

impl Rig {
    /// What comes of an operation; nothing where the log stopped instead of answering.
    pub(super) fn attempt(
        &self,
        by: u8,
        operation: &Operation,
    ) -> Option<Result<(u64, bool), Problem>> {
        let request = self.request(by, operation).ok()?;
        match self.outcome(request) {
            Outcome::Sequenced(leaf) => Some(Ok((leaf.index, leaf.existing))),
            Outcome::Refused(problem) => Some(Err(problem)),
            Outcome::Stopped(_) => None,
        }
    }

    /// The indexes of the leaves that hold this operation.
    fn leaves_of(&self, nonce: &str) -> Vec<u64> {
        let leaves = self.store.entries(0, usize::MAX).unwrap();
        let holds = |leaf: &[u8]| match Leaf::parse(leaf) {
            Ok(Leaf::Operation(leaf)) => {
                Operation::parse(&leaf.envelope.payload).unwrap().nonce == nonce
            }
            _ => false,
        };
        let found = (0..).zip(&leaves).filter(|(_, leaf)| holds(leaf));
        found.map(|(index, _)| index).collect()
    }
}

#[test]
fn a_lost_answer_is_given_again_and_nothing_is_granted_twice() {
    let mut rig = Rig::of(&[1, 2]);
    let sessions = [1, 2].map(|n| rig.checkin(n, json!({"ttl_s": 3_600})));
    let items = json!({"item": {"id": "T-1", "title": "t"}});
    rig.call(1, "board_upsert", items).unwrap();
    let asks = [
        (Some(0), "ars_lease_acquire", json!({"resource": "item:A"})),
        (Some(0), "ars_start", json!({})),
        (
            Some(0),
            "board_upsert",
            json!({"item": {"title": "named by its leaf"}}),
        ),
        (
            Some(0),
            "board_comment",
            json!({"id": "T-1", "text": "once"}),
        ),
        (None, "ars_session_checkin", asked(json!({}))),
        // A refusal is the first result too.
        (
            Some(0),
            "board_comment",
            json!({"id": "nothing", "text": "x"}),
        ),
    ];
    for (round, when) in [When::Before, When::After].into_iter().enumerate() {
        for (session, tool, arguments) in &asks {
            let mut operation = rig.operation(tool, arguments.clone());
            operation.session = session.map(|n: usize| sessions[n].clone());
            rig.store.fail_next(At::Commit, when);
            assert!(rig.attempt(1, &operation).is_none(), "{tool}: not answered");
            // Asked again until it is up: as a client does.
            let (index, existing) = loop {
                match rig.attempt(1, &operation) {
                    Some(answer) => break answer.unwrap(),
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(existing, when == When::After, "{tool}");
            assert_eq!(rig.leaves_of(&operation.nonce), [index], "{tool}: one leaf");
            assert_eq!(rig.send(1, &operation).unwrap(), (index, true), "{tool}");
            rig.later(61_000);
        }
        // Whoever asks for the same is told who has it, by the leaf that was never answered.
        let (index, _) = rig
            .within(
                2,
                Some(&sessions[1]),
                "ars_lease_acquire",
                json!({"resource": "item:A"}),
            )
            .unwrap();
        assert_eq!(rig.decided(index), Some(Code::LeaseConflict));
        let state = rig.state();
        let holder = rig.detail(index)["holder"]["session_id"].clone();
        assert_eq!(holder, sessions[0].as_str());
        let fences: Vec<u64> = state
            .leases
            .live_after(None)
            .map(|lease| lease.fence)
            .collect();
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        // item:A, and the items that were begun: one in each round.
        assert_eq!(fences.len(), 2 + round);
    }
    let comments = rig.state().board.get("T-1").unwrap().read().comments.len();
    assert_eq!(comments, 2, "one a round");
    rig.audit();
    rig.check();
}
