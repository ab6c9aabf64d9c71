//! A witness with two keys, and the subtrees that it signs.

use std::sync::Arc;

use countersign_verifier::base64;
use countersign_verifier::hash::Hash;
use countersign_verifier::note::join;
use countersign_verifier::sign_subtree::request;
use countersign_verifier::tile::hash_of;
use countersign_witness::Witness;
use countersign_witness::store::Memory;

use crate::support::{NOW, Running, TestClock, TestLog, check_lines, keys, time};

async fn running(logs: &[&TestLog], mldsa: bool) -> Running {
    let store = Arc::<Memory>::default();
    let witness = Witness::new(keys(mldsa), store, TestClock::at(NOW).clock()).unwrap();
    let logs: Vec<_> = logs.iter().map(|log| log.addition()).collect();
    witness.roster().add(&logs).unwrap();
    Running::of(witness).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_witness_answers_with_both_lines_and_takes_no_extensions() {
    let log = TestLog::new("two.example", 9);
    let running = running(&[&log], true).await;
    for (old, new) in [(0, 5), (5, 5), (5, 9)] {
        let said = running.ask(log.request(old, new)).await;
        assert_eq!(said.status, 200, "{}", said.body);
        check_lines(running.witness.keys(), &said.body, &log.text(new));
        assert_eq!(time(&said.body), NOW);
    }
    assert_eq!(running.newest(&log.origin).await.unwrap(), log.head(9));
    // T44
    let text = log.text(9) + "extension\n";
    let body = countersign_verifier::add_checkpoint::request(9, &[], &log.sign(&text));
    assert_eq!(running.ask(body).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t48_a_subtree_is_signed_for_an_ml_dsa_cosignature_and_nothing_else() {
    let log = TestLog::new("sub.example", 8);
    let running = running(&[&log], true).await;
    let lines = running.ask(log.request(0, 8)).await.body;
    let (first, second) = lines.split_at(lines.find('\n').unwrap() + 1);
    let (bounds, hash) = ((4, 6), hash_of(&log.leaves[4..6]));
    let proof = [hash_of(&log.leaves[6..8]), hash_of(&log.leaves[..4])];
    let ask = async |hash: &Hash, proof: &[Hash], note: &str| {
        running
            .post("/sign-subtree", request(bounds, hash, proof, note))
            .await
    };
    let both = join(&log.text(8), [lines.as_str()]);
    let said = ask(&hash, &proof, &both).await;
    assert_eq!(said.status, 200, "{}", said.body);
    let line = said.body.trim_end().rsplit(' ').next().unwrap();
    let bytes = base64::decode(line).unwrap();
    assert_eq!(bytes[..4], running.witness.keys().vkeys()[1].id.0);
    assert_eq!(bytes[4..12], [0; 8], "a subtree has no time");
    assert_eq!(bytes.len(), 4 + 8 + 2_420);
    let ed25519 = join(&log.text(8), [first]);
    let mldsa = join(&log.text(8), [second]);
    assert_eq!(ask(&hash, &proof, &ed25519).await.status, 403);
    assert_eq!(ask(&hash, &proof, &log.note(8)).await.status, 403);
    assert_eq!(ask(&hash, &proof, &mldsa).await.status, 200);
    assert_eq!(ask(&hash, &proof[1..], &mldsa).await.status, 422);
    assert_eq!(ask(&Hash([1; 32]), &proof, &mldsa).await.status, 422);
    let unknown = TestLog::new("unknown.example", 8).note(8);
    assert_eq!(ask(&hash, &proof, &unknown).await.status, 404);
    assert_eq!(
        running.post("/sign-subtree", "subtree 1 3\n").await.status,
        400
    );
    let beyond = request((8, 10), &hash, &proof, &mldsa);
    assert_eq!(running.post("/sign-subtree", beyond).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t48_without_such_a_key_no_subtree_is_signed() {
    let log = TestLog::new("sub.example", 8);
    let running = running(&[&log], false).await;
    let lines = running.ask(log.request(0, 8)).await.body;
    let note = join(&log.text(8), [lines.as_str()]);
    let hash = log.root(8);
    let said = running
        .post("/sign-subtree", request((0, 8), &hash, &[], &note))
        .await;
    assert_eq!(said.status, 403);
}
