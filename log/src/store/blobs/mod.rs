//! Bodies beside a log: large, named by a hash that the caller makes, and erasable.
//!
//! Apart from [`Store`](super::Store), because nothing of it is committed: a body is kept before anything refers to it, is no part of
//! a tree, and goes without changing one. What the contract promises:
//! - [`Incoming::keep`] is durable on return: whoever was told has it after a crash. A body that was not kept is nowhere.
//! - one name has one body: kept again it stays as it was first kept.
//! - [`BlobStore::erase`] is durable on return, and the bytes are overwritten before their name goes.
//! - memory is that of one piece, whatever a body has.
//!
//! Every implementation passes [`suite`].

use countersign_verifier::hash::Hash;

use super::StoreError;

pub mod files;
pub mod memory;
pub mod suite;

/// What is said of a body has at most so many bytes.
pub const ABOUT_BYTES_MAX: usize = 4_096;

/// A place for bodies. See the module for what it promises.
pub trait BlobStore: Send + Sync + 'static {
    /// Begins a body. `about` is kept with it, and goes with it: at most [`ABOUT_BYTES_MAX`] bytes that the caller reads.
    ///
    /// # Errors
    /// `Unavailable`.
    fn begin(&self, about: &[u8]) -> Result<Box<dyn Incoming>, StoreError>;

    /// The body of this name; `None` if there is none.
    ///
    /// # Errors
    /// `Damaged` where it cannot be read as it was kept; `Unavailable`.
    fn open(&self, name: &Hash) -> Result<Option<Box<dyn Outgoing>>, StoreError>;

    /// Whether there is a body of this name.
    ///
    /// # Errors
    /// `Unavailable`.
    fn has(&self, name: &Hash) -> Result<bool, StoreError>;

    /// Overwrites the body of this name and takes it away, durable on return; whether there was one. One who reads it meanwhile may be
    /// given other bytes.
    ///
    /// # Errors
    /// `Unavailable`; it may then be there still, whole or not, and the caller asks again.
    fn erase(&self, name: &Hash) -> Result<bool, StoreError>;

    /// Shows every body that can be read: its name, what was said of it, and its bytes. In no order.
    ///
    /// # Errors
    /// `Unavailable`.
    fn each(&self, see: &mut dyn FnMut(Hash, &[u8], u64)) -> Result<(), StoreError>;

    /// How many bytes more could be kept; `None` where nobody knows.
    ///
    /// # Errors
    /// `Unavailable`.
    fn room(&self) -> Result<Option<u64>, StoreError>;
}

/// A body on its way in. Dropped, nothing of it is left.
pub trait Incoming: Send {
    /// Adds bytes to its end.
    ///
    /// # Errors
    /// `Unavailable`: it cannot go on.
    fn write(&mut self, piece: &[u8]) -> Result<(), StoreError>;

    /// Keeps it under this name, durable on return. `false`: there was one already, which stands as it is.
    ///
    /// # Errors
    /// `Unavailable`.
    fn keep(self: Box<Self>, name: &Hash) -> Result<bool, StoreError>;
}

/// A body on its way out.
pub trait Outgoing: Send {
    /// What was said of it when it was begun.
    fn about(&self) -> &[u8];

    /// How many bytes it has.
    fn bytes(&self) -> u64;

    /// Reads the next bytes; 0 at its end alone.
    ///
    /// # Errors
    /// `Unavailable`.
    fn read(&mut self, piece: &mut [u8]) -> Result<usize, StoreError>;
}
