//! The log as the client of its witnesses: whom it asks, what their answers mean, and how they fare.
//!
//! Nothing here knows HTTP: a [`Transport`] carries requests, and what comes back is somebody else's bytes.

mod ask;
mod guard;
mod peers;
mod rounds;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use countersign_verifier::{
    policy::{Eras, Policy},
    vkey::VerifierKey,
};

use crate::store::Head;

pub(crate) use self::{
    ask::{Ahead, Answer},
    guard::Probe,
    rounds::Rounds,
};

/// What a witness sent back: any status, any body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The content type as it came; empty without one.
    pub content_type: String,
    /// The body, which the transport bounds.
    pub body: Vec<u8>,
}

/// An answer on its way; the error says in words why there is none.
pub type Answering = Pin<Box<dyn Future<Output = Result<Reply, String>> + Send>>;

/// How witnesses are reached. It bounds the time of a request and the bytes of an answer, and follows no redirection.
pub trait Transport: Send + Sync + 'static {
    /// `POST url` with a body.
    fn post(&self, url: String, body: String) -> Answering;
    /// `GET url`.
    fn get(&self, url: String) -> Answering;
}

/// When things are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The quorum counts as lost once a head waited this long for it.
    pub round_timeout: Duration,
    /// The least time between two heads that are sent to witnesses.
    pub head_interval: Duration,
    /// An idle log asks again once its cosignatures are this old.
    pub refresh: Duration,
}

/// The witnesses of a log.
pub struct Witnesses {
    /// The log's policies by tree size: the last one says who is asked, and which quorum publishes.
    pub eras: Eras,
    /// How they are reached.
    pub transport: Arc<dyn Transport>,
    /// Where requests run.
    pub runtime: tokio::runtime::Handle,
    /// When things are done.
    pub pace: Pace,
}

impl Witnesses {
    /// The policy in force.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        self.eras.iter().last().map(|(_, policy)| policy)
    }
}

/// How a witness fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WitnessStatus {
    /// Its name in the policy; of one with two keys the first.
    pub name: String,
    /// Where it is asked; empty if the policy does not say.
    pub url: String,
    /// The largest size that it cosigned since this process started.
    pub size: u64,
    /// When it cosigned that, POSIX seconds by its own clock.
    pub time: u64,
    /// How long its last answer took, milliseconds.
    pub latency_ms: u64,
    /// What is wrong with it since when, POSIX milliseconds by our clock.
    pub error: Option<(String, u64)>,
}

/// How the witnesses of a log fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WitnessesStatus {
    /// Each of them.
    pub witnesses: Vec<WitnessStatus>,
    /// Since when the quorum is not met, POSIX milliseconds.
    pub quorum_lost_since: Option<u64>,
}

/// One place to ask: the lines of the policy that name its address.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub name: String,
    pub url: String,
    /// Its lines: their place in the policy, and their keys.
    pub keys: Vec<(usize, VerifierKey)>,
}

/// The witnesses of a policy by address. One without an address is never asked, and shown with that error.
pub(crate) fn places(policy: &Policy) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for (at, witness) in policy.witnesses().iter().enumerate() {
        let url = witness.url.clone().unwrap_or_default();
        let url = url.trim_end_matches('/').to_owned();
        let key = (at, witness.key.clone());
        match places.iter_mut().find(|p| !url.is_empty() && p.url == url) {
            Some(place) => place.keys.push(key),
            None => places.push(Place {
                name: witness.name.to_string(),
                url,
                keys: vec![key],
            }),
        }
    }
    places
}

/// What a signed head is called in messages.
pub(crate) fn describe(head: &Head) -> String {
    format!("size {} with root {}", head.size, head.root.to_hex())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
