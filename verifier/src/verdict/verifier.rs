//! From a file to a verdict.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::head::{Head, Shown};
use super::leaf::{self, Judged, Placed};
use super::signers::worst;
use super::{Check, Found, NAMES, Options, Outcome, Status, Subject, Verdict, found};
use crate::checkpoint::Checkpoint;
use crate::evidence::{Chain, EvidenceError, Format, Members};
use crate::hash::{Hash, leaf_hash};
use crate::leaf::By;
use crate::limits;
use crate::multi;
use crate::policy::Eras;
use crate::proof::{HEADER, TlogProof};
use crate::tree;

/// What a reader trusts, and what it has already verified: a checkpoint and a chain of enrolments are
/// judged once, so that many files under one checkpoint cost little more than their own signatures.
pub struct Verifier {
    eras: Eras,
    options: Options,
    heads: BTreeMap<String, Head>,
}

impl Verifier {
    /// A verifier by these policies.
    #[must_use]
    pub const fn new(eras: Eras, options: Options) -> Self {
        Self {
            eras,
            options,
            heads: BTreeMap::new(),
        }
    }

    /// Judges an evidence file, of one leaf or of a set.
    #[must_use]
    pub fn evidence(&mut self, file: &[u8]) -> Verdict {
        let judged = Members::parse(file).and_then(|members| match members.format {
            Format::One => self.one(&members),
            Format::Set => self.set(&members),
        });
        judged.unwrap_or_else(|error| match error {
            EvidenceError::Newer { .. } => stopped(Status::Unknown, error.to_string()),
            error => stopped(Status::Fail, format!("malformed evidence: {error}")),
        })
    }

    /// Judges a bare tlog-proof of the given leaf, whose bytes may be those of any application.
    #[must_use]
    pub fn proof(&mut self, proof: &[u8], leaf: &[u8]) -> Verdict {
        let family = HEADER.trim_end_matches("v1").as_bytes();
        let newer =
            proof.starts_with(family) && !proof.starts_with(format!("{HEADER}\n").as_bytes());
        match TlogProof::parse(proof) {
            Ok(proof) => {
                let placed = Placed {
                    bytes: leaf,
                    hash: leaf_hash(leaf),
                    index: proof.index,
                    foreign: true,
                };
                let (head, options) = head(
                    &mut self.heads,
                    &self.eras,
                    &self.options,
                    &proof.checkpoint,
                );
                finish(
                    head,
                    &proof.path,
                    leaf::judge(&placed, head, &Ok(Chain::default()), options),
                )
            }
            Err(_) if newer => stopped(
                Status::Unknown,
                String::from("unsupported version of tlog-proof"),
            ),
            Err(error) => stopped(Status::Fail, format!("malformed proof: {error}")),
        }
    }

    fn one(&mut self, members: &Members<'_>) -> Result<Verdict, EvidenceError> {
        let (bytes, proof) = (members.leaf()?, members.proof()?);
        let (head, options) = head(
            &mut self.heads,
            &self.eras,
            &self.options,
            &proof.checkpoint,
        );
        let shown = head.chain(members.support_text(), || members.support())?;
        let placed = Placed {
            bytes: &bytes,
            hash: leaf_hash(&bytes),
            index: proof.index,
            foreign: false,
        };
        Ok(finish(
            head,
            &proof.path,
            leaf::judge(&placed, head, &shown, options),
        ))
    }

    fn set(&mut self, members: &Members<'_>) -> Result<Verdict, EvidenceError> {
        let (note, leaves, hashes) = (members.checkpoint()?, members.leaves()?, members.multi()?);
        let (head, options) = head(&mut self.heads, &self.eras, &self.options, &note);
        let shown = head.chain(members.support_text(), || members.support())?;
        let placed: Vec<Placed<'_>> = leaves
            .iter()
            .map(|(index, leaf)| Placed {
                bytes: leaf,
                hash: leaf_hash(leaf),
                index: *index,
                foreign: false,
            })
            .collect();
        let inclusion = match &head.checkpoint {
            None => unproven(),
            Some(checkpoint) => included_all(&placed, &hashes, checkpoint),
        };
        let judge = |placed| leaf::judge(placed, head, &shown as &Shown, options);
        let judged: Vec<Judged> = placed.iter().map(judge).collect();
        Ok(finish_set(head, inclusion, judged, options))
    }
}

/// The judgement of a checkpoint, from memory where it was judged before.
fn head<'v>(
    heads: &'v mut BTreeMap<String, Head>,
    eras: &Eras,
    options: &'v Options,
    note: &str,
) -> (&'v mut Head, &'v Options) {
    if !heads.contains_key(note) && heads.len() >= limits::CACHED_HEADS_MAX {
        heads.clear();
    }
    let judge = || Head::judge(note, eras, options.now_s);
    let head = match heads.contains_key(note) {
        true => heads.get_mut(note),
        false => Some(heads.entry(note.to_owned()).or_insert_with(judge)),
    };
    (
        head.expect("OK because it was found or has been put there"),
        options,
    )
}

fn unproven() -> Found {
    found(
        Status::Skipped,
        "no tree to be in: the checkpoint is not accepted",
    )
}

