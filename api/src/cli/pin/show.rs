//! What a comparison came to, for people and for programs, and its exit code.

use std::path::PathBuf;

use countersign_verifier::{checkpoint::Checkpoint, fork::Fork, note::Note};
use serde_json::{Value, json};

use crate::{
    cli::{REFUSED, UNKNOWN, foreign::explain},
    foreign::Foreign,
    pins::{Finding, Head, PinError, Pinned, Pins, compare},
};

/// A log as it is now, beside its pin.
pub struct Shown {
    pub code: u8,
    pub json: Value,
    pub lines: String,
}

/// Compares, keeps what is worth keeping, and says it.
///
/// # Errors
/// A folder of pins that cannot be written.
pub fn show(
    pins: &Pins,
    pinned: &Pinned,
    log: &Foreign,
    (now, note): (&Checkpoint, &str),
) -> Result<Shown, PinError> {
    let newest = pinned.newest();
    let (origin, before) = (&pinned.log.origin, &newest.checkpoint);
    let finding = compare(log, pinned, now, note);
    let head = |c: &Checkpoint| json!({"size": c.size, "root": c.root.to_base64()});
    let mut json = json!({
        "origin": origin,
        "log": pinned.log.log,
        "pinned": head(before),
        "now": head(now),
        "evidence": null,
    });
    let (status, code, lines) = match &finding {
        Finding::Same => {
            let line = format!("{origin}: holds: still {} leaves, as pinned\n", now.size);
            ("same", 0, line)
        }
        Finding::Extends => {
            let edge = crate::foreign::edge(log, now.size, &now.root).ok();
            let file = pins.add(&pinned.log, note, now, edge.as_ref())?;
            let (from, to) = (before.size, now.size);
            let line = format!(
                "{origin}: holds: {to} leaves, which begin with the {from} that were pinned; kept in {}\n",
                file.display()
            );
            ("consistent", 0, line)
        }
        Finding::Older => {
            let (from, to) = (before.size, now.size);
            let line = format!(
                "{origin}: holds: an older head is shown, of {to} leaves, which the {from} that were pinned begin with\n"
            );
            ("older", 0, line)
        }
        Finding::Rewritten {
            what,
            against,
            fork,
        } => {
            let (kept, evidence) = keep(pinned, against, (now, note), fork.as_deref())?;
            json["what"] = what.as_str().into();
            json["against"] = head(&against.checkpoint);
            json["evidence"] = evidence.as_ref().map(|p| p.display().to_string()).into();
            let heads = (&**against, now);
            let lines = told(origin, what, heads, (note, kept), evidence.as_ref());
            ("rewritten", REFUSED, lines)
        }
        Finding::Unproven { why } => {
            json["what"] = why.to_string().into();
            let (from, to) = (before.size, now.size);
            let line = format!(
                "{origin}: cannot tell: the log does not show whether its {to} leaves and the {from} that were pinned are one \
                 history. That is no evidence against it. {why}\n"
            );
            ("unproven", UNKNOWN, line)
        }
    };
    json["status"] = status.into();
    Ok(Shown { code, json, lines })
}

/// Keeps the head that contradicts a pinned one, and the evidence where there is some.
///
/// # Errors
/// A folder of pins that cannot be written.
pub fn keep(
    pinned: &Pinned,
    against: &Head,
    (now, note): (&Checkpoint, &str),
    fork: Option<&Fork>,
) -> Result<(PathBuf, Option<PathBuf>), PinError> {
    // By the root too: a log that was rewritten once may be rewritten twice at one size, and each is evidence of its own.
    let root = &now.root.to_hex()[..16];
    let sizes = format!("{}-{}.{root}", against.checkpoint.size, now.size);
    let kept = pinned.keep(&format!("{sizes}.now"), note.as_bytes())?;
    let file = format!("{sizes}.fork.json");
    let evidence = fork.map(|fork| pinned.keep(&file, &fork.to_json()));
    Ok((kept, evidence.transpose()?))
}

/// A rewritten history: both heads, and what it means.
pub fn told(
    origin: &str,
    what: &str,
    (pinned, now): (&Head, &Checkpoint),
    (note, kept): (&str, PathBuf),
    evidence: Option<&PathBuf>,
) -> String {
    let before = &pinned.checkpoint;
    let head = |name: &str, c: &Checkpoint, note: &str, file: &PathBuf| {
        format!(
            "  {name:<7} {} leaves, root {}\n          signed by {}\n          kept in {}\n",
            c.size,
            c.root,
            signers(note),
            file.display()
        )
    };
    let mut lines = format!("{origin}: does not hold: THE HISTORY WAS REWRITTEN\n");
    lines += &head("pinned", before, &pinned.note, &pinned.file);
    lines += &head("now", now, note, &kept);
    lines += &format!("  what shows it: {what}.\n");
    lines += "  what it means: one key has signed two histories that cannot both be the log's. Entries that were in the pinned tree were\n  \
              changed, removed or moved, or others are shown another log than you. Neither an outage nor a mistake on the way here looks\n  \
              like this. What you hold about entries below the smaller size has to be checked again under the pinned head.\n";
    lines += &match evidence {
        Some(file) => format!(
            "  evidence for anybody who has the log's key, offline: {}\n",
            file.display()
        ),
        None => "  keep both files: together with the log's tiles they show it to others\n".into(),
    };
    lines
}

/// The names on a note's signature lines, verified or not.
fn signers(note: &str) -> String {
    let Ok(note) = Note::parse(note.as_bytes()) else {
        return "nobody".into();
    };
    let names = note
        .signatures
        .iter()
        .map(|s| format!("{}+{}", s.name, s.id));
    names.collect::<Vec<_>>().join(", ")
}

/// What becomes of a log that shows nothing: a line, and an exit code.
pub fn failed(pinned: &Pinned, error: anyhow::Error, code: u8) -> Shown {
    let before = &pinned.newest().checkpoint;
    let word = if code == REFUSED {
        "does not hold"
    } else {
        "cannot tell"
    };
    let json = json!({
        "origin": pinned.log.origin,
        "log": pinned.log.log,
        "pinned": {"size": before.size, "root": before.root.to_base64()},
        "now": null,
        "evidence": null,
        "status": if code == REFUSED { "refused" } else { "unproven" },
        "what": format!("{error:#}"),
    });
    Shown {
        code,
        json,
        lines: format!("{}: {word}: {error:#}\n", pinned.log.origin),
    }
}

/// The newest note of a log.
///
/// # Errors
/// As a command ends.
pub fn newest(log: &Foreign) -> anyhow::Result<String> {
    log.checkpoint().map_err(explain)
}
