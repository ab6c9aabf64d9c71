//! Reading back what was submitted: evidence, and the size that a log has published.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use countersign_verifier::{
    dsse::Envelope,
    hash::sha256,
    policy::{Eras, Policy},
    verdict::{Options, Outcome, Verdict, Verifier},
};

use super::{
    load::{Door, Measured},
    material::Receipts,
    servers::Server,
    watch,
    wire::Connection,
};

/// Accepted receipts whose evidence is looked at, at most.
const KEPT_MAX: usize = 64;

/// How long what was accepted may take to be published.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(30);

/// An accepted receipt: the payload as it was sent, and its index in the log.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The signed bytes.
    pub payload: Vec<u8>,
    /// The leaf's index.
    pub index: u64,
}

/// Keeps some of what was accepted.
///
/// # Errors
/// Never of what [`Receipts::sign`] made.
pub fn keep(kept: &mut Vec<Kept>, receipts: &Receipts, measured: &Measured) -> anyhow::Result<()> {
    for &(at, index) in measured.sample.iter().take(KEPT_MAX - kept.len()) {
        kept.push(Kept {
            payload: Envelope::parse(receipts.one(at))?.payload,
            index,
        });
    }
    Ok(())
}

/// Reads `paths` below the log, one after the other, waiting for what is not there yet.
///
/// # Errors
/// Another answer than 200 in the end.
pub fn get_all(door: &Door, paths: impl Iterator<Item = String>) -> anyhow::Result<Vec<Vec<u8>>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut connection = Connection::new(door.address);
        let mut bodies = Vec::new();
        for path in paths {
            bodies.push(
                get(&mut connection, door, &path)
                    .await
                    .with_context(|| format!("GET {}/{path}", door.log))?,
            );
        }
        Ok(bodies)
    })
}

async fn get(connection: &mut Connection, door: &Door, path: &str) -> anyhow::Result<Vec<u8>> {
    let head = format!(
        "GET {}/{path} HTTP/1.1\r\nHost: {}\r\n\r\n",
        door.log, door.address
    );
    let asked = watch::now();
    loop {
        let answer = connection.exchange(head.as_bytes(), b"").await?;
        match answer.status {
            200 => return Ok(answer.body.to_vec()),
            404 | 503 if asked.elapsed() < PUBLISHED_WITHIN => {
                tokio::time::sleep(Duration::from_millis(50)).await
            }
            status => bail!("{status} {}", String::from_utf8_lossy(answer.body)),
        }
    }
}

/// The size that the log has published.
///
/// # Errors
/// As [`get_all`], and a checkpoint without a size.
pub fn published(door: &Door) -> anyhow::Result<u64> {
    let note = get_all(door, ["checkpoint".to_owned()].into_iter())?.concat();
    let note = String::from_utf8(note)?;
    note.lines()
        .nth(1)
        .and_then(|size| size.parse().ok())
        .context("a checkpoint without a size")
}

/// Waits until the log has published `size` leaves.
///
/// # Errors
/// It has not in time: then it has answered for receipts that it does not have.
pub fn await_published(server: &Server, size: u64) -> anyhow::Result<()> {
    let asked = watch::now();
    loop {
        let published = published(&server.door)?;
        if published >= size {
            return Ok(());
        }
        ensure!(
            asked.elapsed() < PUBLISHED_WITHIN,
            "{} answered for {size} leaves and has published {published}",
            server.name
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A verifier by the server's own policy file, which is what a bench has to go by.
///
/// # Errors
/// No policy, or one that cannot be read.
pub fn verifier(server: &Server) -> anyhow::Result<Verifier> {
    let path = server
        .policy
        .as_deref()
        .context("a server without a policy")?;
    let policy = std::fs::read(path).with_context(|| path.display().to_string())?;
    let policy = Policy::parse(&policy).with_context(|| path.display().to_string())?;
    Ok(Verifier::new(Eras::one(policy), Options::default()))
}

/// Fetches the evidence of each kept receipt and verifies that it holds and is about the bytes that were sent.
///
/// # Errors
/// The first that does not.
pub fn verify(server: &Server, kept: &[Kept]) -> anyhow::Result<()> {
    let mut verifier = verifier(server)?;
    let evidence = get_all(
        &server.door,
        kept.iter().map(|kept| format!("evidence/{}", kept.index)),
    )?;
    for (kept, evidence) in kept.iter().zip(evidence) {
        let verdict = verifier.evidence(&evidence);
        holds(&verdict)?;
        let subject = verdict.subjects.first().context("evidence of nothing")?;
        let about = (subject.index, subject.payload_sha256);
        ensure!(
            about == (kept.index, Some(sha256(&kept.payload))),
            "the evidence of leaf {} is about something else",
            kept.index
        );
    }
    Ok(())
}

/// Demands that a verdict holds.
///
/// # Errors
/// It does not; the message is the verdict.
pub fn holds(verdict: &Verdict) -> anyhow::Result<()> {
    ensure!(
        verdict.outcome == Outcome::Holds,
        "evidence does not hold: {}",
        verdict.to_lines("of this run")
    );
    Ok(())
}
