//! Agents as a bench has them: each with a key and a session of its own, signing every call when it makes it.

use std::{cell::RefCell, net::SocketAddr, rc::Rc, time::Duration};

use anyhow::{Context as _, ensure};
use countersign_verifier::{
    base64, dsse,
    key::{Algorithm, PrivateKey},
    leaf::{Class, Millis},
    operation::{self, Operation},
};
use serde_json::{Value, json};

use crate::{
    bench::{
        answers::Wait,
        material::read_key,
        rig::Rig,
        watch,
        wire::{Answer, Connection},
    },
    data_dir::DataDir,
};

/// Which way a call comes in; both take the same signed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `POST /v1/<tool>`.
    Http,
    /// `tools/call` at `POST /mcp`.
    Mcp,
}

/// An identity that is enrolled, and the session that it works in.
#[derive(Debug)]
pub struct Agent {
    key: PrivateKey,
    keyid: String,
    origin: Rc<str>,
    address: SocketAddr,
    serial: RefCell<u64>,
    /// The session that its calls name.
    pub session: RefCell<Option<String>>,
    /// Its place among the agents.
    pub place: usize,
}

/// What was answered: status and body, and how long that took from the first byte sent.
#[derive(Debug)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// From the first byte of the request to the last of the answer. What it takes to sign is the agent's own.
    pub latency: Duration,
}

impl Agent {
    fn new(key: PrivateKey, origin: &Rc<str>, address: SocketAddr, place: usize) -> Agent {
        Agent {
            keyid: key.public().identity().to_string(),
            key,
            origin: origin.clone(),
            address,
            serial: RefCell::new(0),
            session: RefCell::default(),
            place,
        }
    }

    /// The owner of the rig's account.
    ///
    /// # Errors
    /// A key that cannot be read.
    pub fn owner(rig: &Rig, origin: &Rc<str>) -> anyhow::Result<Agent> {
        let key = read_key(&DataDir::new(rig.dir()).owner_key())?;
        Ok(Agent::new(key, origin, rig.ours.door.address, 0))
    }

    /// A connection of its own.
    #[must_use]
    pub const fn connect(&self) -> Connection {
        Connection::new(self.address)
    }

    /// Signs a call, sends it, and reads the answer.
    ///
    /// # Errors
    /// A connection that fails; whatever the service says is an answer.
    pub async fn ask(
        &self,
        connection: &mut Connection,
        (door, wait): (Door, Wait),
        (tool, arguments): (&str, Value),
    ) -> anyhow::Result<Answered> {
        let request = self.request((door, wait), (tool, arguments));
        let sent = watch::now();
        let Answer { status, body } = connection.exchange(&request, b"").await?;
        let latency = sent.elapsed();
        let body: Value = serde_json::from_slice(body).context("an answer that is no JSON")?;
        let (status, body) = match door {
            Door::Http => (status, body),
            Door::Mcp => within(status, body),
        };
        Ok(Answered {
            status,
            body,
            latency,
        })
    }

    /// The same, of which nothing but 200 is expected.
    ///
    /// # Errors
    /// Another answer.
    pub async fn done(
        &self,
        connection: &mut Connection,
        how: (Door, Wait),
        call: (&str, Value),
    ) -> anyhow::Result<Answered> {
        let tool = call.0.to_owned();
        let answered = self.ask(connection, how, call).await?;
        ensure!(
            answered.status == 200,
            "{tool}: {} {}",
            answered.status,
            answered.body
        );
        Ok(answered)
    }

