//! The operator's door: HTTP over a Unix socket that only the owner of the directory may open.

mod accounts;
mod still;

use std::{io, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use axum::{
    Router,
    extract::{Path as Named, State},
    routing::{get, post},
};
use countersign_log::Stop;
use serde_json::{Value, json};
use tokio::net::UnixListener;

use crate::{
    account::Account,
    accounts::Standing,
    app::{App, not_open},
    config::Config,
    error::{Code, Problem},
    quorum::{self, LiveError},
    witnessing,
};

/// Listens at `path`, mode 0600. The caller holds the directory's lock, so a socket that lies there is nobody's.
///
/// # Errors
/// What the system says.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// What the operator can ask.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/accounts", get(accounts::list).post(accounts::create))
        .route("/accounts/{name}/policy", post(set_policy))
        .route("/accounts/{name}/still", post(still::make))
        .with_state(app)
}

async fn status(State(app): State<Arc<App>>) -> axum::Json<Value> {
    let places = app.accounts.all();
    let rows: Vec<Value> = places
        .iter()
        .map(|place| match place.standing() {
            Standing::Open(account) => open_row(&app, &account),
            other => {
                let mut row = not_open(place, &other);
                row["public"] = place.public.into();
                row
            }
        })
        .collect();
    axum::Json(json!({
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "url": app.url(),
        "dir": app.dir.root(),
        "config": app.config,
        "restart_owed": restart_owed(&app),
        "accounts": rows,
    }))
}

/// The settings that another start would take up, or why there would be none.
fn restart_owed(app: &App) -> Value {
    match Config::load(&app.dir) {
        Ok(now) => {
            let given = app.config.listen_given;
            let mut keys = app.config.differs(&now);
            keys.retain(|key| !(given && key == "listen"));
            keys.into()
        }
        Err(error) => error.to_string().into(),
    }
}

fn open_row(app: &App, account: &Account) -> Value {
    let status = account.log.status();
    let mut row = json!({
        "name": account.name,
        "origin": account.origin,
        "public": account.public,
        "vkey": account.vkey,
        "policy": account.dir.policy_for_verifiers(),
        "committed_size": status.committed.size,
        "committed_root": status.committed.root.to_hex(),
        "published_size": status.published.size,
        // The operator is told more than clients are.
        "read_only": match account.closed() {
            Some(closed) => Some(closed.to_string()),
            None => status.stop.map(|stop| match stop {
                Stop::Guard(why) => format!("it will not write again as it is: {why}"),
                stop => stop.to_string(),
            }),
        },
        "publication_trouble": status.publication.map(|e| e.to_string()),
        "clock_offset_ms": status.clock_offset_ms,
        "owner_forgeable": app.owner_is_forgeable(),
    });
    witnessing::show(&status.witnesses, &mut row);
    row
}

/// The body is a tlog-policy. The operator is told what went wrong, as it is.
async fn set_policy(
    State(app): State<Arc<App>>,
    Named(name): Named<String>,
    body: String,
) -> Result<axum::Json<Value>, Problem> {
    let work = tokio::task::spawn_blocking(move || quorum::change(&app, &name, &body));
    let from = work.await.map_err(|e| Problem::internal(&e))?;
    let from = from.map_err(|error| {
        let code = match &error {
            LiveError::Absent => Code::NotFound,
            LiveError::Parse(_) | LiveError::Fault(_) => Code::Malformed,
            LiveError::Files(_) | LiveError::Store(_) | LiveError::Open(_) => Code::Internal,
        };
        Problem::new(code, error.to_string())
    })?;
    Ok(axum::Json(json!({"from_size": from})))
}
