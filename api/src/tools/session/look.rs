//! Looking at sessions: the tools that read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{held, spell};
use crate::{
    error::{Code, Problem},
    state::{
        State,
        session::{Harness, Session, parse_id},
        verb::arguments,
    },
    tools::{Handler, Hints, Tool, View, define::schema, lease::Held, page},
};

/// Arguments of `ars_session_get`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// Which: `s_` and a number.
    id: String,
}

/// A session as answers show it.
#[derive(Serialize, JsonSchema)]
pub(in crate::tools) struct Row {
    /// Which.
    session_id: String,
    /// Whose it is.
    identity: String,
    /// What that identity is called.
    name: String,
    /// As what.
    role: String,
    /// Where the key lives that signs in it.
    class: String,
    /// Nobody else may have the role beside it.
    exclusive: bool,
    /// `live` or `ended`.
    state: String,
    /// The program that runs the agent.
    harness: Harness,
    /// The model, as the agent calls it.
    model: Option<String>,
    /// The client that carries the calls.
    client: Option<Harness>,
    /// When it began.
    started_at: String,
    /// Its last word that is in the log.
    seen_at: String,
    /// When it ends, or would have ended, by itself.
    expires_at: String,
    /// In how many milliseconds; 0 of one that ended.
    expires_in_ms: u64,
    /// The session that it goes on from.
    resumed: Option<String>,
    /// Its last note.
    note: Option<String>,
    /// How far it says that it is, in per cent.
    progress: Option<u8>,
    /// What came of it; absent of one that is live or expired.
    outcome: Option<String>,
    /// When it ended.
    ended_at: Option<String>,
    /// The leaf that says so.
    ended_index: Option<u64>,
    /// The leases that it holds.
    leases: Vec<Held>,
}

/// `ars_session_get`.
pub const GET: Tool = Tool {
    name: "ars_session_get",
    summary: "Shows one session, live or among those that ended last.",
    arguments: schema::<Get>,
    result: schema::<Row>,
    example: r#"{"id":"s_17"}"#,
    hints: Hints::READS,
    handler: Handler::Read(get),
};

/// Which sessions.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// In this role.
    role: Option<String>,
    /// Of this class of key.
    class: Option<String>,
    /// `live` or `ended`.
    state: Option<String>,
    /// Of this identity.
    identity: Option<String>,
}

/// Arguments of `ars_session_list`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only those that fit all of it.
    filter: Option<Filter>,
    /// 1 to 200; 100 if absent.
    limit: Option<usize>,
    /// `next` of the page before. Pages of one list show one version of the state; it is kept for ten minutes.
    #[expect(dead_code, reason = "it was opened before the tool is asked")]
    cursor: Option<String>,
}

/// A page of sessions.
#[derive(Serialize, JsonSchema)]
struct Sessions {
    /// In order of their beginning.
    sessions: Vec<Row>,
    /// The cursor of the next page; absent after the last.
    next: Option<String>,
}

/// `ars_session_list`.
pub const LIST: Tool = Tool {
    name: "ars_session_list",
    summary: "Lists sessions in order of their beginning, the live ones and those that ended last.",
    arguments: schema::<List>,
    result: schema::<Sessions>,
    example: r#"{"filter":{"state":"live"},"limit":50}"#,
    hints: Hints::READS,
    handler: Handler::Read(list),
};

/// A session as answers show it.
pub(super) fn row(view: &View<'_>, session: &Session) -> Row {
    row_at(view.state, view.now_ms, session)
}

/// The same in this state, at this log time.
pub(in crate::tools) fn row_at(state: &State, now_ms: u64, session: &Session) -> Row {
    let name = state.identities.get(&session.identity);
    let ended = session.ended.as_ref();
    Row {
        session_id: session.id(),
        identity: session.identity.to_string(),
        name: name.map_or_else(String::new, |identity| identity.name.clone()),
        role: session.role.clone(),
        class: session.class.name().into(),
        exclusive: session.exclusive,
        state: session.state().into(),
        harness: session.harness.clone(),
        model: session.model.clone(),
        client: session.client.clone(),
        started_at: spell(session.started),
        seen_at: spell(session.seen),
        expires_at: spell(session.expires),
        expires_in_ms: match ended {
            Some(_) => 0,
            None => session.expires.saturating_sub(now_ms),
        },
        resumed: session.resumed.map(crate::state::session::id),
        note: session.note.clone(),
        progress: session.progress,
        outcome: ended.and_then(|ended| ended.outcome.clone()),
        ended_at: ended.map(|ended| spell(ended.at)),
        ended_index: ended.map(|ended| ended.index),
        leases: held(state, now_ms, session),
    }
}

fn get(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let Get { id } = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    let session = parse_id(&id).and_then(|index| view.state.sessions.get(index));
    let none = "no such session; of those that ended only the last are remembered";
    let session = session.ok_or_else(|| Problem::new(Code::NotFound, none))?;
    serde_json::to_value(row(view, session)).map_err(|e| Problem::internal(&e))
}

fn list(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let malformed = |why: String| Problem::new(Code::Malformed, why);
    let asked: List = arguments(asked).map_err(malformed)?;
    let filter = asked.filter.unwrap_or_default();
    if let Some(state) = &filter.state
        && !["live", "ended"].contains(&state.as_str())
    {
        return Err(malformed("filter.state: live or ended".into()));
    }
    let fits = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
    let wanted = |session: &&Session| {
        fits(&filter.role, &session.role)
            && fits(&filter.class, session.class.name())
            && fits(&filter.state, session.state())
            && fits(&filter.identity, &session.identity.to_string())
    };
    let limit = page::limit(asked.limit)?;
    let after = |cursor| {
        let found = view.state.sessions.after(cursor).filter(wanted);
        found.take(limit + 1).collect()
    };
    let (rows, next) = page::rows(view, limit, after, |session: &&Session| session.index)?;
    let sessions = rows.into_iter().map(|session| row(view, session)).collect();
    serde_json::to_value(Sessions { sessions, next }).map_err(|e| Problem::internal(&e))
}
