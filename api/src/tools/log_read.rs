//! The log itself, leaf after leaf: the tool.

use countersign_log::{Published, prove::Prover};
use countersign_verifier::{base64, leaf::Leaf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Handler, Hints, Tool, View, define::schema};
use crate::{
    error::{Code, Problem},
    query::{self, leaves},
    state::verb::arguments,
};

/// Rows of one answer, at most.
const ROWS_MAX: usize = 1_000;
/// Rows of an answer unless it is said otherwise.
const ROWS: usize = 100;
/// A filter that little passes looks at so many leaves before it answers: some tens of milliseconds of reading.
const LOOKED_AT_MAX: u64 = 20_000;
/// Leaves are read so many at a time: a bundle.
const AT_ONCE: usize = 256;
/// An answer that holds leaves or proofs ends at this many bytes of them: 1,000 of the longest leaves would be 87 MB.
const BYTES_MAX: usize = 2 << 20;

/// Arguments of `ars_log_read`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Leaves beyond this index; -1, from the first on, if absent. `next_after` of the answer before.
    after: Option<i64>,
    /// 1 to 1000 rows; 100 if absent.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// Only leaves that are all of this.
    filter: Option<Filter>,
    /// `leaf`: the bytes of each, base64. `proof`: the inclusion proof of each, kilobytes.
    include: Option<Vec<Include>>,
    /// A size: the answer then proves that the log of that size is the beginning of this one.
    consistency_from: Option<u64>,
}

/// Which leaves.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// `operation`, `receipt` or `system`.
    kind: Option<Kind>,
    /// An identity that signed: `id_…`.
    identity: Option<String>,
    /// The session that it was part of, or is about.
    session: Option<String>,
    /// What it is about, such as `item:a-1`.
    resource: Option<String>,
    /// The run that it is about.
    run: Option<String>,
    /// The code of a refusal.
    code: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Operation,
    Receipt,
    System,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Include {
    Leaf,
    Proof,
}

/// A part of the log.
#[derive(Serialize, JsonSchema)]
struct Read {
    /// In order: {index, leaf_hash, at, kind, by?, tool?, type?, outcome?, code?, leaf?, proof?}.
    entries: Vec<Map<String, Value>>,
    /// The index of the last leaf that was looked at: `after` of the next call.
    next_after: i64,
    /// Whether there are leaves beyond it under this head.
    has_more: bool,
    /// The newest published head.
    head: Shown,
    /// The proof from `consistency_from` to the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    consistency: Option<Consistency>,
}

#[derive(Serialize, JsonSchema)]
struct Shown {
    /// Leaves.
    size: u64,
    /// Their root, hexadecimal.
    root: String,
    /// The checkpoint, a signed note.
    checkpoint: String,
}

#[derive(Serialize, JsonSchema)]
struct Consistency {
    /// The smaller size.
    from: u64,
    /// The size of the head.
    to: u64,
    /// Hashes, base64 (RFC 9162 section 2.1.4).
    path: Vec<String>,
}

/// `ars_log_read`.
pub const READ: Tool = Tool {
    name: "ars_log_read",
    summary: "Reads the log leaf after leaf, under its newest published head: what was asked, by whom, and how it was decided.",
    arguments: schema::<Asked>,
    result: schema::<Read>,
    example: r#"{"after":-1,"limit":100,"filter":{"kind":"operation","code":"LEASE_CONFLICT"},"include":["leaf"]}"#,
    hints: Hints::READS,
    handler: Handler::Read(read),
};

fn malformed(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::new(Code::Malformed, format!("{name}: {why}")).with("pointer", format!("/{name}"))
}

