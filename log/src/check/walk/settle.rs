//! Who is wrong, where leaves, tiles and keys do not agree.

use std::collections::BTreeSet;

use super::{
    super::{
        Above, Class, Found,
        faults::{Bits, Faults},
        index,
    },
    Walk,
};
use crate::store::StoreError;

impl Walk<'_> {
    /// Says of each difference who is wrong: the leaves, where they do not lead to the head. Whether those that were read are what was
    /// committed.
    pub(in crate::check) fn settle(
        mut self,
        above: &mut dyn Above,
        found: &mut Found,
        faults: &mut Faults,
    ) -> Result<bool, StoreError> {
        let sound = found.tree == Some(found.head);
        faults.append(std::mem::take(&mut self.faults));
        let wrong = if sound {
            self.tiles_apart(faults);
            Bits::default()
        } else {
            self.wrong(found, faults)
        };
        self.keys_apart(&wrong, faults);
        let all_right = !wrong.any();
        if !self.ended || !all_right {
            found.keys_untold = Some("leaves are missing or changed");
        } else if self.unknown.is_some() {
            found.keys_untold =
                Some("there are leaves of which it is not known what they are found by");
        } else {
            let size = self.edge.size();
            found.keys = index::name(self.store, size, above, self.claims, faults)?;
        }
        Ok(all_right)
    }

    fn tiles_apart(&self, faults: &mut Faults) {
        for (level, index, place) in &self.apart_above {
            let below = level - 1;
            let what =
                format!("tile {level}/{index}: hash {place} does not follow from level {below}");
            faults.add(Class::Tile, None, what);
        }
        for leaf in self.apart.iter() {
            let (index, place) = (leaf / 256, leaf % 256);
            let what = format!("tile 0/{index}: hash {place} is not that of the leaf");
            faults.add(Class::Tile, Some(leaf), what);
        }
    }

    /// The leaves that are others than those that were committed, where all could be read and they do not lead to the head. What is
    /// above a changed leaf is another one too, and no fault of its own.
    fn wrong(&mut self, found: &Found, faults: &mut Faults) -> Bits {
        let mut wrong = std::mem::take(&mut self.apart);
        if !self.ended {
            return wrong;
        }
        // In the last, unfinished tile only the lookup by hash tells.
        let full = self.edge.size() / 256 * 256;
        for index in self.unfound.iter().filter(|index| *index >= full) {
            wrong.set(index);
        }
        for index in wrong.iter() {
            let what = "another leaf than the one that was committed";
            faults.add(Class::Entry, Some(index), what);
        }
        if !wrong.any() {
            let tiles = match self.apart_above.is_empty() {
                true => ", as the tiles do",
                false => "",
            };
            let what = format!(
                "the leaves lead to root {}{tiles}, and the head says {}",
                self.edge.root(),
                found.head.root
            );
            faults.add(Class::Head, None, what);
        }
        wrong
    }

    /// Leaves that are not found by what they have; by another leaf's keys a changed one never was.
    fn keys_apart(&mut self, wrong: &Bits, faults: &mut Faults) {
        let first = self.keyless_first.drain(..);
        let mut named = BTreeSet::new();
        for fault in first.filter(|fault| !fault.index.is_some_and(|at| wrong.has(at))) {
            named.extend(fault.index);
            faults.add(Class::Index, fault.index, fault.what);
        }
        let others = self.keyless.iter().filter(|at| !wrong.has(*at));
        let others = others.filter(|at| !named.contains(at)).count();
        faults.more(Class::Index, others as u64);
        for index in self.unfound.iter().filter(|at| !wrong.has(*at)) {
            let what = "it is not found by its leaf hash";
            faults.add(Class::Index, Some(index), what);
        }
    }
}
