//! What a plain reader makes of the leaves, knowing the rules in prose alone: one answer a nonce, one holder of what is held alone,
//! no end before its time, none late, no time that goes back.

use std::collections::{BTreeMap, HashMap};

use countersign_api::ledger::{Recorded, decision_of};
use countersign_verifier::{
    key::IdentityId,
    leaf::{Leaf, Millis, OperationLeaf},
    operation::Operation,
};
use serde_json::{Map, Value};

struct Lease {
    resource: String,
    alone: bool,
    session: String,
    ttl: u64,
    ends: u64,
}

/// What the leaves so far say.
#[derive(Default)]
pub struct Model {
    at: u64,
    leases: BTreeMap<String, Lease>,
    /// Live ones: when they end, and whose they are.
    sessions: BTreeMap<String, u64>,
    nonces: HashMap<(IdentityId, String), u64>,
    /// Receipts by their bytes and who signed them.
    receipts: HashMap<(Vec<u8>, Vec<IdentityId>), u64>,
    fence: u64,
    /// What was granted, refused and ended, so that a run can say that it came to something.
    pub granted: u64,
    pub refused: u64,
    pub expired: u64,
}

fn text(of: &Map<String, Value>, name: &str) -> String {
    of[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} of {of:?}"))
        .to_owned()
}

fn time(of: &Map<String, Value>, name: &str) -> u64 {
    text(of, name).parse::<Millis>().expect("a time").0
}

impl Model {
    /// Takes the next leaf in. Panics where it breaks a rule.
    pub fn take(&mut self, index: u64, bytes: &[u8]) {
        let leaf = Leaf::parse(bytes).unwrap_or_else(|e| panic!("leaf {index}: {e}"));
        let at = leaf.at().0;
        assert!(
            at >= self.at,
            "leaf {index}: time went back from {} to {at}",
            self.at
        );
        self.at = at;
        if let Leaf::System(system) = &leaf {
            let event: Value = serde_json::from_str(system.event).expect("an event");
            let Value::Object(event) = event else {
                panic!("leaf {index}: no event")
            };
            return self.event(index, system.event_type, &event);
        }
        let leases = self.leases.iter().map(|(id, lease)| (id, &lease.ends));
        let late = self
            .sessions
            .iter()
            .chain(leases)
            .find(|(_, ends)| **ends <= at);
        assert!(
            late.is_none(),
            "leaf {index}: {late:?} ended before {at}, and no leaf says so"
        );
        match &leaf {
            Leaf::Operation(operation) => {
                self.operation(index, operation, decision_of(&leaf).expect("a decision"));
            }
            Leaf::Receipt(receipt) => {
                let receipt = (receipt.envelope.payload.clone(), receipt.signers.clone());
                if let Some(first) = self.receipts.insert(receipt, index) {
                    panic!("leaf {index}: this receipt is leaf {first} already");
                }
            }
            Leaf::System(_) => {}
        }
    }

    fn event(&mut self, index: u64, kind: &str, event: &Map<String, Value>) {
        match kind {
            "lease_expired" => {
                let id = text(event, "lease_id");
                let lease = self.leases.remove(&id);
                let lease = lease.unwrap_or_else(|| panic!("leaf {index}: {id} is not live"));
                assert!(
                    lease.ends <= self.at,
                    "leaf {index}: {id} ends early, at {}",
                    self.at
                );
                self.expired += 1;
            }
            "session_expired" => {
                let id = text(event, "session");
                let ends = self.sessions.remove(&id);
                let ends = ends.unwrap_or_else(|| panic!("leaf {index}: {id} is not live"));
                assert!(
                    ends <= self.at,
                    "leaf {index}: {id} ends early, at {}",
                    self.at
                );
                self.end_leases(&id);
                self.expired += 1;
            }
            "clock_adjusted" => {
                let jump = time(event, "to").saturating_sub(time(event, "from"));
                self.sessions.values_mut().for_each(|ends| *ends += jump);
                self.leases
                    .values_mut()
                    .for_each(|lease| lease.ends += jump);
            }
            "opened" => assert_eq!(index, 0, "opened again"),
            other => panic!("leaf {index}: {other}"),
        }
    }

    fn end_leases(&mut self, session: &str) {
        self.leases.retain(|_, lease| lease.session != session);
    }

    fn operation(&mut self, index: u64, leaf: &OperationLeaf<'_>, decision: Recorded) {
        let operation = Operation::parse(&leaf.envelope.payload).expect("an operation");
        let nonce = (leaf.by.identity, operation.nonce.clone());
        if let Some(first) = self.nonces.insert(nonce, index) {
            panic!("leaf {index}: its nonce was answered by leaf {first}");
        }
        let Recorded::Applied(effect) = decision else {
            self.refused += 1;
            return;
        };
        match operation.tool.as_str() {
            "ars_session_checkin" => {
                self.sessions
                    .insert(text(&effect, "session"), time(&effect, "expires_at"));
            }
            "ars_session_heartbeat" => self.beat(&effect),
            "ars_session_checkout" => {
                let id = text(&effect, "session");
                assert!(
                    self.sessions.remove(&id).is_some(),
                    "leaf {index}: {id} is not live"
                );
                if effect.contains_key("leases") {
                    self.end_leases(&id);
                }
            }
            "ars_lease_acquire" => self.acquire(index, &operation, &effect),
            "ars_lease_renew" => self.renew(index, &effect),
            "ars_lease_release" => {
                let id = text(&effect, "lease");
                assert!(
                    self.leases.remove(&id).is_some(),
                    "leaf {index}: {id} is not live"
                );
            }
            _ => {}
        }
    }

    fn beat(&mut self, effect: &Map<String, Value>) {
        let (id, at) = (text(effect, "session"), self.at);
        *self.sessions.get_mut(&id).expect("a live session") = time(effect, "expires_at");
        if effect.contains_key("leases") {
            let own = self.leases.values_mut().filter(|lease| lease.session == id);
            own.for_each(|lease| lease.ends = lease.ends.max(at + lease.ttl));
        }
    }

    fn renew(&mut self, index: u64, effect: &Map<String, Value>) {
        let id = text(effect, "lease");
        let lease = self.leases.get_mut(&id);
        let lease = lease.unwrap_or_else(|| panic!("leaf {index}: {id} is not live"));
        lease.ends = time(effect, "expires_at");
        lease.ttl = lease.ends - self.at;
    }

    fn acquire(&mut self, index: u64, operation: &Operation, effect: &Map<String, Value>) {
        if effect.contains_key("renewed") {
            return self.renew(index, effect);
        }
        let asked = |name: &str| operation.arguments[name].as_str().unwrap_or_default();
        let lease = Lease {
            resource: asked("resource").into(),
            alone: asked("mode") != "shared",
            session: text(effect, "session"),
            ttl: time(effect, "expires_at") - self.at,
            ends: time(effect, "expires_at"),
        };
        let other = self.leases.iter().find(|(_, other)| {
            other.resource == lease.resource
                && other.session != lease.session
                && (other.alone || lease.alone)
        });
        if let Some((id, _)) = other {
            panic!("leaf {index}: {} is held already, by {id}", lease.resource);
        }
        let fence = effect["fence"].as_u64().expect("a fence");
        assert!(
            fence > self.fence,
            "leaf {index}: fence {fence} after {}",
            self.fence
        );
        self.fence = fence;
        self.leases.insert(text(effect, "lease"), lease);
        self.granted += 1;
    }
}
