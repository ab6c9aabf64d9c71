//! Keys, receipts and operations, made by the verifier's own code.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use countersign_verifier::{
    base64,
    dsse::Envelope,
    hash::{Hash, sha256},
    key::{Algorithm, IdentityId, PrivateKey},
    leaf::{Class, Millis},
    operation::{Observed, Operation, PAYLOAD_TYPE, possession_message},
};
use serde_json::{Map, Value, json};

/// The type of most receipts here.
pub const TYPE: &str = "application/vnd.example.receipt+json";
/// The origin of the development account.
pub const ORIGIN: &str = "localhost/dev";

/// A key that follows from a name.
pub fn key(name: &str) -> PrivateKey {
    // OK because any 32 bytes are a seed.
    PrivateKey::from_secret(Algorithm::Ed25519, &sha256(name.as_bytes()).0).expect("key")
}

/// A receipt whose payload is `{"n":"<n>"}`.
pub fn receipt(n: &str, key: &PrivateKey) -> Envelope {
    receipt_by(n, std::slice::from_ref(key))
}

/// The same by several keys. `PrivateKey` has no copy, so they come as one slice.
pub fn receipt_by(n: &str, keys: &[PrivateKey]) -> Envelope {
    Envelope::sign(TYPE, json!({"n": n}).to_string().as_bytes(), keys)
}

/// Base64 of a key's SPKI, as operations carry it.
pub fn spki(key: &PrivateKey) -> String {
    base64::encode(&key.public().spki_der())
}

/// The proof that a new identity's key is at hand.
pub fn possession(key: &PrivateKey) -> String {
    possession_of(key, key.public().identity())
}

/// The proof for a key that an older identity gets.
pub fn possession_of(key: &PrivateKey, identity: IdentityId) -> String {
    base64::encode(&key.sign(&possession_message(ORIGIN, identity, Class::AgentKey)))
}

/// Lowercase hexadecimal of SHA-256.
pub fn hex(bytes: &[u8]) -> String {
    sha256(bytes).to_hex()
}

/// What an account of this origin keeps of a token.
pub fn token_hash(origin: &str, text: &str) -> String {
    hex(format!("{origin}\n{text}").as_bytes())
}

/// Milliseconds since 1970 by this machine's clock, which is the service's too.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(0))
}

/// An operation to be signed, each member open to change.
#[derive(Clone)]
pub struct Call {
    pub tool: String,
    pub arguments: Value,
    pub log: String,
    pub session: Option<String>,
    pub nonce: String,
    pub issued_at: u64,
    pub prev: Vec<Hash>,
    pub observed: Option<(u64, Hash)>,
    /// Members of the body beside `signed`.
    pub beside: Map<String, Value>,
}

impl Call {
    /// For the development account, now, under a fresh nonce.
    pub fn new(tool: &str, arguments: Value) -> Call {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (pid, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Call {
            tool: tool.into(),
            arguments,
            log: ORIGIN.into(),
            session: None,
            nonce: format!("nonce-{pid:010}-{next:010}"),
            issued_at: now(),
            prev: Vec::new(),
            observed: None,
            beside: Map::new(),
        }
    }

    /// What is signed.
    pub fn payload(&self) -> Vec<u8> {
        let operation = Operation {
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            log: self.log.clone(),
            session: self.session.clone(),
            nonce: self.nonce.clone(),
            issued_at: Millis(self.issued_at),
            prev: self.prev.clone(),
            observed: self.observed.map(|(size, root)| Observed { size, root }),
        };
        operation.to_json()
    }

    /// The body of the request, signed by `who`.
    pub fn body(&self, who: &PrivateKey) -> Value {
        let envelope = Envelope::sign(PAYLOAD_TYPE, &self.payload(), std::slice::from_ref(who));
        self.body_of(&envelope)
    }

    /// The body around an envelope that was made elsewhere.
    pub fn body_of(&self, envelope: &Envelope) -> Value {
        let mut body = self.beside.clone();
        // OK because an envelope's own spelling is JSON.
        let signed = serde_json::from_slice(&envelope.to_json()).expect("an envelope");
        body.insert("signed".into(), signed);
        Value::Object(body)
    }
}
