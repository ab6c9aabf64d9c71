//! The whole of `submit` but its arguments, against a service that speaks the contract.

use std::{fs, path::PathBuf, time::Duration};

use super::{flow::Work, *};
use crate::client::{Client, Wait, testing::Fake};

struct Ran {
    code: u8,
    lines: Vec<String>,
}

struct Rig {
    fake: Fake,
    dir: tempfile::TempDir,
    options: SubmitOptions,
    folder: Option<PathBuf>,
    patience: Duration,
    json: bool,
}

impl Rig {
    async fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        Rig {
            fake: Fake::start().await,
            dir,
            options: SubmitOptions::default(),
            folder: None,
            patience: Duration::from_secs(5),
            json: false,
        }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn with_folder(mut self) -> Rig {
        let folder = self.dir.path().join("evidence");
        save::make_folder(&folder).unwrap();
        self.folder = Some(folder);
        self
    }

    async fn run(&self, client: Client, inputs: Vec<PathBuf>) -> Ran {
        let work = Work {
            client,
            options: self.options,
            folder: self.folder.clone(),
            patience: self.patience,
        };
        let mut bytes = Vec::new();
        let report = Report::new(Out::to(&mut bytes), self.json);
        let code = Flow::new(work, Inputs::new(inputs), report)
            .run()
            .await
            .unwrap()
            .exit_code();
        let lines = String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        Ran { code, lines }
    }

    async fn submit(&self, inputs: Vec<PathBuf>) -> Ran {
        self.run(self.fake.client(), inputs).await
    }
}

/// The columns but the leaf hash.
fn columns(ran: &Ran) -> Vec<String> {
    let short = |line: &String| {
        let columns: Vec<&str> = line.split('\t').collect();
        format!("{} {} {}", columns[0], columns[2], columns[3])
    };
    ran.lines.iter().map(short).collect()
}

#[tokio::test]
async fn all_in_the_log_is_0_and_may_be_run_again() {
    let rig = Rig::new().await;
    let inputs = vec![
        rig.file("a", "{\"a\":1}\n\n{\"b\":1}\n"),
        rig.file("b", "{\n  \"c\": 1\n}\n"),
    ];
    let first = rig.submit(inputs.clone()).await;
    assert_eq!(first.code, 0);
    assert_eq!(
        columns(&first),
        ["0 included new", "1 included new", "2 included new"]
    );
    assert_eq!(rig.fake.inner().asked.len(), 1, "files share a request");
    let again = rig.submit(inputs).await;
    assert_eq!(
        (again.code, &*columns(&again)[2]),
        (0, "2 included duplicate")
    );
}

#[tokio::test]
async fn a_refused_one_is_1_and_stops_no_other() {
    let rig = Rig::new().await;
    let ran = rig
        .submit(vec![rig.file("a", "{\"a\":1}\n\"refuse\"\n{\"b\":1}\n")])
        .await;
    assert_eq!(ran.code, 1);
    assert_eq!(
        columns(&ran),
        [
            "0 included new",
            "- refused SIGNATURE_INVALID",
            "1 included new"
        ]
    );
    let alone = rig.submit(vec![rig.file("b", "\"refuse\"")]).await;
    assert_eq!(alone.code, 1);
}

#[tokio::test]
async fn what_is_not_confirmed_is_3() {
    let mut rig = Rig::new().await;
    let input = rig.file("a", "{\"a\":1}");
    rig.fake.inner().slow = true;
    let ran = rig.submit(vec![input.clone()]).await;
    assert_eq!((ran.code, &*columns(&ran)[0]), (3, "0 sequenced new"));
    rig.patience = Duration::ZERO;
    rig.fake.first_answer(503, &[], "");
    let ran = rig.submit(vec![input.clone()]).await;
    assert_eq!((ran.code, &*columns(&ran)[0]), (3, "- unconfirmed -"));
    let nobody = Client::new("http://127.0.0.1:1", "dev", None).unwrap();
    assert_eq!(rig.run(nobody, vec![input]).await.code, 3);
}

#[tokio::test]
async fn what_cannot_be_read_is_2_and_stops_no_other() {
    let rig = Rig::new().await;
    let none = rig.dir.path().join("none");
    let ran = rig
        .submit(vec![none, rig.file("a", "{\"a\":1}\n\"refuse\"")])
        .await;
    assert_eq!((ran.code, ran.lines.len()), (2, 2));
}

