//! What a quorum comes to, counted and in words: for those who write policies and those who are asked to trust one.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Group, Member, Name, Policy};

/// What a policy's quorum asks for. Lines of one address are one witness with two keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// In words, such as `2 of 3: a, b, c`.
    pub words: String,
    /// The fewest witnesses that meet it.
    pub least: usize,
    /// How many may fail, whichever they are, and it can still be met.
    pub spare: usize,
    /// Whether two sets that have no witness in common meet it: then each can cosign a branch of a fork of its own.
    pub splits: bool,
    /// Those of its witnesses for whom the policy gives no address.
    pub without_address: Vec<Name>,
    /// Witnesses of the policy that it does not count.
    pub extra: Vec<Name>,
}

/// The same of a witness or of a group.
#[derive(Clone)]
struct Part {
    words: String,
    least: usize,
    /// The fewest that must fail for it to be out of reach.
    breaking: usize,
    splits: bool,
    /// Places among the witnesses.
    of: Vec<usize>,
}

impl Policy {
    /// What the quorum comes to; `None` for `quorum none`.
    #[must_use]
    pub fn meaning(&self) -> Option<Meaning> {
        // A group's members stand before it, so that one pass in order has them all.
        let mut groups: Vec<Part> = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let part = self.group(group, &groups);
            groups.push(part);
        }
        let part = self.part(self.quorum?, &groups);
        let names = |places: &mut dyn Iterator<Item = usize>| -> Vec<Name> {
            places.map(|at| self.witnesses[at].name.clone()).collect()
        };
        let counts = |at: &usize| part.of.contains(at);
        let all = 0..self.witnesses.len();
        let unreached = |at: &usize| counts(at) && self.address(*at).is_none();
        Some(Meaning {
            without_address: names(&mut all.clone().filter(unreached)),
            extra: names(&mut all.filter(|at| !counts(at))),
            spare: part.breaking.saturating_sub(1),
            words: part.words,
            least: part.least,
            splits: part.splits,
        })
    }

    fn address(&self, witness: usize) -> Option<&str> {
        let url = self.witnesses[witness].url.as_deref()?;
        Some(url.trim_end_matches('/'))
    }

    fn part(&self, member: Member, groups: &[Part]) -> Part {
        match member {
            Member::Group(at) => groups[at].clone(),
            Member::Witness(at) => Part {
                words: self.witnesses[at].name.to_string(),
                least: 1,
                breaking: 1,
                splits: false,
                of: [at].into(),
            },
        }
    }

    fn group(&self, group: &Group, groups: &[Part]) -> Part {
        let parts: Vec<Part> = group
            .members
            .iter()
            .map(|m| self.part(*m, groups))
            .collect();
        let of: Vec<usize> = parts
            .iter()
            .flat_map(|part| part.of.iter().copied())
            .collect();
        let words = words(group, &parts);
        let first = of.first().and_then(|at| self.address(*at));
        if first.is_some() && of.len() > 1 && of.iter().all(|at| self.address(*at) == first) {
            let words = format!("{words} (keys of one witness)");
            let (least, breaking, splits) = (1, 1, false);
            return Part {
                words,
                least,
                breaking,
                splits,
                of,
            };
        }
        let (members, need) = (parts.len(), group.threshold);
        let cheapest = |count: usize, cost: fn(&Part) -> usize| -> usize {
            let mut costs: Vec<usize> = parts.iter().map(cost).collect();
            costs.sort_unstable();
            costs.into_iter().take(count).sum()
        };
        // Two sets without a common witness take `need` members each, and only a member that splits itself serves both.
        let both = parts.iter().filter(|part| part.splits).count();
        Part {
            words,
            least: cheapest(need, |part| part.least),
            breaking: cheapest((members + 1).saturating_sub(need), |part| part.breaking),
            splits: (2 * need).saturating_sub(members) <= both,
            of,
        }
    }
}

fn words(group: &Group, parts: &[Part]) -> String {
    if let [one] = parts {
        return one.words.clone();
    }
    let list: Vec<String> = parts
        .iter()
        .map(|part| match part.of.len() {
            1 => part.words.clone(),
            _ => format!("({})", part.words),
        })
        .collect();
    let list = list.join(", ");
    match group.threshold {
        1 => format!("any of {list}"),
        all if all == parts.len() => format!("all of {list}"),
        some => format!("{some} of {}: {list}", parts.len()),
    }
}
