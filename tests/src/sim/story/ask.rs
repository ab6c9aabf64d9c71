//! What an agent may come to ask, given what it sees.

use countersign_api::{
    ledger::Request,
    submit::{Budget, prepare_operation, prepare_receipt},
};
use countersign_verifier::{
    dsse::Envelope,
    leaf::Millis,
    operation::{Operation, PAYLOAD_TYPE},
};
use serde_json::{Value, json};

use super::{ITEMS, Sent, Story};
use crate::world::{ORIGIN, key};

impl Story<'_> {
    /// The session of an agent, if it has one.
    pub fn session(&self, by: u8) -> Option<String> {
        let state = self.world.state();
        state
            .sessions
            .of(&key(by).public().identity())
            .next()
            .map(|s| s.id())
    }

    /// A live lease of an agent's, or of anybody.
    fn lease(&mut self, of: Option<u8>) -> Option<Value> {
        let state = self.world.state();
        let live = state.leases.live_after(None);
        let of = of.map(|n| key(n).public().identity());
        let own: Vec<Value> = live
            .filter(|lease| of.is_none_or(|of| lease.identity == of))
            .map(|lease| json!({"lease_id": lease.id(), "fence": lease.fence}))
            .collect();
        let at = self.random.below(own.len().max(1) as u64);
        own.into_iter().nth(usize::try_from(at).unwrap_or(0))
    }

    /// What an agent may come to ask.
    fn asked(&mut self) -> (u8, Option<String>, &'static str, Value) {
        let by = self.agent();
        let item = ITEMS[usize::try_from(self.random.below(4)).unwrap_or(0)];
        let ttl = 10 + self.random.below(600);
        let session = self.session(by);
        if session.is_none() && !self.one_in(8) {
            let asked = json!({"role": "agent", "harness": {"name": "sim"}, "clock": "2026-11-29T13:00:00.000Z", "ttl_s": ttl});
            return (by, None, "ars_session_checkin", asked);
        }
        let (tool, asked) = match self.random.below(20) {
            0..8 => {
                let mode = if self.one_in(4) {
                    "shared"
                } else {
                    "exclusive"
                };
                let asked = json!({"resource": format!("item:{item}"), "mode": mode, "ttl_s": ttl});
                ("ars_lease_acquire", asked)
            }
            8..11 => {
                let of = (!self.one_in(3)).then_some(by);
                let lease = self
                    .lease(of)
                    .unwrap_or(json!({"lease_id": "l_1", "fence": 1}));
                let tool = if self.one_in(2) {
                    "ars_lease_renew"
                } else {
                    "ars_lease_release"
                };
                (tool, lease)
            }
            11..13 => (
                "ars_session_heartbeat",
                json!({"renew_leases": self.one_in(2)}),
            ),
            13 => {
                let asked = json!({"outcome": "delivered", "release_leases": !self.one_in(3)});
                ("ars_session_checkout", asked)
            }
            14..17 => {
                let title = format!("{item} {}", self.random.below(1_000));
                (
                    "board_upsert",
                    json!({"item": {"id": item, "title": title}}),
                )
            }
            _ => (
                "board_comment",
                json!({"id": item, "text": format!("{}", self.random.below(9))}),
            ),
        };
        (by, session, tool, asked)
    }

    /// Something that may be sent, new.
    pub(super) fn anything(&mut self) -> Option<Sent> {
        if self.one_in(6) {
            let by = self.agent();
            let text = format!("receipt {}", self.random.below(40));
            return Some(self.receipt(by, &text));
        }
        let (by, session, tool, asked) = self.asked();
        self.say(format!("n{by} {tool} {asked}"));
        self.operation(by, session, tool, asked)
    }

    pub(super) fn receipt(&mut self, by: u8, text: &str) -> Sent {
        let kind = "application/vnd.example.receipt+json";
        let envelope = Envelope::sign(kind, text.as_bytes(), &[key(by)]);
        let state = self.world.state();
        let prepared = prepare_receipt(&state, &envelope.to_json(), false, &Budget::of(1));
        let prepared = prepared.unwrap_or_else(|problem| panic!("{problem:?}"));
        Sent {
            request: Request::Receipt(prepared.request),
            by,
            nonce: None,
            text: Some(text.into()),
            answer: None,
        }
    }

    pub(super) fn operation(
        &mut self,
        by: u8,
        session: Option<String>,
        tool: &str,
        asked: Value,
    ) -> Option<Sent> {
        self.nonce += 1;
        let nonce = format!("nonce-{:020}", self.nonce);
        let operation = Operation {
            tool: tool.into(),
            arguments: asked,
            log: ORIGIN.into(),
            session,
            nonce: nonce.clone(),
            issued_at: Millis(self.world.now()),
            prev: Vec::new(),
            observed: None,
        };
        let envelope = Envelope::sign(PAYLOAD_TYPE, &operation.to_json(), &[key(by)]);
        let prepared = prepare_operation(&self.world.state(), envelope).ok()?;
        Some(Sent {
            request: Request::Operation(Box::new(prepared)),
            by,
            nonce: Some(nonce),
            text: None,
            answer: None,
        })
    }
}
