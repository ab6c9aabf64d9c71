//! `countersign.board/1`: a board as JSON Lines. A header {format, count}, the items in order of id in RFC 8785 form, a trailer
//! {sha256 of all lines before it}.

use std::collections::BTreeMap;

use countersign_verifier::{
    hash::{Hash, sha256},
    json::{canonical, parse},
    leaf::Millis,
};
use serde_json::{Map, Value, json};

use super::{
    Board, Item, Provenance,
    import::{CHUNK_ITEMS_MAX, Mode},
    item::normalise,
    merge::within_reach,
    names,
};

/// The format's name.
pub const FORMAT: &str = "countersign.board/1";
/// Arguments of one chunk have at most so many bytes: a payload has 40,000, of which tool, origin, nonce and the rest take less
/// than a thousand.
pub const CHUNK_BYTES_MAX: usize = 39_000;

/// A board that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its items, names in NFC, in order of id, each with the line that it stands on.
    pub items: Vec<(usize, Map<String, Value>)>,
    /// SHA-256 of the file as it came.
    pub sha256: Hash,
    /// SHA-256 of the lines before the trailer, as they are with plain line ends.
    pub lines_sha256: Hash,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// This line, from 1, is not what must stand there: why.
    Line(usize, String),
    /// The trailer says another digest than the lines have.
    Digest {
        /// What it says.
        stated: String,
        /// What the lines have.
        found: Hash,
    },
    /// Two lines have one id, or two that nobody could tell apart.
    Duplicate {
        /// The ids.
        ids: [String; 2],
        /// Their lines, from 1.
        lines: [usize; 2],
    },
}

/// The board as a file.
#[must_use]
pub fn write(board: &Board) -> String {
    let mut text = canonical(&json!({"format": FORMAT, "count": board.len()}));
    text.push('\n');
    for item in board.iter() {
        text.push_str(&item.line);
        text.push('\n');
    }
    let digest = sha256(text.as_bytes()).to_hex();
    text.push_str(&canonical(&json!({"sha256": digest})));
    text.push('\n');
    text
}

/// Reads a file. A byte order mark is passed over, and line ends of two characters are taken for plain ones: texts have theirs
/// escaped, so neither is part of any.
///
/// # Errors
/// [`FileError`].
pub fn read(text: &str) -> Result<File, FileError> {
    let whole = sha256(text.as_bytes());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lines: Vec<&str> = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .collect();
    let count = header(lines[0])?;
    let last = lines.len();
    if last < 2 {
        return Err(FileError::Line(
            2,
            "the trailer is missing: the file was cut".into(),
        ));
    }
    let stated = trailer(lines[last - 1], last)?;
    let mut digest = lines[..last - 1].join("\n");
    digest.push('\n');
    let found = sha256(digest.as_bytes());
    let items = &lines[1..last - 1];
    let read: Vec<(usize, Map<String, Value>)> = items
        .iter()
        .enumerate()
        .map(|(at, line)| Ok((at + 2, item(line, at + 2)?)))
        .collect::<Result<_, FileError>>()?;
    if stated != found.to_hex() {
        return Err(FileError::Digest { stated, found });
    }
    if count != read.len() {
        let why = format!("count: {count}, and there are {} items", read.len());
        return Err(FileError::Line(1, why));
    }
    Ok(File {
        items: apart(read)?,
        sha256: whole,
        lines_sha256: found,
    })
}

fn object(line: &str, number: usize) -> Result<Map<String, Value>, FileError> {
    match parse(line.as_bytes()) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(FileError::Line(number, "not an object".into())),
        Err(error) => {
            let place = if error.pointer.is_empty() {
                "the top"
            } else {
                &error.pointer
            };
            let why = format!("{} (at {place}, byte {})", error.what, error.offset);
            Err(FileError::Line(number, why))
        }
    }
}

