//! The accounts of the directory: which there are, and one more.

use std::sync::{Arc, PoisonError};

use axum::extract::State;
use countersign_verifier::key::PublicKey;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    accounts::{Place, Standing},
    app::{App, not_open},
    error::{Code, Problem},
    init::{self, Another, InitError},
    local_witnesses,
};

/// What the operator asks for; see [`Another`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    name: String,
    origin: Option<String>,
    /// As a file of it has it: SPKI PEM, OpenSSH or vkey.
    owner: Option<String>,
    #[serde(default)]
    public: bool,
}

pub(super) async fn list(State(app): State<Arc<App>>) -> axum::Json<Value> {
    let places = app.accounts.all();
    let rows: Vec<Value> = places.iter().map(|place| row(place)).collect();
    axum::Json(json!({"accounts": rows}))
}

fn row(place: &Place) -> Value {
    let standing = place.standing();
    let mut row = match &standing {
        Standing::Open(account) => json!({
            "name": place.name,
            "origin": place.origin,
            "size": account.log.status().published.size,
        }),
        other => not_open(place, other),
    };
    row["public"] = place.public.into();
    row["state"] = match standing {
        Standing::Open(_) => "open",
        Standing::Closed(_) | Standing::Unopened => "closed",
        Standing::Failing => "failing",
    }
    .into();
    row
}

/// The operator is told what went wrong, as it is.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    body: String,
) -> Result<axum::Json<Value>, Problem> {
    let malformed = |why: &dyn std::fmt::Display| Problem::new(Code::Malformed, why.to_string());
    let asked: Asked = serde_json::from_str(&body).map_err(|e| malformed(&e))?;
    let owner = asked.owner.map(|text| PublicKey::parse(text.as_bytes()));
    let plan = Another {
        name: asked.name,
        origin: asked.origin,
        owner: owner
            .transpose()
            .map_err(|e| malformed(&format!("owner: {e}")))?,
        public: asked.public,
    };
    let runtime = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        // One at a time, as a directory that no service holds is one process's.
        let _one = app.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let opener = app.accounts.opener();
        let parts = (&opener.shared, opener.clocks.clone());
        let made = init::add(&app.dir, &plan, parts, |vkey| {
            runtime.block_on(local_witnesses::admit_running(
                &app.dir,
                (vkey, plan.public),
            ))
        })
        .map_err(|error| refused(&error))?;
        app.accounts.add(&plan.name);
        tracing::info!(account = %plan.name, "a new account");
        // So that its witnesses know its first head before anybody writes. One that has to wait for room is opened when it is asked for.
        let opened = app.accounts.get(&plan.name);
        Ok(json!({
            "name": plan.name,
            "origin": made.origin,
            "vkey": made.vkey,
            "public": plan.public,
            "policy": app.dir.account(&plan.name).policy(),
            "log": format!("{}/log/{}", app.url(), plan.name),
            "open": opened.is_ok(),
        }))
    });
    let made: Result<Value, Problem> = work.await.map_err(|e| Problem::internal(&e))?;
    made.map(axum::Json)
}

fn refused(error: &InitError) -> Problem {
    let code = match error {
        InitError::Name(_) => Code::Malformed,
        InitError::Taken(_) => Code::NameTaken,
        InitError::NotEmpty(_)
        | InitError::File { .. }
        | InitError::Lock(_)
        | InitError::Account(_)
        | InitError::Witnesses(_) => Code::Internal,
    };
    Problem::new(code, error.to_string())
}
