//! What proves that two sizes of a log are of one history: consistency, and single nodes with their paths.

use axum::{
    extract::{Path, Query, State, rejection::QueryRejection},
    http::HeaderMap,
    response::Response,
};
use countersign_log::serve;
use serde::Deserialize;

use super::{
    Shared,
    logs::{parameters, read},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Span {
    from: u64,
    to: Option<u64>,
}

pub(super) async fn consistency(
    State(app): State<Shared>,
    Path(account): Path<String>,
    span: Result<Query<Span>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, move |account, headers| {
        let reader = &account.reader();
        let span = parameters(span)?;
        Ok(serve::consistency(reader, span.from, span.to, headers))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    size: u64,
    level: u8,
    index: u64,
}

pub(super) async fn node(
    State(app): State<Shared>,
    Path(account): Path<String>,
    node: Result<Query<Node>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    read(app, &account, headers, move |account, headers| {
        let node = parameters(node)?;
        let reader = &account.reader();
        Ok(serve::node(
            reader, node.size, node.level, node.index, headers,
        ))
    })
    .await
}
