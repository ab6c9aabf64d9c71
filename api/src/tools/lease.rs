//! Leases: the tools.

use countersign_verifier::leaf::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Done, Handler, Hints, Tool, View, define::schema, page};
use crate::{
    error::{Code, Problem},
    state::{
        State,
        lease::{Acquire, Lease, Release, Renew, Resource, parse_id},
        session,
        verb::arguments,
    },
};

/// A lease that was had or renewed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Grant {
    /// Which.
    lease_id: String,
    /// What.
    resource: String,
    /// `exclusive` or `shared`.
    mode: String,
    /// To be given with every write that touches the resource, with renewal and with release.
    fence: u64,
    /// The session that holds it.
    session_id: String,
    /// When it ends unless it is renewed.
    expires_at: String,
    /// In how many milliseconds.
    expires_in_ms: u64,
    /// Renew it after so many milliseconds.
    renew_after_ms: u64,
}

/// `ars_lease_acquire`.
pub const ACQUIRE: Tool = Tool {
    name: "ars_lease_acquire",
    summary: "Takes a resource for a session (`session_id`; your only live one if absent): nobody else can until you release it, stop renewing it, or end. The same again in the same session renews it.",
    arguments: schema::<Acquire>,
    result: schema::<Grant>,
    example: r#"{"resource":"path:site:src/parser/**","ttl_s":600,"reason":"the parser"}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(granted),
};

/// `ars_lease_renew`.
pub const RENEW: Tool = Tool {
    name: "ars_lease_renew",
    summary: "Renews a lease that you hold; the fence stays. One that has ended stays so, and the answer says who holds the resource now.",
    arguments: schema::<Renew>,
    result: schema::<Grant>,
    example: r#"{"lease_id":"l_42","fence":42}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(granted),
};

/// What was given back.
#[derive(Serialize, JsonSchema)]
struct Released {
    /// That it was: what releases nothing is refused.
    released: bool,
    /// Which.
    lease_id: String,
    /// What.
    resource: String,
}

/// `ars_lease_release`.
pub const RELEASE: Tool = Tool {
    name: "ars_lease_release",
    summary: "Gives a lease back.",
    arguments: schema::<Release>,
    result: schema::<Released>,
    example: r#"{"lease_id":"l_42","fence":42}"#,
    hints: Hints::WRITES,
    handler: Handler::Write(|done| {
        json!({
            "released": true,
            "lease_id": done.effect.get("lease"),
            "resource": done.effect.get("resource"),
        })
    }),
};

/// Who holds a lease.
#[derive(Serialize, JsonSchema)]
struct Holder {
    /// Whose it is.
    identity: String,
    /// As what.
    role: String,
    /// In which session.
    session_id: String,
}

/// A lease as answers show it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Held {
    /// Which.
    lease_id: String,
    /// What.
    resource: String,
    /// `exclusive` or `shared`.
    mode: String,
    /// Rises with every lease.
    fence: u64,
    /// Who holds it.
    holder: Holder,
    /// `live` or `ended`.
    state: String,
    /// When it was had.
    acquired_at: String,
    /// When it ends, or would have ended, by itself.
    expires_at: String,
    /// In how many milliseconds; 0 of one that ended.
    expires_in_ms: u64,
    /// Why, in its holder's words.
    reason: Option<String>,
    /// How it ended: `released`, `expired` or `session_ended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// The leaf that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_index: Option<u64>,
}

/// Arguments of `ars_lease_get`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// Which: `l_` and a number.
    lease_id: Option<String>,
    /// Or: all live ones that have something in common with this resource.
    resource: Option<String>,
}

/// Leases.
#[derive(Serialize, JsonSchema)]
struct Found {
    /// In order of their beginning.
    leases: Vec<Held>,
}

/// `ars_lease_get`.
pub const GET: Tool = Tool {
    name: "ars_lease_get",
    summary: "Shows one lease, live or among those that ended last; or who holds a resource, or any part of it.",
    arguments: schema::<Get>,
    result: schema::<Found>,
    example: r#"{"resource":"path:site:src/**"}"#,
    hints: Hints::READS,
    handler: Handler::Read(get),
};

/// Which leases.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// Of this identity, or of this session.
    holder: Option<String>,
    /// Of resources whose spelling begins so.
    prefix: Option<String>,
    /// `live` (default) or `ended`.
    state: Option<String>,
}

/// Arguments of `ars_lease_list`.
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

/// A page of leases.
#[derive(Serialize, JsonSchema)]
struct Page {
    /// In order of their beginning.
    leases: Vec<Held>,
    /// The cursor of the next page; absent after the last.
    next: Option<String>,
}

/// `ars_lease_list`.
pub const LIST: Tool = Tool {
    name: "ars_lease_list",
    summary: "Lists leases in order of their beginning: the live ones, or those that ended last.",
    arguments: schema::<List>,
    result: schema::<Page>,
    example: r#"{"filter":{"prefix":"path:site:"},"limit":50}"#,
    hints: Hints::READS,
    handler: Handler::Read(list),
};

fn spell(ms: u64) -> String {
    Millis(ms).to_string()
}

fn granted(done: &Done<'_>) -> Value {
    let grant = grant(done).and_then(|grant| serde_json::to_value(grant).ok());
    grant.unwrap_or(Value::Null)
}

