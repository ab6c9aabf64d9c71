//! Bodies in memory, where room can be made to run out: for tests of what stands above.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_verifier::hash::Hash;

use super::{BlobStore, Incoming, Outgoing, StoreError};

#[derive(Default)]
struct Inner {
    kept: BTreeMap<Hash, (Vec<u8>, Vec<u8>)>,
    /// Bytes that can still be written; `None`: any number.
    room: Option<u64>,
    /// Whether bodies stay where they are told to go.
    stuck: bool,
}

/// All in memory, behind one lock.
#[derive(Clone, Default)]
pub struct MemoryBlobs(Arc<Mutex<Inner>>);

impl MemoryBlobs {
    /// An empty store.
    #[must_use]
    pub fn new() -> MemoryBlobs {
        MemoryBlobs::default()
    }

    /// From now on so many bytes more can be written.
    pub fn set_room(&self, bytes: u64) {
        self.lock().room = Some(bytes);
    }

    /// Whether [`BlobStore::erase`] fails from now on.
    pub fn set_stuck(&self, stuck: bool) {
        self.lock().stuck = stuck;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Coming {
    to: MemoryBlobs,
    about: Vec<u8>,
    body: Vec<u8>,
}

impl Incoming for Coming {
    fn write(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        if let Some(room) = &mut self.to.lock().room {
            let left = room.checked_sub(piece.len() as u64);
            *room = left.ok_or_else(|| StoreError::Unavailable("no room is left".into()))?;
        }
        self.body.extend_from_slice(piece);
        Ok(())
    }

    fn keep(self: Box<Self>, name: &Hash) -> Result<bool, StoreError> {
        let Coming { to, about, body } = *self;
        let mut inner = to.lock();
        if inner.kept.contains_key(name) {
            return Ok(false);
        }
        inner.kept.insert(*name, (about, body));
        Ok(true)
    }
}

struct Going {
    about: Vec<u8>,
    body: Vec<u8>,
    at: usize,
}

impl Outgoing for Going {
    fn about(&self) -> &[u8] {
        &self.about
    }

    fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    fn read(&mut self, piece: &mut [u8]) -> Result<usize, StoreError> {
        let rest = &self.body[self.at..];
        let n = rest.len().min(piece.len());
        piece[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

impl BlobStore for MemoryBlobs {
    fn begin(&self, about: &[u8]) -> Result<Box<dyn Incoming>, StoreError> {
        Ok(Box::new(Coming {
            to: self.clone(),
            about: about.to_vec(),
            body: Vec::new(),
        }))
    }

    fn open(&self, name: &Hash) -> Result<Option<Box<dyn Outgoing>>, StoreError> {
        let inner = self.lock();
        Ok(inner.kept.get(name).map(|(about, body)| {
            Box::new(Going {
                about: about.clone(),
                body: body.clone(),
                at: 0,
            }) as Box<dyn Outgoing>
        }))
    }

    fn has(&self, name: &Hash) -> Result<bool, StoreError> {
        Ok(self.lock().kept.contains_key(name))
    }

    fn erase(&self, name: &Hash) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        if inner.stuck {
            return Err(StoreError::Unavailable("told to fail".into()));
        }
        Ok(inner.kept.remove(name).is_some())
    }

    fn each(&self, see: &mut dyn FnMut(Hash, &[u8], u64)) -> Result<(), StoreError> {
        for (name, (about, body)) in &self.lock().kept {
            see(*name, about, body.len() as u64);
        }
        Ok(())
    }

    fn room(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.lock().room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_passes_the_suite() {
        super::super::suite::run(&|| Box::new(MemoryBlobs::new()));
    }
}
