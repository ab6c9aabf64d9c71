//! The end of it: every leaf's evidence, checked with a policy and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use countersign_verifier::{
    command::read_policy,
    verdict::{Options, Outcome, Verifier},
};
use serde_json::json;

use super::show::{Show, Step};
use crate::{
    cli::save,
    client::{Client, EvidenceFile},
};

/// How long a leaf may take to be under a witnessed head.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fetches the evidence of every leaf that a step made, writes it where `out` says, and verifies it.
pub async fn prove(
    client: &Client,
    policy: &Path,
    out: Option<&Path>,
    show: &mut Show,
) -> anyhow::Result<()> {
    let wanted: BTreeMap<u64, _> = show.leaves.iter().copied().collect();
    let mut files = Vec::with_capacity(wanted.len());
    for (index, hash) in wanted {
        let file = client.evidence_when_ready(index, PATIENCE).await?;
        if let Some(hash) = hash {
            ensure!(
                file.leaf_hash == hash,
                "leaf {index} is not what the service had answered: {hash} then, {} now",
                file.leaf_hash
            );
        }
        files.push(file);
    }
    if let Some(folder) = out {
        keep(&files, policy, folder)?;
    }
    let cosigners = verify(&files, policy)?;
    let names: Vec<&str> = cosigners.iter().map(String::as_str).collect();
    let by = match names.as_slice() {
        [] => "no witness is asked for by this policy".to_owned(),
        names => format!("cosigned by {}", names.join(", ")),
    };
    let count = files.len();
    show.look(Step {
        who: "verifier",
        name: "verify",
        words: format!("{count} of {count} leaves hold, checked offline against the policy; {by}"),
        more: json!({"leaves": count, "hold": count, "cosigners": names}),
    })?;
    let changed = tampered(&files, policy)?;
    show.look(Step {
        who: "verifier",
        name: "tamper",
        words: format!("leaf {changed} with one character changed: does not hold, as it must be"),
        more: json!({"changed": changed, "holds": false}),
    })
}

/// Verifies all of it; the names of those who cosigned.
fn verify(files: &[EvidenceFile], policy: &Path) -> anyhow::Result<BTreeSet<String>> {
    let eras = read_policy(policy).map_err(anyhow::Error::msg)?;
    let mut verifier = Verifier::new(eras, Options::default());
    let mut cosigners = BTreeSet::new();
    for file in files {
        let verdict = verifier.evidence(&file.bytes);
        if verdict.outcome != Outcome::Holds {
            let name = save::file_name(file.index);
            bail!(
                "leaf {}: {}",
                file.index,
                verdict.to_lines(&name).trim_end()
            );
        }
        cosigners.extend(verdict.cosigners.into_iter().map(|c| c.name));
    }
    Ok(cosigners)
}

/// Changes a character of the last leaf, as somebody would who wants it to say something else; which leaf that was.
fn tampered(files: &[EvidenceFile], policy: &Path) -> anyhow::Result<u64> {
    let last = files.last().context("no leaf was made")?;
    let mut text = String::from_utf8(last.bytes.clone()).context("evidence")?;
    let at = text
        .find("\"leaf\":\"")
        .context("evidence without a leaf")?
        + 48;
    let other = if text[at..].starts_with('A') {
        "B"
    } else {
        "A"
    };
    text.replace_range(at..=at, other);
    let eras = read_policy(policy).map_err(anyhow::Error::msg)?;
    let verdict = Verifier::new(eras, Options::default()).evidence(text.as_bytes());
    ensure!(
        verdict.outcome == Outcome::DoesNotHold,
        "leaf {} was changed, and the verifier says {}",
        last.index,
        verdict.outcome.as_str()
    );
    Ok(last.index)
}

/// Leaves evidence and policy where the reader asked for them.
fn keep(files: &[EvidenceFile], policy: &Path, folder: &Path) -> anyhow::Result<()> {
    save::make_folder(folder)?;
    for file in files {
        save::save(folder, file)?;
    }
    let name = policy.file_name().context("the policy's name")?;
    let to = folder.join(name);
    let copy = |from: &Path, to: PathBuf| {
        fs::copy(from, to)
            .map(drop)
            .with_context(|| from.display().to_string())
    };
    if !policy.is_dir() {
        return copy(policy, to);
    }
    save::make_folder(&to)?;
    let entries = fs::read_dir(policy).with_context(|| policy.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if let Some(name) = path.file_name() {
            copy(&path, to.join(name))?;
        }
    }
    Ok(())
}