/// What its holder is told of a lease, from what its leaf records.
pub(super) fn grant(done: &Done<'_>) -> Option<Grant> {
    let text = |name: &str| done.effect.get(name).and_then(Value::as_str);
    let lease_id = text("lease")?;
    let lease = done.view.state.leases.get(parse_id(lease_id)?)?;
    let asked: Millis = text("expires_at")?.parse().ok()?;
    let session = done.view.state.sessions.get(lease.session);
    // A lease ends with its session at the latest; that is renewed by its heartbeats.
    let ends = session.map_or(asked.0, |session| session.expires.min(asked.0));
    Some(Grant {
        lease_id: lease_id.into(),
        resource: lease.resource.clone(),
        mode: lease.mode().into(),
        fence: lease.fence,
        session_id: session::id(lease.session),
        expires_at: spell(ends),
        expires_in_ms: ends.saturating_sub(done.view.now_ms),
        renew_after_ms: (done.at + asked.0.saturating_sub(done.at) / 3)
            .saturating_sub(done.view.now_ms),
    })
}

/// A lease as answers show it.
pub(super) fn held(view: &View<'_>, lease: &Lease) -> Held {
    row(view.state, view.now_ms, lease)
}

/// The same in this state, at this log time.
pub(super) fn row(state: &State, now_ms: u64, lease: &Lease) -> Held {
    let ends = state.lease_ends(lease);
    Held {
        lease_id: lease.id(),
        resource: lease.resource.clone(),
        mode: lease.mode().into(),
        fence: lease.fence,
        holder: Holder {
            identity: lease.identity.to_string(),
            role: lease.role.clone(),
            session_id: session::id(lease.session),
        },
        state: if lease.ended.is_none() {
            "live"
        } else {
            "ended"
        }
        .into(),
        acquired_at: spell(lease.acquired),
        expires_at: spell(ends),
        expires_in_ms: match lease.ended {
            Some(_) => 0,
            None => ends.saturating_sub(now_ms),
        },
        reason: lease.reason.clone(),
        how: lease.ended.map(|ended| ended.how.name().into()),
        ended_at: lease.ended.map(|ended| spell(ended.at)),
        ended_index: lease.ended.map(|ended| ended.index),
    }
}

/// Tells a caller who was refused because of another's lease how long that still runs by now: the refusal's leaf says how long it
/// ran then, and may be the leaf of an earlier refusal of the same kind.
pub fn until_free(view: &View<'_>, problem: &mut Problem) {
    if !matches!(
        problem.code,
        Code::LeaseConflict | Code::LeaseRequired | Code::SeatTaken
    ) {
        return;
    }
    let lease = problem.detail.get("lease_id").and_then(Value::as_str);
    let lease = lease.and_then(parse_id);
    let lease = lease.and_then(|index| view.state.leases.get(index));
    let recorded = problem.detail.get("expires_at").and_then(Value::as_str);
    let recorded = recorded.and_then(|text| text.parse::<Millis>().ok());
    let ends = match lease {
        Some(lease) if lease.ended.is_some() => Some(view.now_ms),
        Some(lease) => Some(view.state.lease_ends(lease)),
        None => recorded.map(|at| at.0),
    };
    let Some(ends) = ends else { return };
    let left = ends.saturating_sub(view.now_ms);
    problem
        .detail
        .insert("expires_at".into(), spell(ends).into());
    problem.detail.insert("expires_in_ms".into(), left.into());
    problem.retry_after_ms = Some(left);
}

fn get(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let asked: Get = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    let none = |why: &str| Problem::new(Code::NotFound, why);
    let leases: Vec<Held> = match (&asked.lease_id, &asked.resource) {
        (Some(id), None) => {
            let lease = parse_id(id).and_then(|index| view.state.leases.get(index));
            let lease = lease.ok_or_else(|| {
                none("no such lease; of those that ended only the last are remembered")
            })?;
            vec![held(view, lease)]
        }
        (None, Some(resource)) => {
            let resource = Resource::parse(resource)
                .map_err(|why| Problem::new(Code::ResourceMalformed, why))?;
            let on = view.state.leases.on(&resource).map_err(|_| {
                let why =
                    "too many leases with wildcards begin like this: name the paths more exactly";
                Problem::new(Code::LimitReached, why)
            })?;
            on.map(|lease| held(view, lease)).collect()
        }
        _ => {
            let why = "lease_id or resource: one of the two";
            return Err(Problem::new(Code::Malformed, why));
        }
    };
    if leases.is_empty() {
        return Err(none("nobody holds any of this"));
    }
    serde_json::to_value(Found { leases }).map_err(|e| Problem::internal(&e))
}

fn list(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let malformed = |why: String| Problem::new(Code::Malformed, why);
    let asked: List = arguments(asked).map_err(malformed)?;
    let filter = asked.filter.unwrap_or_default();
    let ended = match filter.state.as_deref() {
        None | Some("live") => false,
        Some("ended") => true,
        Some(_) => return Err(malformed("filter.state: live or ended".into())),
    };
    let holder = |lease: &Lease| {
        let is = |holder: &String| {
            *holder == lease.identity.to_string() || *holder == session::id(lease.session)
        };
        filter.holder.as_ref().is_none_or(is)
    };
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let wanted = |lease: &&Lease| lease.resource.starts_with(prefix) && holder(lease);
    let limit = page::limit(asked.limit)?;
    let leases = &view.state.leases;
    let after = |cursor| match ended {
        false => leases
            .live_after(cursor)
            .filter(wanted)
            .take(limit + 1)
            .collect(),
        true => leases
            .ended_after(cursor)
            .filter(wanted)
            .take(limit + 1)
            .collect(),
    };
    let (rows, next) = page::rows(view, limit, after, |lease: &&Lease| lease.index)?;
    let leases = rows.into_iter().map(|lease| held(view, lease)).collect();
    serde_json::to_value(Page { leases, next }).map_err(|e| Problem::internal(&e))
}
