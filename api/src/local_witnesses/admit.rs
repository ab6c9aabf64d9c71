//! How the witnesses of a directory come to know a log: by their operator's socket while they run, in their stores while they do not.

use std::{sync::Arc, time::Duration};

use countersign_witness::{
    dir::Dir,
    http::admin::{Socket, SocketError},
    keys::Keys,
    roster::{Addition, Outcome, Roster},
    store::RocksStore,
};
use tokio::time::sleep;

use super::{LocalError, LocalWitness, PolicyLine, find};
use crate::data_dir::DataDir;

/// So often a witness that does not answer is asked again: one that died is started again within some seconds.
const TRIES: u32 = 40;
/// How long between two of them.
const PAUSE: Duration = Duration::from_millis(250);

/// The witnesses of a directory as a policy names them; none where it was made without.
///
/// # Errors
/// [`LocalError`].
pub fn lines(dir: &DataDir) -> Result<Vec<PolicyLine>, LocalError> {
    let line = |local: LocalWitness| {
        let keys = Keys::load(&Dir::new(&local.dir))?;
        Ok(PolicyLine {
            name: format!("witness-{}", local.number),
            vkey: keys.vkeys()[0].to_string(),
            url: local.url(),
        })
    };
    find(dir)?.into_iter().map(line).collect()
}

/// Has each of them know the log of this key. None may be running.
///
/// # Errors
/// [`LocalError`].
pub fn admit(dir: &DataDir, log_vkey: &str) -> Result<(), LocalError> {
    for local in find(dir)? {
        into_store(&local, &addition(log_vkey))?;
    }
    Ok(())
}

/// The same while they may be running. One whose log nobody but its readers may see has the witnesses tell each other of it alone.
///
/// # Errors
/// [`LocalError`]: one of them does not know it.
pub async fn admit_running(
    dir: &DataDir,
    (log_vkey, public): (&str, bool),
) -> Result<(), LocalError> {
    let all = find(dir)?;
    for local in &all {
        let mut addition = addition(log_vkey);
        if !public {
            let others = all.iter().filter(|other| other.number != local.number);
            addition.private = true;
            addition.peers = others.map(LocalWitness::url).collect();
        }
        tell(local, addition).await?;
    }
    Ok(())
}

fn addition(log_vkey: &str) -> Addition {
    Addition {
        vkey: log_vkey.to_owned(),
        ..Addition::default()
    }
}

/// Tells a witness that runs, or that is started again at this moment, or that does not run at all.
async fn tell(local: &LocalWitness, addition: Addition) -> Result<(), LocalError> {
    let socket = Socket::new(Dir::new(&local.dir).admin_socket());
    let additions = [addition];
    let mut tries = 0;
    loop {
        let why = match socket.add(&additions).await {
            Ok(outcomes) => return settled(local, outcomes),
            Err(error @ SocketError::Refused { .. }) => return Err(wrong(local, &error)),
            Err(error) => error,
        };
        // Whoever runs holds the store.
        let stored = tokio::task::block_in_place(|| into_store(local, &additions[0]));
        match stored {
            Ok(()) => return Ok(()),
            Err(error @ LocalError::Wrong { .. }) => return Err(error),
            Err(_) if tries < TRIES => sleep(PAUSE).await,
            Err(_) => return Err(wrong(local, &why)),
        }
        tries += 1;
    }
}

fn into_store(local: &LocalWitness, addition: &Addition) -> Result<(), LocalError> {
    let place = Dir::new(&local.dir);
    let own = Keys::load(&place)?.vkeys().into_iter().cloned().collect();
    let store = RocksStore::open(&place.db(), &place.commits())?;
    let added = Roster::open(Arc::new(store), own)?.add(std::slice::from_ref(addition))?;
    settled(local, added)
}

fn settled(local: &LocalWitness, outcomes: Vec<Outcome>) -> Result<(), LocalError> {
    match outcomes.first() {
        Some(Outcome::Refused { why }) => Err(wrong(local, why)),
        _ => Ok(()),
    }
}

fn wrong(local: &LocalWitness, why: &dyn std::fmt::Display) -> LocalError {
    LocalError::Wrong {
        path: local.dir.clone(),
        why: why.to_string(),
    }
}
