//! The line at the door: whoever waits for a lease waits here, and costs no leaf until it is decided.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use countersign_verifier::key::IdentityId;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

use crate::{
    account::Account,
    code::Code,
    ledger::{OperationRequest, caller, request_key},
    state::{
        At, Decided,
        lease::{ACQUIRE, LOOK_STEPS_MAX, Resource, Steps, Way, way},
    },
};

/// So many calls of an account wait at once; who comes when there are more is answered at once.
const WAITING_MAX: usize = 1_000;
/// And so many of one identity: each looks again after every commit, which everybody else waits for.
const WAITING_EACH_MAX: usize = 128;
/// What the tool takes at most; a call that asks for more is refused by it.
const WAIT_MS_MAX: u64 = 50_000;

/// Those who wait for leases of one account, in the order in which they came.
pub struct Line {
    waiting: Mutex<Waiting>,
    /// Changes whenever somebody leaves.
    left: watch::Sender<u64>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    places: BTreeMap<u64, (IdentityId, Resource)>,
    over: bool,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            waiting: Mutex::default(),
            left: watch::Sender::new(0),
        }
    }
}

/// A place in the line; left by dropping it.
pub struct Place<'a> {
    line: &'a Line,
    number: u64,
    resource: Resource,
    /// Who came before and waited for any of the same: nobody comes before later.
    before: Vec<u64>,
}

impl Line {
    /// Lets everybody go, and nobody wait any more.
    pub fn end(&self) {
        self.waiting().over = true;
        self.left.send_modify(|left| *left += 1);
    }

    fn enter(&self, who: IdentityId, resource: Resource) -> Option<Place<'_>> {
        let mut waiting = self.waiting();
        let own = waiting.places.values().filter(|(id, _)| *id == who).count();
        if waiting.over || waiting.places.len() >= WAITING_MAX || own >= WAITING_EACH_MAX {
            return None;
        }
        let number = waiting.next;
        waiting.next += 1;
        // Compared once. One who cannot be told from the others in so many steps waits behind them.
        let mut left = Steps::new(LOOK_STEPS_MAX);
        let mut same = |other: &Resource| other.overlaps(&resource, &mut left).unwrap_or(true);
        let all = waiting.places.iter();
        let before = all
            .filter(|(_, (_, other))| same(other))
            .map(|(number, _)| *number);
        let before = before.collect();
        waiting.places.insert(number, (who, resource.clone()));
        Some(Place {
            line: self,
            number,
            resource,
            before,
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // A panic elsewhere leaves the list as it was: each change is one step.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Whether nobody before waits any more for any of the same.
    fn is_first(&mut self) -> bool {
        let waiting = self.line.waiting();
        self.before
            .retain(|number| waiting.places.contains_key(number));
        self.before.is_empty()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.waiting().places.remove(&self.number);
        self.line.left.send_modify(|left| *left += 1);
    }
}

/// Waits until a call that asks for a lease would have it, or until its `wait_ms` are over. Its place is to be kept until it is
/// decided. Other calls, those that find the line full, and one that was answered before do not wait; nor does anybody where `all`
/// that may wait do.
pub async fn in_line<'a>(
    account: &'a Account,
    request: &OperationRequest,
    all: &Semaphore,
) -> Option<Place<'a>> {
    let (resource, wait) = asked(request)?;
    let _one = all.try_acquire().ok()?;
    let reader = account.reader();
    if reader
        .find(&request_key(request))
        .is_ok_and(|found| found.is_some())
    {
        return None;
    }
    let mut place = account.line.enter(request.signer.identity, resource)?;
    let ends = Instant::now() + wait;
    let mut progress = reader.progress();
    let mut left = account.line.left.subscribe();
    if !is_worth(account, request) {
        return Some(place);
    }
    let mut stands = Way::Free;
    loop {
        // Before looking, so that what happens meanwhile is not missed.
        progress.borrow_and_update();
        left.borrow_and_update();
        stands = look(account, request, (&place.resource, stands));
        match stands {
            Way::Over => break,
            Way::Free if place.is_first() => break,
            _ if account.line.waiting().over => break,
            Way::Free | Way::Taken(_) => {}
        }
        tokio::select! {
            changed = progress.changed() => if changed.is_err() { break },
            _ = left.changed() => {}
            () = tokio::time::sleep_until(ends) => break,
        }
    }
    Some(place)
}

