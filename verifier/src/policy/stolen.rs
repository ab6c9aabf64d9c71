//! Keys that were reported stolen: they count in no era, whatever was signed with them and when.

use alloc::vec::Vec;

use super::{Group, Member, Policy};
use crate::vkey::VerifierKey;

impl Policy {
    /// This policy without these keys, under whatever name and type it lists them. Thresholds stay: what
    /// asked for two of three witnesses asks for both that are left, and a quorum that can no longer be met
    /// is not met.
    #[must_use]
    pub fn without(mut self, stolen: &[VerifierKey]) -> Self {
        let stolen: Vec<Vec<u8>> = stolen
            .iter()
            .map(|key| key.algorithm.public_key())
            .collect();
        let kept = |key: &VerifierKey| !stolen.contains(&key.algorithm.public_key());
        self.logs.retain(|log| kept(&log.key));
        // Members are places among the witnesses, which move up.
        let mut places = Vec::with_capacity(self.witnesses.len());
        let mut next = 0;
        for witness in &self.witnesses {
            let stays = kept(&witness.key);
            places.push(stays.then_some(next));
            next += usize::from(stays);
        }
        let moved = |member: Member| match member {
            Member::Witness(at) => places[at].map(Member::Witness),
            Member::Group(at) => Some(Member::Group(at)),
        };
        for group in &mut self.groups {
            group.members = group.members.iter().copied().filter_map(moved).collect();
        }
        if let Some(Member::Witness(at)) = self.quorum
            && places[at].is_none()
        {
            // Of nobody, one: it keeps the quorum's name, and nothing meets it.
            self.groups.push(Group {
                name: self.witnesses[at].name.clone(),
                threshold: 1,
                members: Vec::new(),
            });
            self.quorum = Some(Member::Group(self.groups.len() - 1));
        } else {
            self.quorum = self.quorum.and_then(moved);
        }
        self.witnesses.retain(|witness| kept(&witness.key));
        self
    }
}
