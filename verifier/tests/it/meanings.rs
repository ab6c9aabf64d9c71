//! What a quorum comes to, beside what every set of witnesses does to it.

use countersign_verifier::policy::{Meaning, Policy};
use countersign_verifier::vkey::CosignSigner;
use ed25519_dalek::SigningKey;

use crate::support::LOG_VKEY;

/// A policy of `count` witnesses and these further lines; the witnesses in `silent` have no address.
fn policy(count: u8, silent: &[u8], lines: &str) -> Policy {
    let mut text = format!("log {LOG_VKEY}\n");
    for n in 0..count {
        let signer = CosignSigner::new(
            &format!("witness.example/{n}"),
            SigningKey::from_bytes(&[n + 1; 32]),
        )
        .unwrap();
        let url = if silent.contains(&n) {
            String::new()
        } else {
            format!(" https://{n}.example.com/")
        };
        text.push_str(&format!("witness w{n} {}{url}\n", signer.vkey()));
    }
    Policy::parse(text + lines).unwrap()
}

/// Least, spare, splits, by trying all sets.
fn tried(policy: &Policy) -> (usize, usize, bool) {
    let count = policy.witnesses().len();
    let met = |set: u32| {
        let cosigned: Vec<bool> = (0..count).map(|n| set >> n & 1 == 1).collect();
        policy.quorum_met(&cosigned)
    };
    let all = (1_u32 << count) - 1;
    let sets = || 0..=all;
    let size = |set: u32| set.count_ones() as usize;
    let least = sets().filter(|set| met(*set)).map(size).min().unwrap();
    let broken = sets().filter(|set| !met(all & !set)).map(size).min();
    let splits = sets().any(|set| met(set) && met(all & !set));
    (least, broken.unwrap() - 1, splits)
}

#[test]
fn what_is_counted_is_what_the_sets_do() {
    // A small generator: enough shapes of trees that every branch of the counting is met.
    let mut seed = 7_u64;
    let mut below = |n: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for _ in 0..400 {
        let count = 1 + below(8) as u8;
        let mut open: Vec<String> = (0..count).map(|n| format!("w{n}")).collect();
        let mut lines = String::new();
        for g in 0..1 + below(4) {
            let take = 1 + below(open.len() as u64) as usize;
            let start = below((open.len() - take + 1) as u64) as usize;
            let members: Vec<String> = open.drain(start..start + take).collect();
            let k = 1 + below(take as u64);
            lines.push_str(&format!("group g{g} {k} {}\n", members.join(" ")));
            open.push(format!("g{g}"));
        }
        let last = open.last().unwrap();
        lines.push_str(&format!("quorum {last}\n"));
        let policy = policy(count, &[], &lines);
        let meaning = policy.meaning().unwrap();
        let counted = (meaning.least, meaning.spare, meaning.splits);
        assert_eq!(counted, tried(&policy), "{lines}");
    }
}

#[test]
fn a_policy_says_what_it_asks_for() {
    let told = |policy: Policy| policy.meaning().unwrap();
    let three = told(policy(4, &[1, 3], "group m 2 w0 w1 w2\nquorum m\n"));
    assert_eq!(three.words, "2 of 3: w0, w1, w2");
    assert_eq!((three.least, three.spare, three.splits), (2, 1, false));
    let names = |names: &[_]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    assert_eq!(names(&three.without_address), ["w1"]);
    assert_eq!(names(&three.extra), ["w3"]);
    let nested = told(policy(
        4,
        &[],
        "group a any w0 w1\ngroup b all w2 w3\ngroup m all a b\nquorum m\n",
    ));
    assert_eq!(nested.words, "all of (any of w0, w1), (all of w2, w3)");
    assert_eq!((nested.least, nested.spare, nested.splits), (3, 0, false));
    let one = told(policy(2, &[], "quorum w1\n"));
    assert_eq!((one.words.as_str(), one.spare), ("w1", 0));
    assert_eq!(policy(1, &[], "quorum none\n").meaning(), None);
}

#[test]
fn two_keys_at_one_address_are_one_witness() {
    let key = |n: u8| {
        CosignSigner::new("witness.example/w", SigningKey::from_bytes(&[n; 32]))
            .unwrap()
            .vkey()
            .clone()
    };
    let text = format!(
        "log {LOG_VKEY}\nwitness a {} https://w.example.com\nwitness b {} https://w.example.com/\n\
         group w any a b\nquorum w\n",
        key(1),
        key(2)
    );
    let meaning = Policy::parse(&text).unwrap().meaning().unwrap();
    let Meaning {
        least,
        spare,
        splits,
        ..
    } = meaning;
    assert_eq!((least, spare, splits), (1, 0, false));
    assert_eq!(meaning.words, "any of a, b (keys of one witness)");
}
