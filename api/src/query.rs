//! Reads: evidence, look-ups and proofs, always under the newest published checkpoint.

pub mod leaves;

use countersign_log::{Key, Published, Reader, StoreError, prove::Prover};
use countersign_verifier::{
    evidence::{Evidence, EvidenceSet, Support},
    hash::{Hash, leaf_hash, sha256},
    key::IdentityId,
    leaf::{Class, Leaf},
    limits::MULTI_LEAVES_MAX,
    multi,
    proof::TlogProof,
    statement::{self, Statement},
    tree::verify_inclusion,
};
use serde_json::{Value, json};

use crate::{
    error::{Code, Problem},
    ledger::space,
    state::{State, session},
};

/// A page of a look-up has at most so many entries.
pub const LOOKUP_PAGE: usize = 200;
/// A client that asked too early asks again after this long: some rounds of publication.
const SOON_MS: u64 = 1_000;

/// What a receipt is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The SHA-256 of its payload.
    Payload(Hash),
    /// The SHA-256 of a subject of its in-toto statement.
    Subject(Hash),
}

/// The proof that leaf `index` is in the published tree; or, where that does not reach so far and `unprotected` asks for it,
/// in the newest tree that the log has signed. The flag says that it is the latter: no witness vouches for it.
///
/// # Errors
/// `NotInTree` beyond it, with both numbers.
pub fn proof(
    reader: &Reader<State>,
    index: u64,
    unprotected: bool,
) -> Result<(TlogProof, bool), Problem> {
    let mut head = reader.published();
    let alone = unprotected && index >= head.head.size;
    if alone {
        head = reader.signed();
    }
    within(&head, index)?;
    let path = Prover::new(reader, head.head.size)
        .inclusion(index)
        .map_err(|e| unreadable(&e))?;
    Ok((tlog_proof(index, path, &head), alone))
}

/// The evidence of leaf `index`.
///
/// # Errors
/// `NotInTree` beyond the published tree.
pub fn evidence(reader: &Reader<State>, index: u64) -> Result<Evidence, Problem> {
    let published = reader.published();
    within(&published, index)?;
    let prover = Prover::new(reader, published.head.size);
    let leaf = leaf(reader, index)?;
    let root = &published.head.root;
    let support = support(reader, (&prover, root), &[(index, &leaf)])?;
    let path = path(&prover, (index, &leaf), root)?;
    Ok(Evidence {
        leaf,
        proof: tlog_proof(index, path, &published),
        support,
    })
}

/// The evidence of many leaves under one checkpoint. `indexes` strictly ascending.
///
/// # Errors
/// `Malformed` for none, too many, or another order; `NotInTree`.
pub fn evidence_set(reader: &Reader<State>, indexes: &[u64]) -> Result<EvidenceSet, Problem> {
    let published = reader.published();
    if indexes.is_empty() || indexes.len() > MULTI_LEAVES_MAX || !indexes.is_sorted_by(|a, b| a < b)
    {
        let why =
            format!("indexes: 1 to {MULTI_LEAVES_MAX} numbers, each larger than the one before");
        return Err(Problem::new(Code::Malformed, why));
    }
    // OK because the list is not empty.
    within(&published, *indexes.last().expect("query::evidence_set"))?;
    let prover = Prover::new(reader, published.head.size);
    let leaves: Vec<(u64, Vec<u8>)> = indexes
        .iter()
        .map(|i| Ok((*i, leaf(reader, *i)?)))
        .collect::<Result<_, Problem>>()?;
    let of: Vec<(u64, &Vec<u8>)> = leaves.iter().map(|(i, l)| (*i, l)).collect();
    let support = support(reader, (&prover, &published.head.root), &of)?;
    // OK because the indexes were checked above, and the verifier's nodes are those of its own order.
    let nodes = multi::nodes(indexes, published.head.size).map_err(|e| Problem::internal(&e))?;
    let hashes = nodes.iter().map(|node| {
        prover
            .node(node.level, node.index)
            .map_err(|e| unreadable(&e))
    });
    let multi = hashes.collect::<Result<_, _>>()?;
    Ok(EvidenceSet {
        checkpoint: published.note.clone(),
        leaves,
        multi,
        support,
    })
}

/// The index of the published leaf with this hash.
///
/// # Errors
/// `NotFound`, or `NotInTree` while it is committed and not published.
pub fn index_of(reader: &Reader<State>, hash: &Hash) -> Result<u64, Problem> {
    let none = || Problem::new(Code::NotFound, "no leaf of this log has this hash");
    let index = reader
        .find(&Key::new(Key::LEAF_HASH, hash))
        .map_err(|e| unreadable(&e))?
        .ok_or_else(none)?;
    within(&reader.published(), index)?;
    // The key holds half of the hash; the leaf settles it.
    if leaf_hash(&leaf(reader, index)?) == *hash {
        Ok(index)
    } else {
        Err(none())
    }
}

