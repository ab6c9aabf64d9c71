//! What witnesses say before anything is written after a start.
//!
//! A directory put back from an older copy agrees with itself, and so does a copy that runs beside it. The witnesses know
//! better: one of them that gives 200 to the newest published checkpoint again (or to one signed after it) holds nothing
//! beyond. Once those that did are in every quorum, no quorum can have cosigned what this log does not have.

use super::ask::{Ahead, Answer, Asker};
use crate::{
    prove::Prover,
    reader::Reader,
    store::{Head, Kept, StoreError},
};

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
    /// Asks whether the witness holds `newest`, the newest published checkpoint (where nothing was ever published, the empty
    /// tree's), or what this log had at a later size that it names: a client may have taken it a head that was only signed. It is
    /// never asked to sign anything larger than it holds.
    pub(crate) async fn probe(&self, newest: &Kept) -> Probe {
        let mut asked = newest.clone();
        let mut tried = 0;
        loop {
            match self.again(&asked).await {
                Answer::Cosigned(_) => return Probe::Same(asked.head.size),
                Answer::Ahead(ahead) => return Probe::Ahead(ahead),
                Answer::Failed(holds, why) => {
                    tried += 1;
                    let beyond = holds.filter(|size| *size > asked.head.size && tried < 3);
                    match self.own(beyond).await {
                        Some(own) => asked = own,
                        None => return Probe::Other(holds, why),
                    }
                }
            }
        }
    }

    /// This log's own head of a size that is committed here, signed. Its mark is raised first: from here on it has left the process.
    async fn own(&self, size: Option<u64>) -> Option<Kept> {
        let reader = Reader::new(self.shared.clone());
        let size = size.filter(|size| *size <= reader.committed().0.size)?;
        let (signer, shared) = (self.signer.clone(), self.shared.clone());
        let sign = move || {
            let root = Prover::new(&reader, size).root()?;
            let head = Head { size, root };
            shared.store.mark(&head)?;
            shared.store.settle()?;
            Ok::<_, StoreError>(signer.sign(&head))
        };
        tokio::task::spawn_blocking(sign).await.ok()?.ok()
    }
}
