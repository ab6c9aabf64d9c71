//! What witnesses say before anything is written after a start.
//!
//! A directory put back from an older copy agrees with itself, and so does a copy that runs beside it. The witnesses know
//! better: one of them that gives 200 to the newest published checkpoint again (or to one signed after it) holds nothing
//! beyond. Once those that did are in every quorum, no quorum can have cosigned what this log does not have.

use super::ask::{Ahead, Answer, Asker};
use crate::store::Kept;

/// What one witness said of the newest heads of this log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// It holds just this.
    Same(u64),
    /// It does not show that, and why; it does not count.
    Other(Option<u64>, String),
    /// Proof that this log must not write.
    Ahead(Box<Ahead>),
}

impl<V: Send + Sync + 'static> Asker<V> {
    /// Asks whether the witness holds one of `known`: the newest published checkpoint and those signed after it, smallest first,
    /// or where nothing was ever signed the empty tree's. It is never asked to sign anything larger than it holds.
    pub(crate) async fn probe(&self, known: &[Kept]) -> Probe {
        let Some(mut asked) = known.first() else {
            return Probe::Other(None, "there is nothing to ask about".into());
        };
        let mut tried = 0;
        loop {
            match self.again(asked).await {
                Answer::Cosigned(_) => return Probe::Same(asked.head.size),
                Answer::Ahead(ahead) => return Probe::Ahead(ahead),
                Answer::Failed(holds, why) => {
                    tried += 1;
                    let other = known
                        .iter()
                        .find(|k| Some(k.head.size) == holds && k.head.size != asked.head.size);
                    match other {
                        Some(other) if tried < 3 => asked = other,
                        _ => return Probe::Other(holds, why),
                    }
                }
            }
        }
    }
}