#[tokio::test]
async fn long_inputs_are_cut_into_requests_and_answered_in_order() {
    let rig = Rig::new().await;
    let text: String = (0..2_500).map(|i| format!("{{\"n\":{i}}}\n")).collect();
    let ran = rig.submit(vec![rig.file("a", &text)]).await;
    assert_eq!((ran.code, ran.lines.len()), (0, 2_500));
    let lines: Vec<usize> = rig
        .fake
        .inner()
        .asked
        .iter()
        .map(|a| a.body.iter().filter(|b| **b == b'\n').count())
        .collect();
    assert_eq!(lines.iter().sum::<usize>(), 2_500);
    assert!(
        lines.iter().all(|n| *n <= 1_000) && lines.len() <= 4,
        "{lines:?}"
    );
    // Requests may overtake each other, so indexes say nothing of the order; what was answered for each line does.
    let hash = |line: &str| countersign_verifier::hash::leaf_hash(line.as_bytes()).to_hex();
    for (line, out) in text.lines().zip(&ran.lines) {
        assert_eq!(out.split('\t').nth(1), Some(&*hash(line)));
    }
}

#[tokio::test]
async fn a_request_has_at_most_16_mib() {
    let rig = Rig::new().await;
    let long = format!("{{\"x\":\"{}\"}}\n", "a".repeat(6 << 20));
    let ran = rig.submit(vec![rig.file("a", &long.repeat(3))]).await;
    assert_eq!(ran.code, 0);
    assert!(
        rig.fake
            .inner()
            .asked
            .iter()
            .all(|asked| asked.body.len() <= 16 << 20)
    );
    let ran = rig
        .submit(vec![
            rig.file("b", &format!("{}\n{{}}", "a".repeat(17 << 20))),
        ])
        .await;
    assert_eq!((ran.code, ran.lines.len()), (1, 2));
    assert!(ran.lines[0].ends_with("TOO_LARGE"));
}

#[tokio::test]
async fn evidence_is_kept_for_each() {
    let rig = Rig::new().await.with_folder();
    rig.fake.inner().not_yet = 3;
    let ran = rig
        .submit(vec![rig.file("a", "{\"a\":1}\n\"refuse\"\n{\"b\":1}\n")])
        .await;
    assert_eq!(ran.code, 1);
    let folder = rig.folder.as_ref().unwrap();
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["0.evidence.json", "1.evidence.json"]);
    assert!(
        ran.lines[0].ends_with("/evidence/0.evidence.json"),
        "{}",
        ran.lines[0]
    );
    assert!(ran.lines[1].ends_with("SIGNATURE_INVALID"));
}

#[tokio::test]
async fn evidence_confirms_what_an_answer_could_not() {
    let mut rig = Rig::new().await.with_folder();
    rig.fake.inner().slow = true;
    let input = rig.file("a", "{\"a\":1}");
    let ran = rig.submit(vec![input.clone()]).await;
    assert_eq!((ran.code, &*columns(&ran)[0]), (0, "0 included new"));
    rig.options.wait = Some(Wait::Witnessed);
    assert_eq!(rig.submit(vec![input.clone()]).await.code, 3);
    rig.options.wait = Some(Wait::Included);
    rig.fake.inner().not_yet = usize::MAX;
    rig.patience = Duration::from_millis(200);
    assert_eq!(rig.submit(vec![input]).await.code, 3);
}

#[tokio::test]
async fn evidence_of_another_log_is_left_alone() {
    let rig = Rig::new().await.with_folder();
    let there = rig.folder.as_ref().unwrap().join("0.evidence.json");
    fs::write(
        &there,
        crate::client::testing::evidence_of(0, b"another").bytes,
    )
    .unwrap();
    let before = fs::read(&there).unwrap();
    assert_eq!(rig.submit(vec![rig.file("a", "{}")]).await.code, 2);
    assert_eq!(fs::read(&there).unwrap(), before);
}

#[tokio::test]
async fn a_service_that_stays_away_ends_the_work() {
    let mut rig = Rig::new().await;
    rig.patience = Duration::from_millis(100);
    let text: String = (0..20_000).map(|i| format!("{{\"n\":{i}}}\n")).collect();
    let nobody = Client::new("http://127.0.0.1:1", "dev", None).unwrap();
    let ran = rig.run(nobody, vec![rig.file("a", &text)]).await;
    assert_eq!(ran.code, 3);
    assert!(ran.lines.len() <= 6_000, "{}", ran.lines.len());
}

#[tokio::test]
async fn json_says_where_each_came_from() {
    let mut rig = Rig::new().await;
    rig.json = true;
    let ran = rig.submit(vec![rig.file("a", "{}\n\n\"refuse\"")]).await;
    let rows: Vec<serde_json::Value> = ran
        .lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&rows[0]["index"], &rows[0]["line"], &rows[0]["confirmed"]),
        (&0.into(), &1.into(), &true.into())
    );
    assert_eq!(
        (&rows[1]["code"], &rows[1]["line"]),
        (&"SIGNATURE_INVALID".into(), &3.into())
    );
}

#[tokio::test]
async fn nothing_to_submit_is_0() {
    let rig = Rig::new().await;
    let ran = rig.submit(vec![rig.file("a", "\n\n")]).await;
    assert_eq!((ran.code, ran.lines.len()), (0, 0));
    assert!(rig.fake.inner().asked.is_empty());
}
