//! What is asked of an answer, and the answer to a written leaf.

use std::{sync::Arc, time::Duration};

use axum::extract::{Query, rejection::QueryRejection};
use countersign_verifier::{key::IdentityId, leaf::Leaf, operation::Operation};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    account::Account,
    app::App,
    error::{Code, Problem},
    ledger::{Recorded, by_json, decision_of},
    limits::{DEADLINE_MS, DEADLINE_MS_MAX},
    query,
    submit::{Dropped, Wait, Wanted, Written},
};

/// The account that is written to, by its name alone, and what the query asks of the answer.
///
/// # Errors
/// `NotFound`; `Malformed`, naming the parameter.
pub(super) fn asked(
    app: &App,
    account: &str,
    ask: Result<Query<Ask>, QueryRejection>,
) -> Result<(Arc<Account>, Wanted), Problem> {
    let account = app.accounts.get(account)?;
    let Query(ask) =
        ask.map_err(|e| Problem::new(Code::Malformed, format!("query: {}", e.body_text())))?;
    let wanted = ask.wanted(&account)?;
    Ok((account, wanted))
}

/// `wait`, `deadline_ms` and `include`, as query parameters of `/receipts` and as members of a tool's body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// `sequenced`, `included` or `witnessed`.
    pub wait: Option<String>,
    /// Milliseconds.
    pub deadline_ms: Option<u64>,
    /// Comma-separated: `proof`.
    pub include: Option<String>,
}

impl Ask {
    /// What it means.
    ///
    /// # Errors
    /// `Malformed`, naming the parameter.
    pub fn wanted(&self, account: &Account) -> Result<Wanted, Problem> {
        self.by(account.wait())
    }

    fn by(&self, usual: Wait) -> Result<Wanted, Problem> {
        let malformed = |name: &str, why: &str| {
            Problem::new(Code::Malformed, format!("{name}: {why}"))
                .with("pointer", format!("/{name}"))
        };
        let wait = match self.wait.as_deref() {
            None => usual,
            Some("included") => Wait::Included,
            Some("sequenced") => Wait::Sequenced,
            Some("witnessed") if usual == Wait::Witnessed => Wait::Witnessed,
            Some("witnessed") => {
                return Err(malformed(
                    "wait",
                    "this account's policy has no witnesses; `included` is the most that it can give",
                ));
            }
            Some(_) => return Err(malformed("wait", "sequenced, included or witnessed")),
        };
        let deadline_ms = self.deadline_ms.unwrap_or(DEADLINE_MS);
        if deadline_ms > DEADLINE_MS_MAX {
            return Err(malformed(
                "deadline_ms",
                &format!("at most {DEADLINE_MS_MAX}"),
            ));
        }
        let mut proof = false;
        for name in self
            .include
            .iter()
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .filter(|n| !n.is_empty())
        {
            match name {
                "proof" => proof = true,
                _ => return Err(malformed("include", "proof")),
            }
        }
        Ok(Wanted {
            wait,
            deadline: Duration::from_millis(deadline_ms),
            proof,
        })
    }
}

/// Where the evidence of a leaf is, or will be.
#[must_use]
pub fn evidence_url(app: &App, account: &Account, index: u64) -> String {
    format!("{}/evidence/{index}", log_url(app, account))
}

/// Where a log is served.
#[must_use]
pub fn log_url(app: &App, account: &Account) -> String {
    format!("{}/log/{}", app.url(), account.name)
}

/// The answer to a receipt: status, and the members of its JSON.
#[must_use]
pub fn receipt(
    app: &App,
    account: &Account,
    written: &Written,
    wanted: Wanted,
    dropped: &[Dropped],
) -> (u16, Value) {
    let mut body = entry(app, account, written, wanted);
    body["duplicate"] = written.leaf.existing.into();
    if !dropped.is_empty() {
        let row =
            |d: &Dropped| json!({"position": d.position, "keyid": d.keyid, "reason": d.reason});
        body["dropped_signatures"] = dropped.iter().map(row).collect();
    }
    (if written.reached { 200 } else { 202 }, body)
}

/// The same as every write of a tool is answered, with this result.
///
/// # Errors
/// A fault of the service where the leaf cannot be read.
pub fn receipt_of_tool(
    app: &App,
    account: &Account,
    (written, wanted): (&Written, Wanted),
    result: Value,
) -> Result<(u16, Value), Problem> {
    let leaf = Leaf::parse(&written.leaf.leaf).map_err(|e| Problem::internal(&e))?;
    let mut entry = entry(app, account, written, wanted);
    entry["by"] = leaf.by().map_or(Value::Null, by_json);
    let status = if written.reached { 200 } else { 202 };
    let body = json!({"result": result, "entry": entry, "server_time": app.server_time()});
    Ok((status, body))
}