fn included(head: &Head, index: u64, hash: &Hash, path: &[Hash]) -> Found {
    let Some(checkpoint) = &head.checkpoint else {
        return unproven();
    };
    let size = checkpoint.size;
    match tree::verify_inclusion(hash, index, size, path, &checkpoint.root) {
        Ok(()) => found(
            Status::Pass,
            format!("included at index {index} in a tree of size {size}"),
        ),
        Err(error) => found(
            Status::Fail,
            format!("not shown to be at index {index} in a tree of size {size}: {error}"),
        ),
    }
}

fn included_all(placed: &[Placed<'_>], hashes: &[Hash], checkpoint: &Checkpoint) -> Found {
    let leaves: Vec<(u64, Hash)> = placed.iter().map(|leaf| (leaf.index, leaf.hash)).collect();
    let (count, size) = (leaves.len(), checkpoint.size);
    match multi::verify(size, &checkpoint.root, &leaves, hashes) {
        Ok(()) => found(
            Status::Pass,
            format!("{count} leaves included in a tree of size {size}"),
        ),
        Err(error) => found(
            Status::Fail,
            format!("{count} leaves not shown to be in a tree of size {size}: {error}"),
        ),
    }
}

/// A file that could not be read as far as its checks.
fn stopped(status: Status, detail: String) -> Verdict {
    let skipped = || found(Status::Skipped, "not reached");
    let all = [
        (status, detail),
        skipped(),
        skipped(),
        skipped(),
        skipped(),
        skipped(),
        skipped(),
    ];
    let checks = named(all);
    Verdict {
        outcome: Outcome::of(&checks),
        checks,
        origin: None,
        size: None,
        subjects: Vec::new(),
        by: None,
        cosigners: Vec::new(),
    }
}

fn named(all: [Found; NAMES.len()]) -> Vec<Check> {
    let pairs = NAMES.into_iter().zip(all);
    pairs
        .map(|(name, (status, detail))| Check {
            name,
            status,
            detail,
        })
        .collect()
}

fn finish(head: &Head, path: &[Hash], judged: Judged) -> Verdict {
    let Judged {
        subject,
        by,
        leaf,
        envelope,
        signers,
        operation,
        payload,
        witnesses,
    } = judged;
    let payload = worst(operation.into_iter().chain([payload]).collect());
    let inclusion = included(head, subject.index, &subject.leaf_hash, path);
    let checks = named([
        leaf,
        envelope,
        signers,
        payload,
        inclusion,
        head.signed.clone(),
        witnesses,
    ]);
    verdict(head, checks, [subject].into(), by)
}

/// The checks of a set: of each name the heaviest, with the leaves that it comes from.
fn finish_set(
    head: &Head,
    inclusion: Found,
    mut judged: Vec<Judged>,
    options: &Options,
) -> Verdict {
    let compared = if options.compares() {
        // The reader holds one thing: one leaf of the set must be about it, or be about what cannot be told any more.
        let is = |status| judged.iter().find(move |one| one.payload.0 == status);
        let about = is(Status::Pass).or_else(|| is(Status::Unknown));
        match about {
            Some(one) => found(
                one.payload.0,
                format!("leaf {}: {}", one.subject.index, one.payload.1),
            ),
            None => found(
                Status::Fail,
                "no leaf of the set has it as its signed payload or subject, or refers to it",
            ),
        }
    } else {
        together(&mut judged, |one| &mut one.payload)
    };
    // That the reader's thing is among them excuses no operation: each is checked for itself.
    let mut all = each(&mut judged, |one| one.operation.as_mut());
    all.push(compared);
    let payload = worst(all);
    let leaf = together(&mut judged, |one| &mut one.leaf);
    let envelope = together(&mut judged, |one| &mut one.envelope);
    let signers = together(&mut judged, |one| &mut one.signers);
    let witnesses = together(&mut judged, |one| &mut one.witnesses);
    let checks = named([
        leaf,
        envelope,
        signers,
        payload,
        inclusion,
        head.signed.clone(),
        witnesses,
    ]);
    let first = judged.first().and_then(|one| one.by.clone());
    let by = first.filter(|by| judged.iter().all(|one| one.by.as_ref() == Some(by)));
    let subjects = judged.into_iter().map(|one| one.subject).collect();
    verdict(head, checks, subjects, by)
}

fn verdict(head: &Head, checks: Vec<Check>, subjects: Vec<Subject>, by: Option<By>) -> Verdict {
    let checkpoint = head.checkpoint.as_ref();
    Verdict {
        outcome: Outcome::of(&checks),
        checks,
        origin: checkpoint.map(|checkpoint| checkpoint.origin.clone()),
        size: checkpoint.map(|checkpoint| checkpoint.size),
        subjects,
        by,
        cosigners: head.cosigners.clone(),
    }
}

fn together(judged: &mut [Judged], of: impl Fn(&mut Judged) -> &mut Found) -> Found {
    worst(each(judged, |one| Some(of(one))))
}

/// One check of each leaf that has it, with the leaf that it comes from.
fn each(judged: &mut [Judged], of: impl Fn(&mut Judged) -> Option<&mut Found>) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for one in judged {
        let index = one.subject.index;
        if let Some(of) = of(one) {
            let (status, detail) = core::mem::replace(of, found(Status::Skipped, ""));
            all.push((status, format!("leaf {index}: {detail}")));
        }
    }
    all
}
