//! `GET /v1/events`: leaves as they are published, for whoever watches.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Query, State, rejection::QueryRejection},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use countersign_log::Progress;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use super::{Shared, logs::parameters, token};
use crate::{
    account::Account,
    app::App,
    doors::{
        auth::{Bearer, account_of_bearer},
        stream::{self, Events},
    },
    error::{Code, Problem},
    ledger::may_see,
    query::{self, leaves},
    tools::log_read,
    watchers::Place,
};

/// A watcher hears something at least this often; then also whether its token is still good.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Leaves are read so many at a time.
const AT_ONCE: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    after: Option<i64>,
    account: Option<String>,
}

pub(super) async fn events(
    State(app): State<Shared>,
    asked: Result<Query<Asked>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    begin(app, asked, headers).unwrap_or_else(IntoResponse::into_response)
}

fn begin(
    app: Shared,
    asked: Result<Query<Asked>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked = parameters(asked)?;
    let bearer = token(&app, &headers)?.ok_or_else(|| {
        Problem::new(
            Code::KeyRequired,
            "events need a token: Authorization: Bearer cst_…",
        )
    })?;
    let account = account_of_bearer(&app, &bearer, asked.account.as_deref())?;
    may_watch(&account, &bearer)?;
    let size = account.reader().published().head.size;
    let next = first(&headers, asked.after, size)?;
    let who = match &bearer {
        Bearer::Owner => None,
        Bearer::Identity(_, identity) => Some(*identity),
    };
    let place = app.watchers.take(&account.origin, who)?;
    let (events, answer) = stream::open();
    tokio::spawn(follow(app, account, headers, (next, events, place)));
    Ok(answer)
}

/// The first index that a watcher has not seen: after the last event that it had, after the index that it names, or the next leaf.
fn first(headers: &HeaderMap, after: Option<i64>, size: u64) -> Result<u64, Problem> {
    let malformed = |name: &str| {
        let why = format!("{name}: an index, or -1 for everything");
        Problem::new(Code::Malformed, why)
    };
    let last = headers.get("last-event-id").map(|value| {
        let text = value.to_str().ok();
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| malformed("Last-Event-ID"))
    });
    // A client that comes back says in its header what it has got; its address still says where it began.
    let Some(after) = last.transpose()?.or(after) else {
        return Ok(size);
    };
    let first = after.checked_add(1).map(u64::try_from);
    let Some(Ok(first)) = first else {
        return Err(malformed("after"));
    };
    if first > size {
        let why = format!("after: {after} is beyond the published log, which has {size} leaves");
        return Err(Problem::new(Code::Range, why).with("size", size));
    }
    Ok(first)
}

/// Tells one watcher, until it or the service goes, or its token ends.
async fn follow(
    app: Arc<App>,
    mut account: Arc<Account>,
    headers: HeaderMap,
    (mut next, events, _place): (u64, Events, Place),
) {
    let mut progress = account.reader().progress();
    loop {
        // After a change of its quorum the account goes on as another one, and nothing is published in this one any more.
        match app.accounts.get(&account.name) {
            Ok(now) if Arc::ptr_eq(&now, &account) => {}
            Ok(now) => {
                progress = now.reader().progress();
                account = now;
            }
            Err(_) => return,
        }
        if !is_good(&app, &account, &headers) {
            return;
        }
        match tell(&account, next, &events).await {
            Some(told) if told > next => next = told,
            Some(_) => {
                let more = tokio::select! {
                    more = tokio::time::timeout(HEARTBEAT, published(&mut progress, next)) => more,
                    () = app.stopping() => return,
                    () = events.closed() => return,
                };
                if more.is_err() && events.send(stream::heartbeat()).await.is_err() {
                    return;
                }
            }
            None => return,
        }
    }
}

/// Waits until leaf `next` is published.
async fn published(progress: &mut watch::Receiver<Progress>, next: u64) {
    if progress.wait_for(|p| p.published > next).await.is_err() {
        // Nobody is left who could publish; the next look says who goes on.
        std::future::pending::<()>().await;
    }
}

/// A token that was ended, an identity that was revoked, or one that the policy keeps from reading the log, sees nothing further.
fn is_good(app: &App, account: &Account, headers: &HeaderMap) -> bool {
    let bearer = token(app, headers);
    matches!(bearer, Ok(Some(bearer)) if bearer.reads(&account.origin) && may_watch(account, &bearer).is_ok())
}

/// Watching is reading the log: whoever may not call `ars_log_read` may not watch.
fn may_watch(account: &Account, bearer: &Bearer) -> Result<(), Problem> {
    let Bearer::Identity(_, id) = bearer else {
        return Ok(());
    };
    let version = account.reader().version();
    match version.identities.get(id) {
        Some(identity) => may_see(&version, &identity.into(), log_read::READ.name, None),
        None => Ok(()),
    }
}

/// Tells what is published from `next` on, some of it at a time. The next index; `None` once nobody listens, or nothing can be read.
async fn tell(account: &Account, next: u64, events: &Events) -> Option<u64> {
    let read = || account.reader().leaves(next, AT_ONCE);
    // Other requests of this thread go on elsewhere meanwhile.
    let leaves = match tokio::task::block_in_place(read) {
        Ok(leaves) => leaves,
        Err(error) => {
            // Traced; the watcher sees its connection end, and comes back for the rest.
            let _ = query::unreadable(&error);
            return None;
        }
    };
    let mut index = next;
    for leaf in leaves {
        let row = leaves::row(index, &leaf)
            .inspect_err(|why| tracing::error!(index, why, "a leaf cannot be read"))
            .ok()?;
        events
            .send(stream::event(index, &Value::Object(row)))
            .await
            .ok()?;
        index += 1;
    }
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_watcher_begins_where_it_says() {
        let header = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("last-event-id", HeaderValue::from_str(text).unwrap());
            headers
        };
        let none = HeaderMap::new();
        assert_eq!(first(&none, None, 7).unwrap(), 7);
        assert_eq!(first(&none, Some(-1), 7).unwrap(), 0);
        assert_eq!(first(&none, Some(6), 7).unwrap(), 7);
        assert_eq!(first(&header("3"), Some(-1), 7).unwrap(), 4);
        assert_eq!(first(&none, Some(7), 7).unwrap_err().code, Code::Range);
        assert_eq!(first(&none, Some(-2), 7).unwrap_err().code, Code::Malformed);
        assert_eq!(
            first(&none, Some(i64::MAX), 7).unwrap_err().code,
            Code::Malformed
        );
        assert_eq!(
            first(&header("x"), None, 7).unwrap_err().code,
            Code::Malformed
        );
    }
}
