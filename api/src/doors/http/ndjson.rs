//! Many receipts in one body: checked on all cores, written in the order of their lines, answered a line each.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{Shared, answer};
use crate::{
    account::Account,
    error::{Code, Problem},
    ledger::Request,
    limits::NDJSON_LINES_MAX,
    submit::{self, Budget, PreparedReceipt, Signatures, Wanted},
};

/// Lines checked by one core at a time: some milliseconds of work, so that a chunk is written while the next is checked.
const CHUNK: usize = 64;

/// A line of the body: its number from 1, and where it is.
#[derive(Clone, Copy, Debug)]
struct Line {
    number: usize,
    start: usize,
    end: usize,
}

type Checked = Vec<(Line, Result<PreparedReceipt, Problem>)>;
type Answered = Vec<(usize, u16, Value)>;

pub(super) async fn many(
    app: &Shared,
    account: &Arc<Account>,
    body: Bytes,
    has_token: bool,
    wanted: Wanted,
) -> Result<Response, Problem> {
    let lines = lines(&body)?;
    let ahead = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let budget = Arc::new(Budget::of(lines.len()));
    let mut chunks = lines.chunks(CHUNK);
    let mut checking: VecDeque<JoinHandle<Checked>> = VecDeque::new();
    let mut writing: Vec<JoinHandle<Answered>> = Vec::new();
    loop {
        while checking.len() < ahead
            && let Some(chunk) = chunks.next()
        {
            checking.push_back(check(account, &body, chunk.to_vec(), has_token, &budget));
        }
        let Some(next) = checking.pop_front() else {
            break;
        };
        let checked = next.await.map_err(|e| Problem::internal(&e))?;
        writing.push(write(app, account, checked, wanted));
    }
    let mut text = String::new();
    for chunk in writing {
        for (line, status, value) in chunk.await.map_err(|e| Problem::internal(&e))? {
            text.push_str(&render(line, status, value));
            text.push('\n');
        }
    }
    let mut answer = Response::new(Body::from(text));
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    );
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// The lines that hold something. Blank ones are skipped and counted.
fn lines(body: &[u8]) -> Result<Vec<Line>, Problem> {
    let mut found = Vec::new();
    let mut start = 0;
    for (number, text) in body.split(|b| *b == b'\n').enumerate() {
        let end = start + text.len();
        if !text.trim_ascii().is_empty() {
            found.push(Line {
                number: number + 1,
                start,
                end,
            });
        }
        start = end + 1;
    }
    if found.len() > NDJSON_LINES_MAX {
        let why = format!(
            "{} envelopes in one body; at most {NDJSON_LINES_MAX}. Nothing of it was taken",
            found.len()
        );
        return Err(Problem::new(Code::TooLarge, why)
            .with("limit", NDJSON_LINES_MAX)
            .with("lines", found.len()));
    }
    Ok(found)
}

fn check(
    account: &Arc<Account>,
    body: &Bytes,
    lines: Vec<Line>,
    has_token: bool,
    budget: &Arc<Budget>,
) -> JoinHandle<Checked> {
    let (account, body, budget) = (account.clone(), body.clone(), budget.clone());
    tokio::task::spawn_blocking(move || {
        let state = account.reader().version();
        let one = |line: Line| {
            let envelope = &body[line.start..line.end];
            let prepared = submit::admit(&account, &state, envelope, has_token, &budget);
            (
                line,
                prepared.map_err(|problem| problem.with("line", line.number)),
            )
        };
        lines.into_iter().map(one).collect()
    })
}

/// Hands a chunk to the writer now, so that chunks are written in order; waits for it in a task of its own.
fn write(
    app: &Shared,
    account: &Arc<Account>,
    checked: Checked,
    wanted: Wanted,
) -> JoinHandle<Answered> {
    let mut requests = Vec::with_capacity(checked.len());
    let mut rows: Vec<(Line, Result<Signatures, Problem>)> = Vec::with_capacity(checked.len());
    for (line, prepared) in checked {
        match prepared {
            Ok(prepared) => {
                requests.push(Request::Receipt(prepared.request));
                rows.push((line, Ok(prepared.signatures)));
            }
            Err(problem) => rows.push((line, Err(problem))),
        }
    }
    let (app, account) = (app.clone(), account.clone());
    let pending = submit::hand_over(&account, requests, wanted.wait);
    tokio::spawn(async move {
        let written = match pending {
            Ok(pending) => submit::wait(&account, pending, wanted).await,
            Err(problem) => Err(problem),
        };
        let mut written = written.map(Vec::into_iter);
        let respond = |(line, signatures): (Line, Result<Signatures, Problem>)| {
            let outcome = signatures.and_then(|signatures| {
                let outcome = match &mut written {
                    // OK because the writer answers each request that it was handed.
                    Ok(written) => written.next().expect("ndjson::write"),
                    Err(problem) => Err(problem.clone()),
                };
                submit::settle(&account, &signatures, &outcome);
                outcome.map(|written| (written, signatures))
            });
            match outcome {
                Ok((written, signatures)) => {
                    let dropped = signatures.left_out(&written.leaf.leaf);
                    let (status, value) =
                        answer::receipt(&app, &account, &written, wanted, &dropped);
                    (line.number, status, value)
                }
                Err(problem) => (line.number, problem.code.status(), problem.to_json()),
            }
        };
        rows.into_iter().map(respond).collect()
    })
}

fn render(line: usize, status: u16, mut value: Value) -> String {
    // A problem has its status among its members; in a line it stands once, after the number.
    if let Some(members) = value.as_object_mut() {
        members.remove("status");
    }
    format!(
        "{{\"line\":{line},\"status\":{status},{}",
        &value.to_string()[1..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_skipped_and_counted() {
        let found = lines(b"a\n\n \r\nbc\n").unwrap();
        let found: Vec<_> = found.iter().map(|l| (l.number, l.start, l.end)).collect();
        assert_eq!(found, [(1, 0, 1), (4, 6, 8)]);
        assert!(lines(b"").unwrap().is_empty());
    }

    #[test]
    fn one_line_too_many_takes_nothing() {
        let body = "x\n".repeat(NDJSON_LINES_MAX);
        assert_eq!(lines(body.as_bytes()).unwrap().len(), NDJSON_LINES_MAX);
        let problem = lines((body + "x").as_bytes()).unwrap_err();
        assert_eq!(problem.code, Code::TooLarge);
    }

    #[test]
    fn a_line_of_the_answer_has_its_number_and_one_status() {
        let row = render(7, 422, serde_json::json!({"status": 422, "code": "X"}));
        assert_eq!(row, r#"{"line":7,"status":422,"code":"X"}"#);
    }
}
