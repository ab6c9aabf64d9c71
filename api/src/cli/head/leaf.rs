//! Bringing a head to an account, with the proof out of the log's tiles.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_verifier::{
    add_checkpoint, checkpoint::Checkpoint, hash::Hash, signed, vkey::VerifierKey,
};

use crate::{
    cli::{
        Fail, REFUSED, UNKNOWN, block_on,
        evidence::worst,
        out,
        place::{Place, Service},
        tool::{self, WaitArgs},
    },
    client::TrackedLog,
    foreign::{Foreign, past},
};

/// Whether a head also becomes a leaf of one's own account.
#[derive(Debug, Args)]
pub struct LeafArgs {
    /// Record it as a leaf of your account too, which must track the log
    #[arg(long)]
    leaf: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    place: Place,
}

/// A head on its way to an account.
pub struct Bring<'a> {
    pub service: &'a Service,
    pub tracked: &'a TrackedLog,
    /// The log, where there is more of it than a note.
    pub log: Option<&'a Foreign>,
    pub note: &'a str,
    pub wait: WaitArgs,
    pub json: bool,
}

/// Records a pinned head, if that was asked for.
pub fn submit(
    args: &LeafArgs,
    log: &Foreign,
    (origin, key): (&str, &VerifierKey),
    (_, note): (&Checkpoint, &str),
) -> anyhow::Result<ExitCode> {
    if !args.leaf {
        return Ok(ExitCode::SUCCESS);
    }
    let (service, tracked) = block_on(async {
        let service = args.place.service().await?;
        let logs = service.client.tracked().await;
        let logs = logs.map_err(|error| service.explain(error))?;
        match logs.into_iter().find(|log| log.origin == origin) {
            Some(log) if log.vkey == key.to_string() => Ok((service, log)),
            Some(log) => bail!(
                "the account tracks {origin} under another key, {}",
                log.vkey
            ),
            None => bail!(
                "the head is pinned, and no leaf: account {} does not track {origin}; `countersign head track {key} --origin {origin:?}`",
                service.client.account()
            ),
        }
    })?;
    bring(&Bring {
        service: &service,
        tracked: &tracked,
        log: Some(log),
        note,
        wait: args.wait,
        json: false,
    })
}

/// Proves what can be proved, posts the head, and says what became of it.
pub fn bring(head: &Bring<'_>) -> anyhow::Result<ExitCode> {
    let tracked = head.tracked;
    let key = VerifierKey::parse(&tracked.vkey).context("the tracked log's key")?;
    let now = signed::open(head.note, &tracked.origin, &key).map_err(|error| Fail {
        code: REFUSED,
        message: format!("the checkpoint: {error}"),
    })?;
    let (proof, mut code) = prove(head, &now)?;
    let body = match &tracked.proved {
        Some(proved) if !proof.is_empty() => {
            add_checkpoint::request(proved.size, &proof, head.note)
        }
        _ => head.note.to_owned(),
    };
    let answer = block_on(async {
        let posted = head.service.client.post_head(body, head.wait.options());
        posted.await.map_err(|error| head.service.explain(error))
    })?;
    let outcome = match answer.result["outcome"].as_str() {
        Some("consistent" | "stale") => 0,
        Some("fork") => {
            out::note(format_args!(
                "{}: FORK: the log has signed two trees of {} leaves; both heads are leaves of the account now",
                now.origin, now.size
            ));
            REFUSED
        }
        _ => UNKNOWN,
    };
    code = worst(&[code, outcome]);
    tool::show(&answer, head.json)?;
    if !answer.reached {
        code = worst(&[code, UNKNOWN]);
    }
    Ok(ExitCode::from(code))
}

/// The proof that the head continues the last proved one; none where there is nothing to prove or nothing to prove it with. The
/// code is 1 where the log's tiles show another history.
fn prove(head: &Bring<'_>, now: &Checkpoint) -> anyhow::Result<(Vec<Hash>, u8)> {
    let none = (Vec::new(), 0);
    let (Some(proved), Some(log)) = (&head.tracked.proved, head.log) else {
        return Ok(none);
    };
    if proved.size == 0 || now.size <= proved.size {
        return Ok(none);
    }
    let root = Hash::from_base64(&proved.root).context("the last proved head")?;
    match past(log, proved.size, now.size, &now.root) {
        Ok(past) if past.root == root => Ok((past.proof, 0)),
        Ok(past) => {
            out::note(format_args!(
                "{}: THE HISTORY WAS REWRITTEN: leaf {} records that its first {} leaves had root {root}; in the tree of {} leaves that \
                 it has signed now they have root {}. The head is recorded without a proof; `countersign pin` keeps what shows this \
                 to others",
                now.origin, proved.index, proved.size, now.size, past.root
            ));
            Ok((Vec::new(), REFUSED))
        }
        Err(error) => {
            out::note(format_args!(
                "note: not proved, and so recorded as it is: {error}"
            ));
            Ok(none)
        }
    }
}
