//! The door on the other side: calls that come over standard input go to a service as operations that a key here has signed.
//!
//! The agent's own key signs one thing, the check-in, which binds a key that is made for the session and lives in this process alone.
//! That key signs every call; it ends with the session, and the service never has either.

mod import;

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{
    sync::{Mutex, Notify, RwLock},
    time::Instant,
};

use super::mcp::stdio::Carrier;
use crate::{
    client::{Agent, CheckIn, ClientError, ToolAnswer, new_nonce},
    error::{Code, Problem},
    tools::Tool,
};

/// What every call may carry that is never signed.
const BESIDE: [&str; 3] = ["wait", "deadline_ms", "include"];
/// How long after a heartbeat that failed another one is tried.
const AGAIN: Duration = Duration::from_secs(5);

/// How long the key of a session is bound for, and when before that another one takes its place.
pub const BOUND: Duration = Duration::from_secs(7 * 86_400);
const REBIND: Duration = Duration::from_secs(6 * 86_400);

/// Why a call has no answer.
enum Failed {
    /// It never left.
    Here(Problem),
    /// The service said no, or nothing.
    There(ClientError),
}

/// Carries calls in a session of its own.
pub struct Shim {
    agent: RwLock<Agent>,
    asked: CheckIn,
    /// The client has checked out: the next call begins another session.
    over: AtomicBool,
    /// The client has written something, so that something may have been left undone.
    wrote: AtomicBool,
    begun: Notify,
    /// The tools that the service last said this identity may call.
    offered: Mutex<Option<Vec<String>>>,
}

impl Shim {
    /// Checks in.
    ///
    /// # Errors
    /// [`ClientError`]; without a session nothing can be carried.
    pub async fn begin(mut agent: Agent, asked: CheckIn) -> Result<Shim, ClientError> {
        agent.check_in(&asked).await?;
        Ok(Shim {
            agent: RwLock::new(agent),
            asked,
            over: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            begun: Notify::new(),
            offered: Mutex::new(None),
        })
    }

    /// Which session it is now.
    pub async fn session_id(&self) -> String {
        let agent = self.agent.read().await;
        agent
            .session()
            .map_or_else(String::new, |session| session.id.clone())
    }