fn read(view: &View<'_>, asked: &Value) -> Result<Value, Problem> {
    let asked: Asked = arguments(asked).map_err(|why| Problem::new(Code::Malformed, why))?;
    let limit = asked.limit.unwrap_or(ROWS);
    if !(1..=ROWS_MAX).contains(&limit) {
        return Err(malformed("limit", format!("1 to {ROWS_MAX}")));
    }
    let published = view.reader.published();
    let size = published.head.size;
    let beyond = |name: &str, asked: u64| {
        let why = format!("{name}: {asked} is beyond the published log, which has {size} leaves");
        Problem::new(Code::Range, why)
            .with("size", size)
            .with("pointer", format!("/{name}"))
    };
    // One more than the last index that was seen.
    let first = match asked.after.unwrap_or(-1).checked_add(1).map(u64::try_from) {
        Some(Ok(first)) => first,
        _ => return Err(malformed("after", "an index, or -1")),
    };
    if first > size {
        return Err(beyond("after", first - 1));
    }
    let wanted = wanted(asked.filter.unwrap_or_default())?;
    let include = asked.include.unwrap_or_default();
    let prover = Prover::new(view.reader, size);
    let consistency = match asked.consistency_from {
        None => None,
        Some(from) if from > size => return Err(beyond("consistency_from", from)),
        Some(from) => {
            let path = prover
                .consistency(from)
                .map_err(|e| query::unreadable(&e))?;
            let path = path.iter().map(|hash| hash.to_base64()).collect();
            let to = size;
            Some(Consistency { from, to, path })
        }
    };
    let part = Part {
        view,
        published: &published,
        prover,
        wanted,
        include,
    };
    let (entries, next) = part.collect(first, limit)?;
    let read = Read {
        entries,
        // OK because sizes of logs are far below 2^63.
        next_after: i64::try_from(next).unwrap_or(i64::MAX) - 1,
        has_more: next < size,
        head: Shown {
            size,
            root: published.head.root.to_hex(),
            checkpoint: published.note.clone(),
        },
        consistency,
    };
    serde_json::to_value(read).map_err(|e| Problem::internal(&e))
}

fn wanted(filter: Filter) -> Result<leaves::Wanted, Problem> {
    let identity = filter.identity.map(|id| id.parse());
    let identity = identity
        .transpose()
        .map_err(|_| malformed("filter", "identity: `id_` and 64 hexadecimal digits"))?;
    let kind = filter.kind.map(|kind| match kind {
        Kind::Operation => "operation",
        Kind::Receipt => "receipt",
        Kind::System => "system",
    });
    Ok(leaves::Wanted {
        kind: kind.map(str::to_owned),
        identity,
        session: filter.session,
        resource: filter.resource,
        run: filter.run,
        code: filter.code,
    })
}

/// What is read, and under which head.
struct Part<'a> {
    view: &'a View<'a>,
    published: &'a Published,
    prover: Prover<'a>,
    wanted: leaves::Wanted,
    include: Vec<Include>,
}

impl Part<'_> {
    /// Rows from `first` on, and the index behind the last leaf that was looked at.
    fn collect(&self, first: u64, limit: usize) -> Result<(Vec<Map<String, Value>>, u64), Problem> {
        let (mut rows, mut bytes, mut next) = (Vec::new(), 0, first);
        let end = self.published.head.size.min(first + LOOKED_AT_MAX);
        while next < end {
            let leaves = self.view.reader.leaves(next, AT_ONCE);
            for leaf in leaves.map_err(|e| query::unreadable(&e))? {
                if next >= end || rows.len() >= limit || bytes >= BYTES_MAX {
                    return Ok((rows, next));
                }
                if let Some(row) = self.row(next, &leaf, &mut bytes)? {
                    rows.push(row);
                }
                next += 1;
            }
        }
        Ok((rows, next))
    }

    /// The row of a leaf, where it is wanted.
    fn row(
        &self,
        index: u64,
        bytes: &[u8],
        total: &mut usize,
    ) -> Result<Option<Map<String, Value>>, Problem> {
        let leaf = Leaf::parse(bytes).map_err(|e| Problem::internal(&e))?;
        if !self.wanted.takes(&leaf) {
            return Ok(None);
        }
        let mut row = leaves::shown(index, bytes, &leaf);
        if self.include.contains(&Include::Leaf) {
            let text = base64::encode(bytes);
            *total += text.len();
            row.insert("leaf".into(), text.into());
        }
        if self.include.contains(&Include::Proof) {
            let path = self.prover.inclusion(index);
            let path = path.map_err(|e| query::unreadable(&e))?;
            let text = query::tlog_proof(index, path, self.published).to_text();
            *total += text.len();
            row.insert("proof".into(), text.into());
        }
        Ok(Some(row))
    }
}
