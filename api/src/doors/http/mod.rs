//! HTTP: which address leads where. One file a family of addresses.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use tokio::sync::OwnedSemaphorePermit;
use tower_http::compression::{
    CompressionLayer,
    predicate::{Predicate, SizeAbove},
};

use crate::{
    account::Account,
    app::App,
    doors::{
        auth::{Bearer, bearer},
        mcp, openapi,
    },
    error::{Code, Problem},
};

pub mod answer;
mod blobs;
pub(super) mod body;
mod events;
mod heads;
mod health;
mod logs;
mod ndjson;
mod page;
mod proofs;
mod receipts;
mod room;
mod tools;

pub(super) type Shared = Arc<App>;

pub(crate) use health::exposition;
pub(crate) use room::{Held, Room};

/// The whole of HTTP over these parts.
pub fn router(app: Shared) -> Router {
    let log = Router::new()
        .route("/checkpoint", get(logs::checkpoint))
        .route("/tile/{*path}", get(logs::tile))
        .route("/consistency", get(proofs::consistency))
        .route("/node", get(proofs::node))
        .route("/policy", get(logs::policy))
        .route("/keys", get(logs::keys))
        .route("/lookup", get(logs::lookup))
        .route("/evidence/{index}", get(logs::evidence))
        .route("/evidence/hash/{leaf_hash}", get(logs::evidence_by_hash))
        .route("/evidence-set", get(logs::evidence_set))
        .route("/heads", get(logs::heads).post(heads::submit))
        .route("/receipts", post(receipts::receipts).fallback(method));
    Router::new()
        .route("/", get(page::index))
        .route("/health", get(health::health))
        .route("/health/ready", get(health::ready))
        .route("/openapi.json", get(openapi::served))
        .route("/metrics", get(health::metrics))
        .route("/mcp", any(mcp::door::<App>))
        .route(
            "/.well-known/oauth-protected-resource",
            get(mcp::protected_resource),
        )
        .route(
            "/.well-known/oauth-protected-resource/mcp",
            get(mcp::protected_resource),
        )
        .route("/v1/events", get(events::events))
        .route("/v1/blobs", post(blobs::put).fallback(method))
        .route("/v1/blobs/{commitment}", get(blobs::get))
        .route("/v1/{tool}", post(tools::call).fallback(method))
        .nest("/log/{account}", log)
        .fallback(any(nothing))
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), gate))
        // Tiles and bundles are most of what is read; what is small or hashed already gains nothing.
        .layer(CompressionLayer::new().compress_when(SizeAbove::new(1_024).and(Compressible)))
        .with_state(app)
}

/// Of an answer that is never compressed: whoever asks wants these bytes, and to know how many there are.
#[derive(Clone, Copy)]
struct AsItIs;

/// Text and bundles; tiles and signatures are random bytes.
#[derive(Clone, Copy)]
struct Compressible;

impl Predicate for Compressible {
    fn should_compress<B: axum::body::HttpBody>(&self, response: &axum::http::Response<B>) -> bool {
        // An error is never labelled as compressed (tlog-tiles); and of octet streams only bundles are larger than a tile.
        let large = response
            .body()
            .size_hint()
            .exact()
            .is_none_or(|size| size > 8_192);
        let kind = response.headers().get(header::CONTENT_TYPE);
        response.status() == StatusCode::OK
            && response.extensions().get::<AsItIs>().is_none()
            && kind
                .and_then(|k| k.to_str().ok())
                // Events come one by one; compressed they would wait for each other.
                .is_some_and(|k| {
                    k != "text/event-stream" && (k != "application/octet-stream" || large)
                })
    }
}

/// Bounds how many requests are answered at once, counts answers, and traces which request met a fault of the service.
async fn gate(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (door, method, uri) = (
        door(request.uri().path()),
        request.method().clone(),
        request.uri().clone(),
    );
    let answer = match enter(&app, door, request.method()) {
        Err(problem) => problem.into_response(),
        Ok(turn) => {
            let answer = next.run(request).await;
            drop(turn);
            let left = room::leave(&app.answers, answer).await;
            left.unwrap_or_else(|room::Full| {
                let why = "answers that others are taking fill the memory set aside for them";
                let busy = Problem::new(Code::Busy, why).retry_after(1_000);
                busy.into_response()
            })
        }
    };
    if answer.status() == StatusCode::INTERNAL_SERVER_ERROR {
        // Beside what went wrong: the account and the leaf that were asked for. What follows a `?` may be anything.
        tracing::error!(%method, path = uri.path(), "the request that met it");
    }
    app.metrics.answered(door, answer.status().as_u16());
    answer
}

/// The turn of a request, if it needs one already.
fn enter(app: &App, door: &str, method: &Method) -> Result<Option<OwnedSemaphorePermit>, Problem> {
    // Health answers even when everything else is full: that is when it is asked.
    if door == "health" {
        return Ok(None);
    }
    let turn = app.turn()?;
    // A body may take its time, and takes nobody's turn meanwhile: `body::read` takes it once it is all there.
    Ok(Some(turn).filter(|_| *method != Method::POST))
}

/// The family of an address, for metrics: bounded, whatever clients ask for.
fn door(path: &str) -> &'static str {
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(""), ..) => "page",
        (Some("health"), ..) => "health",
        (Some("metrics"), ..) => "metrics",
        (Some("v1"), Some("events"), _) => "events",
        (Some("v1"), Some("blobs"), _) => "blobs",
        (Some("v1"), ..) => "tools",
        (Some("mcp"), ..) => "mcp",
        (Some("log"), _, Some("receipts")) => "receipts",
        (Some("log"), _, Some("heads")) => "heads",
        (Some("log"), _, Some("tile")) => "tiles",
        (Some("log"), _, Some("checkpoint")) => "checkpoint",
        (Some("log"), _, Some("evidence" | "evidence-set")) => "evidence",
        (Some("log"), ..) => "log",
        _ => "other",
    }
}

/// An account that this caller may read.
pub(super) fn readable(
    app: &App,
    name: &str,
    headers: &HeaderMap,
) -> Result<Arc<Account>, Problem> {
    // Whoever may not read it has it opened for nothing.
    let place = app.accounts.place(name)?;
    if place.public || token(app, headers)?.is_some_and(|bearer| bearer.reads(&place.origin)) {
        return app.accounts.get(name);
    }
    Err(Problem::new(
        Code::KeyRequired,
        "this account is private: a reader's token is needed (Authorization: Bearer)",
    ))
}

/// The caller's token: none, a good one, or an error.
pub(super) fn token(app: &App, headers: &HeaderMap) -> Result<Option<Bearer>, Problem> {
    bearer(app, headers)
}

async fn nothing() -> Problem {
    Problem::new(
        Code::NotFound,
        "nothing is at this address; GET / says what is here",
    )
}

/// Of addresses that take POST alone.
async fn method(method: Method) -> Response {
    let mut answer = not_allowed(method).await.into_response();
    let headers = answer.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
    answer
}

/// Of all others: what they take is added to the answer by the router.
async fn not_allowed(method: Method) -> Problem {
    let why = format!("{method} is not taken at this address");
    Problem::new(Code::MethodNotAllowed, why)
}
