//! The client against a service that speaks the contract.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{testing::Fake, *};

const PATIENCE: Duration = Duration::from_secs(5);

fn bytes(texts: &[&str]) -> Vec<Bytes> {
    texts
        .iter()
        .map(|text| Bytes::copy_from_slice(text.as_bytes()))
        .collect()
}

#[tokio::test]
async fn a_receipt_is_handed_in_as_the_contract_says() {
    let fake = Fake::start().await;
    let client = fake.client();
    let taken = client
        .submit(b"{}", &SubmitOptions::default())
        .await
        .unwrap();
    assert_eq!(
        (taken.index, taken.state, taken.duplicate, taken.reached),
        (0, Wait::Included, false, Reached::Yes)
    );
    fake.inner().slow = true;
    let options = SubmitOptions {
        wait: Some(Wait::Witnessed),
        deadline: Some(Duration::from_millis(1500)),
        proof: true,
    };
    let again = client.submit(b"{}", &options).await.unwrap();
    assert_eq!(
        (again.index, again.duplicate, again.reached),
        (0, true, Reached::NotYet)
    );
    assert_eq!(again.leaf_hash, taken.leaf_hash);
    let asked = fake.inner().asked.clone();
    assert_eq!(asked[0].target, "/log/dev/receipts");
    assert_eq!(
        asked[0].content_type,
        "application/vnd.dsse.envelope.v1+json"
    );
    assert_eq!(asked[0].authorization, None);
    assert_eq!(
        asked[1].target,
        "/log/dev/receipts?wait=witnessed&deadline_ms=1500&include=proof"
    );
}

