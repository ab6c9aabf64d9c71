//! The guard's part: until the witnesses have shown that nothing is missing here, nothing is written.

use std::sync::Arc;

use countersign_verifier::vkey::VerifierKey;

use super::{super::describe, Ahead, Guard, Probe, Rounds};
use crate::{
    publish::HeadSigner,
    shared::Shared,
    store::{Head, Kept, Stage, StoreError},
    writer::Stop,
};

impl<V: Send + Sync + 'static> Rounds<V> {
    pub(super) fn probed(&mut self, peer: usize, probe: Probe) {
        match probe {
            Probe::Same(size) => {
                self.peers.well(peer, size, 0);
                self.peers.all[peer].same = true;
                self.pass_guard();
            }
            Probe::Other(holds, why) => self.peers.ill(peer, holds, why),
            Probe::Ahead(ahead) => self.refuse(peer, &ahead),
        }
        self.show_status();
    }

    /// Whether those that hold nothing beyond are in every quorum.
    fn pass_guard(&mut self) {
        let Guard::Asking { judges, .. } = &self.guard else {
            return;
        };
        let holds_nothing_beyond = |key: &VerifierKey| {
            let mut same = self.peers.all.iter().filter(|peer| peer.same);
            same.any(|peer| peer.place.keys.iter().any(|(_, of_peer)| of_peer == key))
        };
        let same: Vec<bool> = judges
            .witnesses()
            .iter()
            .map(|witness| holds_nothing_beyond(&witness.key))
            .collect();
        if judges.in_every_quorum(&same) {
            tracing::info!("the witnesses hold nothing beyond what is here: writing begins");
            self.guard = Guard::Passed;
            self.shared.gate.store(None);
        }
    }

    /// Lets the log write without having asked anybody; whether there was anybody to ask.
    pub(crate) fn skip_guard(&mut self) -> bool {
        if !matches!(self.guard, Guard::Asking { .. }) {
            return false;
        }
        tracing::warn!(
            "UNGUARDED: the log writes without its witnesses' word that nothing is missing here. If this is an older copy, its next \
             head is a fork"
        );
        self.guard = Guard::Passed;
        self.shared.gate.store(None);
        true
    }

    /// Writing ends for good.
    pub(super) fn refuse(&mut self, peer: usize, ahead: &Ahead) {
        let why = format!(
            "witness {} holds a checkpoint that this log has signed and does not have: {}, while {} is here. This directory is \
             an older copy, or another process signs with its key. Nothing is written here any more. Stop the other process; or \
             bring back what is missing with `countersign recover`; or begin a successor with `countersign succeed`",
            ahead.witness,
            describe(&ahead.head),
            describe(&self.shared.committed.load().head),
        );
        if !matches!(self.guard, Guard::Refused) {
            tracing::error!(note = %ahead.note, "{why}");
            let kept = Kept {
                head: ahead.head,
                note: ahead.note.clone(),
            };
            if let Err(error) = self.shared.store.keep_ahead(&kept) {
                tracing::error!(%error, "that could not be stored: the next start must be told by a witness again");
            }
        }
        self.guard = Guard::Refused;
        self.shared
            .gate
            .store(Some(Arc::new(Stop::Guard(why.clone()))));
        self.peers.ill(peer, None, why);
    }
}

/// What the guard asks about: the newest published checkpoint. Where nothing was ever published it is the empty tree's, to which a
/// witness that never cosigned gives 200; it is stored before it leaves.
pub(super) fn newest<V>(shared: &Shared<V>, signer: &HeadSigner) -> Result<Kept, StoreError> {
    let store = &shared.store;
    if let Some(published) = store.published()? {
        return Ok(signer.sign(&published.head));
    }
    let empty = signer.sign(&Head::EMPTY);
    store.keep(Stage::Signed { replaces: None }, &empty)?;
    Ok(empty)
}
