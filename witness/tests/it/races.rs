//! Many at once: of each log one branch, in order, and durable in few writes.

use std::sync::Arc;

use countersign_verifier::checkpoint::origin_hash;
use countersign_witness::Answer;
use countersign_witness::store::Memory;

use crate::support::{Running, TestLog, check_lines, time, witness};

/// T42, 7.3: rounds of conflicting updates from one head, over the real door and RocksDB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_conflicting_updates_one_wins_in_each_of_300_rounds() {
    let mut log = TestLog::new("race.example/rounds", 2);
    let running = Running::rocks(&[log.addition()]).await;
    assert_eq!(running.ask(log.request(0, 2)).await.status, 200);
    for round in 0..300 {
        let at = log.leaves.len();
        let mut branches = Vec::new();
        for n in 0..3 {
            let mut branch = log.clone();
            branch.grow(&format!("{round}/{n}"), at + 1 + (n + round) % 3);
            branches.push(branch);
        }
        let asked = branches
            .iter()
            .map(|branch| running.ask(branch.request(at, branch.leaves.len())));
        let said = join_all(asked).await;
        let won: Vec<usize> = (0..3).filter(|&n| said[n].status == 200).collect();
        assert_eq!(won.len(), 1, "round {round}: {said:?}");
        let winner = branches.swap_remove(won[0]);
        let size = winner.leaves.len();
        for (n, said) in said.iter().enumerate() {
            if n == won[0] {
                check_lines(running.witness.keys(), &said.body, &winner.text(size));
            } else {
                assert_eq!((said.status, said.body.clone()), (409, format!("{size}\n")));
            }
        }
        assert_eq!(
            running.newest(&winner.origin).await.unwrap(),
            winner.head(size)
        );
        log = winner;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_100_forks_at_one_size_one_is_ever_cosigned() {
    let log = TestLog::new("race.example/forks", 40);
    let running = Running::rocks(&[log.addition()]).await;
    assert_eq!(running.ask(log.request(0, 23)).await.status, 200);
    let forks: Vec<TestLog> = (0..100)
        .map(|n| log.fork(23, &format!("fork {n}")))
        .collect();
    let said = join_all(forks.iter().map(|fork| running.ask(fork.request(23, 40)))).await;
    let won: Vec<usize> = (0..100).filter(|&n| said[n].status == 200).collect();
    assert_eq!(won.len(), 1);
    for (n, fork) in forks.iter().enumerate() {
        // Whatever a fork tries afterwards: from the stored size, from before the fork, and beyond.
        let mut longer = fork.clone();
        longer.grow("more", 41);
        let statuses = [
            running.ask(fork.request(40, 40)).await.status,
            running.ask(fork.request(23, 40)).await.status,
            running.ask(longer.request(40, 41)).await.status,
        ];
        if n == won[0] {
            assert_eq!(statuses, [200, 409, 200]);
            break;
        }
        assert_eq!(statuses, [422, 409, 422], "fork {n}");
    }
    running.stop().await;
}

/// P005: requests of different logs share commits; those of one log keep their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p005_different_logs_share_synced_writes() {
    let store = Arc::new(Memory::default());
    let logs: Vec<TestLog> = (0..200)
        .map(|n| TestLog::new(&format!("many.example/{n}"), 3))
        .collect();
    let additions: Vec<_> = logs.iter().map(TestLog::addition).collect();
    let witness = Arc::new(witness(store.clone(), &additions));
    let requests: Vec<String> = logs.iter().map(|log| log.request(0, 3)).collect();
    let answers = join_all(
        requests
            .iter()
            .map(|r| witness.add_checkpoint(r.as_bytes())),
    )
    .await;
    for (log, answer) in logs.iter().zip(answers) {
        let Answer::Cosigned(lines) = answer else {
            panic!("{answer:?}")
        };
        check_lines(witness.keys(), &lines, &log.text(3));
        let stored = witness.newest(&origin_hash(&log.origin)).unwrap().unwrap();
        assert_eq!(stored.time, time(&lines));
    }
    assert!(store.commits() < 200, "{} commits", store.commits());
}

/// All of them at once, on this thread's runtime.
async fn join_all<T>(asked: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = asked.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut all = true;
        for (one, done) in &mut waiting {
            if done.is_none() {
                match one.as_mut().poll(context) {
                    std::task::Poll::Ready(answer) => *done = Some(answer),
                    std::task::Poll::Pending => all = false,
                }
            }
        }
        if all {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}