/// Index, hash, time and state of a leaf; with its proof where that was asked for and exists.
fn entry(app: &App, account: &Account, written: &Written, wanted: Wanted) -> Value {
    let leaf = &written.leaf;
    let mut entry = json!({
        "index": leaf.index,
        "leaf_hash": leaf.leaf_hash.to_hex(),
        "at": at_of(&leaf.leaf),
        "state": written.state.name(),
        "evidence_url": evidence_url(app, account, leaf.index),
    });
    if wanted.proof {
        // Whoever asked for no more than the log's own signature gets that, and is told what it is worth.
        let unprotected = account.witnessed && wanted.wait == Wait::Included;
        // Reads tiles: other requests of this thread go on elsewhere meanwhile.
        let proof = tokio::task::block_in_place(|| {
            query::proof(&account.reader(), leaf.index, unprotected)
        });
        if let Ok((proof, alone)) = proof {
            entry["proof"] = proof.to_text().into();
            if alone {
                entry["unprotected"] = true.into();
            }
        }
    }
    entry
}

/// The log time in a leaf: 24 characters at a fixed place after the kind.
fn at_of(leaf: &[u8]) -> &str {
    // Every leaf begins {"v":1,"kind":"…","at":"2026-11-29T13:00:00.123Z": the longest kind ends before byte 34.
    let start = leaf
        .windows(6)
        .take(40)
        .position(|w| w == b"\"at\":\"")
        .map(|p| p + 6);
    start
        .and_then(|s| std::str::from_utf8(leaf.get(s..s + 24)?).ok())
        .unwrap_or("")
}

/// A write that was applied, as its leaf records it.
pub struct RecordedWrite<'a> {
    /// The leaf.
    pub index: u64,
    /// Its log time, in milliseconds since 1970.
    pub at: u64,
    /// Who asked.
    pub by: IdentityId,
    /// What was asked.
    pub operation: &'a Operation,
    /// What was done.
    pub effect: &'a Map<String, Value>,
}

/// The answer to an operation: its result, or the refusal that its leaf records.
///
/// # Errors
/// The recorded refusal, with its entry; a fault of the service where the leaf cannot be read.
pub fn operation(
    app: &App,
    account: &Account,
    written: &Written,
    wanted: Wanted,
    nonce: &str,
    result: impl FnOnce(&RecordedWrite<'_>) -> Value,
    refused: impl FnOnce(&mut Problem),
) -> Result<(u16, Value), Problem> {
    let leaf = Leaf::parse(&written.leaf.leaf).map_err(|e| Problem::internal(&e))?;
    let Leaf::Operation(recorded) = &leaf else {
        return Err(Problem::internal(
            &"an operation was answered with another kind of leaf",
        ));
    };
    let asked = Operation::parse(&recorded.envelope.payload).map_err(|e| Problem::internal(&e))?;
    let mut entry = entry(app, account, written, wanted);
    entry["by"] = by_json(&recorded.by);
    if asked.nonce != nonce {
        // Answered with an earlier refusal of the same kind: this request has no leaf of its own.
        entry["folded"] = true.into();
    }
    let effect = match decision_of(&leaf).map_err(|e| Problem::internal(&e))? {
        Recorded::Applied(effect) => effect,
        Recorded::Refused(code, mut detail) => {
            let message = detail.remove("message");
            let message = message.as_ref().and_then(Value::as_str);
            let mut problem = Problem::new(code, message.unwrap_or(code.title()));
            problem.detail = detail;
            problem.entry = Some(entry);
            refused(&mut problem);
            return Err(problem);
        }
    };
    let status = if written.reached { 200 } else { 202 };
    let result = result(&RecordedWrite {
        index: written.leaf.index,
        at: recorded.at.0,
        by: recorded.by.identity,
        operation: &asked,
        effect: &effect,
    });
    let body = json!({"result": result, "entry": entry, "server_time": app.server_time()});
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_or_refused_by_name() {
        let ask = |wait: &str, ms, include: &str| Ask {
            wait: Some(wait.into()),
            deadline_ms: Some(ms),
            include: Some(include.into()),
        };
        let wanted = ask("sequenced", 5, "proof").by(Wait::Included).unwrap();
        assert_eq!(
            (wanted.wait, wanted.deadline.as_millis(), wanted.proof),
            (Wait::Sequenced, 5, true)
        );
        for (asked, named) in [
            (ask("soon", 5, ""), "wait"),
            (ask("witnessed", 5, ""), "wait"),
            (ask("included", 50_001, ""), "deadline_ms"),
            (ask("included", 5, "proof,tree"), "include"),
        ] {
            assert!(
                asked
                    .by(Wait::Included)
                    .unwrap_err()
                    .message
                    .starts_with(named)
            );
        }
    }

    #[test]
    fn the_time_of_a_leaf_is_found_where_it_stands() {
        for kind in ["system", "operation", "receipt"] {
            let leaf = format!(
                "{{\"v\":1,\"kind\":\"{kind}\",\"at\":\"2026-11-29T13:00:00.123Z\",\"x\":1}}"
            );
            assert_eq!(at_of(leaf.as_bytes()), "2026-11-29T13:00:00.123Z");
        }
    }
}
