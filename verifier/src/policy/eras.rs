//! Policies over time: each holds for tree sizes from its own on, until the next.

use alloc::vec::Vec;

use super::{Accepted, Policy, PolicyError};
use crate::checkpoint::Checkpoint;
use crate::note::Note;
use crate::vkey::VerifierKey;

/// Policies by the tree size from which on each holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eras(Vec<(u64, Policy)>);

/// Why policies are no sequence of eras.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErasError {
    /// There is none.
    #[error("no policy")]
    Empty,
    /// Two begin at the same size.
    #[error("two policies begin at size {from_size}")]
    Twice {
        /// The size.
        from_size: u64,
    },
}

impl Eras {
    /// One policy for every size.
    #[must_use]
    pub fn one(policy: Policy) -> Self {
        Self(alloc::vec![(0, policy)])
    }

    /// Policies with the sizes that they hold from, in any order.
    ///
    /// # Errors
    /// [`ErasError`].
    pub fn new(mut policies: Vec<(u64, Policy)>) -> Result<Self, ErasError> {
        policies.sort_by_key(|(from_size, _)| *from_size);
        if policies.is_empty() {
            return Err(ErasError::Empty);
        }
        match policies.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(ErasError::Twice {
                from_size: pair[0].0,
            }),
            None => Ok(Self(policies)),
        }
    }

    /// These eras, each [without](Policy::without) these keys.
    #[must_use]
    pub fn without(self, stolen: &[VerifierKey]) -> Self {
        let eras = self.0.into_iter();
        Self(
            eras.map(|(from_size, policy)| (from_size, policy.without(stolen)))
                .collect(),
        )
    }

    /// The policy that holds at a tree of `size`; `None` before the first era.
    #[must_use]
    pub fn for_size(&self, size: u64) -> Option<&Policy> {
        let after = self.0.partition_point(|(from_size, _)| *from_size <= size);
        Some(&self.0[after.checked_sub(1)?].1)
    }

    /// The eras, each with the size that it holds from, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Policy)> {
        self.0
            .iter()
            .map(|(from_size, policy)| (*from_size, policy))
    }

    /// Judges a checkpoint by the policy of its size. The unverified text says which: it then stands
    /// under that policy's signatures.
    ///
    /// # Errors
    /// [`PolicyError`]; [`PolicyError::NoEra`] when the size lies before the first era.
    pub fn check(&self, note: &Note<'_>) -> Result<Accepted<'_>, PolicyError> {
        let size = Checkpoint::parse(note.text)?.size;
        self.for_size(size)
            .ok_or(PolicyError::NoEra { size })?
            .check(note)
    }
}
