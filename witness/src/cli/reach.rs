//! Reaching a witness's memory: through the witness that runs on the directory, or by opening it where none runs.

use super::Fail;
use crate::dir::Dir;
use crate::http::admin::{Listed, PAGE, Socket, SocketError};
use crate::roster::{Addition, Outcome};
use crate::witness::Witness;

pub(super) enum Reach {
    Running(Socket),
    Own(Box<Witness>),
}

impl Reach {
    /// Asks whoever listens; opens the directory where nobody does.
    pub(super) async fn find(dir: &Dir) -> Result<Reach, Fail> {
        let socket = Socket::new(dir.admin_socket());
        match socket.add(&[]).await {
            Ok(_) => Ok(Reach::Running(socket)),
            Err(SocketError::Absent { .. }) => Ok(Reach::Own(Box::new(Witness::open(dir)?))),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn add(&self, additions: &[Addition]) -> Result<Vec<Outcome>, Fail> {
        let mut outcomes = Vec::with_capacity(additions.len());
        for page in additions.chunks(PAGE) {
            outcomes.extend(match self {
                Reach::Running(socket) => socket.add(page).await?,
                Reach::Own(witness) => witness.roster().add(page)?,
            });
        }
        Ok(outcomes)
    }

    pub(super) async fn page(&self, after: Option<&Listed>) -> Result<Vec<Listed>, Fail> {
        let after = after.map(|listed| listed.log.as_str());
        match self {
            Reach::Running(socket) => Ok(socket.list(after).await?),
            Reach::Own(witness) => {
                // OK because it is what this witness printed: nothing else is behind it.
                let after =
                    after.and_then(|hex| countersign_verifier::hash::Hash::from_hex(hex).ok());
                let rows = witness.rows(after.as_ref(), PAGE)?;
                let now = witness.now();
                Ok(rows.iter().map(|row| Listed::new(row, now)).collect())
            }
        }
    }
}

/// Runs the asynchronous part of a command.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Fail>>) -> Result<T, Fail> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
