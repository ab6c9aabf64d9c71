//! A copy of an account's store for whoever checks it, or backs it up, while the service goes on.

use std::{fs, io, sync::Arc};

use axum::extract::{Path as Named, State};
use countersign_verifier::hash::sha256;
use serde_json::{Value, json};

use crate::{
    account::Account,
    app::App,
    error::{Code, Problem},
    files,
};

/// Makes it where the last one was, which nobody holds any more: whoever asks has the lock for that. The operator is told what went
/// wrong, as it is.
pub(super) async fn make(
    State(app): State<Arc<App>>,
    Named(name): Named<String>,
) -> Result<axum::Json<Value>, Problem> {
    let work = tokio::task::spawn_blocking(move || {
        let account = app.accounts.get(&name)?;
        copy(&account).map_err(|why| Problem::new(Code::Internal, why))
    });
    let made = work.await.map_err(|e| Problem::internal(&e))?;
    made.map(axum::Json)
}

fn copy(account: &Account) -> Result<Value, String> {
    let folder = account.dir.still();
    let told = |e: io::Error| format!("{}: {e}", folder.display());
    match fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(told(e)),
        _ => {}
    }
    fs::create_dir(&folder).map_err(told)?;
    // No body that a leaf in this copy has erased is left to be copied beside it.
    account.erase_owed();
    // In this order, so that neither is ahead of the copy: what is marked is committed, and so is what readers see.
    let mark = files::read_plain(&account.dir.tidemark(), files::SMALL_BYTES_MAX);
    fs::write(folder.join("published"), mark.map_err(told)?).map_err(told)?;
    let state = account.reader().version();
    let copied = account.copy_store(&folder.join("db"));
    copied.map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(json!({
        "size": state.size,
        "state_sha256": sha256(&state.to_snapshot()).to_hex(),
    }))
}