fn header(line: &str) -> Result<usize, FileError> {
    let header = object(line, 1)?;
    let text = |name| header.get(name).and_then(Value::as_str);
    if text("format") != Some(FORMAT) {
        let why = format!("a file begins with {{\"count\":…,\"format\":\"{FORMAT}\"}}");
        return Err(FileError::Line(1, why));
    }
    let count = header.get("count").and_then(Value::as_u64);
    let count = count.and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| FileError::Line(1, "count: how many items there are".into()))
}

fn trailer(line: &str, number: usize) -> Result<String, FileError> {
    let trailer = object(line, number)?;
    let stated = trailer.get("sha256").and_then(Value::as_str);
    match stated {
        Some(digest) if trailer.len() == 1 => Ok(digest.to_owned()),
        _ => {
            let why =
                "a file ends with {\"sha256\":\"…\"}: the trailer is missing, the file was cut";
            Err(FileError::Line(number, why.into()))
        }
    }
}

fn item(line: &str, number: usize) -> Result<Map<String, Value>, FileError> {
    let mut members = object(line, number)?;
    normalise(&mut members);
    // Whether it is an item is seen here, with what a file need not say filled in, so that the line can be named.
    let mut whole = members.clone();
    let never = || Value::from(Millis(0).to_string());
    whole.entry("version").or_insert_with(|| 1.into());
    whole.entry("created_at").or_insert_with(never);
    whole.entry("updated_at").or_insert_with(never);
    let nobody = Provenance {
        by: countersign_verifier::key::IdentityId(Hash([0; 32])),
        session: None,
        index: 0,
    };
    let read = Item::new(whole, nobody).and_then(within_reach);
    match read {
        Ok(_) => Ok(members),
        Err(error) => Err(FileError::Line(number, error.to_string())),
    }
}

/// Items, each with the line that it stands in.
type Lines = Vec<(usize, Map<String, Value>)>;

/// The items in order of id, no two of which could be taken for one another.
fn apart(mut items: Lines) -> Result<Lines, FileError> {
    let mut seen: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for (line, members) in &items {
        let id = id_of(members).to_owned();
        if let Some((other, first)) = seen.insert(names::twin(&id), (id.clone(), *line)) {
            return Err(FileError::Duplicate {
                ids: [other, id],
                lines: [first, *line],
            });
        }
    }
    items.sort_by(|(_, a), (_, b)| id_of(a).cmp(id_of(b)));
    Ok(items)
}

/// The id among an item's members.
#[must_use]
pub fn id_of(members: &Map<String, Value>) -> &str {
    members
        .get("id")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Cuts what is to be imported into the arguments of as many operations as it takes.
#[must_use]
pub fn cut(
    file: &Hash,
    mode: Mode,
    items: Vec<Map<String, Value>>,
    drop: Vec<String>,
) -> Vec<Value> {
    let mut parts: Vec<(Vec<Value>, Vec<Value>, usize)> = Vec::new();
    // What stands around the items: names, digest, numbers.
    const AROUND: usize = 512;
    let rows = items.into_iter().map(|item| (Value::Object(item), false));
    let drops = drop.into_iter().map(|id| (Value::String(id), true));
    for (row, dropped) in rows.chain(drops) {
        let bytes = canonical(&row).len() + 1;
        let fits = parts.last().is_some_and(|(items, drop, used)| {
            used + bytes <= CHUNK_BYTES_MAX && items.len() + drop.len() < CHUNK_ITEMS_MAX
        });
        if !fits {
            parts.push((Vec::new(), Vec::new(), AROUND));
        }
        // OK because one was just pushed where there was none.
        let (items, drop, used) = parts.last_mut().expect("file::cut");
        *used += bytes;
        if dropped {
            drop.push(row)
        } else {
            items.push(row)
        }
    }
    let count = parts.len();
    let arguments = |(at, (items, drop, _)): (usize, (Vec<Value>, Vec<Value>, usize))| {
        let mut arguments = json!({
            "format": FORMAT, "mode": mode, "sha256": file.to_hex(), "part": at + 1, "parts": count, "items": items,
        });
        if !drop.is_empty() {
            arguments["drop"] = drop.into();
        }
        arguments
    };
    parts.into_iter().enumerate().map(arguments).collect()
}
