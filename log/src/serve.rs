//! Checkpoint, tiles, bundles and consistency over HTTP (c2sp.org/tlog-tiles): answers, not routes.
//!
//! Tiles and bundles are immutable and say so; the checkpoint and every error say that they are not. Errors are plain text
//! that never repeats the path. A log nobody may read is the caller's to refuse.
//!
//! These functions read the store and may block for milliseconds.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use countersign_verifier::{
    hash::{Hash, sha256},
    tile::{Bundle, Tile},
    tree::is_complete,
};

use crate::{prove::Prover, reader::Reader, store::StoreError};

/// What never changes may be kept for a week without asking, as other logs say too.
const IMMUTABLE: &str = "public, max-age=604800, immutable";
const NO_STORE: &str = "no-store";
const TEXT: &str = "text/plain; charset=utf-8";

/// The newest published checkpoint; 404 before the first.
#[must_use]
pub fn checkpoint<V>(reader: &Reader<V>, request: &HeaderMap) -> Response {
    let published = reader.published();
    if published.note.is_empty() {
        return refuse(StatusCode::NOT_FOUND, "nothing is published yet");
    }
    found(request, published.note.clone().into_bytes(), TEXT, NO_STORE)
}

/// A tile or a bundle by its path below the log's prefix, such as `tile/0/x001/234.p/5` or `tile/entries/000`.
#[must_use]
pub fn resource<V>(reader: &Reader<V>, path: &str, request: &HeaderMap) -> Response {
    let bytes = if let Ok(bundle) = Bundle::parse(path) {
        reader.bundle(&bundle)
    } else if let Ok(tile) = Tile::parse(path) {
        reader.tile(&tile)
    } else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "not the path of a tile or an entry bundle (c2sp.org/tlog-tiles)",
        );
    };
    match bytes {
        Ok(Some(bytes)) => found(request, bytes, "application/octet-stream", IMMUTABLE),
        Ok(None) => refuse(StatusCode::NOT_FOUND, "beyond the published checkpoint"),
        Err(error) => broken(&error),
    }
}

/// The proof that the tree of `from` leaves is a prefix of the tree of `to` (the published size if `None`): one base64 hash a
/// line, or JSON where the client accepts that.
#[must_use]
pub fn consistency<V>(
    reader: &Reader<V>,
    from: u64,
    to: Option<u64>,
    request: &HeaderMap,
) -> Response {
    let published = reader.published().head.size;
    // Without an end the proof moves with every head, and must not be kept.
    let cache = if to.is_some() { IMMUTABLE } else { NO_STORE };
    let to = to.unwrap_or(published);
    if from > to {
        return refuse(
            StatusCode::BAD_REQUEST,
            &format!("from ({from}) is beyond to ({to})"),
        );
    }
    if to > published {
        return beyond("to", to, published);
    }
    let hashes = match Prover::new(reader, to).consistency(from) {
        Ok(hashes) => hashes,
        Err(error) => return broken(&error),
    };
    if accepts_json(request) {
        let list: Vec<String> = hashes
            .iter()
            .map(|h| format!("\"{}\"", h.to_base64()))
            .collect();
        let body = format!(
            "{{\"from\":{from},\"to\":{to},\"hashes\":[{}]}}",
            list.join(",")
        );
        return found(request, body.into_bytes(), "application/json", cache);
    }
    found(request, lines(&hashes), TEXT, cache)
}

/// The node of `level` and `index`, complete in the tree of `size` leaves, and its path to that tree's root: one base64 hash a
/// line, the node first. With it a witness settles whether two heads of different sizes are of one history.
#[must_use]
pub fn node<V>(
    reader: &Reader<V>,
    size: u64,
    level: u8,
    index: u64,
    request: &HeaderMap,
) -> Response {
    let published = reader.published().head.size;
    if size > published {
        return beyond("size", size, published);
    }
    if !is_complete(level, index, size) {
        let why = format!("node {index} of level {level} is not complete at size {size}");
        return refuse(StatusCode::BAD_REQUEST, &why);
    }
    let prover = Prover::new(reader, size);
    let node = prover.node(level, index).and_then(|node| {
        let path = prover.node_path(level, index)?;
        Ok(std::iter::once(node).chain(path).collect::<Vec<_>>())
    });
    match node {
        Ok(hashes) => found(request, lines(&hashes), TEXT, IMMUTABLE),
        Err(error) => broken(&error),
    }
}

fn lines(hashes: &[Hash]) -> Vec<u8> {
    let lines: String = hashes.iter().map(|h| h.to_base64() + "\n").collect();
    lines.into_bytes()
}

/// What is asked for may be there a moment later.
fn beyond(what: &str, asked: u64, published: u64) -> Response {
    let why = format!("{what} ({asked}) is beyond the published size ({published})");
    let mut answer = refuse(StatusCode::NOT_FOUND, &why);
    answer
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Whether the client names JSON among what it accepts.
#[must_use]
pub fn accepts_json(request: &HeaderMap) -> bool {
    request
        .get_all(header::ACCEPT)
        .iter()
        .any(|v| v.to_str().is_ok_and(|v| v.contains("application/json")))
}

/// A 200 with an entity tag, or 304 where the client has these bytes.
#[must_use]
pub fn found(
    request: &HeaderMap,
    body: Vec<u8>,
    kind: &'static str,
    cache: &'static str,
) -> Response {
    // Weak, because a layer above may compress the body.
    let tag = format!("\"{}\"", &sha256(&body).to_hex()[..32]);
    let known = request.get_all(header::IF_NONE_MATCH).iter().any(|v| {
        let mut tags = v
            .to_str()
            .unwrap_or("")
            .split(',')
            .map(|t| t.trim().trim_start_matches("W/"));
        tags.any(|t| t == tag || t == "*")
    });
    let mut answer = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Body::from(body).into_response()
    };
    let headers = answer.headers_mut();
    if !known {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    // OK because a quoted hex string is a header value.
    headers.insert(
        header::ETAG,
        HeaderValue::from_str(&format!("W/{tag}")).expect("serve::found: entity tag"),
    );
    answer
}

fn refuse(status: StatusCode, why: &str) -> Response {
    let mut answer = (status, format!("{why}\n")).into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
    // What is not there now may be there soon: an error must never be kept like a tile.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(NO_STORE));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    answer
}

fn broken(error: &StoreError) -> Response {
    tracing::error!(%error, "a read failed");
    match error {
        StoreError::Unavailable(_) => refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the store does not answer just now",
        ),
        _ => refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the store is damaged here",
        ),
    }
}