#[tokio::test]
async fn many_are_answered_one_by_one() {
    let fake = Fake::start().await;
    let rows = fake
        .client()
        .submit_ndjson(
            &bytes(&["{\n}", "refuse", "{2}"]),
            &SubmitOptions::default(),
        )
        .await
        .unwrap();
    assert_eq!(rows[0].as_ref().unwrap().index, 0);
    assert_eq!(rows[1].as_ref().unwrap_err().code, "SIGNATURE_INVALID");
    assert_eq!(rows[2].as_ref().unwrap().index, 1);
    assert_eq!(fake.inner().asked[0].body, b"{ }\nrefuse\n{2}\n");
    assert_eq!(fake.inner().asked[0].content_type, "application/x-ndjson");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_question_is_told() {
    let fake = Fake::start().await;
    for body in [
        "",
        "{\"line\":2,\"status\":200}\n",
        "{\"line\":1}\n",
        "[]",
        "{\"line\":1,\"status\":200,\"index\":1}\n",
    ] {
        fake.first_answer(200, &[], body);
        let answer = fake
            .client()
            .submit_ndjson(&bytes(&["{}"]), &SubmitOptions::default())
            .await;
        assert!(
            matches!(answer, Err(ClientError::Answer { .. })),
            "{body}: {answer:?}"
        );
    }
    fake.first_answer(200, &[], "hello");
    let answer = fake.client().submit(b"{}", &SubmitOptions::default()).await;
    assert!(matches!(answer, Err(ClientError::Answer { .. })));
}

#[tokio::test]
async fn only_what_met_a_busy_service_is_sent_again() {
    let fake = Fake::start().await;
    let envelopes = bytes(&["{1}", "busy 1", "refuse", "busy 2"]);
    let mut pauses = 0;
    let answers = fake
        .client()
        .submit_all(&envelopes, &SubmitOptions::default(), PATIENCE, |_, _| {
            pauses += 1
        })
        .await;
    let indexes: Vec<_> = answers
        .iter()
        .map(|a| a.as_ref().ok().map(|a| a.index))
        .collect();
    assert_eq!(indexes, [Some(0), Some(1), None, Some(2)]);
    assert_eq!(pauses, 1);
    let bodies: Vec<_> = fake
        .inner()
        .asked
        .iter()
        .map(|asked| asked.body.clone())
        .collect();
    assert_eq!(
        bodies,
        [&b"{1}\nbusy 1\nrefuse\nbusy 2\n"[..], b"busy 1\nbusy 2\n"]
    );
}

#[tokio::test]
async fn busy_requests_are_repeated_and_refused_ones_are_not() {
    let fake = Fake::start().await;
    let all = bytes(&["{1}", "{2}"]);
    let client = fake.client();
    for (status, after, attempts) in [
        (503, "0", 2),
        (429, "0", 2),
        (502, "0", 2),
        (413, "0", 1),
        (400, "0", 1),
        (500, "0", 1),
        (503, "60", 1),
    ] {
        fake.inner().asked.clear();
        fake.first_answer(status, &[("retry-after", after)], "");
        let answers = client
            .submit_all(&all, &SubmitOptions::default(), PATIENCE, |_, _| ())
            .await;
        assert_eq!(fake.inner().asked.len(), attempts, "{status} {after}");
        assert_eq!(
            answers.iter().all(Result::is_ok),
            attempts == 2,
            "{status} {after}"
        );
    }
    fake.first_answer(503, &[], "");
    let answers = client
        .submit_all(
            &all[..1],
            &SubmitOptions::default(),
            Duration::ZERO,
            |_, _| (),
        )
        .await;
    assert_eq!(
        answers[0].as_ref().unwrap_err().problem().unwrap().status,
        503
    );
}

#[tokio::test]
async fn no_answer_is_read_beyond_its_bound() {
    let fake = Fake::start().await;
    let long = vec![b' '; (1 << 20) + 1];
    for status in [200, 422] {
        fake.first_answer(status, &[], long.clone());
        let answer = fake.client().submit(b"{}", &SubmitOptions::default()).await;
        assert!(
            matches!(
                answer,
                Err(ClientError::AnswerTooLarge {
                    limit: 0x10_0000,
                    ..
                })
            ),
            "{status}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let fake = Fake::start().await;
    fake.first_answer(307, &[("location", "https://example.com/")], "");
    let error = fake
        .client()
        .submit(b"{}", &SubmitOptions::default())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("https://example.com/"),
        "{error}"
    );
    assert_eq!(fake.inner().asked.len(), 1);
}

#[tokio::test]
async fn evidence_is_of_what_was_asked_for() {
    let fake = Fake::start().await;
    let client = fake.client();
    let taken = client
        .submit(b"{1}", &SubmitOptions::default())
        .await
        .unwrap();
    client
        .submit(b"{2}", &SubmitOptions::default())
        .await
        .unwrap();
    let evidence = client.evidence(0).await.unwrap();
    assert_eq!((evidence.index, evidence.leaf_hash), (0, taken.leaf_hash));
    assert_eq!(
        client.evidence_by_hash(&taken.leaf_hash).await.unwrap(),
        evidence
    );
    for body in [
        testing::evidence_of(1, b"{2}").bytes,
        b"{}".to_vec(),
        b"{\"format\":\"countersign.evidence/9\"}".to_vec(),
    ] {
        fake.first_answer(200, &[], body.clone());
        assert!(matches!(
            client.evidence(0).await,
            Err(ClientError::Answer { .. })
        ));
        fake.first_answer(200, &[], body);
        assert!(matches!(
            client.evidence_by_hash(&taken.leaf_hash).await,
            Err(ClientError::Answer { .. })
        ));
    }
}

#[tokio::test]
async fn evidence_that_is_not_there_yet_is_waited_for() {
    let fake = Fake::start().await;
    let client = fake.client();
    client
        .submit(b"{1}", &SubmitOptions::default())
        .await
        .unwrap();
    fake.inner().not_yet = 2;
    assert!(client.evidence_when_ready(0, PATIENCE).await.is_ok());
    fake.inner().not_yet = usize::MAX;
    let error = client
        .evidence_when_ready(0, Duration::from_millis(200))
        .await
        .unwrap_err();
    assert!(error.problem().unwrap().is_not_yet());
    // What is not there and never will be is not waited for.
    let error = client
        .evidence_when_ready(9, Duration::from_secs(3600))
        .await
        .unwrap_err();
    assert_eq!(error.problem().unwrap().code, "NOT_FOUND");
}

#[tokio::test]
async fn a_call_carries_the_token_and_says_who_the_log_is() {
    let fake = Fake::start().await;
    let token = Token::parse(&format!("cst_{}", "a".repeat(43))).unwrap();
    let client = Client::new(&fake.url, "dev", Some(token)).unwrap();
    let answer = client
        .call("identity_list", &json!({"limit": 1}))
        .await
        .unwrap();
    assert_eq!(answer.result["tool"], "identity_list");
    assert_eq!(
        fake.inner().asked[0].authorization.as_deref(),
        Some(&*format!("Bearer cst_{}", "a".repeat(43)))
    );
    assert_eq!(client.origin().await.unwrap(), "localhost/dev");
    let private = client.clone().with_account("hidden");
    fake.first_answer(200, &[], r#"{"status":"ok","version":"0"}"#);
    fake.first_answer(200, &[], "log.example.com/hidden\n1\nAAAA\n");
    assert_eq!(private.origin().await.unwrap(), "log.example.com/hidden");
}

#[tokio::test]
async fn who_is_not_there_and_who_hangs_up_are_two_things() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(&url, "dev", None).unwrap();
    let hangs_up = tokio::spawn(async move {
        for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    for _ in 0..2 {
        let error = client
            .submit(b"{}", &SubmitOptions::default())
            .await
            .unwrap_err();
        assert!(matches!(error, ClientError::Broken { .. }), "{error}");
    }
    hangs_up.await.unwrap();
    let error = client
        .submit(b"{}", &SubmitOptions::default())
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClientError::Unreachable { .. }) && error.is_transient(),
        "{error}"
    );
}

#[tokio::test]
async fn who_cannot_show_who_it_is_gets_nothing() {
    // It answers, but not TLS.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
    });
    // A machine without certificates cannot even begin.
    let Ok(client) = Client::new(&url, "dev", None) else {
        return;
    };
    let error = client
        .submit(b"{}", &SubmitOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Insecure { .. }), "{error:?}");
    assert!(!error.is_transient());
}