    /// Says that the session is at work, for ever: the client need not.
    pub async fn beat(&self) {
        let mut next = self.every().await;
        let mut bound = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                () = self.begun.notified() => {
                    (next, bound) = (self.every().await, Instant::now());
                    continue;
                }
            }
            if self.over.load(Relaxed) {
                continue;
            }
            let beaten = match bound.elapsed() > REBIND {
                true => self.rebind().await.map(|()| bound = Instant::now()),
                false => {
                    let agent = self.agent.read().await;
                    agent.heartbeat(None, None).await.map(drop)
                }
            };
            next = match beaten {
                Ok(()) => self.every().await,
                // Of a session that has ended the client is told at its next call.
                Err(_) => AGAIN,
            };
        }
    }

    /// Another key for the session that goes on.
    async fn rebind(&self) -> Result<(), ClientError> {
        let mut agent = self.agent.write().await;
        let asked = CheckIn {
            resume: agent.session().map(|session| session.id.clone()),
            ..self.asked.clone()
        };
        agent.check_in(&asked).await.map(drop)
    }

    /// The pause before the next heartbeat: a little more than what is asked for, since one that comes before a third of the
    /// session's time renews nothing.
    async fn every(&self) -> Duration {
        let agent = self.agent.read().await;
        let every = agent.session().map(|session| session.heartbeat_every);
        every.unwrap_or(AGAIN).mul_f32(1.125)
    }

    /// Checks out, where the client has not done so.
    ///
    /// # Errors
    /// [`ClientError`]; the session then ends by itself.
    pub async fn end(&self) -> Result<(), ClientError> {
        if self.over.load(Relaxed) {
            return Ok(());
        }
        let outcome = match self.wrote.load(Relaxed) {
            true => "incomplete",
            false => "no_action",
        };
        let note = Some("the client went away without checking out");
        self.agent.write().await.check_out(outcome, note).await?;
        Ok(())
    }

    /// Begins another session, unless somebody else has meanwhile; `before` is the one that is over.
    async fn renew(&self, before: &str) -> Result<(), ClientError> {
        let mut agent = self.agent.write().await;
        if agent.session().is_some_and(|session| session.id != before) {
            return Ok(());
        }
        let asked = CheckIn {
            resume: Some(before.to_owned()),
            ..self.asked.clone()
        };
        agent.check_in(&asked).await?;
        self.over.store(false, Relaxed);
        self.begun.notify_one();
        Ok(())
    }

    async fn signed(
        &self,
        tool: &'static Tool,
        mut members: Map<String, Value>,
    ) -> Result<Value, Value> {
        let session = self.session_id().await;
        let mut beside = Map::new();
        for name in BESIDE {
            beside.extend(members.remove_entry(name));
        }
        let nonce = match text(&mut members, "idempotency_key")? {
            Some(key) => key,
            None => new_nonce().map_err(|e| Problem::internal(&e).to_json())?,
        };
        if let Some(named) = text(&mut members, "session_id")?
            && named != session
        {
            let why =
                format!("session_id: this connection's session is {session}; it can be left out");
            return Err(malformed(&why, "session_id"));
        }
        // One connection is one session: another check-in renews it, and says who it is.
        if tool.name == "ars_start" {
            members.remove("checkin");
        }
        if tool.name == "ars_session_checkin" && !members.contains_key("resume") {
            members.insert("resume".into(), session.clone().into());
        }
        let answer = {
            let agent = self.agent.read().await;
            let arguments = Value::Object(members);
            match import::is_whole(tool, &arguments) {
                true => import::run(&agent, (tool.name, &arguments), &nonce, &beside).await,
                false => {
                    let call = (tool.name, arguments);
                    let answer = agent.call_beside(&nonce, call, &beside).await;
                    answer.map_err(Failed::There).and_then(|a| read(&a))
                }
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(Failed::Here(problem)) => return Err(problem.to_json()),
            Err(Failed::There(error)) => return Err(self.refused(error, &session).await),
        };
        if answer.get("entry").is_some() {
            self.wrote.store(true, Relaxed);
        }
        if tool.name == "ars_session_checkout" {
            self.over.store(true, Relaxed);
        }
        Ok(answer)
    }

    /// A refusal as the client sees it. Where the session has ended, another one begins, and the client is told: with the old one
    /// its leases have ended too.
    async fn refused(&self, error: ClientError, session: &str) -> Value {
        let ended = error
            .problem()
            .is_some_and(|problem| problem.code == Code::SessionExpired.name());
        let mut problem = problem(error);
        if ended && self.renew(session).await.is_ok() {
            let now = self.session_id().await;
            let why = match now == session {
                true => "the key of the session was bound again: call again, under another idempotency_key".to_owned(),
                false => format!(
                    "session {session} has ended, and its leases with it; {now} has begun in its place: look at what you hold, and call again, under another idempotency_key"
                ),
            };
            problem["message"] = why.into();
            problem["detail"]["session_id"] = now.into();
        }
        problem
    }
}

impl Carrier for Shim {
    async fn carry(
        &self,
        tool: &'static Tool,
        members: Map<String, Value>,
    ) -> Result<Value, Value> {
        if members.contains_key("signed") {
            // Signed by somebody else already: it is only passed on.
            let agent = self.agent.read().await;
            let answer = agent
                .client()
                .call(tool.name, &Value::Object(members))
                .await;
            let answer = answer.map_err(Failed::There).and_then(|a| read(&a));
            return answer.map_err(|failed| match failed {
                Failed::Here(problem) => problem.to_json(),
                Failed::There(error) => problem(error),
            });
        }
        if self.over.load(Relaxed) {
            let before = self.session_id().await;
            self.renew(&before).await.map_err(problem)?;
        }
        self.signed(tool, members).await
    }

    async fn offered(&self) -> Option<Vec<String>> {
        let asked = {
            let agent = self.agent.read().await;
            agent.call("policy_get", json!({})).await
        };
        let names = asked.ok().and_then(|answer| {
            let names = answer.result.get("offered")?.as_array()?;
            Some(
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            )
        });
        // Between two sessions nothing can be asked: what was known before is shown.
        let mut known = self.offered.lock().await;
        if names.is_some() {
            known.clone_from(&names);
        }
        known.clone()
    }
}

/// A member that is a text, taken out of a call.
fn text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Value> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err(malformed(&format!("{name}: a text"), name)),
    }
}

fn malformed(why: &str, name: &str) -> Value {
    let problem = Problem::new(Code::Malformed, why);
    problem.with("pointer", format!("/{name}")).to_json()
}

fn read(answer: &ToolAnswer) -> Result<Value, Failed> {
    serde_json::from_str(&answer.text).map_err(|e| Failed::Here(Problem::internal(&e)))
}

/// What went wrong, in the form in which the service says no: its own words where it said something.
fn problem(error: ClientError) -> Value {
    match error {
        ClientError::Refused(problem) if !problem.members.is_empty() => {
            Value::Object(problem.members)
        }
        error => {
            let problem = Problem::new(Code::Busy, error.to_string());
            problem.retry_after(5_000).to_json()
        }
    }
}
