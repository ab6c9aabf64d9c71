//! The witnesses one by one: who is busy, who is left alone for a while, and how each fares.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use countersign_verifier::{policy::Policy, vkey::VerifierKey};

use super::{Answer, Place, Probe, Transport, WitnessStatus, ask::Asker, places};
use crate::{
    publish::{HeadSigner, Notice},
    shared::Shared,
};

/// A witness that fails is left alone for this long, then twice as long after each further failure.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause: one that is back is used again within this time.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// One witness, as the log sees it.
pub(super) struct Peer {
    pub place: Place,
    /// Whether it is one of the policy in force, and not only of the era that the guard asks about.
    pub present: bool,
    /// The guard's question is answered by it: it holds nothing beyond.
    pub same: bool,
    /// What it is thought to hold: a hint.
    pub holds: u64,
    busy: bool,
    failures: u32,
    asked: Instant,
    not_before: Instant,
    status: WitnessStatus,
}

/// What a request came back as.
pub(super) enum Sent {
    Answer(u64, Answer),
    Probe(Probe),
}

/// All of them.
pub(super) struct Peers<V> {
    pub all: Vec<Peer>,
    shared: Arc<Shared<V>>,
    transport: Arc<dyn Transport>,
    runtime: tokio::runtime::Handle,
    signer: Arc<HeadSigner>,
    notices: mpsc::Sender<Notice>,
}

impl<V: Send + Sync + 'static> Peers<V> {
    /// Those of the policy in force, and those that only the era of the newest published head knows.
    pub(super) fn new(
        shared: Arc<Shared<V>>,
        (transport, runtime): (Arc<dyn Transport>, tokio::runtime::Handle),
        signer: Arc<HeadSigner>,
        notices: mpsc::Sender<Notice>,
        (present, of_guard): (&Policy, &Policy),
    ) -> Peers<V> {
        let holds = shared.published.load().head.size;
        let mut all: Vec<Peer> = places(present)
            .into_iter()
            .map(|place| Peer::new(place, true, holds))
            .collect();
        // Key by key: a witness whose second key was dropped, or whose address was, must still be asked by the one of the era.
        let asked: Vec<VerifierKey> = all
            .iter()
            .filter(|peer| !peer.place.url.is_empty())
            .flat_map(|peer| peer.place.keys.iter().map(|(_, key)| key.clone()))
            .collect();
        for mut place in places(of_guard) {
            place.keys.retain(|(_, key)| !asked.contains(key));
            if !place.keys.is_empty() {
                all.push(Peer::new(place, false, holds));
            }
        }
        Peers {
            all,
            shared,
            transport,
            runtime,
            signer,
            notices,
        }
    }

    /// Starts a request at each witness that `wanted` picks, has none under way and is not left alone.
    pub(super) fn ask<F: Future<Output = Sent> + Send + 'static>(
        &mut self,
        wanted: impl Fn(&Peer) -> bool,
        ask: impl Fn(Asker<V>, u64) -> F,
    ) {
        let now = Instant::now();
        for (at, peer) in self.all.iter_mut().enumerate() {
            if peer.busy || now < peer.not_before || peer.place.url.is_empty() || !wanted(peer) {
                continue;
            }
            (peer.busy, peer.asked) = (true, now);
            let asker = Asker {
                shared: self.shared.clone(),
                transport: self.transport.clone(),
                log_key: self.signer.signer.vkey().clone(),
                signer: self.signer.clone(),
                place: peer.place.clone(),
            };
            let work = ask(asker, peer.holds);
            let notices = self.notices.clone();
            self.runtime.spawn(async move {
                let notice = match work.await {
                    Sent::Answer(size, answer) => Notice::Answered {
                        peer: at,
                        size,
                        answer,
                    },
                    Sent::Probe(probe) => Notice::Probed { peer: at, probe },
                };
                // The publisher is gone when the log is closed.
                let _ = notices.send(notice);
            });
        }
    }

    /// When the next of those that `wanted` picks may be asked; `None` while each of them is busy.
    pub(super) fn next(&self, wanted: impl Fn(&Peer) -> bool) -> Option<Instant> {
        self.all
            .iter()
            .filter(|peer| !peer.busy && !peer.place.url.is_empty() && wanted(peer))
            .map(|peer| peer.not_before)
            .min()
    }

    /// It answered as it should: it holds `size`, cosigned at `time` (0: none was asked for).
    pub(super) fn well(&mut self, peer: usize, size: u64, time: u64) {
        let peer = &mut self.all[peer];
        peer.done();
        peer.failures = 0;
        peer.holds = size;
        peer.not_before = Instant::now();
        peer.status.size = peer.status.size.max(size);
        peer.status.time = peer.status.time.max(time);
        peer.status.error = None;
    }

    /// It did not: it is left alone for a while.
    pub(super) fn ill(&mut self, peer: usize, holds: Option<u64>, why: String) {
        let now_ms = self.shared.wall_ms();
        let peer = &mut self.all[peer];
        peer.done();
        peer.holds = holds.unwrap_or(peer.holds);
        let pause = PAUSE.saturating_mul(1 << peer.failures.min(10));
        peer.failures += 1;
        peer.not_before = Instant::now() + pause.min(PAUSE_MAX);
        let known = peer.status.error.as_ref();
        if known.is_none_or(|(known, _)| *known != why) {
            tracing::warn!(witness = %peer.place.name, "{why}");
        }
        let since = known.map_or(now_ms, |(_, since)| *since);
        peer.status.error = Some((why, since));
    }

    /// How those of the policy in force fare.
    pub(super) fn statuses(&self) -> Vec<WitnessStatus> {
        let present = self.all.iter().filter(|peer| peer.present);
        present.map(|peer| peer.status.clone()).collect()
    }
}

impl Peer {
    fn new(place: Place, present: bool, holds: u64) -> Peer {
        let now = Instant::now();
        let unreachable = || ("the policy names no address for it".into(), 0);
        Peer {
            status: WitnessStatus {
                name: place.name.clone(),
                url: place.url.clone(),
                error: place.url.is_empty().then(unreachable),
                ..WitnessStatus::default()
            },
            place,
            present,
            same: false,
            holds,
            busy: false,
            failures: 0,
            asked: now,
            not_before: now,
        }
    }

    fn done(&mut self) {
        self.busy = false;
        self.status.latency_ms = super::millis(self.asked.elapsed());
    }
}