/// The receipts with this payload or subject, earliest first, after index `after`.
///
/// # Errors
/// Faults of the store.
pub fn lookup(reader: &Reader<State>, by: By, after: Option<u64>) -> Result<Value, Problem> {
    let key = match &by {
        By::Payload(hash) => Key::new(space::PAYLOAD, hash),
        By::Subject(hash) => Key::new(space::SUBJECT, hash),
    };
    let indexes = reader
        .postings(&key, after, LOOKUP_PAGE)
        .map_err(|e| unreadable(&e))?;
    let next = (indexes.len() == LOOKUP_PAGE)
        .then(|| indexes.last().copied())
        .flatten();
    let mut entries = Vec::with_capacity(indexes.len());
    for index in indexes {
        let bytes = leaf(reader, index)?;
        let Ok(Leaf::Receipt(receipt)) = Leaf::parse(&bytes) else {
            continue;
        };
        let same = match &by {
            By::Payload(hash) => sha256(&receipt.envelope.payload) == *hash,
            By::Subject(hash) => {
                statement::is_payload_type(&receipt.envelope.payload_type)
                    && Statement::parse(&receipt.envelope.payload).is_ok_and(|s| s.speaks_of(hash))
            }
        };
        if same {
            entries.push(json!({"index": index, "leaf_hash": leaf_hash(&bytes).to_hex(), "at": receipt.at.to_string()}));
        }
    }
    Ok(json!({"entries": entries, "next": next}))
}

/// A proof as one file.
#[must_use]
pub fn tlog_proof(index: u64, path: Vec<Hash>, published: &Published) -> TlogProof {
    TlogProof {
        extra: None,
        index,
        path,
        checkpoint: published.note.clone(),
    }
}

/// Leaf 0 and the enrolment chains of everyone who signed these leaves.
fn support(
    reader: &Reader<State>,
    (prover, root): (&Prover<'_>, &Hash),
    leaves: &[(u64, &Vec<u8>)],
) -> Result<Vec<Support>, Problem> {
    let version = reader.version();
    let mut indexes = std::collections::BTreeSet::new();
    for (index, bytes) in leaves {
        if let Ok(leaf) = Leaf::parse(bytes) {
            indexes.extend(version.enrolment_chain(&signers(&leaf), *index));
            indexes.extend(binding(&leaf).filter(|binding| binding < index));
        }
    }
    let item = |index: u64| {
        let leaf = leaf(reader, index)?;
        let path = path(prover, (index, &leaf), root)?;
        Ok(Support { index, leaf, path })
    };
    indexes.into_iter().map(item).collect()
}

/// The path of a leaf to the published root. One that does not lead there is what a broken disk made of leaf or tiles: it convinces
/// nobody, so nobody is given it.
fn path(
    prover: &Prover<'_>,
    (index, leaf): (u64, &[u8]),
    root: &Hash,
) -> Result<Vec<Hash>, Problem> {
    let path = prover.inclusion(index).map_err(|e| unreadable(&e))?;
    let leads = verify_inclusion(&leaf_hash(leaf), index, prover.size(), &path, root);
    leads.map_err(|_| {
        let what = format!(
            "leaf {index} and the tiles above it do not lead to the published root: see `countersign check`"
        );
        unreadable(&StoreError::Damaged { what })
    })?;
    Ok(path)
}

/// The leaf that binds the key of the session in which a leaf was signed: the one that began it.
fn binding(leaf: &Leaf<'_>) -> Option<u64> {
    let by = leaf.by().filter(|by| by.class == Class::SessionKey)?;
    session::parse_id(by.session.as_deref()?)
}

fn signers(leaf: &Leaf<'_>) -> Vec<IdentityId> {
    match leaf {
        Leaf::Receipt(receipt) => receipt.signers.clone(),
        Leaf::Operation(operation) => vec![operation.by.identity],
        Leaf::System(_) => Vec::new(),
    }
}

/// The leaf at `index`.
///
/// # Errors
/// `NotInTree` beyond the published tree.
pub fn published_leaf(reader: &Reader<State>, index: u64) -> Result<Vec<u8>, Problem> {
    within(&reader.published(), index)?;
    leaf(reader, index)
}

fn leaf(reader: &Reader<State>, index: u64) -> Result<Vec<u8>, Problem> {
    let found = reader.leaf(index).map_err(|e| unreadable(&e))?;
    found.ok_or_else(|| not_in_tree(index, reader.published().head.size))
}

fn within(published: &Published, index: u64) -> Result<(), Problem> {
    if index < published.head.size {
        Ok(())
    } else {
        Err(not_in_tree(index, published.head.size))
    }
}

fn not_in_tree(index: u64, size: u64) -> Problem {
    let why = format!(
        "leaf {index} is not in the published tree, which has leaves 0 to {}",
        size.saturating_sub(1)
    );
    Problem::new(Code::NotInTree, why)
        .with("index", index)
        .with("size", size)
        .retry_after(SOON_MS)
}

/// A store that cannot be read, for clients.
#[must_use]
pub fn unreadable(error: &StoreError) -> Problem {
    match error {
        StoreError::Unavailable(_) => {
            tracing::error!(%error, "a read failed");
            Problem::new(Code::Busy, "the store does not answer just now").retry_after(1_000)
        }
        _ => Problem::internal(error),
    }
}
