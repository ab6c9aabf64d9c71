//! Traps and cases that the vectors do not hold, over the real door.

use countersign_verifier::add_checkpoint;
use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::hash::{EMPTY_ROOT, Hash};
use countersign_verifier::note::Note;

use crate::support::{Running, TestLog};

fn request(log: &TestLog, old: u64, proof: &[Hash], text: &str) -> String {
    add_checkpoint::request(old, proof, &log.sign(text))
}

/// Refused by a stated bound before any arithmetic on trees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p001_sizes_beyond_2_to_the_62_are_400() {
    let log = TestLog::new("bounds.example", 5);
    let running = Running::memory(&[log.addition()]).await;
    assert_eq!(running.ask(log.request(0, 5)).await.status, 200);
    for size in [(1 << 62) + 1, (1 << 63) - 1, u64::MAX] {
        let mut head = log.head(5);
        head.size = size;
        for old in [0, 5, size] {
            let said = running
                .ask(request(&log, old, &[Hash([1; 32]); 63], &head.to_text()))
                .await;
            assert_eq!(said.status, 400, "{size} from {old}: {}", said.body);
        }
        let said = running.ask(request(&log, size, &[], &log.text(5))).await;
        assert_eq!(said.status, 400, "old {size}: {}", said.body);
    }
    let mut head = log.head(5);
    head.size = 1 << 62;
    let said = running
        .ask(request(&log, 5, &[Hash([1; 32]); 63], &head.to_text()))
        .await;
    assert_eq!(said.status, 422, "2^62 itself is a size");
    assert_eq!(running.newest(&log.origin).await.unwrap().size, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p002_p003_p004_b022_what_other_witnesses_took_is_refused_and_nothing_stored() {
    let log = TestLog::new("first.example", 5);
    let running = Running::memory(&[log.addition()]).await;
    let root = log.root(5).to_base64();
    // The last digit before the padding has two bits that stand for nothing.
    let stray = root.replace("=", "").split_at(42).0.to_owned() + "B=";
    let text =
        |size: &str, root: &str, more: &str| format!("first.example\n{size}\n{root}\n{more}");
    for (name, old, proof, text, status) in [
        ("old 0 with a proof", 0, 1, log.text(5), 422),
        ("size 0 with another root", 0, 0, text("0", &root, ""), 422),
        ("first contact with old 5", 5, 0, log.text(5), 409),
        ("size 03", 0, 0, text("03", &root, ""), 400),
        ("a root with stray bits", 0, 0, text("5", &stray, ""), 400),
        ("an empty extension line", 0, 0, text("5", &root, "\n"), 400),
    ] {
        let said = running
            .ask(request(&log, old, &vec![Hash([1; 32]); proof], &text))
            .await;
        assert_eq!(said.status, status, "{name}: {}", said.body);
        if status == 409 {
            assert_eq!(said.body, "0\n");
        }
        assert_eq!(running.newest(&log.origin).await, None, "{name}");
    }
    // B021, T43: an empty tree first, and then on.
    assert_eq!(running.ask(log.request(0, 0)).await.status, 200);
    assert_eq!(running.newest(&log.origin).await.unwrap().root, EMPTY_ROOT);
    assert_eq!(running.ask(log.request(0, 5)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b029_b028_malformed_is_400_and_says_where() {
    let log = TestLog::new("bad.example", 5);
    let running = Running::memory(&[log.addition()]).await;
    let said = running.ask("old 0\n\nhello\n").await;
    assert_eq!(said.status, 400);
    assert!(said.body.contains("line"), "{}", said.body);
    let said = running
        .ask(request(&log, 0, &[Hash([1; 32]); 64], &log.text(5)))
        .await;
    assert_eq!(said.status, 400);
    // T13: a signature of another spelling verifies for nobody; an unknown origin comes first all the same.
    let note = log.note(5);
    let at = note.len() - 3;
    let stray = format!(
        "{}{}=\n",
        &note[..at],
        if &note[at..=at] == "B" { "C" } else { "B" }
    );
    let asked = add_checkpoint::request(0, &[], &stray);
    assert!(countersign_verifier::note::Note::parse(stray.as_bytes()).is_err());
    assert_eq!(running.ask(asked.clone()).await.status, 403);
    assert_eq!(
        running
            .ask(asked.replace("\nbad.ex", "\nbed.ex"))
            .await
            .status,
        404
    );
    let large = "x".repeat(128 * 1024 + 1);
    assert_eq!(running.ask(large).await.status, 413);
    let text = log.text(5) + &"extension\n".repeat(7_000);
    assert_eq!(
        running.ask(request(&log, 0, &[], &text)).await.status,
        400,
        "too long to keep"
    );
}

/// What a client finds out by: the size that is held, and whose fault a refusal is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b018_b028_a_conflict_names_the_size_and_each_fault_has_its_status() {
    let mut log = TestLog::new("conflict.example", 120);
    let running = Running::memory(&[log.addition()]).await;
    assert_eq!(running.ask(log.request(0, 120)).await.status, 200);
    log.grow("trunk", 130);
    let said = running.ask(log.request(100, 130)).await;
    assert_eq!(
        (said.status, &*said.kind, &*said.body),
        (409, add_checkpoint::CONFLICT_TYPE, "120\n")
    );
    let stranger = TestLog::new("stranger.example", 5);
    let of_nobody = stranger.sign(&log.text(130));
    let (note, broken) = (log.note(130), log.note(120));
    // Name and id of the log's own key, and the signature of another text.
    let (text, _) = note.split_once("\n\n").unwrap();
    let (_, line) = broken.split_once("\n\n").unwrap();
    let broken = format!("{text}\n\n{line}");
    let proof = log.proof(120, 130);
    for (name, body, status) in [
        (
            "a key of nobody",
            add_checkpoint::request(120, &proof, &of_nobody),
            403,
        ),
        (
            "a broken signature",
            add_checkpoint::request(120, &proof, &broken),
            403,
        ),
        ("an unknown origin", stranger.request(0, 5), 404),
        (
            "64 hashes",
            add_checkpoint::request(120, &[Hash([1; 32]); 64], &note),
            400,
        ),
        (
            "old beyond the head",
            add_checkpoint::request(131, &[], &note),
            400,
        ),
        (
            "a proof of nothing",
            request(&log, 120, &[], &log.text(130)),
            422,
        ),
    ] {
        let said = running.ask(body).await;
        assert_eq!(said.status, status, "{name}: {}", said.body);
        assert_eq!(
            running.newest(&log.origin).await.unwrap().size,
            120,
            "{name}"
        );
    }
    // Who follows what it was told gets there.
    assert_eq!(running.ask(log.request(120, 130)).await.status, 200);
}

/// B038, T18, T19: state is keyed by origin, whatever the key is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b038_a_key_need_not_be_named_like_the_origin() {
    let log = TestLog::new("go.sum database tree", 5);
    let running = Running::memory(&[log.addition()]).await;
    assert_eq!(running.ask(log.request(0, 5)).await.status, 200);
    assert_eq!(
        running.newest("go.sum database tree").await.unwrap().size,
        5
    );
}

/// Only lines that were verified are kept: a forged line of our own would break what is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t45_t44_lines_of_nobody_we_know_are_not_kept_and_extensions_are() {
    let log = TestLog::new("lines.example", 5);
    let running = Running::memory(&[log.addition()]).await;
    let own = running.witness.keys().vkeys()[0];
    let text = log.text(5) + "extension 1\n";
    let mut note = log.sign(&text);
    note += &format!("\u{2014} {} {}\n", own.name, forged(own.id.0));
    note += "\u{2014} stranger.example AAAAAAE=\n";
    let said = running.ask(add_checkpoint::request(0, &[], &note)).await;
    assert_eq!(said.status, 200, "{}", said.body);
    let head = running.newest(&log.origin).await.unwrap();
    assert_eq!(head.extensions, ["extension 1"]);
    let path = countersign_verifier::checkpoint::origin_hash(&log.origin).to_hex();
    let shown = running.get(&format!("/{path}/checkpoint")).await;
    let shown = Note::parse(shown.body.as_bytes()).unwrap();
    let names: Vec<&str> = shown.signatures.iter().map(|s| s.name).collect();
    assert_eq!(names, ["lines.example", own.name.as_str()]);
    assert_eq!(Checkpoint::parse(shown.text).unwrap().to_text(), text);
    assert_eq!(said.body, shown.signatures[1].to_string());
}

/// A line under a key ID, of 72 bytes that nobody signed.
fn forged(id: [u8; 4]) -> String {
    let bytes = [&id[..], &[7; 72]].concat();
    countersign_verifier::base64::encode(&bytes)
}
