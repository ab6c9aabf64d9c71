//! A load that goes on: what is asked last is answered as what was asked first.

use std::time::{Duration, Instant};

use crate::rig::{JSON, Rig, receipt, receipts, rounds};

/// Fifty a second.
const PACE: Duration = Duration::from_millis(20);

#[test]
fn b100_a_steady_load_is_answered_to_its_end() {
    let mut rig = Rig::up();
    let owner = rig.owner();
    // Two seconds of it; with SOAK=3600 the two hours of the report.
    let count = rounds(100);
    let begun = Instant::now();
    let (mut http, mut took) = (rig.http(), Vec::with_capacity(count));
    for n in 0..count {
        let body = receipt(&format!("steady {n}"), &owner).to_json();
        let at = Instant::now();
        let answer = http.post(&receipts(""), JSON, &body);
        took.push(at.elapsed());
        assert_eq!(answer.status, 200, "the {n}th: {}", answer.text());
        let due = PACE * u32::try_from(n + 1).unwrap_or(u32::MAX);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    // How long they took is for people to read: on a machine that others use it says little.
    let slow = |part: &[Duration]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() * 99 / 100]
    };
    let tenth = count / 10;
    let (first, last) = (slow(&took[..tenth]), slow(&took[count - tenth..]));
    eprintln!("p99 of the first tenth {first:?}, of the last {last:?}");
    rig.check();
}