    /// The bytes of a request. Signs by hand: `Envelope::sign` would work the key's identity out again for each.
    fn request(&self, (door, wait): (Door, Wait), (tool, arguments): (&str, Value)) -> Vec<u8> {
        *self.serial.borrow_mut() += 1;
        let payload = Operation {
            tool: tool.to_owned(),
            arguments,
            log: self.origin.to_string(),
            session: self.session.borrow().clone(),
            nonce: format!("{}-{:016}", &self.keyid[..16], self.serial.borrow()),
            issued_at: now(),
            prev: Vec::new(),
            observed: None,
        }
        .to_json();
        let sig = self.key.sign(&dsse::pae(operation::PAYLOAD_TYPE, &payload));
        let signature = dsse::Signature {
            keyid: self.keyid.clone(),
            sig,
        };
        let envelope = dsse::Envelope {
            payload_type: operation::PAYLOAD_TYPE.to_owned(),
            payload,
            signatures: vec![signature],
        };
        // OK because base64 and our own words are text.
        let signed = String::from_utf8(envelope.to_json()).expect("Agent::request");
        let call = format!("{{\"signed\":{signed},\"wait\":\"{}\"}}", wait.name());
        let (path, more, body) = match door {
            Door::Http => (format!("/v1/{tool}"), "", call),
            Door::Mcp => (
                "/mcp".to_owned(),
                "Accept: application/json\r\nMCP-Protocol-Version: 2025-11-25\r\n",
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{call}}}}}"
                ),
            ),
        };
        format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .into_bytes()
    }
}

/// The tool's own answer within one over MCP.
fn within(status: u16, mut body: Value) -> (u16, Value) {
    match body
        .pointer_mut("/result/structuredContent")
        .map(Value::take)
    {
        Some(own) if body.pointer("/result/isError") != Some(&true.into()) => (status, own),
        Some(problem) => (422, problem),
        None => (status, body),
    }
}

/// Enrols `count` agents, each with a key of its own, and checks each in. They may ask as often as they can.
///
/// # Errors
/// A service that does not take them.
pub async fn enrolled(rig: &Rig, count: usize) -> anyhow::Result<Vec<Rc<Agent>>> {
    let origin = origin(rig)?;
    let owner = Agent::owner(rig, &origin)?;
    let mut connection = owner.connect();
    let how = (Door::Http, Wait::Sequenced);
    let any_number = json!({"requests_per_minute": 0});
    owner
        .done(&mut connection, how, ("settings_set", any_number))
        .await?;
    let mut agents = Vec::with_capacity(count);
    for place in 0..count {
        let mut secret = zeroize::Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(|e| anyhow::anyhow!("no randomness: {e}"))?;
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &*secret)?;
        let public = key.public();
        let proof = operation::possession_message(&origin, public.identity(), Class::AgentKey);
        let enrol = json!({
            "name": format!("agent-{place}"),
            "public_key": base64::encode(&public.spki_der()),
            "possession": base64::encode(&key.sign(&proof)),
        });
        owner
            .done(&mut connection, how, ("identity_enroll", enrol))
            .await?;
        let agent = Agent::new(key, &origin, rig.ours.door.address, place);
        let answered = agent
            .done(&mut connection, how, ("ars_session_checkin", checkin()))
            .await?;
        *agent.session.borrow_mut() = Some(session(&answered.body)?);
        agents.push(Rc::new(agent));
    }
    Ok(agents)
}

/// The origin of the rig's log: its verifier key begins with it.
fn origin(rig: &Rig) -> anyhow::Result<Rc<str>> {
    let keys = rig.dir().join("accounts/dev/log.vkey");
    let vkey = std::fs::read_to_string(&keys).with_context(|| keys.display().to_string())?;
    let (origin, _) = vkey.split_once('+').context("a vkey without its parts")?;
    Ok(origin.into())
}

/// What is asked at a check-in.
#[must_use]
pub fn checkin() -> Value {
    json!({"role": "agent", "harness": {"name": "bench", "version": "1"}, "clock": now().to_string(), "ttl_s": 86_400})
}

/// The session that a check-in began.
///
/// # Errors
/// An answer that names none.
pub fn session(body: &Value) -> anyhow::Result<String> {
    let named = body.pointer("/result/session_id").and_then(Value::as_str);
    Ok(named.context("a check-in without a session")?.to_owned())
}

fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    Millis(u64::try_from(ms).unwrap_or(u64::MAX))
}