fn asked(request: &OperationRequest) -> Option<(Resource, Duration)> {
    let operation = &request.operation;
    let wait_ms = operation.arguments.get("wait_ms").and_then(Value::as_u64)?;
    if operation.tool != ACQUIRE.tool || !(1..=WAIT_MS_MAX).contains(&wait_ms) {
        return None;
    }
    let resource = operation
        .arguments
        .get("resource")
        .and_then(Value::as_str)?;
    let resource = Resource::parse(resource).ok()?;
    Some((resource, Duration::from_millis(wait_ms)))
}

/// Whether a call can be had by waiting, or is had already: judged once, and by the writer when its turn has come. One that would be
/// refused for another reason, or that renews what is had, has nothing to wait for.
fn is_worth(account: &Account, request: &OperationRequest) -> bool {
    let (head, state) = account.reader().committed();
    let at = account.log_now_ms();
    let index = head.size;
    let Ok(caller) = caller(&state, &request.signer, &request.operation, at) else {
        return false;
    };
    match state.decide(&caller, &request.operation, At { at, index }) {
        Decided::Refused(code, ..) => code == Code::LeaseConflict,
        Decided::Applied(effect) => !effect.contains_key("renewed"),
    }
}

/// Where it stands by now: what every commit is looked at for, so that nothing is judged.
fn look(account: &Account, request: &OperationRequest, before: (&Resource, Way)) -> Way {
    let state = account.reader().version();
    let at = account.log_now_ms();
    match caller(&state, &request.signer, &request.operation, at) {
        Ok(caller) => way(&state, &caller, &request.operation, before),
        Err(_) => Way::Over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(n: u8) -> IdentityId {
        IdentityId(countersign_verifier::hash::Hash([n; 32]))
    }

    fn resource(text: &str) -> Resource {
        Resource::parse(text).unwrap()
    }

    #[test]
    fn each_waits_behind_those_before_who_want_any_of_the_same() {
        let line = Line::default();
        let mut first = line.enter(who(1), resource("path:a:src/**")).unwrap();
        let mut second = line.enter(who(1), resource("path:a:src/x")).unwrap();
        let mut other = line.enter(who(1), resource("item:1")).unwrap();
        assert_eq!(
            [&mut first, &mut second, &mut other].map(Place::is_first),
            [true, false, true]
        );
        // What is looked at again is one number for each who is before, and no glob.
        assert_eq!(second.before, [first.number]);
        drop(first);
        assert!(second.is_first() && second.before.is_empty());
        line.end();
        assert!(line.enter(who(1), resource("item:2")).is_none());
    }

    #[test]
    fn a_full_line_takes_nobody() {
        let line = Line::default();
        let places: Vec<Place<'_>> = (0..WAITING_MAX)
            .map(|n| {
                let each = who(u8::try_from(n / WAITING_EACH_MAX).unwrap());
                line.enter(each, resource(&format!("item:{n}"))).unwrap()
            })
            .collect();
        assert!(line.enter(who(99), resource("item:x")).is_none());
        drop(places);
        assert!(line.enter(who(1), resource("item:x")).is_some());
    }

    #[test]
    fn one_identity_has_a_part_of_the_line_and_not_all_of_it() {
        let line = Line::default();
        let places: Vec<Place<'_>> = (0..WAITING_EACH_MAX)
            .map(|n| line.enter(who(1), resource(&format!("item:{n}"))).unwrap())
            .collect();
        assert!(line.enter(who(1), resource("item:x")).is_none());
        assert!(line.enter(who(2), resource("item:x")).is_some());
        drop(places);
        assert!(line.enter(who(1), resource("item:x")).is_some());
    }
}
